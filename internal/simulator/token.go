package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/httpkit"
)

// An access token is an acquirer, a moment of expiry, a number drawn for it and a signature over all. So it lives through
// a restart, and there is nothing to keep.
const (
	tokenKeyLen   = 32
	tokenBodyLen  = 1 + 8 + 8
	tokenMACLen   = 16
	tokenLifetime = time.Hour // of business time
)

const grantedScopes = "cob.read cob.write pix.read pix.write webhook.read webhook.write pix.send gn.pix.send.read gn.balance.read " +
	"gn.infractions.read gn.infractions.write"

type tokenJSON struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
	Scope       string `json:"scope"`
}

var (
	basicHeader   = http.Header{"Www-Authenticate": {`Basic realm="simulator"`}}
	bearerHeader  = http.Header{"Www-Authenticate": {`Bearer realm="simulator", error="invalid_token"`}}
	noStoreHeader = http.Header{"Cache-Control": {"no-store"}}
)

var (
	errClient = &denial{Code: "invalid_client", Description: "Invalid or inactive credentials", status: http.StatusUnauthorized, header: basicHeader}
	errToken  = &denial{Code: "invalid_token", Description: "Invalid or expired access token", status: http.StatusUnauthorized, header: bearerHeader}
	errGrant  = &denial{Code: "unsupported_grant_type", Description: "grant_type must be client_credentials", status: http.StatusBadRequest}
)

// postToken gives a client its access token.
func (a *acquirer) postToken(r *http.Request) (httpkit.Answer, error) {
	id, secret, ok := r.BasicAuth()
	// Both are always compared, so that the time tells nothing.
	known := subtle.ConstantTimeCompare([]byte(id), []byte(a.identity.ClientID)) & subtle.ConstantTimeCompare([]byte(secret), []byte(a.identity.ClientSecret))
	if !ok || known != 1 {
		return httpkit.Answer{}, errClient
	}
	b, err := readBody(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	defer b.release()
	if grantType(r, b.Bytes()) != "client_credentials" {
		return httpkit.Answer{}, errGrant
	}
	return httpkit.Answer{Header: noStoreHeader, Body: tokenJSON{
		AccessToken: a.newToken(), TokenType: "Bearer", ExpiresIn: int(tokenLifetime / time.Second), Scope: grantedScopes,
	}}, nil
}

// grantType reads a form, or else JSON: both are in use, and some send JSON as a form.
func grantType(r *http.Request, body []byte) string {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media == "application/x-www-form-urlencoded" {
		if form, err := url.ParseQuery(string(body)); err == nil && form.Has("grant_type") {
			return form.Get("grant_type")
		}
	}
	var request struct {
		GrantType string `json:"grant_type"`
	}
	if json.Unmarshal(body, &request) != nil {
		return ""
	}
	return request.GrantType
}

func (a *acquirer) newToken() string {
	b := make([]byte, tokenBodyLen, tokenBodyLen+tokenMACLen)
	b[0] = byte(a.number)
	binary.BigEndian.PutUint64(b[1:], uint64(a.clock.Now().Add(tokenLifetime).Unix()))
	a.books.lockAndFill(b[9:])
	return base64.RawURLEncoding.EncodeToString(append(b, a.sign(b)...))
}

func (a *acquirer) sign(body []byte) []byte {
	mac := hmac.New(sha256.New, a.tokenKey)
	mac.Write(body)
	return mac.Sum(nil)[:tokenMACLen]
}

// goodToken is a token whose signature was found right, so that the next request with it need not be reckoned again.
type goodToken struct {
	token   string
	expires int64 // in seconds
}

// authorize fails unless the request carries a token of this acquirer that has not expired.
func (a *acquirer) authorize(r *http.Request) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if good := a.lastToken.Load(); good != nil && good.token == token && scheme == "Bearer" && a.clock.Now().Unix() < good.expires {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || !strings.EqualFold(scheme, "Bearer") || len(b) != tokenBodyLen+tokenMACLen {
		return errToken
	}
	body, mac := b[:tokenBodyLen], b[tokenBodyLen:]
	expires := int64(binary.BigEndian.Uint64(body[1:]))
	if !hmac.Equal(mac, a.sign(body)) || int(body[0]) != a.number || a.clock.Now().Unix() >= expires {
		return errToken
	}
	a.lastToken.Store(&goodToken{token, expires})
	return nil
}
