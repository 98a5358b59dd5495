package simulator

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

// Limits of a page.
const (
	pageItemsDefault = 100
	pageItemsMax     = 1000
	pageMax          = 1_000_000 // its number
)

// listQuery reads the parameters that all lists have. What is wrong is collected.
type listQuery struct {
	values   url.Values
	broken   violations
	from, to int64  // in milliseconds, both within
	document string // of whom the list is to be about; empty for all
	page     int    // from 0
	items    int    // on a page
	echo     map[string]any
}

func newListQuery(r *http.Request) *listQuery {
	q := &listQuery{values: r.URL.Query(), echo: map[string]any{}}
	from, fromOK := q.moment("inicio")
	to, toOK := q.moment("fim")
	if fromOK && toOK && to.Before(from) {
		q.broken.add("fim", "O campo fim é anterior ao campo inicio.", q.values.Get("fim"))
	}
	// Moments in the books have no fractions of a millisecond, so that those of the query can be rounded inwards.
	q.from, q.to = from.Add(time.Millisecond-time.Nanosecond).UnixMilli(), to.UnixMilli()
	cpf, cnpj := q.text("cpf", isCPF), q.text("cnpj", isCNPJ)
	if cpf != "" && cnpj != "" {
		q.broken.add("cnpj", "Os campos cpf e cnpj não podem ser usados juntos.", cnpj)
	}
	q.document = cpf + cnpj
	q.page = q.number("paginacao.paginaAtual", 0, pageMax, 0)
	q.items = q.number("paginacao.itensPorPagina", 1, pageItemsMax, pageItemsDefault)
	return q
}

// moment reads a required moment.
func (q *listQuery) moment(name string) (time.Time, bool) {
	// A plus that was not percent-encoded arrives as a space.
	text := strings.ReplaceAll(q.values.Get(name), " ", "+")
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		q.broken.schema(name, text)
		return time.Time{}, false
	}
	q.echo[name] = text
	return t, true
}

// text reads an optional text that must be fit.
func (q *listQuery) text(name string, isFit func(string) bool) string {
	s := q.values.Get(name)
	if s == "" {
		return ""
	}
	if !isFit(s) {
		q.broken.schema(name, s)
		return ""
	}
	q.echo[name] = s
	return s
}

// flag reads an optional true or false; nil when it is absent.
func (q *listQuery) flag(name string) *bool {
	s := q.text(name, func(s string) bool { return s == "true" || s == "false" })
	if s == "" {
		return nil
	}
	b := s == "true"
	q.echo[name] = b
	return &b
}

func (q *listQuery) number(name string, low, high, absent int) int {
	s := q.values.Get(name)
	if s == "" {
		return absent
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		q.broken.schema(name, s)
		return absent
	}
	return n
}

// err returns nil, or a problem of that kind with everything that is wrong.
func (q *listQuery) err(kind problemKind) error {
	if len(q.broken) == 0 {
		return nil
	}
	return kind.because("A consulta não respeita o schema ou as regras.", q.broken...)
}

type pagingJSON struct {
	Page  int `json:"paginaAtual"`
	Items int `json:"itensPorPagina"`
	Pages int `json:"quantidadeDePaginas"`
	Total int `json:"quantidadeTotalDeItens"`
}

// answer tells one page of all that matched, under that key. tell is called for what is on the page.
func answerPage[T any](q *listQuery, key string, all []T, tell func(T) (any, error)) (httpkit.Answer, error) {
	begin := min(len(all), q.page*q.items)
	end := min(len(all), begin+q.items)
	page := make([]any, 0, end-begin)
	for _, item := range all[begin:end] {
		told, err := tell(item)
		if err != nil {
			return httpkit.Answer{}, err
		}
		page = append(page, told)
	}
	pages := (len(all) + q.items - 1) / q.items
	q.echo["paginacao"] = pagingJSON{Page: q.page, Items: q.items, Pages: pages, Total: len(all)}
	return answerList(q.echo, key, page)
}

// answerList tells a list under its key, and which one was asked for.
func answerList(asked map[string]any, key string, list []any) (httpkit.Answer, error) {
	const askedKey = "parametros" //nolint:misspell // Portuguese
	keys := []string{askedKey, key}
	slices.Sort(keys)
	text := []byte{'{'}
	for _, k := range keys {
		text = append(text, `"`+k+`":`...)
		var err error
		if k == askedKey {
			text, err = plainjson.Append(text, asked)
		} else {
			text, err = plainjson.AppendItems(text, list)
		}
		if err != nil {
			return httpkit.Answer{}, err
		}
		text = append(text, ',')
	}
	text = append(text[:len(text)-1], "}\n"...)
	return httpkit.Answer{Raw: text, Header: jsonHeader}, nil
}
