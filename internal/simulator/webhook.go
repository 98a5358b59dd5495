package simulator

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/httpkit"
)

// webhook is where an acquirer tells of payments to its key.
type webhook struct {
	url     string // empty for none
	created int64  // in milliseconds
}

// webhookRecord is a webhook as it was set, or taken away with an empty URL.
type webhookRecord struct {
	Acquirer int    `json:"acquirer"`
	URL      string `json:"url,omitempty"`
	At       int64  `json:"at"` // in milliseconds
}

func (k *book) setWebhook(r *webhookRecord) { k.webhook = webhook{r.URL, r.At} }

// webhookOf returns an acquirer's webhook.
func (b *books) webhookOf(acquirer int) webhook {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.book[acquirer].webhook
}

// setWebhook sets an acquirer's webhook, or takes it away with an empty URL. It reports whether there was one.
func (b *books) setWebhook(acquirer int, target string) (before bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before = b.book[acquirer].webhook.url != ""
	return before, b.write(&record{Webhook: &webhookRecord{acquirer, target, b.now()}})
}

// webhookURLMax is the longest URL in characters.
const webhookURLMax = 2000

type webhookJSON struct {
	URL     string `json:"webhookUrl"`
	Key     string `json:"chave,omitempty"`
	Created string `json:"criacao,omitempty"`
}

// ownKey fails unless the path names the acquirer's key.
func (a *acquirer) ownKey(r *http.Request, kind problemKind) error {
	if key := r.PathValue("chave"); key != a.identity.Key {
		const reason = "A chave não pertence a este usuário recebedor."
		return kind.because(reason, violation{Reason: reason, Property: "webhook.chave", Value: clip(key)})
	}
	return nil
}

// putWebhook says where payments to the key are to be told.
func (a *acquirer) putWebhook(r *http.Request) (httpkit.Answer, error) {
	var q struct {
		URL *string `json:"webhookUrl"`
	}
	if err := readJSON(r, &q, webhookInvalid, "webhook"); err != nil {
		return httpkit.Answer{}, err
	}
	if err := a.ownKey(r, webhookInvalid); err != nil {
		return httpkit.Answer{}, err
	}
	if q.URL == nil || !isWebhookURL(*q.URL) {
		var broken violations
		if q.URL == nil {
			q.URL = new(string)
		}
		broken.schema("webhook.webhookUrl", *q.URL)
		return httpkit.Answer{}, webhookInvalid.because("O campo webhookUrl deve ser um URL completo.", broken...)
	}
	if _, err := a.books.setWebhook(a.number, *q.URL); err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Status: http.StatusCreated, Body: webhookJSON{URL: *q.URL}}, nil
}

// isWebhookURL reports whether s is an absolute URL. Real acquirers want https; here everything is on one machine.
func isWebhookURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && len(s) <= webhookURLMax && slices.Contains([]string{"http", "https"}, u.Scheme) && u.Hostname() != "" &&
		u.Fragment == "" && !strings.ContainsAny(s, " \t\r\n")
}

func (a *acquirer) webhookBody(w webhook) webhookJSON {
	return webhookJSON{URL: w.url, Key: a.identity.Key, Created: timeText(w.created)}
}

// getWebhook tells where payments to the key are told.
func (a *acquirer) getWebhook(r *http.Request) (httpkit.Answer, error) {
	if err := a.ownKey(r, webhookNotFound); err != nil {
		return httpkit.Answer{}, err
	}
	w := a.books.webhookOf(a.number)
	if w.url == "" {
		return httpkit.Answer{}, webhookNotFound.because("A chave não tem webhook.")
	}
	return httpkit.Answer{Body: a.webhookBody(w)}, nil
}

// deleteWebhook ends the telling.
func (a *acquirer) deleteWebhook(r *http.Request) (httpkit.Answer, error) {
	if err := a.ownKey(r, webhookNotFound); err != nil {
		return httpkit.Answer{}, err
	}
	before, err := a.books.setWebhook(a.number, "")
	if err == nil && !before {
		err = webhookNotFound.because("A chave não tem webhook.")
	}
	return httpkit.Answer{Status: http.StatusNoContent, Raw: []byte{}}, err
}

// listWebhooks tells the webhooks that were set in a window of time; an acquirer here has one key.
func (a *acquirer) listWebhooks(r *http.Request) (httpkit.Answer, error) {
	q := newListQuery(r)
	if err := q.err(webhookQuery); err != nil {
		return httpkit.Answer{}, err
	}
	var found []webhook
	if w := a.books.webhookOf(a.number); w.url != "" && q.from <= w.created && w.created <= q.to {
		found = append(found, w)
	}
	return answerPage(q, "webhooks", found, func(w webhook) (any, error) { return a.webhookBody(w), nil })
}
