package storetest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idem-go/idem/storetest"
)

// contract is the text of package driver's comments, on one line.
func contract(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../driver/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources of package driver: %v", err)
	}
	var text strings.Builder
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(src)) {
			if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
				text.WriteString(comment + " ")
			}
		}
	}
	return oneLine(text.String())
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// texts are those of all rules, by their names.
func texts(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	collect := func(name, text string) bool {
		if _, twice := out[name]; twice {
			t.Errorf("two rules are called %s", name)
		}
		out[name] = text
		return false
	}
	storetest.Harness{}.Try(t, collect, nil)
	storetest.CacheHarness{}.Try(t, collect, nil)
	return out
}

func TestRulesQuoteTheContractWordForWord(t *testing.T) {
	t.Parallel()
	whole := contract(t)
	for name, text := range texts(t) {
		if text == "" {
			t.Errorf("rule %s quotes nothing", name)
		}
		for sentence := range strings.Lines(text) {
			if !strings.Contains(whole, oneLine(sentence)) {
				t.Errorf("rule %s quotes what package driver does not say: %s", name, sentence)
			}
		}
	}
}

func TestEveryInvariantHasARule(t *testing.T) {
	t.Parallel()
	cited := map[string]bool{}
	for _, text := range texts(t) {
		for _, n := range regexp.MustCompile(`(?m)^I\d+\.`).FindAllString(text, -1) {
			cited[n] = true
		}
	}
	for _, n := range regexp.MustCompile(`\bI\d+\. [A-Z]`).FindAllString(contract(t), -1) {
		if n = strings.Fields(n)[0]; !cited[n] {
			t.Errorf("no rule cites %s", n)
		}
	}
	if len(cited) < 13 {
		t.Errorf("only %d invariants are cited", len(cited))
	}
}

func TestAFailureShowsTheRuleAndTheCalls(t *testing.T) {
	t.Parallel()
	name := "outcome/refused_after_takeover"
	v := judge(t, harness(completeUnowned), []string{name})
	for _, want := range []string{
		`broken rule "` + name + `"`,
		"outcome.go:",
		`Complete after the takeover: succeeded, want error "lease lost"`,
		"I3. Renew, Annotate, Complete and Release act only for the current (Owner, Token)",
		"the last calls:",
		"taken over",
	} {
		if !strings.Contains(v.failed[name], want) {
			t.Errorf("the message lacks %q:\n%s", want, v.failed[name])
		}
	}
}

// TestRulesAreSkippedOnlyForWhatIsNotDeclared: a harness that declares nothing
// runs every rule that needs nothing, and none of the others.
func TestRulesAreSkippedOnlyForWhatIsNotDeclared(t *testing.T) {
	t.Parallel()
	optional := []string{
		"redact/*", "reset/*", "edit/*", "list/*", "purge/*", "watch/*", "race/*", "concurrency/*", "concurrency/*/*", "corrupt/*",
		"optional/*", "reuser/*", "context/wait_*", "token/*", "fencing/after_reset", "release/more_careful_repetition_after_reset_is_refused", "fencing/on_the_other_handle",
	}
	bare := storetest.Harness{New: harness(none).New, Wrap: harness(none).Wrap, Rounds: 3}
	v := &verdicts{failed: map[string]string{}}
	t.Run("rules", func(t *testing.T) {
		bare.Try(t, func(name, _ string) bool { return !strings.HasPrefix(name, "optional/") }, v.add)
	})
	for name, message := range v.failed {
		t.Errorf("%s: %s", name, message)
	}
	for name := range texts(t) {
		if strings.HasPrefix(name, "cache/") || slices.Contains(v.passed, name) {
			continue
		}
		if !slices.ContainsFunc(optional, func(p string) bool { return matches(p, name) }) {
			t.Errorf("rule %s was skipped", name)
		}
	}
}
