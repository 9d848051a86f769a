package backoff_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

func header(retryAfter ...string) http.Header { return http.Header{"Retry-After": retryAfter} }

// throttledBy is what a client makes of a 429 with these headers.
func throttledBy(h http.Header) error {
	return backoff.Response(&http.Response{StatusCode: http.StatusTooManyRequests, Header: h})
}

func TestAResponseBelow400IsNoError(t *testing.T) {
	t.Parallel()
	require.NoError(t, backoff.Response(nil))
	for _, status := range []int{100, 200, 204, 301, 307, 399} {
		require.NoError(t, backoff.Response(&http.Response{StatusCode: status, Header: header("3")}))
	}
}

func TestAResponseFrom400OnHasItsClassAndItsHint(t *testing.T) {
	t.Parallel()
	for status := 400; status <= 599; status++ {
		err := backoff.Response(&http.Response{StatusCode: status})
		require.Equal(t, backoff.Classify(&httpError{status, nil}), backoff.Classify(err))
		_, ok := backoff.Hint(err)
		require.False(t, ok)
		_, ok = backoff.Marked(err)
		require.False(t, ok)

		hint, ok := backoff.Hint(fmt.Errorf("w: %w", backoff.Response(&http.Response{StatusCode: status, Header: header("3")})))
		require.True(t, ok)
		require.Equal(t, 3*time.Second, hint)
	}
	require.EqualError(t, throttledBy(nil), "http status 429 Too Many Requests")
	require.EqualError(t, backoff.Response(&http.Response{StatusCode: 599}), "http status 599")
}

// C47: the header is a number from somebody else.
func TestRetryAfterIsReadInBothFormsAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values []string
		want   time.Duration
		ok     bool
	}{
		"seconds":                 {[]string{"120"}, 2 * time.Minute, true},
		"seconds, padded":         {[]string{" 2\t"}, 2 * time.Second, true},
		"zero":                    {[]string{"0"}, 0, true},
		"leading zeros":           {[]string{"007"}, 7 * time.Second, true},
		"the most that fits":      {[]string{"9223372036"}, 9223372036 * time.Second, true},
		"one more":                {[]string{"9223372037"}, forever, true},
		"too many for a Duration": {[]string{"9999999999"}, forever, true},
		"20 digits":               {[]string{"99999999999999999999"}, forever, true},
		"negative":                {[]string{"-5"}, 0, false},
		"signed":                  {[]string{"+5"}, 0, false},
		"a fraction":              {[]string{"1.5"}, 0, false},
		"an exponent":             {[]string{"1e3"}, 0, false},
		"other digits":            {[]string{"٣"}, 0, false},
		"empty":                   {[]string{""}, 0, false},
		"blank":                   {[]string{"  "}, 0, false},
		"none":                    {nil, 0, false},
		"a word":                  {[]string{"soon"}, 0, false},
		"two numbers":             {[]string{"1, 2"}, 0, false},
		"two lines, the first":    {[]string{"3", "9"}, 3 * time.Second, true},
		"two lines, first bad":    {[]string{"soon", "9"}, 0, false},
		"a date that has passed":  {[]string{"Fri, 31 Dec 1999 23:59:59 GMT"}, 0, true},
		"a date, RFC 850":         {[]string{"Friday, 31-Dec-99 23:59:59 GMT"}, 0, true},
		"a date, asctime":         {[]string{"Fri Dec 31 23:59:59 1999"}, 0, true},
		"a date in year 9999":     {[]string{"Fri, 31 Dec 9999 23:59:59 GMT"}, forever, true},
		"half a date":             {[]string{"Fri, 31 Dec"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, ok := backoff.RetryAfter(header(tc.values...))
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.want, d)
		})
	}
}

// C47: neither clock has to be right.
func TestADateIsTakenRelativeToTheServersOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for name, tc := range map[string]struct {
			after, date string
			want        time.Duration
		}{
			"the local clock":            {in(2 * time.Second), "", 2 * time.Second},
			"a server an hour ahead":     {in(time.Hour + 2*time.Second), in(time.Hour), 2 * time.Second},
			"a server an hour behind":    {in(-time.Hour + 2*time.Second), " " + in(-time.Hour), 2 * time.Second},
			"a date that is none":        {in(2 * time.Second), "yesterday", 2 * time.Second},
			"passed, by its own clock":   {in(2 * time.Second), in(time.Hour), 0},
			"to come, though it is past": {in(-time.Minute), in(-time.Hour), 59 * time.Minute},
		} {
			h := header(tc.after)
			if tc.date != "" {
				h.Set("Date", tc.date)
			}
			d, ok := backoff.RetryAfter(h)
			require.True(t, ok, name)
			require.Equal(t, tc.want, d, name)
		}
	})
}

