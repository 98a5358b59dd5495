package reference

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parameter returns a parameter or a header as a field.
func (b *builder) parameter(name string, p *parameter) (Field, error) {
	s, err := b.d.schema(p.Schema)
	if err != nil {
		return Field{}, err
	}
	f := field(name, s)
	f.In, f.Required = p.In, p.Required
	if p.Description != "" {
		f.Text = markdown(p.Description)
	}
	switch {
	case !p.Example.IsZero():
		f.Example = p.Example.Value
	case len(p.Examples) > 0:
		f.Example = p.Examples[0].Value.Value.Value
	}
	return f, nil
}

// field returns what a schema itself says.
func field(name string, s *schema) Field {
	f := Field{
		Name: name, Type: strings.Join(s.Type, " | "), Text: markdown(s.Description), Pattern: s.Pattern,
		Above: s.ExclusiveMinimum.Value, Min: s.Minimum.Value, Max: s.Maximum.Value, Length: length(s), Default: s.Default.Value,
	}
	if s.Format != "" {
		f.Type = strings.Replace(f.Type, "string", s.Format, 1)
	}
	for i := range s.Enum {
		f.Enum = append(f.Enum, s.Enum[i].Value)
	}
	if !s.Example.IsZero() {
		f.Example = strings.Trim(encode(&s.Example), `"`)
	}
	return f
}

// length returns how many characters a text may have; "" if it does not matter.
func length(s *schema) string {
	switch {
	case s.MaxLength == 0 && s.MinLength == 0:
		return ""
	case s.MaxLength == 0:
		return "≥ " + strconv.Itoa(s.MinLength)
	case s.MinLength == 0:
		return "≤ " + strconv.Itoa(s.MaxLength)
	}
	return strconv.Itoa(s.MinLength) + "–" + strconv.Itoa(s.MaxLength)
}

// object adds a schema and what it holds to the objects of the page, unless they are there.
func (b *builder) object(name string) error {
	if slices.ContainsFunc(b.page.Objects, func(o Object) bool { return o.Name == name }) {
		return nil
	}
	s, ok := b.d.Components.Schemas.find(name)
	if !ok {
		return fmt.Errorf("there is no schema %s", name)
	}
	at := len(b.page.Objects)
	b.page.Objects = append(b.page.Objects, Object{Name: name, Text: markdown(s.Description)})
	fields, err := b.fields("", s)
	b.page.Objects[at].Fields = fields
	return err
}

// shape is a schema's fields, its parts put together.
type shape struct {
	properties ordered[*schema]
	required   []string
	anyOf      [][]string // of each group one is required
}

func (b *builder) shape(s *schema) (all shape, err error) {
	s, err = b.d.schema(s)
	if err != nil {
		return shape{}, err
	}
	for _, p := range s.Properties {
		v, err := b.d.schema(p.Value)
		if err != nil {
			return shape{}, err
		}
		all.set(p.Name, v)
	}
	all.required = append(all.required, s.Required...)
	for _, part := range s.AllOf {
		more, err := b.shape(part)
		if err != nil {
			return shape{}, err
		}
		for _, p := range more.properties {
			all.set(p.Name, p.Value)
		}
		all.required = append(all.required, more.required...)
		all.anyOf = append(all.anyOf, more.anyOf...)
	}
	var alternatives []string
	for _, part := range s.AnyOf {
		alternatives = append(alternatives, part.Required...)
	}
	if len(alternatives) > 0 {
		all.anyOf = append(all.anyOf, alternatives)
	}
	return all, nil
}

// set adds a property, or lets it say more about one that is there.
func (s *shape) set(name string, v *schema) {
	for i, p := range s.properties {
		if p.Name != name {
			continue
		}
		merged := *v
		if merged.Description == "" {
			merged.Description = p.Value.Description
		}
		if merged.Example.IsZero() {
			merged.Example = p.Value.Example
		}
		s.properties[i].Value = &merged
		return
	}
	s.properties = append(s.properties, entry[*schema]{name, v})
}

