package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// Targets says where events may be sent. Its zero value allows public addresses by https and nothing else.
type Targets struct {
	Simulated bool           // http and loopback are allowed too: nothing is real
	Networks  []netip.Prefix // allowed by the operator although they are not public
}

// ErrTarget is returned for an address that events are not sent to.
var ErrTarget = errors.New("webhook: the address is not public")

// special are networks that are not for talking to the public, by the registries of special-purpose addresses. Of IPv6
// only 2000::/3 is public at all, so that NAT64, unique local, link-local and multicast addresses are outside already.
var special = prefixes(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // carrier-grade NAT
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // where Azure tells its machines their secrets
	"169.254.0.0/16",   // link-local, where clouds tell their secrets
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments
	"192.0.2.0/24",     // documentation
	"192.31.196.0/24",  // AS112
	"192.52.193.0/24",  // AMT
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"192.175.48.0/24",  // AS112
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, and broadcast
	"2001::/23",        // protocol assignments, Teredo and ORCHID among them
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4, which carries any IPv4 address
	"2620:4f:8000::/48",
	"3fff::/20", // documentation
)

var public6 = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Permit returns nil for an address that events may be sent to, and otherwise [ErrTarget].
func (t Targets) Permit(address netip.Addr) error {
	if address.Zone() != "" {
		return fmt.Errorf("%w: %s", ErrTarget, address)
	}
	plain := address.Unmap() // ::ffff:127.0.0.1 is 127.0.0.1
	for _, allowed := range t.Networks {
		if allowed.Contains(plain) {
			return nil
		}
	}
	if t.Simulated && plain.IsLoopback() {
		return nil
	}
	if plain.Is6() && !public6.Contains(plain) {
		return fmt.Errorf("%w: %s", ErrTarget, address)
	}
	for _, network := range special {
		if network.Contains(plain) {
			return fmt.Errorf("%w: %s", ErrTarget, address)
		}
	}
	return nil
}

// control is called for every connection, after the name was resolved and before anything is sent: what a name meant
// earlier does not matter.
func (t Targets) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s", ErrTarget, network)
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrTarget, address)
	}
	return t.Permit(at.Addr())
}

// ports below which only the web's own are allowed: a request must not be made to speak to a mail server.
const portMin = 1024

// Check refuses a URL that shows already that nothing may be sent there. One that it lets through is checked again
// whenever a connection is made.
func (t Targets) Check(text string) error {
	refuse := func(code, format string, args ...any) error {
		return invalid("url", code, fmt.Sprintf(format, args...))
	}
	if text == "" || len(text) > URLMax {
		return refuse("url_length", "must have 1 to %d characters", URLMax)
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' || text[i] == '\\' {
			return refuse("url_wrong", "must be of printable ASCII characters without spaces and backslashes")
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return refuse("url_wrong", "is no URL")
	case u.Scheme != "https" && (u.Scheme != "http" || !t.Simulated):
		return refuse("url_https", "must begin with https://")
	case u.Opaque != "" || u.Hostname() == "":
		return refuse("url_wrong", "must name a host")
	case u.User != nil:
		return refuse("url_wrong", "must not hold a name or a password")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return refuse("url_wrong", "must not have a fragment")
	case strings.HasSuffix(u.Host, ":"):
		return refuse("url_wrong", "must name a port behind the colon, or none")
	}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 || (port < portMin && port != 80 && port != 443) {
			return refuse("url_port", "must have port 443, 80, or one from %d on", portMin)
		}
	}
	return t.checkHost(u.Hostname(), refuse)
}

func (t Targets) checkHost(host string, refuse func(string, string, ...any) error) error {
	if strings.HasPrefix(host, "::") || strings.Contains(host, ":") {
		address, err := netip.ParseAddr(host)
		if err != nil || t.Permit(address) != nil {
			return refuse("url_private", "must name a public address")
		}
		return nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return refuse("url_wrong", "must name a host in letters, digits and hyphens")
		}
	}
	last := labels[len(labels)-1]
	if name == "localhost" || last == "localhost" {
		if t.Permit(netip.AddrFrom4([4]byte{127, 0, 0, 1})) != nil {
			return refuse("url_private", "must name a public address")
		}
		return nil
	}
	// What ends in a number is an address, in whatever notation: 2130706433, 0x7f.1 and 0177.0.0.1 are all 127.0.0.1.
	isNumber := strings.Trim(last, "0123456789") == ""
	if rest, isHex := strings.CutPrefix(last, "0x"); isHex {
		isNumber = strings.Trim(rest, "0123456789abcdef") == ""
	}
	if !isNumber {
		return nil
	}
	address, err := netip.ParseAddr(name) // refuses all notations but four plain decimal numbers
	if err != nil || host != name || t.Permit(address) != nil {
		return refuse("url_private", "must name a public address in plain decimal")
	}
	return nil
}
