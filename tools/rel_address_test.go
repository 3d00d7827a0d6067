package tools

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchboard/config"

	"pgregory.net/rapid"
)

// loopbackForms are ways to write this machine; some only mean it to some resolvers.
func loopbackForms() []string {
	return []string{
		"127.0.0.1", "127.255.255.254", "localhost", "LOCALHOST", "0.0.0.0", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:0.0.0.0",
		"::1", "0:0:0:0:0:0:0:1", "::", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1",
	}
}

// insideForms are other places inside, and traps.
func insideForms() []string {
	return []string{
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "168.63.129.16",
		"192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "240.0.0.1", "255.255.255.255", "0.1.2.3",
		"::127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1",
		"2002:7f00:1::", "2001::1", "2001:db8::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fec0::1", "ff02::1", "100::1", "5f00::1", "4000::1",
	}
}

// An outside name must not lead inside, however its host is written and whatever resolves it.
func TestRel_S40_NoFormLeadsInside(t *testing.T) {
	t.Parallel()
	port := loopback(t)
	// A form that the resolver in force takes for a name goes no further: no question leaves this machine.
	mute := &net.Resolver{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no name server") }}
	dial := transportOf(t, guarded(&net.Dialer{Timeout: 5 * time.Second, Resolver: mute}, nil)).DialContext
	open := 0
	for _, host := range append(loopbackForms(), insideForms()...) {
		address := net.JoinHostPort(host, port)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		conn, err := dial(context.WithValue(ctx, serverKey{}, server{address: address}), "tcp", address)
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s was dialled", host)
		}
		_, literal := netip.ParseAddr(host)
		if _, ok := errors.AsType[astrayError](err); !ok && literal == nil {
			t.Errorf("%s was not stopped, but failed: %v", host, err)
		}
		cancel()
	}
	for _, host := range loopbackForms() { // the same without a guard, to see that there was something to stop
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if conn, err := (&net.Dialer{Resolver: mute}).DialContext(ctx, "tcp", net.JoinHostPort(host, port)); err == nil {
			open++
			_ = conn.Close()
		}
		cancel()
	}
	t.Logf("%d of %d forms reach this machine without the guard", open, len(loopbackForms()))
	if open < 4 {
		t.Errorf("only %d forms reach this machine without the guard; the test shows nothing", open)
	}
}

// The same under each of Go's resolvers, which read hosts differently.
func TestRel_S40_BothResolvers(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, resolver := range []string{"go", "cgo"} {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestRel_S40_NoFormLeadsInside$", "-test.v")
		cmd.Env = append(os.Environ(), "GODEBUG=netdns="+resolver+"+2")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestRel_S40_NoFormLeadsInside") {
			t.Errorf("resolver %s: %v\n%s", resolver, err, out)
		}
		if resolver == "cgo" && !strings.Contains(string(out), "= cgo") {
			t.Log("this build has no cgo resolver")
		}
	}
}

// loopback listens on this machine and gives the port.
func loopback(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if six, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "[::1]:"+port); err == nil { // not every machine has IPv6
		t.Cleanup(func() { _ = six.Close() })
	}
	return port
}