// choices returns the names of which one is required. A group of which only one name is a field's, the others being other
// spellings of it, makes that one required.
func (s *shape) choices() (oneOf []string) {
	for _, group := range s.anyOf {
		group = slices.DeleteFunc(slices.Clone(group), func(name string) bool { _, ok := s.properties.find(name); return !ok })
		if len(group) == 1 {
			s.required = append(s.required, group[0])
		} else {
			oneOf = append(oneOf, group...)
		}
	}
	return oneOf
}

// fields returns the fields of an object, each followed by those inside it.
func (b *builder) fields(inside string, s *schema) (all []Field, err error) {
	shape, err := b.shape(s)
	if err != nil {
		return nil, err
	}
	oneOf := shape.choices()
	for _, p := range shape.properties {
		f := field(inside+p.Name, p.Value)
		f.Required, f.OneOf = slices.Contains(shape.required, p.Name), slices.Contains(oneOf, p.Name)
		nested, err := b.nested(&f, p.Value)
		if err != nil {
			return nil, err
		}
		all = append(append(all, f), nested...)
	}
	return all, nil
}

// nested returns the fields inside a field. An object with a name is shown on its own, and the field points to it.
func (b *builder) nested(f *Field, s *schema) ([]Field, error) {
	inside, many := f.Name+".", ""
	if s.Items != nil {
		items, err := b.d.schema(s.Items)
		if err != nil {
			return nil, err
		}
		s, inside, many = items, f.Name+"[].", "[]"
		f.Type = strings.Replace(f.Type, "array", firstOf(items.Type)+"[]", 1)
	}
	if len(s.Properties) == 0 && len(s.AllOf) == 0 {
		return nil, nil
	}
	if s.Ref != "" {
		f.Object, f.Type = refName(s.Ref), refName(s.Ref)+many
		f.Example = ""
		return nil, b.object(f.Object)
	}
	return b.fields(inside, s)
}

func firstOf(k kinds) string {
	if len(k) == 0 {
		return "any"
	}
	return k[0]
}

// encode returns a value as JSON, its numbers with the digits they were written with and its fields in their order.
func encode(node *yaml.Node) string {
	var b strings.Builder
	write(&b, node, "\n")
	return b.String()
}

func write(b *strings.Builder, node *yaml.Node, newline string) {
	open, end, step := "{", "}", 2
	if line, ok := oneLine(node); ok {
		b.WriteString(line)
		return
	}
	switch node.Kind {
	case yaml.ScalarNode:
		if node.Tag == "!!str" || node.Tag == "!!timestamp" {
			b.WriteString(quote(node.Value))
		} else {
			b.WriteString(node.Value)
		}
		return
	case yaml.SequenceNode:
		open, end, step = "[", "]", 1
	case yaml.DocumentNode, yaml.MappingNode, yaml.AliasNode:
	}
	b.WriteString(open)
	deeper := newline + "  "
	for i := 0; i+step <= len(node.Content); i += step {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(deeper)
		if step == 2 {
			b.WriteString(quote(node.Content[i].Value) + ": ")
		}
		write(b, node.Content[i+step-1], deeper)
	}
	if len(node.Content) > 0 {
		b.WriteString(newline)
	}
	b.WriteString(end)
}

// lineMax is the length up to which a flat object stands in one line.
const lineMax = 60

// oneLine returns an object that holds nothing but scalars in one line, if it fits.
func oneLine(node *yaml.Node) (string, bool) {
	if node.Kind != yaml.MappingNode {
		return "", false
	}
	var b strings.Builder
	for i, n := range node.Content {
		switch {
		case n.Kind != yaml.ScalarNode:
			return "", false
		case i == 0:
			b.WriteString("{")
		case i%2 == 0:
			b.WriteString(", ")
		default:
			b.WriteString(": ")
		}
		write(&b, n, "")
	}
	b.WriteString("}")
	return b.String(), b.Len() > 1 && b.Len() <= lineMax
}

// quote returns a text as JSON. It can hold every character: they are shown in a page, not run by it.
func quote(s string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return `""` // never: a text always can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}
