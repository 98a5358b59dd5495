package bcb

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
)

const (
	pageItems = 100  // asked for; acquirers' gateways choke on the thousand that is allowed
	pageMax   = 9999 // of a list, from 0

	exactLayout = "2006-01-02T15:04:05.000Z07:00"
)

// ListQuery returns the parameters that ask for a page of a list, and the page's number. It is for drivers that add
// lists to this one. It fails with an *acquirer.Error for a cursor that is none.
func (c *Client) ListQuery(operation string, w acquirer.Window) (url.Values, int, error) {
	number := 0
	if w.Cursor != "" {
		var err error
		if number, err = strconv.Atoi(w.Cursor); err != nil || number < 0 || number > pageMax {
			return nil, 0, c.Refuse(operation, fmt.Sprintf("%q is no cursor", w.Cursor), nil)
		}
	}
	unit, layout := time.Second, time.RFC3339 // some acquirers refuse fractions of a second
	if w.Exact {
		unit, layout = time.Millisecond, exactLayout
	}
	return url.Values{
		"inicio":                   {w.From.UTC().Truncate(unit).Format(layout)},
		"fim":                      {w.To.UTC().Add(unit - 1).Truncate(unit).Format(layout)},
		"paginacao.paginaAtual":    {strconv.Itoa(number)},
		"paginacao.itensPorPagina": {strconv.Itoa(pageItems)},
	}, number, nil
}

// Parameters are what an acquirer says about a page of a list.
type Parameters struct {
	loose[struct {
		Paging loose[struct {
			Pages text `json:"quantidadeDePaginas"`
		}] `json:"paginacao"`
	}]
}

// Next returns the cursor of the page behind the one with that number and so many items, or "" when there is none.
func (p Parameters) Next(number, items int) string {
	pages, err := strconv.Atoi(string(p.Value.Paging.Value.Pages))
	if err != nil && items >= pageItems {
		pages = number + 2 // not told: a full page may have one behind it
	}
	// An empty page is the last, whatever it says, so that no list is endless.
	if number+1 < pages && items > 0 {
		return strconv.Itoa(number + 1)
	}
	return ""
}
