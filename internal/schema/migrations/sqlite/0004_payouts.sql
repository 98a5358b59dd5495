-- Pix cash-out: payouts, which hold their money until an acquirer has told where it is.

CREATE TABLE payout (
    account_id         INTEGER NOT NULL, -- whose it is
    id                 BLOB NOT NULL, -- ordered by time; tells when it was created, and is the name that acquirers know it by
    external_id        TEXT NOT NULL, -- the caller's own key
    idem_key           TEXT, -- the Idempotency-Key that made it; NULL for none, or once that is forgotten
    idem_hash          BLOB NOT NULL, -- of the body that made it
    status             TEXT NOT NULL CHECK (status IN ('processing', 'completed', 'failed', 'reversed')), -- where it stands
    answer             TEXT NOT NULL CHECK (answer IN ('processing', 'failed', 'unknown')), -- what the request that made it was told, for its repetition
    amount             INTEGER NOT NULL CHECK (amount > 0), -- centavos that the recipient gets
    fee                INTEGER NOT NULL CHECK (fee >= 0), -- centavos that the account pays on top
    returned           INTEGER NOT NULL CHECK (returned >= 0), -- centavos that came back after it was completed
    pix_key            TEXT NOT NULL, -- the recipient's, as banks look it up
    recipient_name     TEXT, -- as the caller told; NULL for unknown
    recipient_document TEXT, -- CPF or CNPJ that the key must belong to; NULL for anybody
    description        TEXT, -- shown to the recipient; NULL for none
    postback_url       TEXT, -- also told of its events; NULL for none
    acquirer           TEXT NOT NULL, -- who was asked to send it last, and is the only one that can know
    sends              INTEGER NOT NULL CHECK (sends > 0), -- how often an acquirer was about to be asked to send it; what is known of one send decides nothing after the next
    sent_at            INTEGER NOT NULL, -- business microseconds UTC since when the last of them may be under way
    check_at           INTEGER NOT NULL, -- business microseconds UTC when its acquirer is asked how it stands, while it is processing
    doubt_at           INTEGER, -- business microseconds UTC since when nobody knows whether its money left; NULL while that is known, or not asked yet
    routing            TEXT NOT NULL, -- which acquirers refused it before, for operators; JSON
    end_to_end_id      TEXT, -- of the Pix; NULL before it is completed
    error_message      TEXT, -- why it failed, for the caller; NULL otherwise
    completed_at       INTEGER, -- microseconds UTC; NULL before
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX payout_external_id ON payout (account_id, external_id);
CREATE UNIQUE INDEX payout_idem_key ON payout (account_id, idem_key) WHERE idem_key IS NOT NULL;
CREATE INDEX payout_check ON payout (acquirer, check_at) WHERE status = 'processing';
CREATE INDEX payout_doubt ON payout (doubt_at) WHERE doubt_at IS NOT NULL;
