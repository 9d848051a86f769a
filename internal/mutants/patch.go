package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one way to break the code.
type mutant struct {
	name  string
	what  string
	rules []string
	files map[string][]hunk // by path in the module
}

// hunk is one change of a unified diff. It is found by its text alone, so that a
// patch survives changes elsewhere in its file; text that is not there, or there
// two times, is an error.
type hunk struct{ old, new string }

// read reads the patches whose name contains only.
func read(dir, only string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if !strings.Contains(name, only) {
			continue
		}
		text, err := os.ReadFile(path) //nolint:gosec // the caller's own patches
		if err != nil {
			return nil, err
		}
		m, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, m)
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no patch in %s matches %q", dir, only)
	}
	return mutants, nil
}

// parse reads a patch: a line of text, a line of rules, and a unified diff.
func parse(name, text string) (mutant, error) {
	m := mutant{name: name, files: make(map[string][]hunk)}
	file := ""
	for i, line := range strings.SplitAfter(text, "\n") {
		bare := strings.TrimSuffix(line, "\n")
		hunks := m.files[file]
		switch {
		case i == 0:
			m.what = bare
		case strings.HasPrefix(line, "rules: "):
			m.rules = strings.Fields(strings.TrimPrefix(bare, "rules:"))
		case strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+++ b/"):
			file = strings.TrimPrefix(bare, "+++ b/")
		case strings.HasPrefix(line, "@@"):
			m.files[file] = append(hunks, hunk{})
		case len(hunks) == 0 || line == "":
		default:
			hunks[len(hunks)-1].add(line)
		}
	}
	if len(m.rules) == 0 || len(m.files) == 0 {
		return m, fmt.Errorf("%s: no rules, or no diff", name)
	}
	return m, nil
}

func (h *hunk) add(line string) {
	switch line[0] {
	case '-':
		h.old += line[1:]
	case '+':
		h.new += line[1:]
	default:
		h.old += line[1:]
		h.new += line[1:]
	}
}

// overlay writes the broken files, and the list of them that the go command
// reads, into dir.
func (m *mutant) overlay(dir string) (list string, err error) {
	replace := make(map[string]string, len(m.files))
	for path, hunks := range m.files {
		b, err := os.ReadFile(path) //nolint:gosec // a file of this module
		if err != nil {
			return "", err
		}
		text := string(b)
		for i, h := range hunks {
			if strings.Count(text, h.old) != 1 {
				return "", fmt.Errorf("%s: change %d of %s is not to be found once", m.name, i+1, path)
			}
			text = strings.Replace(text, h.old, h.new, 1)
		}
		whole, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		broken := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(broken, []byte(text), 0o600); err != nil { //nolint:gosec // a directory of our own
			return "", err
		}
		replace[whole] = broken
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o600)
}

// touches reports whether the mutant is of the backend.
func (m *mutant) touches(dir string) bool {
	for path := range m.files {
		if strings.HasPrefix(path, dir) {
			return true
		}
	}
	return false
}
