package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const input = `[
	{"name": "none", "clients": [10, 20], "millis": [377, 602], "calls": [50, 152]},
	{"name": "full", "clients": [10, 20], "millis": [461, 1004], "calls": [39, 100]}
]`

func TestThePlotShowsEachStrategy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plot.svg")
	for range 2 {
		before, _ := os.ReadFile(file)
		if err := run(strings.NewReader(input), []string{file}); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"<svg", ">none<", ">full<", ">clients<", "Calls until", "Time until", "</svg>"} {
			if !strings.Contains(string(svg), want) {
				t.Errorf("no %q", want)
			}
		}
		if before != nil && string(svg) != string(before) {
			t.Error("the same input gave another file")
		}
	}
}

func TestWhatCannotBeDrawnIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plot.svg")
	for name, tc := range map[string]struct {
		in   string
		args []string
	}{
		"no file":         {input, nil},
		"two files":       {input, []string{file, file}},
		"no JSON":         {"none", []string{file}},
		"lengths differ":  {`[{"name": "none", "clients": [10, 20], "millis": [1], "calls": [1, 2]}]`, []string{file}},
		"no such folder":  {input, []string{filepath.Join(file, "plot.svg")}},
		"not a number":    {`[{"name": "none", "clients": [10], "millis": ["x"], "calls": [1]}]`, []string{file}},
		"not positive":    {`[{"name": "none", "clients": [10], "millis": [0], "calls": [1]}]`, []string{file}},
		"nothing to draw": {`[{"name": "none", "clients": [], "millis": [], "calls": []}]`, []string{file}},
	} {
		if err := run(strings.NewReader(tc.in), tc.args); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
