package retry

import (
	"context"
	"errors"
	"testing"
)

// Work is something that several libraries can do.
type Work struct {
	Title    string
	Subjects []Subject // idem first
}

// Subject is a library at some work. Run is a benchmark of it, which also checks
// that the work is done.
type Subject struct {
	Name string
	Run  func(b *testing.B)
}

// Works returns all there is to compare.
func Works(ctx context.Context) ([]Work, error) {
	breakers, err := Breakers()
	if err != nil {
		return nil, err
	}
	return []Work{
		{"first try succeeds, another context each call", first(ctx)},
		{"first try fails, no delay, second succeeds", again(ctx)},
		{"one random delay", delays()},
		{"breaker, closed, one success", closed(breakers)},
	}, nil
}

var errOnce = errors.New("once")

func first(ctx context.Context) []Subject {
	subjects := []Subject{}
	for _, p := range Peers() {
		subjects = append(subjects, Subject{p.Name, func(b *testing.B) { //nolint:thelper // it is the benchmark itself
			calls := 0
			op := func(context.Context) (int, error) { calls++; return calls, nil }
			for b.Loop() {
				if v, err := p.First(ctx, op); err != nil || v != calls {
					b.Fatal(v, err)
				}
			}
		}})
	}
	return subjects
}

func again(ctx context.Context) []Subject {
	subjects := []Subject{}
	for _, p := range Peers() {
		subjects = append(subjects, Subject{p.Name, func(b *testing.B) { //nolint:thelper // it is the benchmark itself
			calls := 0
			op := func(context.Context) (int, error) {
				if calls++; calls%2 == 1 {
					return 0, errOnce
				}
				return calls, nil
			}
			for b.Loop() {
				if v, err := p.Again(ctx, op); err != nil || v != calls || calls%2 != 0 {
					b.Fatal(v, err)
				}
			}
		}})
	}
	return subjects
}

func delays() []Subject {
	subjects := []Subject{}
	for _, p := range append(Peers(), handedIn()) {
		if p.Delay == nil {
			continue
		}
		subjects = append(subjects, Subject{p.Name, func(b *testing.B) { //nolint:thelper // it is the benchmark itself
			zero := 0
			for b.Loop() {
				if p.Delay() == 0 {
					zero++
				}
			}
			if zero > 3 {
				b.Fatalf("%d delays were 0", zero)
			}
		}})
	}
	return subjects
}

func closed(breakers []BreakerPeer) []Subject {
	subjects := []Subject{}
	for _, p := range breakers {
		subjects = append(subjects, Subject{p.Name, func(b *testing.B) { //nolint:thelper // it is the benchmark itself
			for b.Loop() {
				if !p.Call() {
					b.Fatal("refused")
				}
			}
		}})
	}
	return subjects
}