func transportOf(t *testing.T, c *http.Client) *http.Transport {
	t.Helper()
	transport, ok := c.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the client has a %T", c.Transport)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func TestRel_S40_WhatABaseMayReach(t *testing.T) {
	t.Parallel()
	nets := []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("fd99::/16")}
	for _, c := range []struct {
		base, at string
		nets     []netip.Prefix
		want     bool
	}{
		{"https://api.example.com", "93.184.215.14", nil, true},
		{"https://api.example.com", "2606:2800:21f:cb07::1", nil, true},
		{"https://api.example.com", "::ffff:93.184.215.14", nil, true},
		{"https://api.example.com", "10.9.1.1", nil, false},
		{"https://api.example.com", "10.9.1.1", nets, true},
		{"https://api.example.com", "::ffff:10.9.1.1", nets, true},
		{"https://api.example.com", "10.8.1.1", nets, false},
		{"https://api.example.com", "fd99::7", nets, true},
		{"https://local.example.com", "127.0.0.1", nil, false},
		{"http://backoffice", "127.0.0.1", nil, true},
		{"https://home.arpa.example.com", "127.0.0.1", nil, false},
		{"http://localhost:8080", "127.0.0.1", nil, true},
		{"http://LocalHost.", "::1", nil, true},
		{"http://payments", "10.1.2.3", nil, true},
		{"http://payments.default.svc.cluster.local", "10.1.2.3", nil, true},
		{"http://payments.Internal.", "fd00::7", nil, true},
		{"http://payments.internal", "100.64.7.7", nil, true},
		{"http://payments.internal", "93.184.215.14", nil, true},
		{"http://payments.internal", "169.254.169.254", nil, false},
		{"http://payments.internal", "fe80::1", nil, false},
		{"http://payments.internal", "fd00:ec2::254", nil, false},
		{"http://payments.internal", "100.100.100.200", nil, false},
		{"http://payments.internal", "0.0.0.0", nil, false},
		{"http://pay.lan", "192.168.7.7", nil, true},
		{"http://pay.home.arpa", "192.168.7.7", nil, true},
		{"http://10.1.2.3", "10.1.2.3", nil, true},
		{"http://10.1.2.3", "10.1.2.4", nil, false},
		{"http://[::ffff:10.1.2.3]", "10.1.2.3", nil, true},
		{"http://[fe80::7%25eth0]:80", "fe80::7", nil, true},
		{"http://[::1]", "::1", nil, true},
		{"http://[::1]", "127.0.0.1", nil, false},
	} {
		u, err := url.Parse(c.base)
		if err != nil {
			t.Fatal(err)
		}
		s, err := serverOf(u)
		if err != nil {
			t.Errorf("%s: %v", c.base, err)
			continue
		}
		if got := s.reaches(netip.MustParseAddr(c.at), c.nets); got != c.want {
			t.Errorf("%s at %s: %v", c.base, c.at, got)
		}
	}
	if (server{}).reaches(netip.MustParseAddr("93.184.215.14"), nets) {
		t.Error("a request of no tool goes out")
	}
}

func TestRel_S40_HostsThatReadAsNumbersAreNoBase(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.1", "2130706433", "0x7f000001", "0X7F.1", "0177.0.0.1", "127.0.0.1.", "1.2.3.4.5", "example.0x1", "①②⑦.⓪.⓪.①", "bücher.example", "."} {
		_, err := NewHTTP(relContract(http.MethodGet), relEnviron("http://"+host+":8080/"), nil)
		if err == nil || strings.Contains(err.Error(), host) && host != "." || !strings.Contains(err.Error(), "holds a host") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// An address that carries another one within it is never outside.
func TestRel_S40_NoAddressHidesInAnother(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint32().Draw(t, "address")
		var four [4]byte
		binary.BigEndian.PutUint32(four[:], n)
		plain := netip.AddrFrom4(four)
		var six [16]byte
		copy(six[12:], four[:])
		for _, prefix := range [][]byte{{}, {0, 0x64, 0xff, 0x9b}, {0, 0x64, 0xff, 0x9b, 0, 1}, {0x20, 0x01, 0, 0}, {0xfe, 0x80}} {
			hidden := six
			copy(hidden[:], prefix)
			if a := netip.AddrFrom16(hidden); placeOf(unmapped(a)) == outside {
				t.Fatalf("%s is outside", a)
			}
		}
		to4 := [16]byte{0x20, 0x02, four[0], four[1], four[2], four[3]}
		if a := netip.AddrFrom16(to4); placeOf(unmapped(a)) != nowhere {
			t.Fatalf("%s is somewhere", a)
		}
		if mapped := netip.AddrFrom16(plain.As16()); placeOf(unmapped(mapped)) != placeOf(plain) {
			t.Fatalf("%s and %s differ", mapped, plain)
		}
		if (plain.IsPrivate() || plain.IsLoopback()) != (placeOf(plain) == within) && !netip.MustParsePrefix("100.64.0.0/10").Contains(plain) {
			t.Fatalf("%s is at %d", plain, placeOf(plain))
		}
		if placeOf(plain) == outside && !plain.IsGlobalUnicast() {
			t.Fatalf("%s is outside", plain)
		}
	})
}

