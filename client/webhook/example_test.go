package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/client/webhook"
)

// A handler that verifies by itself.
func ExampleVerify() {
	header := sign(secret, sentAt, body) // the header x-service-signature
	err := webhook.Verify(header, []byte(body), secret, sentAt.Add(2*time.Second))
	fmt.Println("genuine:", err)
	err = webhook.Verify(header, []byte(strings.ReplaceAll(body, "25.50", "99.50")), secret, sentAt)
	fmt.Println("changed:", err)
	// Output:
	// genuine: <nil>
	// changed: webhook: the signature is wrong
}

// A whole receiver. In a real one Once is a row in the database, written in the transaction that handles the event.
func ExampleReceiver() {
	var mu sync.Mutex
	seen := map[string]bool{}
	receiver := &webhook.Receiver{
		Secrets: []string{secret},
		On: map[string]func(context.Context, webhook.Event) error{
			"charge.paid": func(_ context.Context, e webhook.Event) error {
				c, err := e.Charge()
				if err == nil {
					fmt.Println("paid:", c.ID, c.Amount)
				}
				return err
			},
		},
		Once: func(ctx context.Context, id string, handle func(context.Context) error) error {
			mu.Lock()
			defer mu.Unlock()
			if seen[id] {
				return nil
			}
			err := handle(ctx)
			seen[id] = err == nil
			return err
		},
		Now: func() time.Time { return sentAt },
	}
	server := httptest.NewServer(receiver)
	defer server.Close()
	for range 2 { // at least once means: sometimes twice
		request, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, strings.NewReader(body))
		request.Header.Set(webhook.SignatureHeader, sign(secret, sentAt, body))
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode)
	}
	// Output:
	// paid: chg_1 25.50
	// 200
	// 200
}
