package dashboard

import (
	"time"

	"github.com/ponte-pay/ponte/internal/activity"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

const (
	overviewDays        = 30
	overviewInfractions = 5
)

// overviewData is what the first page of an account shows.
type overviewData struct {
	BRL         brlBalance
	USDT        usdtBalance
	Charts      []chart // the same for wide and narrow screens; none when nothing moved
	Complete    bool    // they show everything
	In, Out     money.BRL
	Tally       charge.Tally
	Percent     int64 // of the charges that were paid
	Doubt       payout.Doubt
	CryptoDoubt withdrawal.Doubt
	Infractions []infractionRow
	MoreOpen    bool // there are more open infractions
}

type brlBalance struct{ Available, Pending, Blocked, InTransit money.BRL }

type usdtBalance struct{ Available, InTransit money.USDT }

// overview looks at everything that matters, each with a bound.
func (d *Dashboard) overview(v *visit) (reply, error) {
	ctx, owner := v.Context(), v.account.ID
	var data overviewData
	b, err := ledger.Balances(ctx, d.DB, owner, money.CurrencyBRL)
	if err != nil {
		return reply{}, err
	}
	data.BRL = brlBalance{money.BRL(b.Available), money.BRL(b.Pending), money.BRL(b.Blocked), money.BRL(b.InTransit)}
	if b, err = ledger.Balances(ctx, d.DB, owner, money.CurrencyUSDT); err != nil {
		return reply{}, err
	}
	data.USDT = usdtBalance{money.USDT(b.Available), money.USDT(b.InTransit)}
	days, complete, err := d.Activity.Days(ctx, owner, money.CurrencyBRL, overviewDays)
	if err != nil {
		return reply{}, err
	}
	data.Complete, data.Charts = complete, newCharts(v.locale, days)
	for _, day := range days {
		data.In, data.Out = data.In+money.BRL(day.Inflow), data.Out+money.BRL(day.Outflow)
	}
	if data.Tally, err = charge.CountSince(ctx, d.DB, owner, d.Clock.Now().Add(-overviewDays*24*time.Hour)); err != nil {
		return reply{}, err
	}
	if data.Tally.Of > 0 {
		data.Percent = data.Tally.Paid * 100 / data.Tally.Of
	}
	if data.Doubt, err = payout.CountOwnDoubts(ctx, d.DB, owner); err != nil {
		return reply{}, err
	}
	if data.CryptoDoubt, err = withdrawal.CountOwnDoubts(ctx, d.DB, owner); err != nil {
		return reply{}, err
	}
	open, more, err := d.Infractions.List(ctx, owner, infraction.Page{Status: infraction.Open, Limit: overviewInfractions})
	if err != nil {
		return reply{}, err
	}
	data.MoreOpen = more
	for i := range open {
		data.Infractions = append(data.Infractions, d.infractionRow(&open[i]))
	}
	return page("overview", data)
}

// chart is what came in and went out a day, drawn in whole units of an SVG.
type chart struct {
	chartShape

	Base  int // where bars stand
	Right int // of the lines
	Foot  int // where days are written
	Lines []chartLine
	Bars  []chartBar
}

type chartLine struct {
	Y    int64
	Text string
}

type chartBar struct {
	X               int
	InY, InHeight   int64
	OutX            int
	OutY, OutHeight int64
	Label           string // under some bars; "" for none
	LabelX          int
	InText, OutText string
	Date            string
}

// chartShape is how large a chart is drawn. Text is not made smaller with the screen, so that a phone has a chart of its own.
type chartShape struct {
	Class         string
	Width, Height int
	Left          int // of the lines; amounts are written before them
	BarWidth      int
	slot          int // of a day, with its two bars
}

// chartShapes are the charts of a page; the stylesheet shows the one that fits.
var chartShapes = []chartShape{
	{Class: "wide", Width: 900, Height: 220, Left: 78, BarWidth: 10, slot: 27},
	{Class: "narrow", Width: 328, Height: 220, Left: 70, BarWidth: 3, slot: 8},
}

// Sizes that all charts have.
const (
	chartTop   = 14
	chartFoot  = 10 // below the days
	chartBase  = 28 // below the bars
	barGap     = 1
	chartLines = 4
	labelEvery = 5
)

// newCharts draws the charts; none when nothing moved.
func newCharts(l locale, days []activity.Day) (list []chart) {
	var most int64
	for _, d := range days {
		most = max(most, d.Inflow, d.Outflow)
	}
	if most == 0 {
		return nil
	}
	for _, shape := range chartShapes {
		list = append(list, shape.draw(l, days, roundUp(most)))
	}
	return list
}

func (s chartShape) draw(l locale, days []activity.Day, top int64) chart {
	c := chart{chartShape: s, Right: s.Left + s.slot*len(days), Base: s.Height - chartBase, Foot: s.Height - chartFoot}
	base := int64(c.Base)
	for i := range int64(chartLines + 1) {
		c.Lines = append(c.Lines, chartLine{Y: base - i*(base-chartTop)/chartLines, Text: l.short(money.BRL(top * i / chartLines))})
	}
	height := func(units int64) int64 {
		if units <= 0 {
			return 0
		}
		return max(1, mulDiv(units, base-chartTop, top))
	}
	for i, d := range days {
		x := s.Left + i*s.slot + (s.slot-2*s.BarWidth-barGap)/2
		in, out := height(d.Inflow), height(d.Outflow)
		bar := chartBar{
			X: x, InY: base - in, InHeight: in, OutX: x + s.BarWidth + barGap, OutY: base - out, OutHeight: out,
			InText: l.brl(money.BRL(d.Inflow)), OutText: l.brl(money.BRL(d.Outflow)), Date: l.day(d.Start), LabelX: x + s.BarWidth,
		}
		if (len(days)-1-i)%labelEvery == 0 {
			bar.Label = d.Start.In(brasilia).Format(dateLayouts[l])
		}
		c.Bars = append(c.Bars, bar)
	}
	return c
}

// roundUp returns the next of 1, 2 or 5 with zeros, and at least what a chart needs to have lines.
func roundUp(n int64) int64 {
	const least = 400_00 // centavos: four lines of a hundred reais
	for step := int64(least); ; step *= 10 {
		for _, factor := range []int64{1, 2, 5} {
			if top := step * factor; top >= n {
				return top
			}
			if step > 1<<58 {
				return n
			}
		}
	}
}

// mulDiv returns a*b/c for an amount, which may be large, without its product being too large.
func mulDiv(a, b, c int64) int64 {
	if a > 1<<50 {
		return a / (c / b)
	}
	return a * b / c
}