// A name that is at a good address when it is first looked up, and inside afterwards.
func TestRel_S41_ANameThatTurnsInsideIsStopped(t *testing.T) {
	t.Parallel()
	good, inside, port := twoHosts(t)
	names := nameServer(t, []string{"127.0.0.1"}, []string{"127.0.0.2"}, []string{"127.0.0.2", "127.0.0.1"})
	// 127.0.0.1 stands for the outside here.
	client := guarded(&net.Dialer{Resolver: names}, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")})
	transportOf(t, client)
	c := relContract(http.MethodPost)
	c.HTTP.Bearer = &config.Ref{Env: "KEY"}
	tool, err := NewHTTP(c, relEnviron("http://shop.example:"+port), client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Run(t.Context(), Input{}); err != nil || good.Load() != 1 {
		t.Fatalf("the good address: asked %d times, %v", good.Load(), err)
	}
	_, err = tool.Run(t.Context(), Input{})
	f, ok := errors.AsType[*Fault](err)
	if !ok || f.Kind != Network || f.Maybe || f.Transient || strings.Contains(f.Error(), "127.0.0") || strings.Contains(f.Error(), "shop") {
		t.Errorf("%T %v", err, err)
	}
	// Of several addresses only those that are allowed are tried.
	if _, err := tool.Run(t.Context(), Input{}); err != nil || good.Load() != 2 {
		t.Errorf("a bad address beside a good one: asked %d times, %v", good.Load(), err)
	}
	if inside.Load() != 0 {
		t.Errorf("the inside was reached %d times", inside.Load())
	}
}

// twoHosts are servers on one port of 127.0.0.1 and 127.0.0.2, each counting its connections and closing them after one answer.
func twoHosts(t *testing.T) (first, second *atomic.Int32, port string) {
	t.Helper()
	var listeners []net.Listener
	for range 20 {
		one, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if _, port, err = net.SplitHostPort(one.Addr().String()); err != nil {
			t.Fatal(err)
		}
		two, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:"+port)
		if err == nil {
			listeners = []net.Listener{one, two}
			break
		}
		_ = one.Close() // the port is taken on the other address
	}
	if len(listeners) == 0 {
		t.Skip("this machine has no 127.0.0.2")
	}
	counts := [2]atomic.Int32{}
	for i, l := range listeners {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "1")
		}))
		_ = s.Listener.Close()
		s.Listener = l
		s.Config.SetKeepAlivesEnabled(false)
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				counts[i].Add(1)
			}
		}
		s.Start()
		t.Cleanup(s.Close)
	}
	return &counts[0], &counts[1], port
}

// nameServer answers the first question for addresses with the first list, and so on; the last list stays.
func nameServer(t *testing.T, answers ...[]string) *net.Resolver {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return // closed
			}
			reply, asked := dnsReply(buf[:n], answers[0])
			if asked && len(answers) > 1 {
				answers = answers[1:]
			}
			_, _ = conn.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// dnsReply answers a question for IPv4 addresses with them, and any other with nothing (RFC 1035, section 4).
func dnsReply(q []byte, addresses []string) (reply []byte, asked bool) {
	end := 12 // past the header
	for q[end] != 0 {
		end += 1 + int(q[end])
	}
	end += 5 // the root label, type, class
	asked = binary.BigEndian.Uint16(q[end-4:]) == 1
	if !asked {
		addresses = nil
	}
	reply = append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	for _, a := range addresses {
		four := netip.MustParseAddr(a).As4()
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, four[:]...)
		reply[7]++ // the number of answers
	}
	return reply, asked
}

// A client of tools goes nowhere without a tool, and with one nowhere but to its server.
func TestRel_S42_AClientGoesOnlyToItsToolsServer(t *testing.T) {
	t.Parallel()
	port := loopback(t)
	client := NewClient()
	dial := transportOf(t, client).DialContext
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if _, ok := errors.AsType[astrayError](err); !ok {
		t.Errorf("a request of no tool: %v", err)
	}
	for base, allowed := range map[string]bool{"http://127.0.0.1:" + port: true, "http://127.0.0.1:1": false, "http://localhost:" + port: false} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		to, err := serverOf(u)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := dial(context.WithValue(t.Context(), serverKey{}, to), "tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		if _, stopped := errors.AsType[astrayError](err); stopped == allowed || (err == nil) != allowed {
			t.Errorf("from %s: %v", base, err)
		}
	}
}

func relContract(method string) *config.Tool {
	return &config.Tool{Name: "test.tool", Effect: config.Write, HTTP: &config.HTTP{Method: method, Path: "/x", Base: config.Ref{Env: "BASE"}}}
}

func relEnviron(base string) config.Environ {
	return func(name string) (string, bool) {
		v, ok := map[string]string{"BASE": base, "KEY": "s3cret-key-canary"}[name]
		return v, ok
	}
}
