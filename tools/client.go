package tools

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// The bounds of a connection. What a call may take as a whole is the caller's to say, by its context.
const (
	connectWithin = 30 * time.Second // of a dial, and of a TLS handshake; a dial may outlive the call that began it
	maxHeader     = 64 << 10         // bytes of an answer's header
)

// NewClient gives a client fit for all http tools of a process. It follows no redirect, keeps no cookie, uses no proxy and
// refuses long headers. It has no timeout of its own: the context of a call bounds the call.
//
// It goes nowhere but to the server of the tool that asks, and looks at the address of every connection after the name
// was resolved and before anything is sent, so that a name which points inside today and not yesterday is refused too:
//
//   - a base that is an IP address, such as http://10.1.2.3:8080, reaches that address, wherever it is;
//   - a base whose name is of the inside (no dot, or under local, internal, lan, localhost, home.arpa) reaches private,
//     shared and loopback addresses beside public ones, but none where a cloud keeps its machines' keys;
//   - any other name reaches public addresses only.
//
// Addresses in nets are allowed to every tool's own server, by any name. They are the operator's to give.
func NewClient(nets ...netip.Prefix) *http.Client {
	return guarded(&net.Dialer{Timeout: connectWithin, KeepAlive: 30 * time.Second}, nets)
}

func guarded(dialer *net.Dialer, nets []netip.Prefix) *http.Client {
	dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		to, _ := ctx.Value(serverKey{}).(server)
		at, err := netip.ParseAddrPort(address)
		if err != nil || !to.reaches(at.Addr(), nets) {
			return astrayError("the server's name leads to an address that this tool may not reach")
		}
		return nil
	}
	return &http.Client{
		CheckRedirect: stay,
		Transport: &http.Transport{
			// A proxy would dial in our place, and nobody would look at the address.
			Proxy: nil,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if to, _ := ctx.Value(serverKey{}).(server); to.address != address {
					return nil, astrayError("the request would leave the tool's server")
				}
				return dialer.DialContext(ctx, network, address)
			},
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    connectWithin,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           64,
			MaxIdleConnsPerHost:    32,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxHeader,
		},
	}
}

// stay keeps a client where it is: a redirect would carry keys to another host.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// astrayError says why a connection was not made. It names no address: the text may come before people.
type astrayError string

func (s astrayError) Error() string { return string(s) }

// server is where the requests of one tool may go. The zero value goes nowhere.
type server struct {
	address string     // host:port, as a client dials it
	own     netip.Addr // the host, where it is an IP address
	inside  bool       // the host's name is of the inside
}

// serverKey finds the server of a request in its context. The transport hands the context's values on to the dial, and
// connections are shared only between requests to the same host and port, for which the same rules hold.
type serverKey struct{}

// serverOf takes the server from a base address. It refuses hosts that different resolvers read differently.
func serverOf(u *url.URL) (server, error) {
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	s := server{address: net.JoinHostPort(host, port)}
	if own, err := netip.ParseAddr(host); err == nil {
		s.own = unmapped(own)
		return s, nil
	}
	if strings.ContainsFunc(host, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return server{}, errors.New("holds a host with characters beyond ASCII; write the name in its xn-- form")
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	// Some resolvers read 127.1, 0x7f.1 or 2130706433 as IP addresses. No top-level name is a number.
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return server{}, errors.New("holds a host that reads as a number; write an IP address in full, like 10.1.2.3")
	}
	switch {
	case last == name: // no dot
		s.inside = true
	case last == "local" || last == "internal" || last == "lan" || last == "localhost" || strings.HasSuffix(name, ".home.arpa"):
		s.inside = true
	}
	return s, nil
}

// reaches says whether the server may stand at an address.
func (s server) reaches(at netip.Addr, nets []netip.Prefix) bool {
	at = unmapped(at)
	if s.address == "" {
		return false
	}
	for _, n := range nets {
		if n.Contains(at) {
			return true
		}
	}
	switch placeOf(at) {
	case outside:
		return true
	case within:
		return s.inside || s.own == at
	default:
		return s.own == at
	}
}

// unmapped gives one form to the addresses that are the same for a dial.
func unmapped(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// place is where an address lies.
type place int

const (
	nowhere place = iota // of no use to a tool, or a trap: link-local, multicast, reserved, translated, a cloud's own
	within               // private, shared or loopback
	outside              // the public internet
)

// placeOf tells where an unmapped address lies: the first prefix of the list that holds it decides.
//
// The lists are IANA's special-purpose registries, https://www.iana.org/assignments/iana-ipv4-special-registry and
// https://www.iana.org/assignments/iana-ipv6-special-registry, and the addresses at which clouds hand out the keys of
// their machines. What is allocated to nobody is nowhere: IPv6 is outside in 2000::/3 only.
func placeOf(a netip.Addr) place {
	for _, n := range []struct {
		in     place
		prefix string
	}{
		// Where clouds answer their machines, beside link-local addresses:
		{nowhere, "100.100.100.200/32"}, // Alibaba Cloud: https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
		{nowhere, "168.63.129.16/32"},   // Azure: https://learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16
		{nowhere, "fd00:ec2::/32"},      // AWS: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
		{nowhere, "fd20:ce::254/128"},   // Google Cloud: https://cloud.google.com/compute/docs/metadata/querying-metadata

		{within, "10.0.0.0/8"},
		{within, "172.16.0.0/12"},
		{within, "192.168.0.0/16"},
		{within, "127.0.0.0/8"},
		{within, "100.64.0.0/10"}, // shared: carrier NAT, private overlays
		{nowhere, "0.0.0.0/8"},    // 0.0.0.0 reaches this machine
		{nowhere, "169.254.0.0/16"},
		{nowhere, "192.0.0.0/24"},
		{nowhere, "192.0.2.0/24"},
		{nowhere, "192.88.99.0/24"}, // 6to4 relays
		{nowhere, "198.18.0.0/15"},  // benchmarks
		{nowhere, "198.51.100.0/24"},
		{nowhere, "203.0.113.0/24"},
		{nowhere, "224.0.0.0/3"}, // multicast, reserved, broadcast
		{outside, "0.0.0.0/0"},

		{within, "::1/128"},
		{within, "fc00::/7"},
		{nowhere, "2001::/23"}, // Teredo and other protocols
		{nowhere, "2001:db8::/32"},
		{nowhere, "2002::/16"}, // 6to4: an IPv4 address inside
		{nowhere, "3fff::/20"},
		{outside, "2000::/3"}, // all else is nowhere: ::, NAT64 64:ff9b::/96, fe80::/10, ff00::/8, …
	} {
		if netip.MustParsePrefix(n.prefix).Contains(a) {
			return n.in
		}
	}
	return nowhere
}
