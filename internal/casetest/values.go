package casetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/idem-go/idem"
)

// coded is an error with a code and a text.
type coded struct{ code, text string }

func (e coded) Error() string { return e.text }
func (e coded) Code() string  { return e.code }

func anyValue(c *bench) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	s, other := c.process(), c.process()
	for i, value := range [][]byte{
		nil, {}, []byte("a\x00b"), {0xff, 0xfe, 0x00}, []byte(`"\u0000"`), []byte(`"\ud800"`), every, bytes.Repeat([]byte{0}, 1<<20),
	} {
		key := fmt.Sprint(i)
		_, err := s.Execute(c.Context(), key, returns(string(value)))
		c.must(err)
		c.replays(other, key, string(value))
	}
	for i, text := range []string{"a\x00b", "\xff\xfe", "\U0001f600", strings.Repeat("é", 5000), ""} {
		key := fmt.Sprint("failed", i)
		failure := idem.Permanent(coded{"card_declined", text})
		_, err := s.Execute(c.Context(), key, func(context.Context) (idem.Result, error) { return idem.Result{}, failure })
		c.that(err != nil, "the failure is returned")
		for _, s := range []*idem.Store{s, other} {
			_, err = s.Execute(c.Context(), key, c.forbidden())
			var rec *idem.RecordedError
			c.that(errors.As(err, &rec), "the failure is replayed")
			c.that(rec.Code == "card_declined" && strings.ToValidUTF8(rec.Message, "") == rec.Message, "its code and text are whole")
		}
	}
}

// manyCallers: many callers without a record, after a claim whose lease has
// ended, and after a release, all at once.
func manyCallers(c *bench) {
	for key, before := range map[string]func(key string){
		"none": func(string) {},
		"a claim whose lease has ended": func(key string) {
			_, err := c.process().Claim(c.Context(), key, 0)
			c.must(err)
			c.lapse(key)
		},
		"a released one": func(key string) {
			_, err := c.process().Execute(c.Context(), key, func(context.Context) (idem.Result, error) { return idem.Result{}, errBoom })
			c.is(err, errBoom)
		},
	} {
		stores := []*idem.Store{c.process(), c.process()}
		for round := range 20 {
			key := fmt.Sprint(key, round)
			before(key)
			var runs atomic.Int32
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					_, err := stores[i%2].Execute(c.Context(), key, func(context.Context) (idem.Result, error) {
						runs.Add(1)
						return idem.Result{}, nil
					})
					if err != nil && !errors.Is(err, idem.ErrInProgress) {
						c.Errorf("%s: %v", key, err)
					}
				})
			}
			wg.Wait()
			c.that(runs.Load() == 1, "one of 20 callers ran ("+key+")")
		}
	}
}

func keys(c *bench) {
	s, other := c.process(), c.process()
	for _, key := range []string{"", "\x00a", "a\x00", "\xff\xfe", strings.Repeat("x", 10<<10), strings.Repeat("x", 1<<20)} {
		_, err := s.Execute(c.Context(), key, c.forbidden())
		c.is(err, idem.ErrInvalidKey)
	}
	accepted := []string{
		"K", "k", "k ", " k", "\u00e9", "e\u0301", strings.Repeat("x", 255), strings.Repeat("x", 512), "{}", "{", "}{", "a{b}c",
		"%", "a:b", "a%3Ab", "0:k", "\u65e5\u672c", "\U0001f600", "'; DROP TABLE idem; --", "*", "\\x00",
	}
	for i, key := range accepted {
		res, err := s.Execute(c.Context(), key, returns(fmt.Sprint(i)))
		c.must(err)
		c.that(!res.Replayed, fmt.Sprintf("%q has a record of its own", key))
	}
	for i, key := range accepted {
		c.replays(other, key, fmt.Sprint(i))
	}
}
