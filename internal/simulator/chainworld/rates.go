package chainworld

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/shopspring/decimal"
)

// Sources of the dollar's price in reais, each in the shape of a public service. Their names are operations of faults too.
const (
	SourceAwesome   = "awesome"   // AwesomeAPI: GET /awesome/json/last/USD-BRL
	SourceCoinGecko = "coingecko" // GET /coingecko/api/v3/simple/price?ids=tether&vs_currencies=usd,brl
)

// Sources are all of them.
var Sources = []string{SourceAwesome, SourceCoinGecko}

// skew is what is wrong with a source; the zero skew is nothing.
type skew struct {
	Source  string          `json:"source"`
	Percent decimal.Decimal `json:"percent"` // that its price is off
	Stale   int64           `json:"stale"`   // seconds that its price is old
}

const ratePlaces = 6

func (w *World) newRates() http.Handler {
	mux := http.NewServeMux()
	for pattern, source := range map[string]struct {
		name   string
		answer func(*World, *http.Request) (reply, *refusal)
	}{
		"GET /awesome/json/last/{pair}":          {SourceAwesome, (*World).getAwesome},
		"GET /coingecko/api/v3/simple/price":     {SourceCoinGecko, (*World).getCoinGecko},
		"GET /coingecko/api/v3/simple/price/{$}": {SourceCoinGecko, (*World).getCoinGecko},
	} {
		mux.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
			w.execute(rw, r, TargetRates, source.name, func() (reply, *refusal) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return source.answer(w, r)
			})
		})
	}
	return mux
}

// dollar returns what a dollar costs at a source, and when that was.
func (w *World) dollar(source string) (decimal.Decimal, time.Time) {
	s := w.skews[source]
	at := w.options.Clock.Now().Add(-time.Duration(s.Stale) * time.Second)
	price := decimal.RequireFromString(usdPerBRL).Mul(wiggle("brl", at, wiggleMax)).Mul(wiggle(source, at, wiggleStable))
	return price.Mul(decimal.New(1, 0).Add(s.Percent.Shift(-2))), at
}

func (w *World) getAwesome(r *http.Request) (reply, *refusal) {
	if r.PathValue("pair") != "USD-BRL" {
		return reply{}, &refusal{http.StatusNotFound, "CoinNotExists", "moeda nao encontrada"}
	}
	price, at := w.dollar(SourceAwesome)
	spread := decimal.New(1, -4)
	return reply{body: map[string]any{"USDBRL": map[string]any{
		"code": "USD", "codein": "BRL", "name": "Dólar Americano/Real Brasileiro", "bid": price.Sub(spread).StringFixed(4), "ask": price.Add(spread).StringFixed(4),
		"timestamp": strconv.FormatInt(at.Unix(), 10), "create_date": at.In(time.FixedZone("BRT", -3*60*60)).Format(time.DateTime),
	}}}, nil
}

func (w *World) getCoinGecko(r *http.Request) (reply, *refusal) {
	if r.URL.Query().Get("ids") != "tether" {
		return reply{body: map[string]any{}}, nil
	}
	price, at := w.dollar(SourceCoinGecko)
	tether, _ := findCoin(Settlement)
	usd := tether.price(at)
	return reply{body: map[string]any{"tether": map[string]any{
		"usd": number(usd), "brl": json.Number(usd.Mul(price).StringFixed(ratePlaces)), "last_updated_at": at.Unix(),
	}}}, nil
}
