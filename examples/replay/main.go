// Replay shows what idem is for: a payment consumer behind a queue that
// delivers messages more than once, out of order and beside each other; a
// payment provider that fails, and that charges and then does not answer; and
// processes that die at the worst moment: after the provider has charged, and
// before anybody has written that down.
//
// The failure it survives is the one that no retry and no "have I seen this
// id?" survives: the process is gone, the money has moved, and the message
// comes again. Every figure is counted on the provider's own ledger, which idem
// never sees.
//
//	go run ./examples/replay                                    # the shipped deliveries
//	go run ./examples/replay -generate 200000 -duplicates 0.5   # more of them
//	go run ./examples/replay -in deliveries.ndjson              # yours
//	go run ./examples/replay -store postgres -restart postgres  # a real server, killed in the middle
//	go run ./examples/replay -compare                           # what each store adds to a call
//	go run ./examples/replay -provider-forgets -crash           # fails: nothing deduplicates
//	go run ./examples/replay -provider-forgets -crash -policy hold
//
// handler.go is the operation, guarded.go wraps it in idem; the rest is the
// world around them. The exit status is 1 if an effect was doubled or an
// operation lost or an outcome forgotten, 2 if the run could not be made or did
// not come to its end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	// Most of the memory is what the run is judged by, which only grows: half of it
	// again is room enough for the rest.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cfg, err := parseConfig(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	status := 0
	shown := newProgress(stderr)
	switch {
	case cfg.write != "":
		err = write(cfg, stdin, stderr)
	case cfg.compare:
		status, err = compare(ctx, cfg, stdin, stdout, shown)
	default:
		status, err = single(ctx, cfg, stdin, stdout, shown)
	}
	if err != nil {
		shown.say("replay: %v", err) // the status tells it too
		return 2
	}
	return status
}

// single runs over the one store that the command line names.
func single(ctx context.Context, cfg *config, stdin io.Reader, stdout io.Writer, shown *progress) (int, error) {
	o, err := openStore(ctx, cfg, shown.say)
	if err != nil {
		return 2, err
	}
	out, err := execute(ctx, cfg, o, stdin, shown)
	closed := o.close(context.WithoutCancel(ctx))
	if err != nil {
		return 2, errors.Join(err, closed)
	}
	if cfg.json {
		err = writeJSON(stdout, out)
	} else {
		err = out.table(stdout)
	}
	return exit(out.status(), shown, errors.Join(err, closed))
}

// exit is the exit status of a run that has one. What went wrong afterwards is
// told; it does not hide that an effect was doubled or an operation lost.
func exit(status int, shown *progress, afterwards error) (int, error) {
	if status == 0 || afterwards == nil {
		return status, afterwards
	}
	shown.say("replay: %v", afterwards)
	return status, nil
}

// execute runs what the command line asks for over an open store.
func execute(ctx context.Context, cfg *config, o *opened, stdin io.Reader, shown *progress) (*report, error) {
	r := &replay{cfg: cfg, stdin: stdin, progress: shown, opened: o}
	return r.run(ctx)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// status is the exit status that a result stands for.
func (r *report) status() int {
	switch {
	case r.failed():
		return 1
	case r.Unsettled > 0:
		return 2
	}
	return 0
}

// write writes the deliveries to a file instead of running them.
func write(cfg *config, stdin io.Reader, stderr io.Writer) error {
	if from, err := os.Stat(cfg.in); err == nil {
		if to, err := os.Stat(cfg.write); err == nil && os.SameFile(from, to) {
			return fmt.Errorf("-write %s is the file of -in: it would be cut before it is read", cfg.write)
		}
	}
	src, _, done, err := openSource(cfg, stdin)
	if err != nil {
		return err
	}
	n, err := writeDeliveries(cfg.write, src)
	if err := errors.Join(err, done()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "%s deliveries written to %s\n", grouped(int64(n)), cfg.write)
	return err
}
