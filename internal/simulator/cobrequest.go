package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/ponte-pay/ponte/internal/money"
)

// Limits of a charge, in characters where nothing else is said.
const (
	expiresDefault = 86400 // seconds
	debtorNameMax  = 200
	keyLenMax      = 77
	requestLenMax  = 140
	infoItemsMax   = 50 // items
	infoNameMax    = 50
	infoValueMax   = 200
)

// chargeRequest is the body that creates or changes a charge. What is absent is nil.
type chargeRequest struct {
	Calendar *calendarRequest `json:"calendario"`
	Debtor   *debtor          `json:"devedor"`
	Value    *valueRequest    `json:"valor"`
	Key      *string          `json:"chave"`
	Request  *string          `json:"solicitacaoPagador"`
	Info     *[]infoItem      `json:"infoAdicionais"`
	Loc      *struct {
		ID *int64 `json:"id"`
	} `json:"loc"`
	Status *string `json:"status"`
}

type calendarRequest struct {
	Expires *seconds `json:"expiracao"`
}

type valueRequest struct {
	Original *string         `json:"original"`
	Flexible *int            `json:"modalidadeAlteracao"`
	Cash     json.RawMessage `json:"retirada"`
}

// seconds is a whole number that some write as a string, as the standard's own example does.
type seconds int64

// UnmarshalJSON reads a number or a string of digits.
func (s *seconds) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		n = -1 // which no charge may have, and so is told with everything else that is wrong
	}
	*s = seconds(n)
	return nil
}

// readChargeRequest reads the body of a request that creates a charge.
func readChargeRequest(r *http.Request) (*chargeRequest, error) {
	b, err := readBody(r)
	if err != nil {
		return nil, err
	}
	defer b.release()
	if q, ok := parsePlainRequest(b.String()); ok {
		return q, nil
	}
	q := &chargeRequest{}
	return q, b.decode(q, chargeInvalid, "cob")
}

// plainRequest is a chargeRequest with room for what clients usually fill in, so that all of it takes one piece of memory.
type plainRequest struct {
	chargeRequest
	calendar calendarRequest
	expires  seconds
	debtor   debtor
	value    valueRequest
	original string
	key      string
	request  string
}

// parsePlainRequest reads a body without anything unusual: neither another field nor an escape, a null or a wrong type. It
// reports whether it was such a one.
func parsePlainRequest(text string) (*chargeRequest, bool) {
	q, p := &plainRequest{}, plainReader{text: text}
	p.object(func(key string) {
		switch key {
		case "calendario":
			q.Calendar = &q.calendar
			p.object(func(key string) {
				p.odd = p.odd || key != "expiracao"
				q.calendar.Expires, q.expires = &q.expires, seconds(p.number())
			})
		case "devedor":
			q.Debtor = &q.debtor
			p.object(func(key string) { q.debtor.read(key, &p) })
		case "valor":
			q.Value = &q.value
			p.object(func(key string) {
				p.odd = p.odd || key != "original"
				q.value.Original, q.original = &q.original, p.string()
			})
		case "chave":
			q.Key, q.key = &q.key, p.string()
		case "solicitacaoPagador":
			q.Request, q.request = &q.request, p.string()
		default:
			p.odd = true
		}
	})
	return &q.chargeRequest, p.isWhole()
}

// read reads a field of a debtor.
func (d *debtor) read(key string, p *plainReader) {
	switch key {
	case "cpf":
		d.CPF = p.string()
	case "cnpj":
		d.CNPJ = p.string()
	case "nome":
		d.Name = p.string()
	default:
		p.odd = true
	}
}

// Lengths of amounts and documents, in characters.
const (
	reaisDigitsMax = 10
	centavosDigits = 2
	cpfLen         = 11
	cnpjLen        = 14
)

// isAmount reports whether s is an amount as the API writes it, such as 10.50.
func isAmount(s string) bool {
	reais, centavos, _ := strings.Cut(s, ".")
	return isDigits(reais) && len(reais) <= reaisDigitsMax && isDigits(centavos) && len(centavos) == centavosDigits
}

func isCPF(s string) bool { return len(s) == cpfLen && isDigits(s) }

