package chainworld

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238 as authenticator apps speak it
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	tokenTime = 5 * time.Minute
	totpStep  = 30 // seconds
)

// authorize fails unless a request shows the API key.
func (w *World) authorize(r *http.Request) *refusal {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Api-Key")), []byte(w.identity.APIKey)) != 1 {
		return &refusal{http.StatusForbidden, "INVALID_API_KEY", "Invalid api key"}
	}
	return nil
}

// authorizeToken fails unless a request shows a token that has not expired, too.
func (w *World) authorizeToken(r *http.Request) *refusal {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return &refusal{http.StatusUnauthorized, "AUTH_REQUIRED", "Authorization header is empty (Bearer JWTtoken is required)"}
	}
	head, signature, _ := cutLast(token)
	var claims struct {
		Expires int64 `json:"exp"`
	}
	_, payload, _ := strings.Cut(head, ".")
	body, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(body, &claims) != nil || !hmac.Equal([]byte(signature), []byte(w.signToken(head))) ||
		w.options.Clock.Now().Unix() >= claims.Expires {
		return &refusal{http.StatusUnauthorized, "INVALID_TOKEN", "jwt expired"}
	}
	return nil
}

func cutLast(s string) (head, tail string, ok bool) {
	at := strings.LastIndexByte(s, '.')
	if at < 0 {
		return "", "", false
	}
	return s[:at], s[at+1:], true
}

func (w *World) signToken(head string) string {
	mac := hmac.New(sha256.New, []byte(w.identity.Tokens))
	mac.Write([]byte(head))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// postAuth gives out a token for the dashboard's login.
func (w *World) postAuth(r *http.Request) (reply, *refusal) {
	var login struct {
		Email    string `json:"email"`
		Password string `json:"password"`
	}
	if refused := readJSON(r, &login); refused != nil {
		return reply{}, refused
	}
	if login.Email != email || subtle.ConstantTimeCompare([]byte(login.Password), []byte(w.identity.Password)) != 1 {
		return reply{}, &refusal{http.StatusForbidden, "ACCESS_DENIED", "Bad credentials"}
	}
	now := w.options.Clock.Now()
	claims := fmt.Sprintf(`{"id":"1","iat":%d,"exp":%d}`, now.Unix(), now.Add(tokenTime).Unix())
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	return reply{body: map[string]any{"token": head + "." + w.signToken(head)}}, nil
}

// isCode reports whether a code is that of this half minute or the one before, and of which step it is. The second factor
// is on real time, as people's phones are.
func (w *World) isCode(code string) (step int64, ok bool) {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(w.identity.TOTP)
	if err != nil {
		return 0, false
	}
	now := w.options.Clock.Real().Unix() / totpStep
	for _, step := range []int64{now, now - 1} {
		mac := hmac.New(sha1.New, key)
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
		sum := mac.Sum(nil)
		at := sum[len(sum)-1] & 0x0f
		want := fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[at:])&0x7fffffff)%1_000_000)
		if subtle.ConstantTimeCompare([]byte(code), []byte(want)) == 1 {
			return step, true
		}
	}
	return 0, false
}
