package efi

import (
	"encoding/json"
	"testing"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/pix"
)

// FuzzRead reads anything as a payout and as an infraction. What is taken for one has an id and an amount.
func FuzzRead(f *testing.F) {
	f.Add(`{"idEnvio":"1","e2eId":"E1","valor":"0.01","status":"REALIZADO","horario":{"liquidacao":"2022-10-26T09:05:31Z"},"devolucoes":{"rtrId":"D1","valor":1}}`)
	f.Add(`{"idEnvio":1,"valor":0.01,"status":"NAO_REALIZADO","gnExtras":{"erro":{"codigo":"AC03"}},"favorecido":{"contaBanco":{"nome":"x"}}}`)
	f.Add(`{"idInfracao":"8ad7-5c","endToEndId":"E1","valor":"100","status":"CANCELADA_EFI","dadosAnalise":{"abertura":"2023-12-22T16:01:35Z"}}`)
	f.Fuzz(func(t *testing.T, body string) {
		var p payout
		if json.Unmarshal([]byte(body), &p) == nil {
			if sent, ok := p.payout(); ok && (sent.Amount <= 0 || !pix.IsTxID(sent.ID) || sent.EndToEndID != "" && !pix.IsEndToEndID(sent.EndToEndID) ||
				sent.Status != acquirer.PayoutSettled && !sent.SettledAt.IsZero()) {
				t.Errorf("%s is taken for %+v", body, sent)
			}
		}
		var i infraction
		if json.Unmarshal([]byte(body), &i) == nil {
			if told, ok := i.infraction(); ok && (told.Amount <= 0 || told.ID == "" || !pix.IsEndToEndID(told.EndToEndID)) {
				t.Errorf("%s is taken for %+v", body, told)
			}
		}
	})
}
