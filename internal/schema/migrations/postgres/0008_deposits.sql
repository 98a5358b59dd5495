-- Crypto cash-in: deposits, which are stored before their provider is asked for an address, and money that belongs to none of them.

CREATE TABLE deposit (
    account_id     BIGINT NOT NULL, -- whose it is
    id             UUID NOT NULL, -- ordered by time; tells when it was created, and is the name that its provider knows it by
    external_id    TEXT COLLATE "C", -- the caller's own key; NULL for none
    idem_key       TEXT COLLATE "C", -- the Idempotency-Key that made it; NULL for none, or once that is forgotten
    idem_hash      BYTEA NOT NULL, -- of the body that made it
    status         TEXT NOT NULL CHECK (status IN ('processing', 'waiting', 'confirming', 'paid', 'failed', 'expired', 'refunded')), -- where it stands
    price          BIGINT NOT NULL CHECK (price > 0), -- cents of USD asked for
    pay_currency   TEXT NOT NULL, -- code of the coin asked for
    description    TEXT, -- the caller's own; NULL for none
    customer_id    TEXT COLLATE "C", -- the caller's own name for its customer; NULL for none
    customer_email TEXT, -- of that customer; NULL for unknown
    metadata       TEXT, -- the caller's own object; JSON; NULL for none
    provider       TEXT COLLATE "C" NOT NULL, -- where its address is
    asks           BIGINT NOT NULL CHECK (asks >= 0), -- how often the provider was about to be asked for an address; 0 for one that the provider made by itself
    asked_at       BIGINT NOT NULL, -- business microseconds UTC since when the last of these may be under way
    check_at       BIGINT, -- business microseconds UTC when its provider is asked how it stands; NULL once it has ended
    payment_id     TEXT COLLATE "C", -- the provider's name for it; NULL before it has an address
    parent         TEXT COLLATE "C", -- of money that came to a used address again, the payment whose address it is; NULL for all others
    pay_address    TEXT, -- where coins are to be sent; NULL before
    pay_extra_id   TEXT, -- memo or tag that goes with them; NULL for none
    pay_amount     TEXT, -- coins asked for, a decimal; NULL before, and when nobody asked
    paid_amount    TEXT, -- coins that came, a decimal; NULL for none, or another coin
    amount_status  TEXT CHECK (amount_status IN ('underpaid', 'exact', 'overpaid')), -- how these two compare; NULL before it is settled
    received       BIGINT NOT NULL CHECK (received >= 0), -- millionths of USDT that the provider settled, all of them posted
    fee            BIGINT NOT NULL CHECK (fee >= 0), -- millionths of USDT charged for them
    refunded       BIGINT NOT NULL CHECK (refunded >= 0 AND refunded <= received), -- millionths of USDT that the provider has given back
    expires_at     BIGINT, -- microseconds UTC until when the provider waits; NULL when it does not tell
    detected_at    BIGINT, -- business microseconds UTC when it became confirming; NULL when it never was
    paid_at        BIGINT, -- business microseconds UTC when it became paid; NULL when it never did
    review         TEXT CHECK (review IN ('late', 'refund', 'stuck', 'more', 'coin')), -- why an operator should look at it; NULL for no reason
    review_at      BIGINT, -- business microseconds UTC since when; NULL for no reason
    PRIMARY KEY (account_id, id)
);

CREATE UNIQUE INDEX deposit_external_id ON deposit (account_id, external_id) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX deposit_idem_key ON deposit (account_id, idem_key) WHERE idem_key IS NOT NULL;
CREATE UNIQUE INDEX deposit_payment_id ON deposit (account_id, provider, payment_id) WHERE payment_id IS NOT NULL;
CREATE INDEX deposit_customer ON deposit (account_id, customer_id, id) WHERE customer_id IS NOT NULL;
CREATE INDEX deposit_check ON deposit (provider, check_at) WHERE check_at IS NOT NULL;
CREATE INDEX deposit_review ON deposit (review_at) WHERE review_at IS NOT NULL;

CREATE TABLE unmatched_deposit (
    provider   TEXT COLLATE "C" NOT NULL, -- who got it
    payment_id TEXT COLLATE "C" NOT NULL, -- the provider's name for it
    reference  TEXT, -- what it says it pays; NULL for nothing
    amount     BIGINT NOT NULL, -- millionths of USDT that were settled
    found_at   BIGINT NOT NULL, -- business microseconds UTC when it was found
    reason     TEXT NOT NULL, -- why it is nobody's
    PRIMARY KEY (provider, payment_id)
);
