-- Charges and events in the order in which they come. Sorted by account, as SQLite keeps a table WITHOUT ROWID, each account has
-- pages of its own that every COMMIT writes again, and rows of half a kilobyte stand in the upper pages of the tree too, so that
-- those branch six-fold instead of a hundred-fold. The key is an index beside the rows now, as it is on PostgreSQL.

ALTER TABLE event RENAME TO event_before;
CREATE TABLE event (
    account_id INTEGER NOT NULL, -- whose it is
    id         BLOB    NOT NULL, -- ordered by time; tells when it happened
    type       TEXT    NOT NULL, -- such as charge.paid
    data       BLOB    NOT NULL, -- the resource as the API showed it then; JSON
    PRIMARY KEY (account_id, id)
) STRICT;
ALTER TABLE event ADD COLUMN ref BLOB; -- the thing it happened to, by which each of its transitions has one event; NULL for events from before there was one
INSERT INTO event (account_id, id, type, data, ref) SELECT account_id, id, type, data, ref FROM event_before ORDER BY id;
DROP TABLE event_before;
CREATE UNIQUE INDEX event_once ON event (account_id, ref, type) WHERE ref IS NOT NULL;

ALTER TABLE charge RENAME TO charge_before;
CREATE TABLE charge (
    account_id     INTEGER NOT NULL, -- whose it is
    id             BLOB    NOT NULL, -- ordered by time; tells when it was created
    txid           TEXT    NOT NULL, -- what the acquirer knows it by
    external_id    TEXT,             -- the caller's own key; NULL for none
    idem_key       TEXT,             -- the Idempotency-Key that made it; NULL once that is forgotten
    idem_hash      BLOB    NOT NULL, -- of the body that made it
    status         TEXT    NOT NULL CHECK (status IN ('pending', 'paid', 'expired', 'cancelled', 'refunded')), -- where it stands
    amount         INTEGER NOT NULL CHECK (amount > 0),  -- centavos asked for
    fee            INTEGER NOT NULL CHECK (fee >= 0),    -- centavos charged when it was paid; 0 before
    refunded       INTEGER NOT NULL CHECK (refunded >= 0), -- centavos that the acquirer has given back
    description    TEXT,             -- shown to the payer; NULL for none
    payer_name     TEXT,             -- who is asked; NULL for anybody
    payer_document TEXT,             -- CPF or CNPJ of who is asked; NULL for unknown
    postback_url   TEXT,             -- also told of its events; NULL for none
    acquirer       TEXT    NOT NULL, -- where it is
    routing        TEXT    NOT NULL, -- why there, for operators; JSON
    copy_paste     TEXT    NOT NULL, -- what the payer pastes
    end_to_end_id  TEXT,             -- of the payment; NULL before
    paid_at        INTEGER,          -- microseconds UTC; NULL before
    expires_at     INTEGER NOT NULL, -- microseconds UTC
    release_at     INTEGER,          -- microseconds UTC when its money becomes available; NULL when it need not wait
    PRIMARY KEY (account_id, id)
) STRICT;
ALTER TABLE charge ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0); -- centavos of what waits for its release that infractions block or took
ALTER TABLE charge ADD COLUMN origin TEXT NOT NULL DEFAULT 'api' CHECK (origin IN ('api', 'manual')); -- whether a person made it by hand or a key by the API
INSERT INTO charge (account_id, id, txid, external_id, idem_key, idem_hash, status, amount, fee, refunded, description, payer_name, payer_document,
postback_url, acquirer, routing, copy_paste, end_to_end_id, paid_at, expires_at, release_at, held, origin)
SELECT account_id, id, txid, external_id, idem_key, idem_hash, status, amount, fee, refunded, description, payer_name, payer_document,
postback_url, acquirer, routing, copy_paste, end_to_end_id, paid_at, expires_at, release_at, held, origin
FROM charge_before ORDER BY id;
DROP TABLE charge_before;
CREATE UNIQUE INDEX charge_txid ON charge (account_id, txid);
CREATE UNIQUE INDEX charge_external_id ON charge (account_id, external_id) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX charge_idem_key ON charge (account_id, idem_key) WHERE idem_key IS NOT NULL;
CREATE INDEX charge_expiry ON charge (expires_at) WHERE status = 'pending';
CREATE INDEX charge_release ON charge (release_at) WHERE release_at IS NOT NULL;
