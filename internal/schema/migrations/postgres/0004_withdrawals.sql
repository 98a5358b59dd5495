-- Crypto cash-out: withdrawals, which hold their money until the provider has told where the coins are.

CREATE TABLE withdrawal (
    account_id     BIGINT NOT NULL, -- whose it is
    id             UUID NOT NULL, -- ordered by time; tells when it was created, and is the name that the provider knows it by
    external_id    TEXT COLLATE "C", -- the caller's own key; NULL for none
    idem_key       TEXT COLLATE "C", -- the Idempotency-Key that made it; NULL for none, or once that is forgotten
    idem_hash      BYTEA NOT NULL, -- of the body that made it
    status         TEXT NOT NULL CHECK (status IN ('processing', 'completed', 'failed')), -- where it stands
    currency       TEXT NOT NULL, -- code of the coin
    address        TEXT COLLATE "C" NOT NULL, -- where the coins go
    extra_id       TEXT, -- memo or tag beside the address; NULL for none
    amount         BIGINT NOT NULL CHECK (amount > 0), -- millionths of USDT whose worth is sent
    fee            BIGINT NOT NULL CHECK (fee >= 0), -- millionths of USDT that the account pays on top
    conversion_fee BIGINT NOT NULL CHECK (conversion_fee >= 0), -- the part of the fee that is for conversion
    coins          TEXT NOT NULL, -- what the provider is asked to send, in the coin; a decimal number
    provider       TEXT COLLATE "C" NOT NULL, -- who is asked to send it
    provider_id    TEXT COLLATE "C", -- the payout there that is this one, written once and before that is verified; NULL until it is known
    sends          BIGINT NOT NULL CHECK (sends > 0), -- how often the provider was about to be asked to make it; what is known of one decides nothing after the next
    sent_at        BIGINT, -- business microseconds UTC since when the last of them may be under way; NULL when it is proven not to be
    verified_at    BIGINT, -- business microseconds UTC when it was last confirmed with the second factor; NULL before
    check_at       BIGINT NOT NULL, -- business microseconds UTC when the provider is asked how it stands, while it is processing
    doubt_at       BIGINT, -- business microseconds UTC since when nobody knows whether its coins left; NULL while that is known, or not asked yet
    tx_hash        TEXT COLLATE "C", -- of the transaction on the chain; NULL before it is told
    reason         TEXT, -- what the provider last said against it, for operators; NULL for nothing
    error_message  TEXT, -- why it failed, for the caller; NULL otherwise
    completed_at   BIGINT, -- microseconds UTC; NULL before
    PRIMARY KEY (account_id, id)
);

CREATE UNIQUE INDEX withdrawal_external_id ON withdrawal (account_id, external_id) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX withdrawal_idem_key ON withdrawal (account_id, idem_key) WHERE idem_key IS NOT NULL;
CREATE INDEX withdrawal_provider_id ON withdrawal (provider, provider_id) WHERE provider_id IS NOT NULL;
CREATE INDEX withdrawal_check ON withdrawal (provider, check_at) WHERE status = 'processing';
CREATE INDEX withdrawal_doubt ON withdrawal (doubt_at) WHERE doubt_at IS NOT NULL;
