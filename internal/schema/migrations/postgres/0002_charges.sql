-- Pix cash-in: charges, what happened to them, and money that belongs to none of them.

CREATE TABLE charge (
    account_id     BIGINT NOT NULL, -- whose it is
    id             UUID    NOT NULL, -- ordered by time; tells when it was created
    txid           TEXT COLLATE "C" NOT NULL, -- what the acquirer knows it by
    external_id    TEXT COLLATE "C", -- the caller's own key; NULL for none
    idem_key       TEXT COLLATE "C", -- the Idempotency-Key that made it; NULL once that is forgotten
    idem_hash      BYTEA   NOT NULL, -- of the body that made it
    status         TEXT    NOT NULL CHECK (status IN ('pending', 'paid', 'expired', 'cancelled', 'refunded')), -- where it stands
    amount         BIGINT NOT NULL CHECK (amount > 0),  -- centavos asked for
    fee            BIGINT NOT NULL CHECK (fee >= 0),    -- centavos charged when it was paid; 0 before
    refunded       BIGINT NOT NULL CHECK (refunded >= 0), -- centavos that the acquirer has given back
    description    TEXT,             -- shown to the payer; NULL for none
    payer_name     TEXT,             -- who is asked; NULL for anybody
    payer_document TEXT,             -- CPF or CNPJ of who is asked; NULL for unknown
    postback_url   TEXT,             -- also told of its events; NULL for none
    acquirer       TEXT COLLATE "C" NOT NULL, -- where it is
    routing        TEXT    NOT NULL, -- why there, for operators; JSON
    copy_paste     TEXT    NOT NULL, -- what the payer pastes
    end_to_end_id  TEXT COLLATE "C", -- of the payment; NULL before
    paid_at        BIGINT,          -- microseconds UTC; NULL before
    expires_at     BIGINT NOT NULL, -- microseconds UTC
    release_at     BIGINT,          -- microseconds UTC when its money becomes available; NULL when it need not wait
    PRIMARY KEY (account_id, id)
);

CREATE UNIQUE INDEX charge_txid ON charge (account_id, txid);
CREATE UNIQUE INDEX charge_external_id ON charge (account_id, external_id) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX charge_idem_key ON charge (account_id, idem_key) WHERE idem_key IS NOT NULL;
CREATE INDEX charge_expiry ON charge (expires_at) WHERE status = 'pending';
CREATE INDEX charge_release ON charge (release_at) WHERE release_at IS NOT NULL;

CREATE INDEX transfer_inflow ON transfer (account_id, id) WHERE kind = 'inflow';

CREATE TABLE event (
    account_id BIGINT NOT NULL, -- whose it is
    id         UUID    NOT NULL, -- ordered by time; tells when it happened
    type       TEXT    NOT NULL, -- such as charge.paid
    data       BYTEA   NOT NULL, -- the resource as the API showed it then; JSON
    PRIMARY KEY (account_id, id)
);

CREATE TABLE unmatched (
    acquirer      TEXT COLLATE "C" NOT NULL, -- who got it
    end_to_end_id TEXT COLLATE "C" NOT NULL, -- of the payment
    txid          TEXT COLLATE "C", -- what it says it pays; NULL for nothing
    amount        BIGINT NOT NULL, -- centavos
    paid_at       BIGINT NOT NULL, -- microseconds UTC
    found_at      BIGINT NOT NULL, -- business microseconds UTC when it was found
    reason        TEXT    NOT NULL, -- why it is nobody's
    PRIMARY KEY (acquirer, end_to_end_id)
);

CREATE TABLE acquirer_cursor (
    acquirer TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- whose list of payments is read
    read_at  BIGINT NOT NULL              -- business microseconds UTC up to which it was read
);
