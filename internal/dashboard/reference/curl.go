package reference

import (
	"net/http"
	"net/url"
	"strings"
)

// curl is a command line that makes one call.
type curl struct {
	method  string
	path    string
	keyless bool
	query   []string
	headers []string
	body    string // JSON; "" for none
}

// set gives a parameter its value.
func (c *curl) set(in, name, value string) {
	switch in {
	case "path":
		c.path = strings.ReplaceAll(c.path, "{"+name+"}", url.PathEscape(value))
	case "query":
		c.query = append(c.query, url.QueryEscape(name)+"="+url.QueryEscape(value))
	case "header":
		c.headers = append(c.headers, name+": "+value)
	}
}

// String returns the line, cut into several by what a shell puts together again.
func (c *curl) String() string {
	address := BaseURL + c.path
	if len(c.query) > 0 {
		address += "?" + strings.Join(c.query, "&")
	}
	byItself := http.MethodGet // what curl chooses
	if c.body != "" {
		byItself = http.MethodPost
	}
	parts := []string{"curl " + shell(address)}
	if c.method != byItself {
		parts[0] = "curl -X " + c.method + " " + shell(address)
	}
	if !c.keyless {
		parts = append(parts, "-H "+shell("Authorization: Bearer "+Key))
	}
	for _, h := range c.headers {
		parts = append(parts, "-H "+shell(h))
	}
	if c.body != "" {
		parts = append(parts, "-H "+shell("Content-Type: application/json"), "-d "+shell(c.body))
	}
	return strings.Join(parts, " \\\n  ")
}

// shell quotes a text for a shell.
func shell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
