package lenient

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Unmarshal is [json.Unmarshal] at a third of its cost, for what is made of this package's types: it looks at everything
// once. Every charge, payment and payout is read at least once. When it fails, v may be half written.
func Unmarshal(b []byte, v any) error {
	rest, err := read(trim(b), v, depthMax)
	if rest == nil || len(trim(rest)) > 0 {
		return json.Unmarshal(b, v) // which says what is malformed
	}
	return err
}

// reader is a type of this package. It reads itself from where its value begins, and returns the rest that follows: nil
// for what is malformed, whatever the error.
type reader interface {
	read(b []byte, depth int) (rest []byte, err error)
}

// unmarshal is how encoding/json reads a type of this package: from all of b.
func unmarshal(b []byte, r reader) error {
	_, err := r.read(b, depthMax)
	return err
}

// read reads into what v points to.
func read(b []byte, v any, depth int) (rest []byte, err error) {
	if r, ok := v.(reader); ok {
		return r.read(b, depth)
	}
	to := reflect.ValueOf(v).Elem()
	_, isOwn := v.(json.Unmarshaler)
	switch {
	case isOwn:
	case to.Kind() == reflect.Struct && first(b) == '{':
		if names := namesOf(to.Type()); names != nil {
			return readObject(b, to, names, depth)
		}
	case to.Kind() == reflect.Slice && first(b) == '[' && to.Cap() == 0: // otherwise items are read over those that it has
		return readArray(b, to, depth)
	}
	value, rest := cut(b, depth)
	return rest, json.Unmarshal(value, v)
}

// readObject is skipObject for who wants its values. Like encoding/json it goes on behind an error.
func readObject(b []byte, to reflect.Value, names names, depth int) (rest []byte, err error) {
	rest = skipOpening(b, depth)
	for hasMore(rest, '}') {
		var key []byte
		key, rest = cutKey(rest)
		if i := names.find(key); i < 0 {
			rest = skipValue(rest, depth-1)
		} else {
			var failure error
			rest, failure = read(rest, to.Field(i).Addr().Interface(), depth-1)
			if failure != nil && err == nil {
				err = fmt.Errorf("%s: %w", key, failure)
			}
		}
		rest = skipComma(rest, '}')
	}
	return skipMark(rest, '}'), err
}

// readArray is skipArray for who wants its values.
func readArray(b []byte, to reflect.Value, depth int) (rest []byte, err error) {
	all := reflect.MakeSlice(to.Type(), 0, 1)
	rest = skipOpening(b, depth)
	for hasMore(rest, ']') {
		var failure error
		all = reflect.Append(all, reflect.Zero(to.Type().Elem()))
		rest, failure = read(rest, all.Index(all.Len()-1).Addr().Interface(), depth-1)
		err = cmp.Or(err, failure)
		rest = skipComma(rest, ']')
	}
	to.Set(all)
	return skipMark(rest, ']'), err
}

// names are those of a struct's fields in JSON, with their quotes.
type names [][]byte

var structs sync.Map // of names by reflect.Type

// namesOf returns nil for a struct that has more to it than fields with plain names.
func namesOf(t reflect.Type) names {
	if known, ok := structs.Load(t); ok {
		return known.(names) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	made := names{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		quoted := []byte(`"` + name + `"`)
		_, _, isPlain := cutPlain(quoted)
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" || options != "" || !isPlain {
			made = nil
			break
		}
		made = append(made, quoted)
	}
	structs.Store(t, made)
	return made
}

// find returns the field that a key names; -1 for none. Like encoding/json it takes other cases too, if it must.
func (n names) find(key []byte) int {
	if i := n.index(key, bytes.Equal); i >= 0 {
		return i
	}
	if _, _, ok := cutPlain(key); ok {
		return n.index(key, isOtherCase)
	}
	var s string
	_ = json.Unmarshal(key, &s) // it is a string
	key = []byte(`"` + s + `"`)
	if i := n.index(key, bytes.Equal); i >= 0 {
		return i
	}
	return n.index(key, bytes.EqualFold)
}

// isOtherCase is [bytes.EqualFold] for ASCII, in which no case is longer than the other.
func isOtherCase(a, b []byte) bool { return len(a) == len(b) && bytes.EqualFold(a, b) }

func (n names) index(key []byte, same func(a, b []byte) bool) int {
	for i, name := range n {
		if same(name, key) {
			return i
		}
	}
	return -1
}
