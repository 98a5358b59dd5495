package wire

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadBody(t *testing.T) {
	t.Parallel()
	const bytesMax = 5
	for _, tt := range []struct {
		text   string
		length int64
		want   string
		fails  bool
	}{
		{"four\n", 5, "four", true},
		{"four", 4, "four", false},
		{"four", -1, "four", false},
		{"", 0, "", false},
		{"", -1, "", false},
		{"four", 2, "four", false}, // said by who did not know
		{"fou", 4, "fou", false},
		{"", 4, "", false},
		{"fours", 4, "fours", false},
		{"more than", 9, "more t", false}, // one byte more than it may have
		{"more than", 2, "more t", false},
		{"more than", -1, "more t", false},
	} {
		text, breaks := strings.CutSuffix(tt.text, "\n")
		var in io.Reader = strings.NewReader(text)
		if breaks {
			in = io.MultiReader(in, iotest.ErrReader(io.ErrUnexpectedEOF))
		}
		got, err := ReadBody(in, tt.length, bytesMax)
		if string(got) != tt.want || (err != nil) != tt.fails {
			t.Errorf("%q of %d: got %q, %v", tt.text, tt.length, got, err)
		}
	}
}
