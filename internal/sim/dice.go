package sim

import "math/rand/v2"

// dice are the choices of a seed. Only the scheduler's goroutine throws them.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice {
	return dice{rand.New(rand.NewPCG(seed, 0x1de5eed))}
}

// chance is true with probability p.
func (d dice) chance(p float64) bool { return p > 0 && d.Float64() < p }

// pick chooses one of the values, each as likely as the others.
func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// between returns a number of [low, high].
func (d dice) between(low, high int) int { return low + d.IntN(high-low+1) }

// source makes the random numbers of the engine's pauses for one delivery (see
// package draw). They are whole microseconds, so that a timer keeps the part
// below a microsecond that tells which step of the scheduler started it: two
// timers that different steps started never go off at one instant.
type source struct{ state uint64 }

func (s *source) next(n int64) int64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	z ^= z >> 31
	v := int64(z % uint64(n))
	return v - v%1000
}
