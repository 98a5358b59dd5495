package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/webhook"
)

// The recipes of docs/webhooks.md say what our own verifier says. Node and Python are run where they are installed.
func TestRecipes(t *testing.T) {
	t.Parallel()
	const secret, body = "whsec_0123456789abcdef", "{\"id\": \"evt_1\", \"n\": 10.50, \"s\": \"çã\"}"
	sent := time.Unix(1763208000, 0)
	good := webhook.Sign(secret, sent, []byte(body))
	cases := []struct {
		header, body, secret string
		later                int
		want                 bool
	}{
		{good, body, secret, 0, true},
		{good, body, secret, 300, true},
		{good, body, secret, -300, true},
		{good, body, secret, 301, false},
		{good, body, secret, -301, false},
		{good, body + " ", secret, 0, false},
		{good, body, secret + "x", 0, false},
		{good, body, strings.TrimPrefix(secret, "whsec_"), 0, false},
		{good + "0", body, secret, 0, false},
		{strings.Replace(good, "t=", "t=1", 1), body, secret, 0, false},
		{"t=1", body, secret, 0, false},
		{"", body, secret, 0, false},
	}
	var want strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&want, "%t\n", c.want)
	}
	for _, language := range []struct{ program, fence, file, call string }{
		{"node", "js", "-", "console.log(verify(%q, Buffer.from(%q), %q, %d));\n"},
		{"python3", "python", "-", "print(str(verify(%q, %q.encode(), %q, %d)).lower())\n"},
	} {
		t.Run(language.program, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(language.program)
			if err != nil {
				t.Skipf("%s is not installed", language.program)
			}
			found := regexp.MustCompile("(?s)```" + language.fence + "\n(.*?)```").FindStringSubmatch(read(t, "docs/webhooks.md"))
			if found == nil {
				t.Fatalf("docs/webhooks.md has no %s", language.fence)
			}
			var script strings.Builder
			script.WriteString(found[1])
			for _, c := range cases {
				fmt.Fprintf(&script, language.call, c.header, c.body, c.secret, sent.Unix()+int64(c.later))
			}
			command := exec.CommandContext(t.Context(), program, language.file)
			command.Stdin = strings.NewReader(script.String())
			out, err := command.CombinedOutput()
			if err != nil || string(out) != want.String() {
				t.Errorf("%v\n%s\nwant\n%s", err, out, want.String())
			}
		})
	}
}
