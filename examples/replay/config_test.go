package main

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCommandLineIsCheckedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"surplus":                 "no flag",
		"-crash 0.5":              "no flag",
		"-in a -generate 5":       "exclude",
		"-generate -1":            "negative",
		"-sample -1":              "negative",
		"-duplicates 1":           "not in [0, 1)",
		"-passes 0":               "less than 1",
		"-in - -passes 2":         "read once",
		"-workers 3 -processes 4": "at least",
		"-processes 0":            "at least",
		"-store paper":            "memory",
		"-restart redis":          "has no redis",
		"-restart disk":           "neither",
		"-compare -write a":       "neither",
		"-compare -in -":          "read once",

		"-store redis -restart redis -redis-url redis://h":             "started here",
		"-store postgres -restart postgres -postgres-url postgres://h": "started here",
		"-store postgres -restart redis":                               "has no redis",
		"-policy maybe":                                                "neither",
		"-lease 1ms":                                                   "shorter",
		"-wait -1s":                                                    "negative",
		"-latency 1s":                                                  "-latency",
		"-crash=2":                                                     "share",
		"-crash=NaN":                                                   "share",
		"-crash=x":                                                     "invalid",
		"-passes many":                                                 "invalid",
		"-no-such-flag":                                                "not defined",
	} {
		var stderr strings.Builder
		_, err := parseConfig(strings.Fields(args), &stderr)
		require.Error(t, err, args)
		require.Contains(t, stderr.String(), want, args)
	}
	_, err := parseConfig([]string{"-h"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}

func TestCrashStandsAloneOrTakesAShare(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]share{"": 0.01, "-crash": 0.01, "-crash=true": 0.01, "-crash=false": 0, "-crash=0": 0, "-crash=0.25": 0.25} {
		c, err := parseConfig(strings.Fields(arg), io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, c.crash, arg)
	}
	s := share(0.25)
	require.Equal(t, "0.25", s.String())
}
