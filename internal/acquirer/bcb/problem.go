package bcb

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// problem is an acquirer's refusal in words, whichever of the usual shapes it had:
//
//	{"type": "https://…/error/CobOperacaoInvalida", "title", "detail", "violacoes": [{"razao", "propriedade"}]}
//	{"nome": "txid_duplicado", "mensagem"}
//	{"error": "insufficient_scope", "error_description"}
type problem struct {
	code    string // "" when there is only a message
	message string
	fields  []string // that broke a rule, such as cob.valor.original
}

// readProblem reads a refusal. It reports whether the body was one.
func readProblem(body []byte) (p problem, readable bool) {
	var shapes struct {
		Type             text                   `json:"type"`
		Title            text                   `json:"title"`
		Detail           text                   `json:"detail"`
		Violations       loose[many[violation]] `json:"violacoes"`
		Nome             text                   `json:"nome"`
		Mensagem         text                   `json:"mensagem"`
		Error            text                   `json:"error"`
		ErrorDescription text                   `json:"error_description"`
		Code             text                   `json:"code"`
		Message          text                   `json:"message"`
	}
	if len(body) > bodyBytesMax || json.Unmarshal(body, &shapes) != nil {
		return problem{}, false
	}
	kind := string(shapes.Type)
	kind = kind[strings.LastIndexByte(kind, '/')+1:]
	p.code = cmp.Or(kind, string(shapes.Nome), string(shapes.Error), string(shapes.Code))
	parts := []string{cmp.Or(string(shapes.Title), string(shapes.Mensagem), string(shapes.ErrorDescription), string(shapes.Message)), string(shapes.Detail)}
	for _, v := range shapes.Violations.Value {
		// Not v.valor: it is what we sent, which may be somebody's document.
		p.fields = append(p.fields, string(v.Property))
		parts = append(parts, strings.TrimSpace(string(v.Property)+" "+string(v.Reason)))
	}
	p.message = strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
	return p, p.code != "" || p.message != ""
}

// violation is a rule that the request broke.
type violation struct {
	Reason   text `json:"razao"`
	Property text `json:"propriedade"`
}

// names reports whether the problem is with that field, whatever stands before it.
func (p problem) names(field string) bool {
	for _, f := range p.fields {
		if f == field || strings.HasSuffix(f, "."+field) {
			return true
		}
	}
	return false
}

const messageRunesMax = 200

// longNumber is a document, a phone number or an account.
var longNumber = regexp.MustCompile(`\+?[0-9](?:[./ -]?[0-9]){9,}`)

// told makes an acquirer's text fit for a log, where nobody's document belongs.
func (c *Client) told(s string) string { return c.safe(longNumber.ReplaceAllString(s, secretShown)) }

// safe makes a text fit for a log: short, on one line, without our secrets and our Pix key.
func (c *Client) safe(s string) string {
	credentials := strings.TrimPrefix(basic(c.config.ClientID, c.config.ClientSecret), "Basic ")
	for _, secret := range []string{c.config.ClientSecret, credentials, c.tokens.current(), c.config.Key} {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, secretShown)
		}
	}
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }), " ")
	if runes := []rune(s); len(runes) > messageRunesMax {
		s = string(runes[:messageRunesMax]) + "…"
	}
	return s
}
