-- Accounts, keys and settings; the ledger; what the nodes of one database share.

CREATE TABLE account (
    id                 INTEGER NOT NULL PRIMARY KEY, -- random 40 bits; shown as acc_ and base32
    name               TEXT    NOT NULL,             -- as people call it
    document           TEXT,                         -- CPF or CNPJ of its owner, as given
    created_at         INTEGER NOT NULL,             -- microseconds UTC
    status             TEXT    NOT NULL CHECK (status IN ('active', 'under_review', 'banned')), -- only an active one is served
    kyc                TEXT    NOT NULL CHECK (kyc IN ('approved', 'pending')), -- whether its owner is known
    api_cashin         INTEGER NOT NULL CHECK (api_cashin IN (0, 1)),  -- may create charges by API
    api_cashout        INTEGER NOT NULL CHECK (api_cashout IN (0, 1)), -- may create payouts by API
    api_payout         INTEGER NOT NULL CHECK (api_payout IN (0, 1)),  -- may create crypto payouts by API
    crypto             INTEGER NOT NULL CHECK (crypto IN (0, 1)),      -- may create anything in crypto
    split              INTEGER NOT NULL CHECK (split IN (0, 1)),       -- may ask for a split
    api_tx_limit       INTEGER CHECK (api_tx_limit > 0),               -- centavos a transaction; NULL is no limit
    crypto_tx_limit    INTEGER CHECK (crypto_tx_limit > 0),            -- millionths a transaction; NULL is no limit
    rate_limit         INTEGER NOT NULL CHECK (rate_limit > 0),        -- requests a minute and key
    release_delay      INTEGER NOT NULL CHECK (release_delay >= 0),    -- microseconds that cash-in stays pending
    disabled_resources TEXT    NOT NULL,             -- names separated by commas; empty for none
    cash_in_fee        TEXT    NOT NULL,             -- FIXED[+PERCENT%] in BRL
    cash_out_fee       TEXT    NOT NULL,             -- FIXED[+PERCENT%] in BRL
    crypto_in_fee      TEXT    NOT NULL,             -- FIXED[+PERCENT%] in USDT
    crypto_out_fee     TEXT    NOT NULL              -- FIXED[+PERCENT%] in USDT
) STRICT;

CREATE TABLE api_key (
    prefix     TEXT    NOT NULL PRIMARY KEY, -- the 8 hex digits that name it
    account_id INTEGER NOT NULL,             -- whose it is
    hash       BLOB    NOT NULL,             -- SHA-256 of the 48 hex digits
    scopes     TEXT    NOT NULL,             -- names separated by commas
    created_at INTEGER NOT NULL,             -- microseconds UTC
    revoked_at INTEGER                       -- microseconds UTC; NULL while it works
) STRICT, WITHOUT ROWID;

CREATE INDEX api_key_account ON api_key (account_id, created_at);

CREATE TABLE ip_block (
    network    TEXT    NOT NULL PRIMARY KEY, -- CIDR, masked
    created_at INTEGER NOT NULL,             -- microseconds UTC
    until_at   INTEGER                       -- microseconds UTC of the end; NULL is for good
) STRICT, WITHOUT ROWID;

CREATE TABLE balance (
    account_id INTEGER NOT NULL, -- whose it is
    currency   TEXT    NOT NULL, -- BRL or USDT
    book       TEXT    NOT NULL, -- available, pending, blocked or in_transit
    amount     INTEGER NOT NULL, -- what is folded; the balance is this and the deltas that wait
    last_id    BLOB    NOT NULL, -- the latest transfer that is folded in
    PRIMARY KEY (account_id, currency, book)
) STRICT, WITHOUT ROWID;

CREATE TABLE delta (
    account_id INTEGER NOT NULL, -- whose it is
    currency   TEXT    NOT NULL, -- BRL or USDT
    book       TEXT    NOT NULL, -- the one that is credited
    id         BLOB    NOT NULL, -- of the transfer
    amount     INTEGER NOT NULL CHECK (amount > 0), -- a credit that waits to be folded
    PRIMARY KEY (account_id, currency, book, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE transfer (
    account_id INTEGER NOT NULL, -- whose it is
    id         BLOB    NOT NULL, -- ordered by time; tells when
    currency   TEXT    NOT NULL, -- BRL or USDT
    source     TEXT    NOT NULL, -- the book that gives
    target     TEXT    NOT NULL, -- the book that takes
    amount     INTEGER NOT NULL CHECK (amount > 0), -- in the currency's smallest unit
    kind       TEXT    NOT NULL, -- why
    ref        BLOB,             -- the thing it belongs to; NULL for none
    once_key   TEXT,             -- what may be posted once a kind, such as an end-to-end id; NULL for no such rule
    memo       TEXT,             -- an operator's reason
    PRIMARY KEY (account_id, id),
    CHECK (source <> target)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX transfer_once ON transfer (account_id, kind, once_key) WHERE once_key IS NOT NULL;
CREATE INDEX transfer_adjustment ON transfer (account_id, id) WHERE kind = 'adjustment';
CREATE INDEX transfer_hold ON transfer (account_id, id) WHERE kind IN ('hold', 'release');

CREATE TRIGGER transfer_no_update BEFORE UPDATE ON transfer BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;
CREATE TRIGGER transfer_no_delete BEFORE DELETE ON transfer BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;

CREATE TABLE bound_key (
    account_id INTEGER NOT NULL, -- whose it is
    route      TEXT    NOT NULL, -- method and route: the scope of the key
    key        TEXT    NOT NULL, -- the Idempotency-Key, answered with a resource that existed
    hash       BLOB    NOT NULL, -- of the body that it came with
    bound_at   INTEGER NOT NULL, -- business microseconds UTC
    PRIMARY KEY (account_id, route, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX bound_key_age ON bound_key (bound_at);

CREATE TABLE node (
    boot    BLOB    NOT NULL PRIMARY KEY, -- one start of one process
    beat_at INTEGER NOT NULL              -- real microseconds UTC of its last sign of life
) STRICT, WITHOUT ROWID;

CREATE TABLE clock (
    name      TEXT    NOT NULL PRIMARY KEY, -- always 'business'
    offset_us INTEGER NOT NULL CHECK (offset_us >= 0) -- microseconds ahead of real time; only rises
) STRICT, WITHOUT ROWID;

CREATE TABLE rate_window (
    prefix     TEXT    NOT NULL PRIMARY KEY, -- of the key whose requests are counted
    started_at INTEGER NOT NULL,             -- business microseconds UTC of its first request
    taken      INTEGER NOT NULL,             -- requests that nodes may answer already
    granted    INTEGER NOT NULL,             -- of those, to whoever asked last
    starved    INTEGER NOT NULL CHECK (starved IN (0, 1)) -- somebody asked and got none
) STRICT, WITHOUT ROWID;

CREATE INDEX rate_window_starved ON rate_window (prefix) WHERE starved;
