// Package source asks public services what a dollar costs in reais. What it does not understand is an error, never a
// price.
package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/quote"
)

// Config says where a source is.
type Config struct {
	Name    string // what operators call it
	Driver  string // awesomeapi or coingecko
	BaseURL string // "" means where the public service is
	APIKey  string // "" for none

	Transport http.RoundTripper // replaces the connections; nil means those
}

const (
	answerBytesMax = 64 << 10
	idleConnsMax   = 4
	idleTimeMax    = 45 * time.Second
	numberBytesMax = 40
)

// Public are the sources that are asked where the settings name none.
var Public = []Config{
	{Name: "awesomeapi", Driver: driverAwesome},
	{Name: "coingecko", Driver: driverCoinGecko},
}

// Drivers, by the services that they speak to.
const (
	driverAwesome   = "awesomeapi"
	driverCoinGecko = "coingecko"
)

// source is one of them.
type source struct {
	name   string
	url    string
	header http.Header
	read   func(body []byte) (quote.Rate, error)
	http   http.Client
}

// New returns the source that c describes. Nothing is sent yet.
func New(c Config) (quote.Source, error) {
	s := &source{name: c.Name, header: http.Header{"Accept": {"application/json"}}}
	base := strings.TrimSuffix(c.BaseURL, "/")
	switch c.Driver {
	case driverAwesome:
		if base == "" {
			base = "https://economia.awesomeapi.com.br"
		}
		s.url, s.read = base+"/json/last/USD-BRL", readAwesome
		if c.APIKey != "" {
			s.header.Set("X-Api-Key", c.APIKey)
		}
	case driverCoinGecko:
		if base == "" {
			base = "https://api.coingecko.com"
		}
		s.url, s.read = base+"/api/v3/simple/price?ids=tether&vs_currencies=usd,brl&include_last_updated_at=true&precision=full", readCoinGecko
		if c.APIKey != "" {
			s.header.Set("X-Cg-Demo-Api-Key", c.APIKey)
		}
	default:
		return nil, fmt.Errorf("source %s: driver %q: use %s or %s", c.Name, c.Driver, driverAwesome, driverCoinGecko)
	}
	if u, err := url.Parse(s.url); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.User != nil {
		return nil, fmt.Errorf("source %s: the address must be a URL with https:// or http:// and no user", c.Name)
	}
	transport := c.Transport
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: idleConnsMax, IdleConnTimeout: idleTimeMax}
	}
	s.http = http.Client{
		Transport: transport,
		// A redirect is an answer that makes no sense: keys go nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// Name returns what operators call this source.
func (s *source) Name() string { return s.name }

// Rate asks for the price now.
func (s *source) Rate(ctx context.Context) (quote.Rate, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return quote.Rate{}, err
	}
	request.Header = s.header
	response, err := s.http.Do(request)
	if err != nil {
		return quote.Rate{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return quote.Rate{}, err
	}
	if response.StatusCode != http.StatusOK {
		return quote.Rate{}, fmt.Errorf("answers %s", response.Status)
	}
	return s.read(body)
}

var errAnswer = errors.New("answers what makes no sense")

// readAwesome reads the price at which dollars are bought.
func readAwesome(body []byte) (quote.Rate, error) {
	var reply struct {
		Pair struct {
			Code      string      `json:"code"`
			In        string      `json:"codein"`
			Bid       json.Number `json:"bid"`
			Timestamp json.Number `json:"timestamp"`
		} `json:"USDBRL"`
	}
	if err := json.Unmarshal(body, &reply); err != nil || reply.Pair.Code != "USD" || reply.Pair.In != "BRL" {
		return quote.Rate{}, errAnswer
	}
	return rate(reply.Pair.Bid, "1", reply.Pair.Timestamp)
}

// readCoinGecko reads the price of a coin in both currencies, which gives that of one in the other.
func readCoinGecko(body []byte) (quote.Rate, error) {
	var reply struct {
		Tether struct {
			USD       json.Number `json:"usd"`
			BRL       json.Number `json:"brl"`
			UpdatedAt json.Number `json:"last_updated_at"`
		} `json:"tether"`
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return quote.Rate{}, errAnswer
	}
	return rate(reply.Tether.BRL, reply.Tether.USD, reply.Tether.UpdatedAt)
}

const rateDecimals = 12

// rate returns reais for so many dollars, at a moment in Unix seconds.
func rate(reais, dollars, at json.Number) (quote.Rate, error) {
	r, readErr := number(reais)
	d, dollarErr := number(dollars)
	seconds, timeErr := strconv.ParseInt(at.String(), 10, 64)
	if readErr != nil || dollarErr != nil || timeErr != nil || seconds <= 0 {
		return quote.Rate{}, errAnswer
	}
	return quote.Rate{Reais: r.DivRound(d, rateDecimals), At: time.Unix(seconds, 0).UTC()}, nil
}

// number reads a price.
func number(text json.Number) (decimal.Decimal, error) {
	if len(text) > numberBytesMax {
		return decimal.Zero, errAnswer
	}
	d, err := decimal.NewFromString(text.String())
	if err != nil || !d.IsPositive() {
		return decimal.Zero, errAnswer
	}
	return d, nil
}
