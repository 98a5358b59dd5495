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
	Chart       chart
	Complete    bool // the chart shows everything
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
	data.Complete, data.Chart = complete, newChart(v.locale, days)
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
	Width, Height int
	Left, Right   int // of the lines
	Base          int // where bars stand
	Lines         []chartLine
	Bars          []chartBar
	Days          []activity.Day
	Empty         bool
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

// Sizes of the chart.
const (
	chartWidth  = 900
	chartHeight = 220
	chartLeft   = 78
	chartTop    = 14
	chartBase   = 192
	barSlot     = 27
	barWidth    = 10
	barGap      = 1
	chartLines  = 4
	labelEvery  = 5
)

func newChart(l locale, days []activity.Day) chart {
	c := chart{Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartLeft + barSlot*len(days), Base: chartBase, Days: days}
	var most int64
	for _, d := range days {
		most = max(most, d.Inflow, d.Outflow)
	}
	c.Empty = most == 0
	top := roundUp(most)
	for i := range int64(chartLines + 1) {
		c.Lines = append(c.Lines, chartLine{Y: chartBase - i*(chartBase-chartTop)/chartLines, Text: l.short(money.BRL(top * i / chartLines))})
	}
	height := func(units int64) int64 {
		if units <= 0 {
			return 0
		}
		return max(1, mulDiv(units, chartBase-chartTop, top))
	}
	for i, d := range days {
		x := chartLeft + i*barSlot + (barSlot-2*barWidth-barGap)/2
		in, out := height(d.Inflow), height(d.Outflow)
		bar := chartBar{
			X: x, InY: chartBase - in, InHeight: in, OutX: x + barWidth + barGap, OutY: chartBase - out, OutHeight: out,
			InText: l.brl(money.BRL(d.Inflow)), OutText: l.brl(money.BRL(d.Outflow)), Date: l.day(d.Start), LabelX: x + barWidth,
		}
		if (len(days)-1-i)%labelEvery == 0 {
			bar.Label = d.Start.In(brasilia).Format("02/01")
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
