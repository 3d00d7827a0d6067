package redistest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between clients and a server and can fail in the ways that a network does. It is closed at the end of the test.
type Proxy struct {
	target   string
	listener net.Listener
	life     context.Context //nolint:containedctx // the proxy's own
	done     sync.WaitGroup

	mu    sync.Mutex
	links map[*link]bool
	dice  *rand.Rand
	odds  float64
	drops int
	delay time.Duration
	slice bool
	lost  int
	say   []string // answers in the place of the server
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	frozen         chan struct{} // closed when nothing passes any more
}

// Through starts a proxy to a host and port.
func Through(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	p := &Proxy{target: target, listener: l, life: life, links: map[*link]bool{}}
	p.done.Go(p.accept)
	tb.Cleanup(func() {
		end()
		_ = l.Close()
		p.Reset()
		p.done.Wait()
	})
	return p
}

// URL is the proxy's address, of database 0.
func (p *Proxy) URL() string { return "redis://" + p.listener.Addr().String() + "/0" }

// DropAtRandom has each answer lost with the given odds, connection and all: the server has done what it was asked to. The
// same seed gives the same throws.
func (p *Proxy) DropAtRandom(seed uint64, odds float64) {
	p.set(func() { p.dice, p.odds = rand.New(rand.NewPCG(seed, seed)), odds }) //nolint:gosec // a test that can be repeated
}

// Drop has the next n answers lost.
func (p *Proxy) Drop(n int) { p.set(func() { p.drops = n }) }

// Say has the proxy itself answer the next pieces that clients send, one each, e.g. "-LOADING wait". The server sees none of
// them.
func (p *Proxy) Say(answers ...string) { p.set(func() { p.say = answers }) }

// Lost says how many answers were lost so far.
func (p *Proxy) Lost() (n int) {
	p.set(func() { n = p.lost })
	return n
}

// Slow delays each piece in each direction.
func (p *Proxy) Slow(d time.Duration) { p.set(func() { p.delay = d }) }

// Slice passes everything on byte by byte.
func (p *Proxy) Slice(on bool) { p.set(func() { p.slice = on }) }

// Freeze lets nothing more pass on the connections that are open, and leaves them open. New ones are not touched.
func (p *Proxy) Freeze() {
	p.set(func() {
		for l := range p.links {
			select {
			case <-l.frozen:
			default:
				close(l.frozen)
			}
		}
	})
}

// Reset cuts all open connections the hard way.
func (p *Proxy) Reset() {
	p.set(func() {
		for l := range p.links {
			for _, c := range []net.Conn{l.client, l.server} {
				if tcp, ok := c.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0) // hence RST instead of FIN
				}
				_ = c.Close()
			}
		}
	})
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if p.life.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		p.done.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client net.Conn) {
	server, err := (&net.Dialer{}).DialContext(p.life, "tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client, server, make(chan struct{})}
	p.set(func() { p.links[l] = true })
	if p.life.Err() != nil { // the end may have come before the link was known
		_ = client.Close()
		_ = server.Close()
	}
	var both sync.WaitGroup
	both.Go(func() { p.relay(l, l.server, l.client, true) })
	both.Go(func() { p.relay(l, l.client, l.server, false) })
	both.Wait()
	p.set(func() { delete(p.links, l) })
}

// relay passes bytes on until the connection ends.
func (p *Proxy) relay(l *link, to, from net.Conn, asks bool) {
	defer func() {
		_ = l.client.Close()
		_ = l.server.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.pass(l, to, buffer[:n], asks) {
			return
		}
		if err != nil {
			return
		}
	}
}

// pass writes a piece as the faults of the moment have it; false ends the connection.
func (p *Proxy) pass(l *link, to io.Writer, piece []byte, asks bool) bool {
	var delay time.Duration
	var slice, drop bool
	var said string
	p.set(func() {
		delay, slice = p.delay, p.slice
		if asks {
			if len(p.say) > 0 {
				said, p.say = p.say[0]+"\r\n", p.say[1:]
			}
			return
		}
		drop = p.drops > 0 || p.dice != nil && p.dice.Float64() < p.odds
		p.drops = max(p.drops-1, 0)
		if drop {
			p.lost++
		}
	})
	if drop {
		return false
	}
	if said != "" {
		_, err := io.WriteString(l.client, said)
		return err == nil
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-p.life.Done():
			return false
		}
	}
	select {
	case <-l.frozen:
		return true // swallowed
	default:
	}
	step := len(piece)
	if slice {
		step = 1
	}
	for i := 0; i < len(piece); i += step {
		if _, err := to.Write(piece[i:min(i+step, len(piece))]); err != nil {
			return false
		}
	}
	return true
}
