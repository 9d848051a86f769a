package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// wanted is a program that tests start, and how to come by it.
type wanted struct {
	// what it is, for messages.
	what string
	// files of which the first one that is found in a folder is the program;
	// beside must be in the same folder.
	files, beside []string
	// folders to look in before and after those of PATH: patterns, of which the
	// highest number comes first.
	before, after []string
	// pack is the Debian package that has it, and hint what else would do.
	pack, hint string
}

// sbin is where systems keep servers, in nobody's PATH or not.
func sbin() []string {
	return []string{"/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin"}
}

func wantedRedis() wanted {
	return wanted{
		what: "Redis", files: []string{"redis-server", "valkey-server"}, after: sbin(),
		pack: "redis-server", hint: "set " + RedisEnv + ", or ",
	}
}

func wantedPostgres() wanted {
	return wanted{
		what: "Postgres", files: []string{"postgres"}, beside: []string{"initdb", "pg_ctl", "pg_basebackup"},
		before: []string{"/usr/lib/postgresql/*/bin"},
		after:  []string{"/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin"},
		pack:   "postgresql", hint: "set " + PostgresEnv + ", or ",
	}
}

func wantedPgBouncer() wanted {
	return wanted{what: "pgbouncer", files: []string{"pgbouncer"}, after: sbin(), pack: "pgbouncer"}
}

// find returns the path of the program, "" if there is none.
func (w wanted) find() string {
	var dirs []string
	for _, pattern := range w.before {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	dirs = append(dirs, pathOf(os.Environ())...)
	for _, pattern := range w.after {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	for _, dir := range dirs {
		complete := !slices.ContainsFunc(w.beside, func(name string) bool { return !isProgram(filepath.Join(dir, name)) })
		for _, name := range w.files {
			if path := filepath.Join(dir, name); complete && isProgram(path) {
				return path
			}
		}
	}
	return ""
}

// get is find, and installs the package if nothing is found. Where it cannot, the
// error says what to do.
func (w wanted) get(ctx context.Context, i installer) (string, error) {
	if path := w.find(); path != "" {
		return path, nil
	}
	err := i.install(ctx, w.pack)
	if path := w.find(); path != "" {
		return path, nil
	}
	if err == nil {
		err = fmt.Errorf("the package %s has no such program", w.pack)
	}
	return "", fmt.Errorf("no %s: %sinstall it (Debian, Ubuntu: apt-get install %s): %w", w.what, w.hint, w.pack, err)
}

// newestFirst returns the folders that match a pattern, the highest number in
// their names first: version 15 before version 9.
func newestFirst(pattern string) []string {
	dirs, _ := filepath.Glob(pattern) // the patterns are well formed
	slices.SortFunc(dirs, func(a, b string) int { return versionIn(b) - versionIn(a) })
	return dirs
}

// versionIn returns the last number in a path, 0 if it has none.
func versionIn(path string) int {
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	to := strings.LastIndexFunc(path, isDigit) + 1
	from := strings.LastIndexFunc(path[:to], func(r rune) bool { return !isDigit(r) }) + 1
	n, err := strconv.Atoi(path[from:to])
	if err != nil {
		return 0
	}
	return n
}

// Programs returns a line for each server that tests start: where it is found,
// or which server is used in its place. It installs what is missing. The error
// says what to install by hand.
func Programs(ctx context.Context) ([]string, error) {
	var lines []string
	var errs []error
	for _, w := range []wanted{wantedRedis(), wantedPostgres(), wantedPgBouncer()} {
		path, err := w.get(ctx, installer{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		lines = append(lines, fmt.Sprintf("%-10s %s", w.what, path))
	}
	for _, name := range []string{RedisEnv, PostgresEnv} {
		if os.Getenv(name) != "" {
			lines = append(lines, name+" is set: tests that need no server of their own use that one")
		}
	}
	return lines, errors.Join(errs...)
}
