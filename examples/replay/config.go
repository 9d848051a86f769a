package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config is the command line.
type config struct {
	in         string
	generate   int
	duplicates float64
	seed       uint64
	passes     int
	write      string

	workers   int
	processes int
	store     string
	compare   bool
	policy    string
	lease     time.Duration
	wait      time.Duration

	crash   share
	forgets bool
	latency time.Duration
	sample  int

	redisURL    string
	postgresURL string
	restart     string

	json bool
}

// The lease must be long beside a provider's call, or claims would end while
// the operation runs, and short beside the run, or a takeover would not be seen.
const minLease = 10 * patience

// parseConfig reads the command line. It has told the user what is wrong when
// it returns an error.
func parseConfig(args []string, stderr io.Writer) (*config, error) {
	c := &config{crash: 0.01}
	f := flag.NewFlagSet("replay", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.in, "in", "", "read deliveries from this `file`, newline-delimited JSON, gzip or not; - is standard input (default: the shipped ones)")
	f.IntVar(&c.generate, "generate", 0, "make this many deliveries instead of reading them")
	f.Float64Var(&c.duplicates, "duplicates", shippedDuplicates, "with -generate, the `share` of redeliveries")
	f.Uint64Var(&c.seed, "seed", 1, "decides what is generated, which requests fail and which attempts are killed")
	f.IntVar(&c.passes, "passes", 1, "run the whole stream this many times")
	f.StringVar(&c.write, "write", "", "write the deliveries to this `file` and stop; compressed if it ends in .gz")
	f.IntVar(&c.workers, "workers", 16, "concurrent consumers, over all processes")
	f.IntVar(&c.processes, "processes", 4, "simulated processes: each has a Store of its own and dies alone")
	f.StringVar(&c.store, "store", "memory", "where idem keeps its records: "+strings.Join(stores, ", "))
	f.BoolVar(&c.compare, "compare", false, "run over every store, and show what each adds to a call")
	f.StringVar(&c.redisURL, "redis-url", "", "the Redis `server` to use (default: $"+redisEnv+", else one that is started here)")
	f.StringVar(&c.postgresURL, "postgres-url", "", "the Postgres `server` to use (default: $"+postgresEnv+", else one that is started here)")
	f.StringVar(&c.restart, "restart", "", "kill this server, redis or postgres, and start it again in the middle of each pass; only one that is started here")
	f.StringVar(&c.policy, "policy", "rerun", "what to do after an unknown end: rerun, or hold until an operator has asked the provider")
	f.DurationVar(&c.lease, "lease", 300*time.Millisecond, "how long a killed attempt blocks its key; at least "+minLease.String())
	f.DurationVar(&c.wait, "wait", 0, "let a duplicate wait this long for the running one, instead of being delivered again later")
	f.Var(&c.crash, "crash", "`share` of the attempts to kill after the provider charged and before that is recorded; -crash=0 kills none")
	f.BoolVar(&c.forgets, "provider-forgets", false, "the provider does not deduplicate")
	f.DurationVar(&c.latency, "latency", time.Millisecond, "how long the provider takes on average")
	f.IntVar(&c.sample, "sample", 2000, "first run this many deliveries without idem; 0 for none")
	f.BoolVar(&c.json, "json", false, "print the figures as JSON")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if err := c.check(f.Args()); err != nil {
		_, werr := fmt.Fprintf(stderr, "replay: %v (-h lists the flags)\n", err)
		return nil, errors.Join(err, werr)
	}
	return c, nil
}

func (c *config) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag; write -name=value", rest[0])
	case c.in != "" && c.generate != 0:
		return errors.New("-in and -generate exclude each other")
	case c.generate < 0 || c.sample < 0:
		return errors.New("-generate and -sample cannot be negative")
	case c.duplicates < 0 || c.duplicates >= 1:
		return fmt.Errorf("-duplicates %v is not in [0, 1)", c.duplicates)
	case c.passes < 1:
		return fmt.Errorf("-passes %d is less than 1", c.passes)
	case c.in == "-" && c.passes > 1:
		return errors.New("standard input can be read once: -passes needs a file or -generate")
	case c.processes < 1 || c.workers < c.processes:
		return fmt.Errorf("-workers %d must be at least -processes %d, and that at least 1", c.workers, c.processes)
	case !slices.Contains(stores, c.store):
		return fmt.Errorf("-store %q is not one of: %s", c.store, strings.Join(stores, ", "))
	case c.policy != "rerun" && c.policy != "hold":
		return fmt.Errorf("-policy %q is neither rerun nor hold", c.policy)
	case c.lease < minLease:
		return fmt.Errorf("-lease %v is shorter than %v", c.lease, minLease)
	case c.wait < 0 || c.latency < 0 || c.latency > patience:
		return fmt.Errorf("-wait cannot be negative, -latency must be between 0 and %v", patience)
	}
	return errors.Join(c.checkRestart(), c.checkCompare())
}

func (c *config) checkRestart() error {
	uses := map[string][]string{"redis": {"redis", "tiered"}, "postgres": {"postgres", "tiered"}}
	named := map[string]string{"redis": c.redisURL, "postgres": c.postgresURL}
	switch {
	case c.restart == "":
		return nil
	case uses[c.restart] == nil:
		return fmt.Errorf("-restart %q is neither redis nor postgres", c.restart)
	case !slices.Contains(uses[c.restart], c.store):
		return fmt.Errorf("-store %s has no %s to restart", c.store, c.restart)
	case named[c.restart] != "":
		return fmt.Errorf("-restart kills only servers that were started here: leave -%s-url away", c.restart)
	}
	return nil
}

func (c *config) checkCompare() error {
	switch {
	case !c.compare:
		return nil
	case c.restart != "" || c.write != "":
		return errors.New("-compare goes neither with -restart nor with -write")
	case c.in == "-":
		return errors.New("standard input can be read once: -compare needs a file or -generate")
	}
	return nil
}

// share is a flag for a probability. Alone, without a value, it means 0.01.
type share float64

// IsBoolFlag lets -crash stand alone.
func (s *share) IsBoolFlag() bool { return true }

func (s *share) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }

// Set implements flag.Value.
func (s *share) Set(text string) error {
	switch text {
	case "true":
		*s = 0.01
		return nil
	case "false":
		*s = 0
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return err
	}
	if !(v >= 0 && v <= 0.5) {
		return errors.New("a share between 0 and 0.5 is needed")
	}
	*s = share(v)
	return nil
}
