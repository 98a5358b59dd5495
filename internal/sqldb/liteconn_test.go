package sqldb

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type (
	named string
	small int32
	flag  bool
)

// Whatever is given to SQLite comes back.
func TestLiteValues(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	text, count, none, noText := "text", int64(-1)<<62, (*int64)(nil), (*string)(nil)
	large := strings.Repeat("é", roomMax)
	args := []any{
		text, "", large, &text, noText, named("named"),
		[]byte{0, 1},
		[]byte(nil),
		[]byte{},
		bytes.Repeat([]byte{7}, roomMin),
		count, 7, small(-7), &count, none, true, false, flag(true), nil,
	}
	var places []string
	for i := range args {
		places = append(places, "$"+strconv.Itoa(i+1))
	}
	for range 2 { // also when the statement and its room are there already
		var got struct {
			text, empty, large, pointed string
			noText                      *string
			named                       named
			bytes, none, nothing, many  []byte
			count                       int64
			seven                       int
			number                      *small
			copied, absent              *int64
			yes, no                     bool
			flag                        flag
			null                        any
		}
		scan := func(r Row) (struct{}, error) {
			return struct{}{}, r.Scan(&got.text, &got.empty, &got.large, &got.pointed, &got.noText, &got.named, &got.bytes, &got.none, &got.nothing, &got.many,
				&got.count, &got.seven, &got.number, &got.copied, &got.absent, &got.yes, &got.no, &got.flag, &got.null)
		}
		if _, err := One(t.Context(), l.db, scan, `SELECT `+strings.Join(places, ", "), args...); err != nil {
			t.Fatal(err)
		}
		switch {
		case got.text != text, got.empty != "", got.large != large, got.pointed != text, got.noText != nil, got.named != "named",
			!bytes.Equal(got.bytes, []byte{0, 1}), got.none != nil, got.nothing == nil, len(got.nothing) != 0, len(got.many) != roomMin,
			got.count != count, got.seven != 7, *got.number != -7, *got.copied != count, got.absent != nil, !got.yes, got.no, !bool(got.flag),
			got.null != nil:
			t.Errorf("got %+v", got)
		}
	}
	if size := l.db.d.(*liteDriver).readers.idle[0].size; size <= roomMax {
		t.Errorf("room of %d bytes, although more was needed", size)
	}
	if _, err := One(t.Context(), l.db, Scalar[int64], `SELECT $1`, 1); err != nil {
		t.Error(err)
	}
	if size := l.db.d.(*liteDriver).readers.idle[0].size; size > roomMax {
		t.Errorf("room of %d bytes is kept", size)
	}
}

// What SQLite would accept and PostgreSQL would not, or what means a defect, is refused.
func TestLiteRefuses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	ask := func(scan func(Row) error, sql string, args ...any) error {
		_, err := One(ctx, l.db, func(r Row) (struct{}, error) { return struct{}{}, scan(r) }, sql, args...)
		return err
	}
	var text string
	var small int8
	nothing := func(Row) error { return nil }
	got := map[string]error{
		"too few arguments":         ask(nothing, `SELECT $1, $2`, 1),
		"an argument of no kind":    ask(nothing, `SELECT $1`, struct{}{}),
		"a fraction":                ask(nothing, `SELECT $1`, 0.5),
		"a time":                    ask(nothing, `SELECT $1`, time.Unix(0, 0)),
		"text with a NUL":           ask(nothing, `SELECT $1`, named("\x00")),
		"text of no characters":     ask(nothing, `SELECT $1`, "\xff"),
		"another kind of parameter": ask(nothing, `SELECT :name`, 1),
		"two statements":            ask(nothing, `SELECT 1; SELECT 2`),
		"no statement":              ask(nothing, ` -- nothing`),
		"too few variables":         ask(func(r Row) error { return r.Scan(&text) }, `SELECT 'a', 'b'`),
		"NULL for a string":         ask(func(r Row) error { return r.Scan(&text) }, `SELECT NULL`),
		"a number for a string":     ask(func(r Row) error { return r.Scan(&text) }, `SELECT 1`),
		"too large a number":        ask(func(r Row) error { return r.Scan(&small) }, `SELECT 128`),
		"no variable":               ask(func(r Row) error { return r.Scan(text) }, `SELECT 'a'`),
		"a write":                   ask(nothing, `DELETE FROM note RETURNING who`),
	}
	for what, err := range got {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if !errors.Is(got["a write"], errReadOnly) || !errors.Is(got["text with a NUL"], errText) {
		t.Errorf("got %v and %v", got["a write"], got["text with a NUL"])
	}
	if n, err := One(ctx, l.db, Scalar[int64], `SELECT $1 + $1 + $2`, 1, 2); n != 4 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// Who comes after the end is told that nothing happened.
func TestLiteClosed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if err := write(l.db, "before"); err != nil {
		t.Fatal(err)
	}
	l.db.Close()
	_, readErr := One(t.Context(), l.db, Scalar[int64], `SELECT 1`)
	told := map[string]error{
		"ask":    write(l.db, "after"),
		"list":   l.db.Write(t.Context(), func(ctx context.Context, tx *Tx) error { tx.Queue(ctx, insertNote, "after"); return nil }),
		"script": l.db.Write(t.Context(), func(ctx context.Context, tx *Tx) error { return tx.Script(ctx, `DELETE FROM note`) }),
		"read":   readErr,
	}
	for what, err := range told {
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.db.Close() // again
	if diff := cmp.Diff([]string{"before"}, l.durable()); diff != "" {
		t.Errorf("durable (-want +got):\n%s", diff)
	}
}
