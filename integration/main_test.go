package integration_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/go-connections/nat"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
)

func TestMain(m *testing.M) {
	if err := engine(); err != nil {
		fmt.Fprintf(os.Stderr, "integration: no container engine answers; start Docker or set DOCKER_HOST: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	flag.Parse()
	// The tests wait more than they compute.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// engine asks the container engine whether it is there.
func engine() (err error) {
	defer func() {
		if p := recover(); p != nil { // what the client does where it finds no socket
			err = fmt.Errorf("%v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := testcontainers.NewDockerProvider()
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	return p.Health(ctx)
}

// images returns the list in an environment variable, or what is given.
func images(t *testing.T, variable string, otherwise ...string) []string {
	t.Helper()
	text, set := os.LookupEnv(variable)
	if !set {
		return otherwise
	}
	list := strings.Fields(text)
	require.NotEmpty(t, list, "%s names no image", variable)
	return list
}

// start runs an image for one test and returns the address of a port of it.
func start(t *testing.T, image, port string, opts ...testcontainers.ContainerCustomizer) (addr string) {
	t.Helper()
	c, err := testcontainers.Run(t.Context(), image, append(opts, testcontainers.WithExposedPorts(port))...)
	testcontainers.CleanupContainer(t, c)
	require.NoError(t, err)
	t.Cleanup(func() { showLogs(t, c) })
	addr, err = c.PortEndpoint(t.Context(), nat.Port(port+"/tcp"), "")
	require.NoError(t, err)
	return addr
}

// showLogs shows what a container has said, if the test has failed.
func showLogs(t *testing.T, c testcontainers.Container) {
	t.Helper()
	if !t.Failed() {
		return
	}
	logs, err := c.Logs(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Log(err)
		return
	}
	text, err := io.ReadAll(logs)
	t.Logf("the container's log (%v):\n%s", err, text[max(0, len(text)-4000):])
}
