package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/testenv"
)

func TestMain(m *testing.M) {
	status := m.Run()
	if err := testenv.StopPostgres(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

const told = `delivery 1: the process died before the commit; orders: 0, messages: 0
delivery 2: order 17 is placed, replayed: false; orders: 1, messages: 1
delivery 3: order 17 is placed, replayed: true; orders: 1, messages: 1
`

func TestAnOrderItsMessageAndItsRecordAreThereTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	var out strings.Builder
	require.NoError(t, run(t.Context(), url, &out))
	require.Equal(t, told, out.String())

	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close(context.WithoutCancel(t.Context()))) }()
	var left int
	require.NoError(t, db.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'idem_outbox_%'").Scan(&left))
	require.Zero(t, left, "nothing stays on somebody's server")
}

func TestTheServerMayBeOneThatIsStartedForIt(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(t.Context(), "", &out))
	require.Equal(t, told, out.String())
}