// isCNPJ reports whether s is a CNPJ, which can have letters.
func isCNPJ(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(s) == cnpjLen
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// check adds what is wrong with each field that is there.
func (q *chargeRequest) check(a *acquirer, broken *violations) {
	if q.Calendar != nil && q.Calendar.Expires != nil && *q.Calendar.Expires <= 0 {
		broken.add("cob.calendario.expiracao", "O campo cob.calendario.expiracao deve ser um número inteiro maior que zero.", "")
	}
	if d := q.Debtor; d != nil {
		if (d.CPF == "") == (d.CNPJ == "") || d.Name == "" {
			broken.add("cob.devedor", "O campo cob.devedor deve ter nome e um de cpf e cnpj.", "")
		}
		if d.CPF != "" && !isCPF(d.CPF) {
			broken.schema("cob.devedor.cpf", d.CPF)
		}
		if d.CNPJ != "" && !isCNPJ(d.CNPJ) {
			broken.schema("cob.devedor.cnpj", d.CNPJ)
		}
		broken.text("cob.devedor.nome", d.Name, debtorNameMax)
	}
	q.checkValue(broken)
	if q.Key != nil {
		switch {
		case *q.Key == "" || len(*q.Key) > keyLenMax:
			broken.schema("cob.chave", *q.Key)
		case *q.Key != a.identity.Key:
			broken.add("cob.chave", "O campo cob.chave corresponde a uma chave que não pertence a este usuário recebedor.", *q.Key)
		}
	}
	if q.Request != nil {
		broken.text("cob.solicitacaoPagador", *q.Request, requestLenMax)
	}
	if q.Info != nil {
		checkInfo(*q.Info, broken)
	}
}

func (q *chargeRequest) checkValue(broken *violations) {
	if q.Value == nil {
		return
	}
	if original := q.Value.Original; original != nil {
		if !isAmount(*original) {
			broken.schema("cob.valor.original", *original)
		} else if parseAmount(*original) == 0 {
			broken.add("cob.valor.original", "O campo cob.valor.original é zero.", *original)
		}
	}
	if flexible := q.Value.Flexible; flexible != nil && *flexible != 0 && *flexible != 1 {
		broken.schema("cob.valor.modalidadeAlteracao", strconv.Itoa(*flexible))
	}
	if cash := string(q.Value.Cash); cash != "" && cash != "null" {
		broken.add("cob.valor.retirada", "Este PSP não oferece Pix Saque nem Pix Troco.", "")
	}
}

func checkInfo(items []infoItem, broken *violations) {
	if len(items) > infoItemsMax {
		broken.add("cob.infoAdicionais", fmt.Sprintf("O campo cob.infoAdicionais tem mais de %d itens.", infoItemsMax), strconv.Itoa(len(items)))
		return
	}
	for i, item := range items {
		property := fmt.Sprintf("cob.infoAdicionais[%d]", i)
		if item.Name == "" || item.Value == "" {
			broken.add(property, "O campo "+property+" deve ter nome e valor.", "")
		}
		broken.text(property+".nome", item.Name, infoNameMax)
		broken.text(property+".valor", item.Value, infoValueMax)
	}
}

// parseAmount reads what isAmount takes.
func parseAmount(s string) money.BRL {
	n, _ := strconv.ParseInt(s[:len(s)-3]+s[len(s)-2:], 10, 64) // twelve digits at most
	return money.BRL(n)
}

// require adds what a new charge must have and lacks.
func (q *chargeRequest) require(broken *violations) {
	missing := func(property string) { broken.add(property, "O campo "+property+" é obrigatório.", "") }
	if q.Calendar == nil {
		missing("cob.calendario")
	}
	if q.Value == nil || q.Value.Original == nil {
		missing("cob.valor.original")
	}
	if q.Key == nil {
		missing("cob.chave")
	}
}

// checkLoc adds that a location is not free. Each one here belongs to the charge that it came with, whose own it is.
func (q *chargeRequest) checkLoc(own, count int64, broken *violations) {
	if q.Loc == nil || q.Loc.ID == nil || *q.Loc.ID == own {
		return
	}
	reason := "O location referenciado por cob.loc.id inexiste."
	if *q.Loc.ID > 0 && *q.Loc.ID <= count {
		reason = "O location referenciado por cob.loc.id já está sendo utilizado por outra cobrança."
	}
	broken.add("cob.loc.id", reason, strconv.FormatInt(*q.Loc.ID, 10))
}

// hasEdits reports whether the request changes anything that makes a new revision.
func (q *chargeRequest) hasEdits() bool {
	return q.Calendar != nil || q.Debtor != nil || q.Value != nil || q.Key != nil || q.Request != nil || q.Info != nil
}

// fill takes over each field that is there.
func (q *chargeRequest) fill(r *chargeRecord) {
	if q.Calendar != nil && q.Calendar.Expires != nil {
		r.Expires = int32(*q.Calendar.Expires)
	}
	if q.Debtor != nil {
		r.Debtor = q.Debtor
	}
	if q.Value != nil && q.Value.Original != nil {
		r.Centavos = int64(parseAmount(*q.Value.Original))
	}
	if q.Value != nil && q.Value.Flexible != nil {
		r.Flexible = *q.Value.Flexible == 1
	}
	if q.Request != nil {
		r.Request = *q.Request
	}
	if q.Info != nil {
		r.Info = *q.Info
	}
}
