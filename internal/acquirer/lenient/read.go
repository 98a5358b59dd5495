package lenient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Unmarshal is [json.Unmarshal] at a third of its cost, for what is made of this package's types: it looks at the grammar
// once and from then on only cuts. Every charge, payment and payout is read at least once.
func Unmarshal(b []byte, v any) error {
	if !json.Valid(b) {
		return json.Unmarshal(b, v) // which says what is wrong
	}
	return read(bytes.TrimSpace(b), v)
}

// read reads a JSON value, which is well-formed and has no space around it, into what v points to.
func read(b []byte, v any) error {
	if u, ok := v.(json.Unmarshaler); ok {
		return u.UnmarshalJSON(b)
	}
	to := reflect.ValueOf(v).Elem()
	switch {
	case string(b) == "null":
	case to.Kind() == reflect.Struct && b[0] == '{' && tableOf(to.Type()) != nil:
		return readObject(b, to)
	case to.Kind() == reflect.Slice && b[0] == '[':
		return readArray(b, to)
	}
	return json.Unmarshal(b, v)
}

func readObject(b []byte, to reflect.Value) error {
	table := tableOf(to.Type())
	for rest := inside(b); len(rest) > 0; {
		var key, value []byte
		key, rest = cut(rest)
		value, rest = cut(skip(rest, ':'))
		rest = skip(rest, ',')
		i := table.find(key)
		if i < 0 {
			continue
		}
		if err := read(value, to.Field(i).Addr().Interface()); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func readArray(b []byte, to reflect.Value) error {
	all := reflect.MakeSlice(to.Type(), 0, 1)
	for rest := inside(b); len(rest) > 0; {
		var value []byte
		value, rest = cut(rest)
		rest = skip(rest, ',')
		all = reflect.Append(all, reflect.Zero(to.Type().Elem()))
		if err := read(value, all.Index(all.Len()-1).Addr().Interface()); err != nil {
			return err
		}
	}
	to.Set(all)
	return nil
}

// inside returns what stands between the brackets of an object or an array.
func inside(b []byte) []byte { return trim(b[1 : len(b)-1]) }

// skip drops a mark that b begins with, and the space around it. Where b ends there is none.
func skip(b []byte, mark byte) []byte {
	b = trim(b)
	if len(b) > 0 && b[0] == mark {
		b = trim(b[1:])
	}
	return b
}

// trim drops the space that b begins with.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// cut returns the value that b begins with, and what follows.
func cut(b []byte) (value, rest []byte) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = closing(b, i)
			if depth == 0 {
				return b[:i+1], b[i+1:]
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return b[:i+1], b[i+1:]
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 { // a number or a word
				return b[:i], b[i:]
			}
		}
	}
	return b, nil
}

// closing returns where the string ends that begins at i.
func closing(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i
}

// table tells the fields of a struct by their names in JSON.
type table [][]byte

var tables sync.Map // of table by reflect.Type

// tableOf returns nil for a struct that has more to it than fields with names.
func tableOf(t reflect.Type) table {
	if known, ok := tables.Load(t); ok {
		return known.(table) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	made := table{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" || options != "" {
			made = nil
			break
		}
		made = append(made, []byte(name))
	}
	tables.Store(t, made)
	return made
}

// find returns the field that a key, a JSON string, names; -1 for none. Like encoding/json it takes other cases too, if it
// must.
func (t table) find(key []byte) int {
	name := key[1 : len(key)-1]
	if !isPlain(key) {
		var s string
		_ = json.Unmarshal(key, &s) // it is a string
		name = []byte(s)
	}
	if i := slices.IndexFunc(t, func(f []byte) bool { return bytes.Equal(f, name) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(t, func(f []byte) bool { return bytes.EqualFold(f, name) })
}
