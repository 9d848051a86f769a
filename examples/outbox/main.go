// Outbox places an order and the message about it in one Postgres transaction,
// together with the record that this was done. The failure it survives is any
// death before, during or after the commit: either all three are there or none,
// so that the effect needs no provider key, no recovery and no lease.
//
//	go run ./examples/outbox
//	go run ./examples/outbox -postgres-url postgres://user@host/db
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/pgstore"
)

func main() {
	url := flag.String("postgres-url", "", "the Postgres `server` to use (default: $IDEM_TEST_POSTGRES_URL, else one that is started here)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, cmp.Or(*url, os.Getenv("IDEM_TEST_POSTGRES_URL")), os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, w io.Writer) (err error) {
	if url == "" {
		started, stop, err := startServer(ctx)
		if err != nil {
			return fmt.Errorf("%w; or name a server with -postgres-url", err)
		}
		defer func() { err = errors.Join(err, stop()) }()
		url = started
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := openShop(ctx, pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	return s.deliverThreeTimes(ctx, w)
}

// shop keeps its orders, its outbox and idem's records in one schema.
type shop struct {
	pool   *pgxpool.Pool
	store  *idem.Store
	schema string
}

// openShop makes a schema of the run's own, which close drops.
func openShop(ctx context.Context, pool *pgxpool.Pool) (*shop, error) {
	schema := "idem_outbox_" + strings.ToLower(rand.Text())
	records, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
	if err != nil {
		return nil, err
	}
	if err := records.Migrate(ctx); err != nil { // it makes the schema too
		return nil, err
	}
	store, err := idem.New(records, &idem.Options{Namespace: "shop", Observer: idem.Discard}) // it would log the takeover
	if err != nil {
		return nil, err
	}
	s := &shop{pool, store, schema}
	_, err = pool.Exec(ctx, s.sql("CREATE TABLE %s.orders (id text, cents bigint)"))
	if err == nil {
		_, err = pool.Exec(ctx, s.sql("CREATE TABLE %s.outbox (id bigint GENERATED ALWAYS AS IDENTITY, message text)"))
	}
	if err != nil {
		return nil, errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *shop) sql(format string) string {
	return fmt.Sprintf(format, pgx.Identifier{s.schema}.Sanitize())
}

func (s *shop) close(ctx context.Context) error {
	err := s.store.Close(ctx)
	_, dropped := s.pool.Exec(ctx, s.sql("DROP SCHEMA %s CASCADE"))
	return errors.Join(err, dropped)
}

// place puts the order and the message about it into the transaction. There is no
// unique constraint that would find a second order out, and none is needed.
func (s *shop) place(ctx context.Context, tx pgx.Tx, order string, cents int64) (idem.Result, error) {
	if _, err := tx.Exec(ctx, s.sql("INSERT INTO %s.orders VALUES ($1, $2)"), order, cents); err != nil {
		return idem.Result{}, err
	}
	if _, err := tx.Exec(ctx, s.sql("INSERT INTO %s.outbox (message) VALUES ($1)"), "placed "+order); err != nil {
		return idem.Result{}, err
	}
	return idem.Result{Value: []byte("order " + order + " is placed")}, nil
}

var errDied = errors.New("the process died before the commit")

// deliverThreeTimes handles one message three times: the first attempt does all
// its work and does not come to the commit.
func (s *shop) deliverThreeTimes(ctx context.Context, w io.Writer) error {
	for n := 1; n <= 3; n++ {
		res, err := pgstore.ExecuteTx(ctx, s.store, s.pool, "order:17", func(ctx context.Context, tx pgx.Tx) (idem.Result, error) {
			res, err := s.place(ctx, tx, "17", 4200)
			if err == nil && n == 1 {
				err = errDied
			}
			return res, err
		})
		said := fmt.Sprintf("%s, replayed: %t", res.Value, res.Replayed)
		switch {
		case errors.Is(err, errDied):
			said = err.Error()
		case err != nil:
			return err
		}
		var orders, messages int
		err = s.pool.QueryRow(ctx, s.sql("SELECT (SELECT count(*) FROM %[1]s.orders), (SELECT count(*) FROM %[1]s.outbox)")).Scan(&orders, &messages)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "delivery %d: %s; orders: %d, messages: %d\n", n, said, orders, messages); err != nil {
			return err
		}
	}
	return nil
}
