package storetest_test

import (
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTmpMatrix(t *testing.T) {
	src, _ := os.ReadFile("bugs_test.go")
	names := regexp.MustCompile(`(?m)^\t(\w+) +bug = "(.*)"$`).FindAllStringSubmatch(string(src), -1)
	cache := false
	for _, n := range names {
		if n[1] == "missIsNil" {
			cache = true
		}
		var mu sync.Mutex
		var failed []string
		st := time.Now()
		all := func(string, string) bool { return true }
		done := func(rule string, failures []string) {
			mu.Lock()
			defer mu.Unlock()
			if len(failures) > 0 {
				failed = append(failed, rule)
			}
		}
		t.Run(n[1], func(t *testing.T) {
			if cache {
				cacheHarness(bug(n[2])).Try(t, all, done)
				return
			}
			h := harness(bug(n[2]))
			h.Rounds = 3
			h.Try(t, all, done)
		})
		sort.Strings(failed)
		fmt.Printf("MUT %s (%v) %d: %s\n", n[1], time.Since(st).Round(time.Millisecond), len(failed), strings.Join(failed, " "))
	}
}
