// Package reference makes pages for people out of an OpenAPI document: what each call takes, what it answers, and a curl
// line to copy. All of it is made at once; a document that does not hold together makes no pages.
package reference

import (
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Reference is a document as pages: the guide, then one page for each tag, and one for each family of paths below it.
type Reference struct {
	Title   string
	Version string
	Prefix  string // of every path, as in /v1
	Pages   []*Page
}

// Page is what one page shows. Its texts are in the language of the document.
type Page struct {
	Name       string // in its URL; "" is the guide
	Title      string
	Text       template.HTML
	Headings   []Heading // of Text
	Reserved   bool      // its routes exist in name only
	Operations []*Operation
	Events     []*Event
	Headers    []Field  // that every event is sent with
	Objects    []Object // that the above mention, in the order in which they do
}

// Heading is a place inside a text that can be linked to.
type Heading struct{ ID, Title string }

// Operation is one call.
type Operation struct {
	ID         string
	Method     string
	Path       string // below the base URL
	Title      string
	Text       template.HTML
	Scopes     []string // alternatives; each may name several that are needed together
	Keyless    bool     // no key is needed
	Reserved   bool
	Parameters []Field
	BodyText   template.HTML
	Body       []Field
	Bodies     []Example
	Answers    []Answer
	Errors     []Answer
	Curl       string  // with [BaseURL] and [Key] in it
	Sample     Example // what a call that works is answered; JSON is "" for none
}

// Event is something that is sent to receivers.
type Event struct {
	ID     string
	Type   string
	Title  string
	Text   template.HTML
	Object string // its body
	Sample Example
}

// Field is a parameter, a header, or a field of a body.
type Field struct {
	Name     string // a nested one with those it stands in: pix.key
	In       string // of a parameter: path, query or header
	Type     string // as in "string | null"
	Object   string // that it holds; "" for none
	Required bool
	OneOf    bool // one of those that are marked so is required
	Text     template.HTML
	Above    string // by value, which itself is excluded
	Min, Max string // by value
	Length   string // in characters, as in "8–255"
	Pattern  string
	Default  string
	Enum     []string
	Example  string
}

// Object is a schema that has a name.
type Object struct {
	Name   string
	Text   template.HTML
	Fields []Field
}

// Answer is what a call can answer.
type Answer struct {
	Status   string
	Text     template.HTML
	Object   string // its body; "" for none
	Headers  []Field
	Examples []Example
}

// Example is JSON as it is sent.
type Example struct{ Title, JSON string }

// What stands in a curl line for what only the reader's side knows.
const (
	BaseURL = "{base_url}"
	Key     = "<API_KEY>"
)

// New reads an OpenAPI document.
func New(openapi []byte) (*Reference, error) {
	d := &document{}
	if err := yaml.Unmarshal(openapi, d); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	if len(d.Servers) == 0 || len(d.Tags) == 0 {
		return nil, errors.New("reference: the document names no server or no tags")
	}
	r := &Reference{Title: d.Info.Title, Version: d.Info.Version, Prefix: d.Servers[0].URL}
	guide := &builder{d: d, page: &Page{Title: d.Info.Summary, Text: markdown(d.Info.Description), Headings: headings(d.Info.Description)}}
	if err := guide.object(errorObject); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	r.Pages = append(r.Pages, guide.page)
	for _, t := range d.Tags {
		families := d.families(t.Name)
		for _, family := range append([]string{""}, families...) {
			name := t.Name
			if family != "" {
				name += "-" + family
			}
			b := &builder{d: d, tag: t.Name, family: family, families: families, page: &Page{Name: name, Title: name, Text: markdown(t.Description), Reserved: t.Reserved}}
			if err := b.build(); err != nil {
				return nil, fmt.Errorf("reference: %s: %w", name, err)
			}
			r.Pages = append(r.Pages, b.page)
		}
	}
	return r, nil
}

// errorObject is the envelope of every error. The guide shows it, and no other page.
const errorObject = "Error"

// Find returns the page with that name.
func (r *Reference) Find(name string) (*Page, bool) {
	i := slices.IndexFunc(r.Pages, func(p *Page) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return r.Pages[i], true
}

func headings(text string) (all []Heading) {
	for line := range strings.SplitSeq(text, "\n") {
		if title, ok := strings.CutPrefix(line, headingMark); ok {
			all = append(all, Heading{anchor(title), title})
		}
	}
	return all
}

// builder makes one page.
type builder struct {
	d        *document
	tag      string
	family   string   // of the tag; "" for what is in none
	families []string // of the tag
	page     *Page
}

// familyOf returns the family of the tag that a path is in; "" for none.
func (b *builder) familyOf(path string) string {
	for _, family := range b.families {
		if at := "/" + b.tag + "/" + family; path == at || strings.HasPrefix(path, at+"/") {
			return family
		}
	}
	return ""
}

// familyOfEvent returns the family of the tag that an event tells of, as crypto.charge.paid does of charges; "" for none.
func (b *builder) familyOfEvent(kind string) string {
	for _, family := range b.families {
		if strings.HasPrefix(kind, b.tag+"."+strings.TrimSuffix(family, "s")+".") {
			return family
		}
	}
	return ""
}

// build adds the operations and events of the page's tag and family.
func (b *builder) build() error {
	for _, path := range b.d.Paths {
		for _, e := range path.Value.operations {
			if !slices.Contains(e.Value.Tags, b.tag) || b.familyOf(path.Name) != b.family {
				continue
			}
			if err := b.addOperation(strings.ToUpper(e.Name), path.Name, e.Value); err != nil {
				return fmt.Errorf("%s %s: %w", e.Name, path.Name, err)
			}
		}
	}
	for _, hook := range b.d.Webhooks {
		for _, e := range hook.Value.operations {
			if !slices.Contains(e.Value.Tags, b.tag) || b.familyOfEvent(hook.Name) != b.family {
				continue
			}
			if err := b.addEvent(hook.Name, e.Value); err != nil {
				return fmt.Errorf("%s: %w", hook.Name, err)
			}
		}
	}
	return nil
}

func (b *builder) addOperation(method, path string, o *operation) error {
	v := &Operation{
		ID: o.OperationID, Method: method, Path: path, Title: o.Summary, Text: markdown(o.Description),
		Keyless: !o.Security.IsZero() && len(o.Security.Content) == 0, Reserved: o.Reserved,
	}
	for i := range o.Scopes {
		v.Scopes = append(v.Scopes, scopes(&o.Scopes[i]))
	}
	line := &curl{method: method, path: path, keyless: v.Keyless}
	for _, p := range o.Parameters {
		p, err := b.d.parameter(p)
		if err != nil {
			return err
		}
		f, err := b.parameter(p.Name, p)
		if err != nil {
			return err
		}
		v.Parameters = append(v.Parameters, f)
		if p.Required {
			line.set(p.In, p.Name, f.Example)
		}
	}
	if o.RequestBody != nil {
		if err := b.addBody(v, o.RequestBody.Content); err != nil {
			return err
		}
		if len(v.Bodies) > 0 {
			line.body = v.Bodies[0].JSON
		}
	}
	v.Curl = line.String()
	for _, e := range o.Responses {
		a, err := b.answer(e.Name, e.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		if !isSuccess(a.Status) {
			v.Errors = append(v.Errors, a)
			continue
		}
		v.Answers = append(v.Answers, a)
		// The answer to what the curl line asks for: it makes something, where that is possible.
		if len(a.Examples) > 0 && (v.Sample.JSON == "" || a.Status == "201") {
			v.Sample = Example{a.Status, a.Examples[0].JSON}
		}
	}
	b.page.Operations = append(b.page.Operations, v)
	return nil
}

func isSuccess(status string) bool { return strings.HasPrefix(status, "2") }

// scopes returns one alternative: a scope, or several that are needed together.
func scopes(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode {
		return node.Value
	}
	var all []string
	for _, n := range node.Content {
		all = append(all, n.Value)
	}
	return strings.Join(all, " + ")
}

func (b *builder) addBody(v *Operation, content ordered[*media]) error {
	for _, c := range content {
		s, err := b.d.schema(c.Value.Schema)
		if err != nil {
			return err
		}
		v.BodyText = markdown(s.Description)
		if v.Body, err = b.fields("", s); err != nil {
			return err
		}
		if v.Bodies, err = b.examples(c.Value.Examples); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addEvent(kind string, o *operation) error {
	v := &Event{ID: o.OperationID, Type: kind, Title: o.Summary, Text: markdown(o.Description)}
	for _, c := range o.RequestBody.Content {
		v.Object = refName(c.Value.Schema.Ref)
		if err := b.object(v.Object); err != nil {
			return err
		}
		examples, err := b.examples(c.Value.Examples)
		if err != nil {
			return err
		}
		if len(examples) > 0 {
			v.Sample = examples[0]
		}
	}
	if len(b.page.Events) == 0 { // they are the same for all
		for _, p := range o.Parameters {
			p, err := b.d.parameter(p)
			if err != nil {
				return err
			}
			f, err := b.parameter(p.Name, p)
			if err != nil {
				return err
			}
			b.page.Headers = append(b.page.Headers, f)
		}
	}
	b.page.Events = append(b.page.Events, v)
	return nil
}

func (b *builder) answer(status string, r *response) (Answer, error) {
	r, err := b.d.response(r)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Status: status, Text: markdown(r.Description)}
	for _, h := range r.Headers {
		p, err := b.d.header(h.Value)
		if err != nil {
			return Answer{}, err
		}
		f, err := b.parameter(h.Name, p)
		if err != nil {
			return Answer{}, err
		}
		a.Headers = append(a.Headers, f)
	}
	for _, c := range r.Content {
		if name := refName(c.Value.Schema.Ref); name != "" && name != errorObject {
			a.Object = name
			if err := b.object(name); err != nil {
				return Answer{}, err
			}
		}
		examples, err := b.examples(c.Value.Examples)
		if err != nil {
			return Answer{}, err
		}
		a.Examples = append(a.Examples, examples...)
	}
	return a, nil
}

func (b *builder) examples(from ordered[*example]) (all []Example, err error) {
	for _, e := range from {
		x, err := b.d.example(e.Value)
		if err != nil {
			return nil, err
		}
		title := x.Summary
		if title == "" {
			title = e.Name
		}
		all = append(all, Example{title, encode(&x.Value)})
	}
	return all, nil
}