// C47: own delay 100 ms, at most 5 s for a hint. A hint is a minimum, and the
// spread on top of it is at most one base.
func TestAHintIsAMinimumAndCapped(t *testing.T) {
	t.Parallel()
	const own, limit, spread = 100 * time.Millisecond, 5 * time.Second, 100 * time.Millisecond
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, tc := range map[string]struct {
		header func() http.Header
		want   time.Duration // with the least random number
		most   time.Duration // with the largest; own if it is 0
		stops  bool
	}{
		"zero":               {header: func() http.Header { return header("0") }, want: own},
		"negative":           {header: func() http.Header { return header("-5") }, want: own},
		"a fraction":         {header: func() http.Header { return header("1.5") }, want: own},
		"empty":              {header: func() http.Header { return header("") }, want: own},
		"a word":             {header: func() http.Header { return header("later") }, want: own},
		"a past date":        {header: func() http.Header { return header(date(-time.Hour)) }, want: own},
		"two seconds":        {header: func() http.Header { return header("2") }, want: 2 * time.Second, most: 2*time.Second + spread},
		"two header lines":   {header: func() http.Header { return header("2", "4") }, want: 2 * time.Second, most: 2*time.Second + spread},
		"exactly the cap":    {header: func() http.Header { return header("5") }, want: limit, most: limit + spread},
		"a second too much":  {header: func() http.Header { return header("6") }, want: 6 * time.Second, stops: true},
		"too many seconds":   {header: func() http.Header { return header("9999999999") }, want: forever, stops: true},
		"20 digits":          {header: func() http.Header { return header("11111111111111111111") }, want: forever, stops: true},
		"a skewed server":    {header: func() http.Header { return skewed(date(time.Hour), date(time.Hour+2*time.Second)) }, want: 2 * time.Second, most: 2*time.Second + spread},
		"a skewed past date": {header: func() http.Header { return skewed(date(time.Hour), date(time.Minute)) }, want: own},
	} {
		for i, random := range []func() uint64{least, most} {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					op := failing(throttledBy(tc.header()), nil)
					p := &backoff.Policy{Base: own, ThrottledBase: backoff.NoDelay, Jitter: backoff.None, MaxHint: limit, Rand: random}
					err := backoff.Run(t.Context(), p, op.run)
					if tc.stops {
						e := stopped(t, err, backoff.ErrHint, 1)
						require.NotErrorIs(t, err, context.DeadlineExceeded)
						hint, ok := backoff.Hint(e)
						require.True(t, ok)
						require.Equal(t, tc.want, hint, "the caller can park the work for as long")
						return
					}
					want := tc.want
					if i == 1 && tc.most > 0 {
						want = tc.most
					}
					require.NoError(t, err)
					require.Equal(t, []time.Duration{want}, op.gaps())
				})
			})
		}
	}
}

func skewed(date, retryAfter string) http.Header {
	h := header(retryAfter)
	h.Set("Date", date)
	return h
}

// C47: the client's deadline comes first; it is not slept away.
func TestAHintBeyondTheDeadlineEndsTheLoopAtOnce(t *testing.T) {
	t.Parallel()
	for _, seconds := range []string{"1", "2", "9", "9999999999"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			busy := throttledBy(header(seconds))
			err := backoff.Run(ctx, &backoff.Policy{MaxHint: 5 * time.Second, ThrottledBase: backoff.NoDelay}, failing(busy).run)
			require.Zero(t, time.Since(began))
			e := stopped(t, err, backoff.ErrHint, 1)
			require.ErrorIs(t, err, backoff.ErrDeadline)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, busy, e.Last)
			_, ok := backoff.Hint(err)
			require.True(t, ok)
		})
	}
}

// backoff.md 4.17: a server that always hints still sees the delays grow.
func TestAHintDoesNotResetTheDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hinting := backoff.After(transient(), 150*time.Millisecond)
		op := failing(hinting)
		p := &backoff.Policy{MaxAttempts: 5, Base: 100 * time.Millisecond, Jitter: backoff.None, Rand: least}
		_ = backoff.Run(t.Context(), p, op.run)
		require.Equal(t, ms(150, 200, 400, 800), op.gaps())
	})
}

// backoff.md 2.5: the SDK's vectors, as far as they apply. A hint far above the
// delay is waited for in full here, or not at all.
func TestHintsMatchTheVectorsOfTheAWSSDK(t *testing.T) {
	t.Parallel()
	for hint, want := range map[time.Duration]time.Duration{
		1500 * time.Millisecond: 1500 * time.Millisecond,
		20 * time.Millisecond:   50 * time.Millisecond,
		-time.Second:            50 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			op := failing(backoff.After(transient(), hint), nil)
			require.NoError(t, backoff.Run(t.Context(), &backoff.Policy{Jitter: backoff.None, Rand: least}, op.run))
			require.Equal(t, []time.Duration{want}, op.gaps())
		})
	}
}

func TestTheLongestPossibleHintDoesNotOverflow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	p := &backoff.Policy{MaxHint: forever, Base: forever, Cap: forever, Rand: most}
	err := backoff.Run(ctx, p, failing(backoff.After(transient(), forever)).run)
	requireStopped(t, err, backoff.ErrDeadline, 1)
}

// A hint says when, not whether.
func TestAHintDoesNotMakeAFailureRetryable(t *testing.T) {
	t.Parallel()
	err := backoff.Run(t.Context(), nil, failing(backoff.After(errX, 0)).run)
	requireStopped(t, err, backoff.ErrPermanent, 1)
}
