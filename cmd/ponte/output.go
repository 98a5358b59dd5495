package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

// print writes v as JSON with --json, and otherwise the lines for people.
func (e *env) print(v any, lines ...string) error {
	if e.json {
		return e.printJSON(v)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(e.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) printJSON(v any) error {
	encoder := json.NewEncoder(e.stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// table lays rows out in columns.
func table(header string, rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(header, " ", "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
	return strings.TrimSuffix(b.String(), "\n")
}

// timestamp writes a moment as the API does; "" for none.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return clock.Timestamp(t)
}
