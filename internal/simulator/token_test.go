package simulator

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha, beta := w.acquirer("alpha"), w.acquirer("beta")
	const (
		jsonType = "application/json"
		formType = "application/x-www-form-urlencoded"
		denied   = `{"error":"invalid_client"`
		grant    = `{"error":"unsupported_grant_type"`
	)
	tests := []struct {
		name             string
		id, secret, kind string
		body             string
		status           int
		want             string
	}{
		{"json", alpha.account.ClientID, alpha.account.ClientSecret, jsonType, `{"grant_type":"client_credentials"}`, 200, `"token_type":"Bearer","expires_in":3600,"scope":"cob.read cob.write`},
		{"form", alpha.account.ClientID, alpha.account.ClientSecret, formType, "grant_type=client_credentials&scope=cob.read", 200, `"expires_in":3600`},
		{"json sent as a form", alpha.account.ClientID, alpha.account.ClientSecret, formType, `{"grant_type":"client_credentials"}`, 200, `"expires_in":3600`},
		{"wrong secret", alpha.account.ClientID, "x", jsonType, `{"grant_type":"client_credentials"}`, 401, denied},
		{"wrong client", "x", alpha.account.ClientSecret, jsonType, `{"grant_type":"client_credentials"}`, 401, denied},
		{"the other acquirer's", beta.account.ClientID, beta.account.ClientSecret, jsonType, `{"grant_type":"client_credentials"}`, 401, denied},
		{"nobody", "", "", jsonType, `{"grant_type":"client_credentials"}`, 401, denied},
		{"other grant", alpha.account.ClientID, alpha.account.ClientSecret, jsonType, `{"grant_type":"password"}`, 400, grant},
		{"no grant", alpha.account.ClientID, alpha.account.ClientSecret, formType, "", 400, grant},
		{"no JSON", alpha.account.ClientID, alpha.account.ClientSecret, jsonType, `{"grant`, 400, grant},
		{"too long", alpha.account.ClientID, alpha.account.ClientSecret, jsonType, strings.Repeat(" ", 64<<10+1), 400, "RequisicaoInvalida"},
	}
	for _, tt := range tests {
		r := request(t, "POST", alpha.account.BaseURL+"/oauth/token", tt.body)
		r.Header.Set("Content-Type", tt.kind)
		if tt.id+tt.secret != "" {
			r.SetBasicAuth(tt.id, tt.secret)
		}
		got := send(t, alpha.client, r)
		got.want(t, tt.status, tt.want)
		if has := got.header.Get("WWW-Authenticate") != ""; has != (tt.status == 401) {
			t.Errorf("%s: WWW-Authenticate is %q", tt.name, got.header.Get("WWW-Authenticate"))
		}
	}
}

func TestTokenIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha, beta := w.acquirer("alpha"), w.acquirer("beta")
	token := alpha.token()
	try := func(b *bank, authorization string) int {
		r := request(t, "GET", b.account.BaseURL+"/v2/cob/"+txidOf(1), "")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		return send(t, b.client, r).status
	}
	forge := func(at int) string {
		b, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		b[at] ^= 1
		return base64.RawURLEncoding.EncodeToString(b)
	}
	for authorization, want := range map[string]int{
		"Bearer " + token:                   404,
		"bearer " + token:                   404,
		"":                                  401,
		token:                               401,
		"Basic " + token:                    401,
		"Bearer " + forge(5):                401, // the expiry
		"Bearer " + forge(tokenBodyLen-1):   401,
		"Bearer " + forge(tokenBodyLen):     401,
		"Bearer " + token[:len(token)-1]:    401,
		"Bearer ***":                        401,
		"Bearer " + strings.Repeat("A", 44): 401,
	} {
		if got := try(alpha, authorization); got != want {
			t.Errorf("%q: status %d, want %d", authorization, got, want)
		}
	}
	if got := try(beta, "Bearer "+token); got != http.StatusUnauthorized {
		t.Errorf("beta takes alpha's token: status %d", got)
	}

	w.clock.Raise(time.Hour - time.Second)
	if got := try(alpha, "Bearer "+token); got != http.StatusNotFound {
		t.Errorf("a second before the end: status %d", got)
	}
	w.clock.Raise(time.Hour)
	if got := try(alpha, "Bearer "+token); got != http.StatusUnauthorized {
		t.Errorf("after an hour: status %d", got)
	}
}
