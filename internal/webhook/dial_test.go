package webhook_test

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/ponte-pay/ponte/internal/webhook"
)

// rebind is a name server that answers every question with the next of its addresses.
func rebind(t *testing.T, addresses ...[4]byte) string {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if m.Questions[0].Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: addresses[0]},
				}}
				if len(addresses) > 1 {
					addresses = addresses[1:]
				}
			}
			answer, err := m.Pack()
			if err == nil {
				_, _ = socket.WriteTo(answer, from)
			}
		}
	}()
	return socket.LocalAddr().String()
}

// A name is checked for what it means when the connection is made, whatever it meant before.
func TestRebinding(t *testing.T) {
	t.Parallel()
	r := receive(t, http.StatusOK)
	_, port, err := net.SplitHostPort(r.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	url := "http://shop.example:" + port + "/"
	for _, targets := range []webhook.Targets{{}, {Simulated: true}} {
		names := rebind(t, [4]byte{127, 0, 0, 1})
		err := webhook.Fetch(t.Context(), targets, names, url)
		if targets.Simulated != (err == nil) || (!targets.Simulated && !errors.Is(err, webhook.ErrTarget)) {
			t.Errorf("simulated %t: %v", targets.Simulated, err)
		}
	}
	for _, address := range [][4]byte{{10, 0, 0, 1}, {169, 254, 169, 254}, {100, 64, 1, 1}, {0, 0, 0, 0}, {192, 168, 0, 1}} {
		if err := webhook.Fetch(t.Context(), webhook.Targets{Simulated: true}, rebind(t, address), url); !errors.Is(err, webhook.ErrTarget) {
			t.Errorf("%v: %v", address, err)
		}
	}
	if len(r.got()) != 1 {
		t.Errorf("%d requests arrived", len(r.got()))
	}
}

// No proxy of the environment is used: it would be asked to connect where we may not.
func TestNoProxy(t *testing.T) {
	proxy := receive(t, http.StatusOK)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	_ = webhook.Fetch(t.Context(), webhook.Targets{}, rebind(t, [4]byte{127, 0, 0, 1}), "http://shop.example:9/")
	if len(proxy.got()) != 0 {
		t.Error("a proxy was used")
	}
}
