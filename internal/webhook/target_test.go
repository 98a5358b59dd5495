package webhook_test

import (
	"net/netip"
	"testing"

	"github.com/ponte-pay/ponte/internal/webhook"
)

// hostile are URLs by which somebody tries to make us talk to what is not his. All of them show it by themselves.
var hostile = []string{
	// Addresses of this machine, in every notation that some resolver understands.
	"https://127.0.0.1/", "https://127.1/", "https://127.0.1/", "https://127.255.255.254/hook", "https://2130706433/", "https://017700000001/",
	"https://0177.0.0.1/", "https://0x7f.0.0.1/", "https://0x7f000001/", "https://0x7F.1/", "https://127.0.0.1./", "https://127.0.0.0x1/",
	"https://00127.0.0.1/", "https://0/", "https://0.0.0.0/", "https://[::1]/", "https://[::]/", "https://[0:0:0:0:0:0:0:1]/",
	"https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://shop.localhost/", "https://%6cocalhost/",
	// The same hidden in IPv6.
	"https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[64:ff9b:1::a00:1]/",
	"https://[2002:7f00:1::]/", "https://[2001:0:7f00:1::1]/", "https://[::ffff:10.0.0.1]/", "https://[::ffff:169.254.169.254]/",
	// Clouds' metadata and link-local.
	"https://169.254.169.254/latest/meta-data/", "https://168.63.129.16/machine", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fd00:ec2::254]/", "https://0xa9fea9fe/",
	// Private, shared and special networks.
	"https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.1.1/", "https://100.64.0.1/", "https://100.127.255.255/",
	"https://192.0.0.1/", "https://192.0.2.1/", "https://198.18.0.1/", "https://198.51.100.7/", "https://203.0.113.9/", "https://224.0.0.1/",
	"https://240.0.0.1/", "https://255.255.255.255/", "https://[fc00::1]/", "https://[ff02::1]/", "https://[2001:db8::1]/", "https://[100::1]/",
	// Other protocols, names and passwords, fragments, ports of other services, bytes that parsers read differently.
	"http://shop.example/", "ftp://shop.example/", "file:///etc/passwd", "gopher://shop.example/", "javascript:alert(1)", "//shop.example/", "shop.example/hook",
	"https://", "https:///hook", "https:shop.example", "https://user@shop.example/", "https://user:pass@shop.example/", "https://127.0.0.1@shop.example/",
	"https://shop.example@127.0.0.1/", "https://shop.example#@127.0.0.1/", "https://shop.example/#fragment", "https://shop.example:0/", "https://shop.example:22/",
	"https://shop.example:25/", "https://shop.example:65536/", "https://shop.example:/", "https://shop.example:https/", "https://shop.example:-1/",
	"https://shop.example\\@127.0.0.1/", "https://shop.example/ hook", "https://shop.example/\r\nHost: x", "https://shop.example/\x00", "https://①②⑦.0.0.1/",
	"https://shop..example/", "https://.example/", "https://sh op.example/", "https://shop.example%2f@x/", "https://[::1/", "https://::1/", "",
}

func TestHostileURLs(t *testing.T) {
	t.Parallel()
	if len(hostile) < 60 {
		t.Fatalf("only %d", len(hostile))
	}
	for _, url := range hostile {
		if err := (webhook.Targets{}).Check(url); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
	// With the simulators this machine may be talked to, in plain text too, and nothing else that is not public.
	simulated := webhook.Targets{Simulated: true}
	for url, want := range map[string]bool{
		"http://127.0.0.1:9000/hook": true, "http://localhost:9000/": true, "https://[::1]:9000/": true, "http://shop.example/": true,
		"http://10.0.0.1/": false, "http://169.254.169.254/": false, "http://192.168.0.1/": false, "http://[fe80::1]/": false, "http://100.64.0.1/": false,
		"http://2130706433/": false, "http://127.1/": false, "http://user@127.0.0.1/": false, "http://127.0.0.1:22/": false,
	} {
		if err := simulated.Check(url); (err == nil) != want {
			t.Errorf("with simulators %s: %v", url, err)
		}
	}
	for _, url := range []string{
		"https://shop.example/hook", "https://shop.example:8443/a?b=c", "https://shop.example:443", "https://8.8.8.8/", "https://[2606:4700::1111]/",
		"https://xn--bcher-kva.example/", "https://a_b.example./", "https://3com.example/", "https://0xcafe.example/",
	} {
		if err := (webhook.Targets{}).Check(url); err != nil {
			t.Errorf("%s is refused: %v", url, err)
		}
	}
}

func TestPermit(t *testing.T) {
	t.Parallel()
	open := webhook.Targets{Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}}
	for _, test := range []struct {
		targets webhook.Targets
		address string
		want    bool
	}{
		{webhook.Targets{}, "8.8.8.8", true},
		{webhook.Targets{}, "::ffff:8.8.8.8", true},
		{webhook.Targets{}, "2606:4700::1111", true},
		{webhook.Targets{}, "fe80::1%eth0", false},
		{webhook.Targets{}, "2606:4700::1111%eth0", false},
		{webhook.Targets{}, "10.1.2.3", false},
		{open, "10.1.2.3", true},
		{open, "::ffff:10.1.2.3", true},
		{open, "10.2.0.1", false},
		{open, "fd00:1::5", true},
		{open, "127.0.0.1", false},
		{webhook.Targets{Simulated: true}, "127.0.0.1", true},
		{webhook.Targets{Simulated: true}, "::ffff:127.0.0.1", true},
		{webhook.Targets{Simulated: true}, "10.1.2.3", false},
	} {
		if err := test.targets.Permit(netip.MustParseAddr(test.address)); (err == nil) != test.want {
			t.Errorf("%s: %v", test.address, err)
		}
	}
}
