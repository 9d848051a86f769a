package backoff

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Response returns nil for a response below 400, and for nil; else an error with
// the status for [Classify] and the Retry-After header, if there is one, for
// [Hint]. The body is neither read nor closed.
//
//	resp, err := client.Do(req)
//	if err == nil {
//		defer resp.Body.Close()
//		err = backoff.Response(resp)
//	}
func Response(resp *http.Response) error {
	if resp == nil || resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	after, ok := RetryAfter(resp.Header)
	if !ok {
		after = -1
	}
	return &statusError{status: resp.StatusCode, after: after}
}

type statusError struct {
	status int
	after  time.Duration
}

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("http status %d %s", e.status, http.StatusText(e.status)))
}

func (e *statusError) HTTPStatusCode() int           { return e.status }
func (e *statusError) RetryAfterHint() time.Duration { return e.after }

// RetryAfter reads the Retry-After header, in both of its forms. Of several
// lines the first counts. A date is taken relative to the Date header of the
// same response, so that neither clock has to be right, or to the local clock if
// there is none; a date that has passed is 0. What is neither digits nor a date,
// such as a negative number or a fraction, is ignored. Numbers too large for a
// Duration are the largest one.
func RetryAfter(h http.Header) (time.Duration, bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if isDigits(value) {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > math.MaxInt64/int64(time.Second) {
			return math.MaxInt64, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(strings.TrimSpace(h.Get("Date")))
	if err != nil {
		now = time.Now()
	}
	return max(at.Sub(now), 0), true
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
