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
//	go run ./examples/replay -provider-forgets -crash           # fails: nothing deduplicates
//	go run ./examples/replay -provider-forgets -crash -policy hold
//
// handler.go is the operation, guarded.go wraps it in idem; the rest is the
// world around them. The exit status is 1 if an effect was doubled or an
// operation lost, 2 if the run could not be made or did not come to its end.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
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
	opened, err := openStore(cfg.store)
	if err == nil {
		status, runErr := execute(ctx, cfg, opened, stdin, stdout, stderr)
		if err = errors.Join(runErr, opened.close()); err == nil {
			return status
		}
	}
	_, _ = fmt.Fprintf(stderr, "replay: %v\n", err) // the status tells it too
	return 2
}

// execute does what the command line asks for, over an open store.
func execute(ctx context.Context, cfg *config, o *opened, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if cfg.write != "" {
		return 0, write(cfg, stdin, stderr)
	}
	r := &replay{cfg: cfg, stdin: stdin, progress: newProgress(stderr), backend: o.backend}
	out, err := r.run(ctx)
	if err != nil {
		return 2, err
	}
	if cfg.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = e.Encode(out)
	} else {
		err = out.table(stdout)
	}
	switch {
	case err != nil:
		return 2, err
	case out.failed():
		return 1, nil
	case out.Unsettled > 0:
		return 2, nil
	}
	return 0, nil
}

// write writes the deliveries to a file instead of running them.
func write(cfg *config, stdin io.Reader, stderr io.Writer) error {
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
