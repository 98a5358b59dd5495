// Package plainjsontest holds what is written by hand against encoding/json.
package plainjsontest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Encode writes v as encoding/json does, with <, > and & as they are.
func Encode(tb testing.TB, v any) string {
	tb.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		tb.Fatal(err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte{'\n'}))
}

// Check fails unless the text is that of v.
func Check(tb testing.TB, got []byte, err error, v any) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	if diff := cmp.Diff(Encode(tb, v), string(got)); diff != "" {
		tb.Errorf("(-want +got)\n%s", diff)
	}
}
