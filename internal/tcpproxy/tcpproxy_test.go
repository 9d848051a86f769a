package tcpproxy_test

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/tcpproxy"
)

// echo answers each line with itself, and remembers what it was sent.
func echo(t *testing.T) (addr string, lines <-chan string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	seen := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for s := bufio.NewScanner(c); s.Scan(); {
					seen <- s.Text()
					_, _ = io.WriteString(c, s.Text()+"\n")
				}
			}()
		}
	}()
	return l.Addr().String(), seen
}

type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *tcpproxy.Proxy) *client {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &client{c, bufio.NewReader(c)}
}

func (c *client) send(t *testing.T, text string) {
	t.Helper()
	_, err := io.WriteString(c, text+"\n")
	require.NoError(t, err)
}

func (c *client) receive() (string, error) { return c.in.ReadString('\n') }

func (c *client) ask(t *testing.T, text string) {
	t.Helper()
	c.send(t, text)
	answer, err := c.receive()
	require.NoError(t, err)
	require.Equal(t, text+"\n", answer)
}

func TestARoundTripIsCountedOnceWhateverItCarries(t *testing.T) {
	t.Parallel()
	addr, _ := echo(t)
	p := tcpproxy.New(t, addr)
	a, b := dial(t, p), dial(t, p)
	a.ask(t, "one")
	b.ask(t, "two")
	a.send(t, "a pipeline\nof two")
	for range 2 {
		_, err := a.receive()
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, p.RoundTrips())
	require.EqualValues(t, 2, p.Dials())
}

func TestALostReplyWasForwarded(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	p := tcpproxy.New(t, addr)
	c := dial(t, p)
	c.ask(t, "first")
	met := p.LoseReply("claim")
	c.ask(t, "another")
	c.send(t, "a claim")
	_, err := c.receive()
	require.Error(t, err)
	<-met
	require.Equal(t, []string{"first", "another", "a claim"}, []string{<-lines, <-lines, <-lines})
	dial(t, p).ask(t, "a claim again")
}

func TestALostRequestWasNotForwarded(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	p := tcpproxy.New(t, addr)
	c := dial(t, p)
	met := p.LoseRequest("claim")
	c.send(t, "a claim")
	_, err := c.receive()
	require.Error(t, err)
	<-met
	dial(t, p).ask(t, "later")
	require.Equal(t, "later", <-lines)
}

func TestAStallKeepsEverythingBackUntilItEnds(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	p := tcpproxy.New(t, addr)
	c := dial(t, p)
	c.ask(t, "first")
	<-lines
	p.Stall()
	c.send(t, "second")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.receive()
	require.Error(t, err)
	require.Empty(t, lines)
	p.Resume()
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	answer, err := c.receive()
	require.NoError(t, err)
	require.Equal(t, "second\n", answer)
}

func TestACutEndsAllConnectionsAndLetsNewOnesIn(t *testing.T) {
	t.Parallel()
	addr, _ := echo(t)
	p := tcpproxy.New(t, addr)
	a, b := dial(t, p), dial(t, p)
	a.ask(t, "x")
	b.ask(t, "y")
	p.Cut()
	for _, c := range []*client{a, b} {
		_, err := c.receive()
		require.Error(t, err)
	}
	dial(t, p).ask(t, "z")
}
