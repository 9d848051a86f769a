package movestore

import (
	"slices"

	"github.com/idem-go/idem/driver"
)

// withRefs returns refs and those of more that it lacks.
func withRefs(refs, more []driver.ProviderRef) []driver.ProviderRef {
	refs = slices.Clip(refs)
	for _, r := range more {
		if !slices.Contains(refs, r) {
			refs = append(refs, r)
		}
	}
	return refs
}

// withProviders returns the providers of both, each with less of its window left:
// what one store began later may be known to the provider for longer.
func withProviders(ps, more []driver.Provider) []driver.Provider {
	ps = slices.Clone(ps)
	for _, p := range more {
		i := slices.IndexFunc(ps, func(q driver.Provider) bool { return q.Name == p.Name })
		switch {
		case i < 0:
			ps = append(ps, p)
		case p.Left() < ps[i].Left():
			ps[i] = p
		}
	}
	return ps
}
