package fieldcases

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/faultstore"
)

func callerLeft(f *field) {
	p := f.process(nil, nil)
	ctx, cancel := context.WithCancel(f.Context())
	res, err := p.Execute(ctx, "k", func(context.Context) (idem.Result, error) {
		cancel()
		return idem.Result{Value: []byte("7")}, nil
	})
	f.must(err, "Execute")
	f.that(string(res.Value) == "7", "the value is %q", res.Value)
	f.replays(f.process(nil, nil), "k", "7")
}

func callerLeftFailing(f *field) {
	for _, fails := range []error{errBoom, idem.NotApplied(errBoom)} {
		p, key := f.process(nil, nil), fmt.Sprint(fails == errBoom) //nolint:errorlint // which of the two
		ctx, cancel := context.WithCancel(f.Context())
		_, err := p.Execute(ctx, key, func(context.Context) (idem.Result, error) {
			cancel()
			return idem.Result{}, fails
		}, idem.WithLease(time.Hour))
		f.is(err, errBoom, "Execute")
		_, err = f.process(nil, nil).Execute(f.Context(), key, returns("7"))
		f.must(err, "the next call, well before the lease would have ended")
	}
}

func completionFailsOnce(f *field) {
	for name, hook := range map[string]faultstore.Hook{
		"not applied": faultstore.Fail(faultstore.Complete, 1, errDown),
		"twice lost":  faultstore.First(faultstore.Lose(faultstore.Complete, 1), faultstore.Lose(faultstore.Complete, 2)),
		"sent twice":  faultstore.Duplicate(faultstore.Complete, 1),
	} {
		var n atomic.Int64
		_, err := f.process(hook, nil).Execute(f.Context(), name, counted(&n, returns("7")))
		f.must(err, name)
		f.replays(f.process(nil, nil), name, "7")
		f.that(n.Load() == 1, "%s: it ran %d times", name, n.Load())
	}
}

func notRecorded(f *field) {
	for _, strict := range []bool{false, true} {
		key := fmt.Sprint("strict: ", strict)
		opts := []idem.ExecuteOption{idem.WithLease(short)}
		if strict {
			opts = append(opts, idem.OnUnknown(idem.Hold))
		}
		p := f.process(faultstore.Fail(faultstore.Complete, 0, errDown), &idem.Options{RecordTimeout: 100 * time.Millisecond})
		begun := time.Now()
		res, err := p.Execute(f.Context(), key, returns("7"), opts...)
		f.is(err, idem.ErrNotRecorded, "Execute")
		f.that(string(res.Value) == "7", "the value is %q", res.Value)
		f.that(p.faults.Count(faultstore.Release) == 0, "the key was released")
		other := f.process(nil, nil)
		_, err = other.Claim(f.Context(), key, time.Hour, opts...)
		if time.Since(begun) < short {
			f.is(err, idem.ErrInProgress, "within the lease")
		}
		var n atomic.Int64
		_, err = other.Execute(f.Context(), key, func(ctx context.Context) (idem.Result, error) {
			n.Add(1)
			c, _ := idem.ClaimFrom(ctx)
			f.that(c.Takeover(), "it is no takeover")
			return idem.Result{}, nil
		}, append(opts, idem.WithWait(patience))...)
		if strict {
			f.is(err, idem.ErrOutcomeUnknown, "after the lease, under Hold")
		} else {
			f.must(err, "after the lease")
		}
		f.that((n.Load() == 0) == strict, "it ran %d times", n.Load())
	}
}

func lostAcknowledgement(f *field) {
	for _, method := range []string{faultstore.Claim, faultstore.Complete} {
		for name, hook := range map[string]faultstore.Hook{
			"reply lost": faultstore.Lose(method, 1), "request lost": faultstore.Fail(method, 1, errDown), "sent twice": faultstore.Duplicate(method, 1),
		} {
			var n atomic.Int64
			key := method + "/" + name
			res, err := f.process(hook, nil).Execute(f.Context(), key, counted(&n, returns("7")))
			f.must(err, key)
			f.that(string(res.Value) == "7" && n.Load() == 1, "%s: %q, ran %d times", key, res.Value, n.Load())
			f.replays(f.process(nil, nil), key, "7")
			f.that(f.record(f.process(nil, nil), key).Attempt == 1, "%s: more than one attempt", key)
		}
	}
}

func anyValue(f *field) {
	p := f.process(nil, nil)
	for i, v := range []string{"", "a\x00b", "\xff\xfe\x00", `{"a":"\u0000"}`, `{"a":"\ud800"}`, strings.Repeat("\x00\xff", 100_000)} {
		key := fmt.Sprint(i)
		_, err := p.Execute(f.Context(), key, returns(v))
		f.must(err, "Execute")
		f.replays(p, key, v)
		f.replays(f.process(nil, nil), key, v)
	}
	fails := func(context.Context) (idem.Result, error) {
		return idem.Result{}, idem.Permanent(errors.New("a\x00b\xff"))
	}
	_, err := p.Execute(f.Context(), "error", fails)
	f.that(err != nil && !errors.Is(err, idem.ErrNotRecorded), "a failure whose text no column holds: %v", err)
	_, err = p.Execute(f.Context(), "error", forbidden(f))
	f.is(err, idem.ErrRecordedFailure, "its replay")
}

func keys(f *field) {
	p := f.process(nil, nil)
	for key, ok := range map[string]bool{
		"": false, "\x00a": false, "\xff\xfe": false, strings.Repeat("x", 10_000): false, strings.Repeat("x", 1<<20): false,
		strings.Repeat("y", 255): true, "K": true, "k": true, "k" + " ": true, "\u00e9": true, "e\u0301": true, "{k}": true, "}{": true, "*": true,
	} {
		var n atomic.Int64
		res, err := p.Execute(f.Context(), key, counted(&n, returns(key)))
		if !ok {
			f.is(err, idem.ErrInvalidKey, "an invalid key")
			f.that(n.Load() == 0, "it ran with an invalid key")
			continue
		}
		f.must(err, "a valid key")
		f.that(n.Load() == 1 && string(res.Value) == key, "%.20q ran %d times and is %.20q", key, n.Load(), res.Value)
	}
}

// unwinding: each way to leave an operation without a return.
func unwinding(f *field) {
	for name, leave := range map[string]func(){
		"panic": func() { panic("x") }, "panic of an error": func() { panic(errBoom) },
		"panic of nil": func() { panic(nil) }, "Goexit": runtime.Goexit, //nolint:govet // as people write it
	} {
		p := f.process(nil, nil)
		left := make(chan any, 1)
		go func() {
			returned := false
			defer func() {
				v := recover()
				if returned {
					v = "it returned"
				}
				left <- v
			}()
			_, _ = p.Execute(f.Context(), name, func(context.Context) (idem.Result, error) { leave(); return idem.Result{}, nil }, idem.WithLease(time.Hour))
			returned = true
		}()
		got := receive(f, left, "the end of "+name)
		var isNil *runtime.PanicNilError
		err, _ := got.(error)
		switch name {
		case "panic":
			f.that(got == "x", "%s: %v", name, got)
		case "panic of an error":
			f.is(err, errBoom, name)
		case "panic of nil":
			f.that(errors.As(err, &isNil), "%s: %v", name, got)
		default:
			f.that(got == nil, "%s: %v", name, got)
		}
		_, err = f.process(nil, nil).Execute(f.Context(), name, returns("1"))
		f.must(err, "the next call after "+name)
	}
}
