package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem/driver"
)

func watchRules() []rule {
	return []rule{
		{name: "watch/hints_after_completion_and_release", text: textWatch, needs: needWatcher, check: watchHints},
		{name: "watch/hints_reach_the_other_handle", text: textWatch, needs: needWatcher | needPair, check: watchAcross},
		{name: "watch/ends_with_its_context", text: textWatchEnds, needs: needWatcher, check: watchEnds},
	}
}

func optionalRules() []rule {
	return []rule{
		{name: "optional/interfaces_are_declared", text: textUnwraps, check: interfacesAreDeclared},
		{name: "optional/retainer_tells_a_retention", text: textRetainer, needs: needRetainer, check: retainerTells},
		{name: "optional/checker_tells_findings", text: textChecker, needs: needChecker, check: checkerTells},
	}
}

func (t *trial) watcher(b driver.Backend) driver.Watcher {
	w, ok := driver.As[driver.Watcher](b)
	if !ok {
		t.Fatalf("Capabilities.Watcher is declared, but driver.As finds no Watcher")
	}
	return w
}

// hinted settles the key of s while b watches it, and reports whether a hint
// came.
func (t *trial) hinted(s *subject, b driver.Backend, settle func(driver.Ref) error) bool {
	ref := s.acquire()
	ctx, cancel := context.WithCancel(t.ctx())
	defer cancel()
	hints, err := t.watcher(b).Watch(ctx, s.key)
	if err != nil || hints == nil {
		return false // an error only costs the hint
	}
	t.must(settle(ref), "Complete or Release")
	timer := time.NewTimer(20 * t.unit)
	defer timer.Stop()
	select {
	case <-hints:
		return true
	case <-timer.C:
		return false
	}
}

// watchHas tries a few times, because a hint may get lost.
func (t *trial) watchHas(a, b driver.Backend) {
	for name, settle := range map[string]func(s *subject, ref driver.Ref) error{
		"Complete":     func(s *subject, ref driver.Ref) error { return s.complete(ref, success("done")) },
		"Release":      release(driver.ReleaseParams{}),
		"Release held": release(driver.ReleaseParams{Held: true}),
	} {
		hinted := false
		for try := 0; try < 3 && !hinted; try++ {
			s := t.on(a, fmt.Sprintf("%s/%d", name, try))
			hinted = t.hinted(s, b, func(ref driver.Ref) error { return settle(s, ref) })
		}
		if !hinted {
			t.Errorf("no hint within %v after %s, three times", 20*t.unit, name)
		}
	}
}

func watchHints(t *trial) {
	b := t.open()
	t.watchHas(b, b)
}

func watchAcross(t *trial) {
	a, b := t.pair()
	t.watchHas(a, b)
}

// watchEnds: many watches that nobody reads come and go, and the record still
// settles. In a bubble a goroutine that stays behind fails the rule.
func watchEnds(t *trial) {
	s := t.subject()
	ref := s.acquire()
	for range 20 {
		ctx, cancel := context.WithCancel(t.ctx())
		if _, err := t.watcher(s.raw).Watch(ctx, s.key); err != nil {
			t.Logf("Watch: %v", err)
		}
		cancel()
	}
	t.lapse()
	s.must(s.complete(ref, success("done")), "Complete")
	ctx, cancel := context.WithCancel(t.ctx())
	cancel()
	_, _ = t.watcher(s.raw).Watch(ctx, s.key)
}

// interfacesAreDeclared compares in both directions.
func interfacesAreDeclared(t *trial) {
	b, c := t.open(), t.h.Capabilities
	_, checker := driver.As[driver.Checker](b)
	_, editor := driver.As[driver.Editor](b)
	_, lister := driver.As[driver.Lister](b)
	_, purger := driver.As[driver.Purger](b)
	_, reuser := b.(driver.Reuser)
	_, retainer := driver.As[driver.Retainer](b)
	_, watcher := driver.As[driver.Watcher](b)
	for _, x := range []struct {
		name           string
		declared, have bool
	}{
		{"Checker", c.Checker, checker},
		{"Editor", c.Editor, editor},
		{"Lister", c.Lister, lister},
		{"Purger", c.Purger, purger},
		{"Retainer", c.Retainer, retainer},
		{"Reuser", c.Reuser, reuser},
		{"Watcher", c.Watcher, watcher},
	} {
		if x.declared && !x.have {
			t.Errorf("Capabilities.%s is declared, but the backend does not implement it", x.name)
		}
		if !x.declared && x.have {
			t.Errorf("the backend implements driver.%s, but Capabilities.%s is not declared: it would go unchecked", x.name, x.name)
		}
	}
}

func retainerTells(t *trial) {
	r, ok := driver.As[driver.Retainer](t.open())
	if !ok {
		t.Fatalf("Capabilities.Retainer is declared, but driver.As finds no Retainer")
	}
	if d := r.DefaultRetention(); d <= 0 {
		t.Errorf("the default retention is %v", d)
	}
}

// checkerTells: what a harness offers is fit for use, so nothing is refused, and
// each finding says what to do.
func checkerTells(t *trial) {
	c, ok := driver.As[driver.Checker](t.open())
	if !ok {
		t.Fatalf("Capabilities.Checker is declared, but driver.As finds no Checker")
	}
	err := c.Check(t.ctx())
	if !driver.OnlyWarnings(err) {
		t.Errorf("Check refuses the backend under test, or could not look: %v", err)
	}
	for _, f := range findings(err) {
		if f.Code == "" || f.Remedy == "" || f.Severity.String() == "no severity" {
			t.Errorf("a finding without severity, code or remedy: %+v", *f)
		}
	}
}

// findings are those joined in err.
func findings(err error) []*driver.Finding {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*driver.Finding
		for _, e := range joined.Unwrap() {
			out = append(out, findings(e)...)
		}
		return out
	}
	var f *driver.Finding
	if errors.As(err, &f) {
		return []*driver.Finding{f}
	}
	return nil
}
