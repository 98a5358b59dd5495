package api

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Things are a resource of these tests, made by POST /v1/things as every creation of the API is made: the header is
// checked, the body is read, the engine decides. A thing's material data is its amount.
type Things struct {
	DB       *sqldb.DB
	Clock    *clock.Clock
	Engine   *idempotency.Engine
	Creating func() error // runs before each creation; what it returns fails it; nil for nothing
}

// ThingTable makes the table of things.
const ThingTable = `CREATE TABLE test_thing (
    account_id  BIGINT NOT NULL,
    id          BIGINT NOT NULL,
    amount      BIGINT NOT NULL,
    note        TEXT,
    idem_key    TEXT,
    idem_hash   TEXT NOT NULL,
    external_id TEXT,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, idem_key),
    UNIQUE (account_id, external_id)
)`

const (
	insertThing = `INSERT INTO test_thing (account_id, id, amount, note, idem_key, idem_hash, external_id, created_at)
VALUES ($1, $2, $3, NULLIF($4, ''), $5, $6, NULLIF($7, ''), $8) ON CONFLICT DO NOTHING RETURNING id`
	findThings = `SELECT id, amount, COALESCE(note, ''), COALESCE(idem_key, ''), idem_hash, COALESCE(external_id, ''), created_at
FROM test_thing WHERE account_id = $1 AND (idem_key = $2 OR external_id = $3)`
	unbindThing = `UPDATE test_thing SET idem_key = NULL WHERE account_id = $1 AND idem_key = $2 AND created_at < $3`
	countThings = `SELECT COUNT(*) FROM test_thing`
)

type thing struct {
	ID         int64     `json:"id"`
	Amount     money.BRL `json:"amount"`
	Note       string    `json:"note"`
	ExternalID *string   `json:"external_id"`
}

// Mount serves POST /v1/things.
func (th *Things) Mount(a *API) {
	a.handle(&route{
		method: http.MethodPost, path: "/things", key: idempotency.Required,
		scopes: []account.Scopes{account.ScopeChargesWrite}, resource: account.ResourceCharges,
		answer: func(_ *API, c *call) (httpkit.Answer, error) { return th.post(c) },
	})
}

func (th *Things) post(c *call) (httpkit.Answer, error) {
	body, err := httpkit.ReadObject(c.Request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	f := httpkit.Fields(body)
	want := thing{
		Amount:     f.BRL("amount", httpkit.BRLRule{Required: true, Min: 2_00}),
		Note:       f.String("note", httpkit.StringRule{Max: 140}).Value,
		ExternalID: f.String("external_id", httpkit.StringRule{Min: 1, Max: 120}).Pointer(),
	}
	f.String("payer_name", httpkit.StringRule{Max: 200, Alt: "payer.name"})
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	req := idempotency.Request{
		Policy: idempotency.Pix, Account: c.principal.Account.ID, Route: "POST /things",
		Key: c.Header.Get(idempotencyKeyHeader), Hash: body.Hash(), Kind: "thing",
	}
	if want.ExternalID != nil {
		req.ExternalID = *want.ExternalID
	}
	made, outcome, err := idempotency.Do(c.Context(), th.Engine, req,
		func(ctx context.Context) (idempotency.Found[thing], error) { return th.find(ctx, req, want) },
		func(ctx context.Context, claim idempotency.Claim) (thing, error) {
			return th.create(ctx, req, want, claim)
		})
	if err != nil {
		return httpkit.Answer{}, err
	}
	return created(outcome, made), nil
}

func (th *Things) find(ctx context.Context, req idempotency.Request, want thing) (found idempotency.Found[thing], err error) {
	_, err = sqldb.All(ctx, th.DB, func(r sqldb.Row) (got thing, err error) {
		var key, hash, externalID string
		var createdAt int64
		if err = r.Scan(&got.ID, &got.Amount, &got.Note, &key, &hash, &externalID, &createdAt); err != nil {
			return got, err
		}
		if externalID != "" {
			got.ExternalID = &externalID
		}
		stored := &idempotency.Stored[thing]{Resource: got, KeyAt: time.UnixMicro(createdAt), SameMaterial: got.Amount == want.Amount}
		if _, err = hex.Decode(stored.Hash[:], []byte(hash)); err != nil {
			return got, err
		}
		if req.Key != "" && key == req.Key {
			found.ByKey = stored
		}
		if req.ExternalID != "" && externalID == req.ExternalID {
			found.ByExternalID = stored
		}
		return got, nil
	}, findThings, int64(req.Account), req.Key, req.ExternalID)
	return found, err
}

func (th *Things) create(ctx context.Context, req idempotency.Request, want thing, claim idempotency.Claim) (thing, error) {
	if th.Creating != nil {
		if err := th.Creating(); err != nil {
			return thing{}, err
		}
	}
	want.ID = rand.Int64()
	err := th.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if !claim.UnbindBefore.IsZero() {
			tx.Queue(ctx, unbindThing, int64(req.Account), req.Key, claim.UnbindBefore.UnixMicro())
		}
		_, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], insertThing, int64(req.Account), want.ID, int64(want.Amount), want.Note,
			req.Key, hex.EncodeToString(req.Hash[:]), req.ExternalID, th.Clock.Now().UnixMicro())
		if errors.Is(err, sqldb.ErrNoRows) {
			return sqldb.ErrConflict
		}
		return err
	})
	return want, err
}

// Count returns how many things there are.
func (th *Things) Count(ctx context.Context) (int64, error) {
	return sqldb.One(ctx, th.DB, sqldb.Scalar[int64], countThings)
}
