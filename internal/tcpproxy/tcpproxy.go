// Package tcpproxy stands between a client and a server in tests. It counts
// round trips, and breaks connections at chosen points: it loses a request,
// forwards it and loses the reply, stalls, or cuts.
package tcpproxy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
)

// Proxy forwards connections to one server. Its methods are safe for concurrent
// use.
type Proxy struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex // guards all below
	resumed *sync.Cond // with mu: stalled has become false, or closed true
	stalled bool
	closed  bool
	conns   map[*conn]struct{}
	faults  []*fault
	trips   int64
	dials   int64
}

// fault is a request that will be lost, with or without having been forwarded.
type fault struct {
	match   []byte
	forward bool
	met     chan struct{} // closed once the connection has been cut for it
}

// conn is one connection of a client, and its other half.
type conn struct {
	client, server net.Conn
	asked          bool   // the client has sent something since the last reply
	lose           *fault // the next reply is lost, and the connection with it
}

// New starts a proxy before target, a host and port, which ends with the test.
func New(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{target: target, listener: l, conns: map[*conn]struct{}{}}
	p.resumed = sync.NewCond(&p.mu)
	ctx := context.WithoutCancel(tb.Context())
	p.wg.Go(func() { p.accept(ctx) })
	tb.Cleanup(func() {
		p.close()
		p.wg.Wait()
	})
	return p
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// RoundTrips returns how often, over all connections, a client has sent
// something and was answered. What it sends before the answer begins counts as
// one, a pipeline too; so does the greeting of a new connection.
func (p *Proxy) RoundTrips() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}

// Dials returns how many connections clients have opened.
func (p *Proxy) Dials() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// LoseReply forwards the next request that contains match, waits for the
// server's answer, and closes the client's connection in its place. The channel
// is closed when that has happened.
func (p *Proxy) LoseReply(match string) <-chan struct{} { return p.fault(match, true) }

// LoseRequest closes the client's connection in place of forwarding the next
// request that contains match.
func (p *Proxy) LoseRequest(match string) <-chan struct{} { return p.fault(match, false) }

func (p *Proxy) fault(match string, forward bool) <-chan struct{} {
	f := &fault{match: []byte(match), forward: forward, met: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f.met
}

// Stall keeps every byte back, in both directions, until Resume.
func (p *Proxy) Stall() { p.stall(true) }

// Resume ends a Stall: what was kept back goes on.
func (p *Proxy) Resume() { p.stall(false) }

func (p *Proxy) stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = on
	p.resumed.Broadcast()
}

// Cut closes all connections. New ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.resumed.Broadcast()
	p.mu.Unlock()
	p.Cut()
}

func (c *conn) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &conn{client: client, server: server}
		if !p.add(c) {
			c.close()
			return
		}
		p.wg.Go(func() { p.pump(c, client, server, p.request) })
		p.wg.Go(func() { p.pump(c, server, client, p.reply) })
	}
}

func (p *Proxy) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials++
	p.conns[c] = struct{}{}
	return !p.closed
}

// errLost ends a connection on purpose.
var errLost = errors.New("lost on purpose")

// pump copies from one side to the other. look sees each piece before it is
// forwarded, and ends the connection with an error.
func (p *Proxy) pump(c *conn, from, to net.Conn, look func(c *conn, b []byte) error) {
	defer func() {
		c.close()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if look(c, b[:n]) != nil {
				return
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns once the proxy is not stalled. It needs mu.
func (p *Proxy) wait() {
	for p.stalled && !p.closed {
		p.resumed.Wait()
	}
}

func (p *Proxy) request(c *conn, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait()
	c.asked = true
	i := slices.IndexFunc(p.faults, func(f *fault) bool { return bytes.Contains(b, f.match) })
	if i < 0 {
		return nil
	}
	f := p.faults[i]
	p.faults = slices.Delete(p.faults, i, i+1)
	if f.forward {
		c.lose = f
		return nil
	}
	close(f.met)
	return errLost
}

func (p *Proxy) reply(c *conn, _ []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait()
	if c.asked {
		p.trips++
		c.asked = false
	}
	if c.lose != nil {
		close(c.lose.met)
		return errLost
	}
	return nil
}
