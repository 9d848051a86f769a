package sim

// rule is a property, by its name in the test programme.
type rule uint8

// The properties that are judged after every step. What each means, and for which
// seeds, stands in the package documentation.
const (
	A1 rule = iota
	A2
	A3
	A4
	A5
	A6
	A7
	A8
	A9
	A10
	A11
	A12
	A13
	E1
	E2
	E3
	rules
)

func (r rule) String() string {
	return [rules]string{"A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12", "A13", "E1", "E2", "E3"}[r]
}
