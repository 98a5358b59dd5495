package reference

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is what the pages need of an OpenAPI document. Maps keep the order in which they were written, because that is
// the order in which people want to read.
type document struct {
	Info struct {
		Title       string
		Version     string
		Summary     string
		Description string // Markdown
	}
	Servers    []struct{ URL string }
	Tags       []tag
	Paths      ordered[item]
	Webhooks   ordered[item] // by event type
	Components struct {
		Parameters ordered[*parameter]
		Headers    ordered[*parameter]
		Schemas    ordered[*schema]
		Responses  ordered[*response]
		Examples   ordered[*example]
	}
}

type tag struct {
	Name        string
	Description string // Markdown
	Reserved    bool   `yaml:"x-reserved"`
}

// families returns what has paths of its own below a tag, as charges has /crypto/charges and /crypto/charges/{id} below crypto.
func (d *document) families(tag string) (all []string) {
	for _, path := range d.Paths {
		rest, ok := strings.CutPrefix(path.Name, "/"+tag+"/")
		family, _, more := strings.Cut(rest, "/")
		if ok && more && !slices.Contains(all, family) {
			all = append(all, family)
		}
	}
	return all
}

// item is what there is at a path.
type item struct{ operations ordered[*operation] } // by method

// UnmarshalYAML implements [yaml.Unmarshaler]. Parameters of the path are given to each operation.
func (i *item) UnmarshalYAML(node *yaml.Node) error {
	var shared []*parameter
	var methods ordered[yaml.Node]
	if err := node.Decode(&methods); err != nil {
		return err
	}
	for _, m := range methods {
		var o operation
		var err error
		if m.Name == "parameters" {
			err = m.Value.Decode(&shared)
		} else if err = m.Value.Decode(&o); err == nil {
			o.Parameters = append(slices.Clone(shared), o.Parameters...)
			i.operations = append(i.operations, entry[*operation]{m.Name, &o})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type operation struct {
	OperationID string `yaml:"operationId"`
	Tags        []string
	Summary     string
	Description string      // Markdown
	Scopes      []yaml.Node `yaml:"x-scopes"` // each a scope, or a list of scopes that are needed together
	Security    yaml.Node   // an empty list means that no key is needed
	Reserved    bool        `yaml:"x-reserved"`
	Parameters  []*parameter
	RequestBody *struct {
		Content ordered[*media]
	} `yaml:"requestBody"`
	Responses ordered[*response]
}

// parameter is a parameter or a header.
type parameter struct {
	Ref         string `yaml:"$ref"`
	Name        string
	In          string
	Required    bool
	Description string // Markdown
	Schema      *schema
	Example     yaml.Node
	Examples    ordered[*example]
}

type response struct {
	Ref         string `yaml:"$ref"`
	Description string // Markdown
	Headers     ordered[*parameter]
	Content     ordered[*media]
}

type media struct {
	Schema   *schema
	Examples ordered[*example]
}

type example struct {
	Ref     string `yaml:"$ref"`
	Summary string
	Value   yaml.Node
}

type schema struct {
	Ref              string `yaml:"$ref"`
	Type             kinds
	Format           string
	Pattern          string
	Description      string // Markdown
	Enum             []yaml.Node
	Default          yaml.Node
	Example          yaml.Node
	Minimum          yaml.Node
	Maximum          yaml.Node
	ExclusiveMinimum yaml.Node `yaml:"exclusiveMinimum"`
	MinLength        int       `yaml:"minLength"`
	MaxLength        int       `yaml:"maxLength"`
	Required         []string
	Properties       ordered[*schema]
	Items            *schema
	AllOf            []*schema `yaml:"allOf"`
	AnyOf            []*schema `yaml:"anyOf"`
}

// kinds is a schema's type, or its types.
type kinds []string

// UnmarshalYAML implements [yaml.Unmarshaler].
func (k *kinds) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*k = kinds{node.Value}
		return nil
	}
	return node.Decode((*[]string)(k))
}

// ordered is a map that keeps its order.
type ordered[T any] []entry[T]

type entry[T any] struct {
	Name  string
	Value T
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (o *ordered[T]) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want a map", node.Line)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		e := entry[T]{Name: node.Content[i].Value}
		if err := node.Content[i+1].Decode(&e.Value); err != nil {
			return err
		}
		*o = append(*o, e)
	}
	return nil
}

func (o ordered[T]) find(name string) (v T, ok bool) {
	for _, e := range o {
		if e.Name == name {
			return e.Value, true
		}
	}
	return v, false
}

// refName returns the last part of a reference into components.
func refName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// component returns what a reference points to. A document that points to nothing is broken.
func component[T any](from ordered[T], ref string) (T, error) {
	v, ok := from.find(refName(ref))
	if !ok {
		return v, fmt.Errorf("nothing is at %s", ref)
	}
	return v, nil
}

func (d *document) parameter(p *parameter) (*parameter, error) {
	if p.Ref == "" {
		return p, nil
	}
	return component(d.Components.Parameters, p.Ref)
}

func (d *document) header(p *parameter) (*parameter, error) {
	if p.Ref == "" {
		return p, nil
	}
	return component(d.Components.Headers, p.Ref)
}

func (d *document) response(r *response) (*response, error) {
	if r.Ref == "" {
		return r, nil
	}
	return component(d.Components.Responses, r.Ref)
}

func (d *document) example(e *example) (*example, error) {
	if e.Ref == "" {
		return e, nil
	}
	return component(d.Components.Examples, e.Ref)
}

// schema returns what s points to, with what stands beside the reference in its place.
func (d *document) schema(s *schema) (*schema, error) {
	if s.Ref == "" {
		return s, nil
	}
	target, err := component(d.Components.Schemas, s.Ref)
	if err != nil {
		return nil, err
	}
	merged := *target
	merged.Ref = s.Ref
	if s.Description != "" {
		merged.Description = s.Description
	}
	if !s.Example.IsZero() {
		merged.Example = s.Example
	}
	return &merged, nil
}
