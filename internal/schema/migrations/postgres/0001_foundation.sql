-- Accounts, keys and settings; the ledger; what the nodes of one database share.

CREATE TABLE account (
    id                 BIGINT  NOT NULL PRIMARY KEY, -- random 40 bits; shown as acc_ and base32
    name               TEXT    NOT NULL,             -- as people call it
    document           TEXT,                         -- CPF or CNPJ of its owner, as given
    created_at         BIGINT  NOT NULL,             -- microseconds UTC
    status             TEXT    NOT NULL CHECK (status IN ('active', 'under_review', 'banned')), -- only an active one is served
    kyc                TEXT    NOT NULL CHECK (kyc IN ('approved', 'pending')), -- whether its owner is known
    api_cashin         BOOLEAN NOT NULL,             -- may create charges by API
    api_cashout        BOOLEAN NOT NULL,             -- may create payouts by API
    api_payout         BOOLEAN NOT NULL,             -- may create crypto payouts by API
    crypto             BOOLEAN NOT NULL,             -- may create anything in crypto
    split              BOOLEAN NOT NULL,             -- may ask for a split
    api_tx_limit       BIGINT  CHECK (api_tx_limit > 0),            -- centavos a transaction; NULL is no limit
    crypto_tx_limit    BIGINT  CHECK (crypto_tx_limit > 0),         -- millionths a transaction; NULL is no limit
    rate_limit         BIGINT  NOT NULL CHECK (rate_limit > 0),     -- requests a minute and key
    release_delay      BIGINT  NOT NULL CHECK (release_delay >= 0), -- microseconds that cash-in stays pending
    disabled_resources TEXT    NOT NULL,             -- names separated by commas; empty for none
    cash_in_fee        TEXT    NOT NULL,             -- FIXED[+PERCENT%] in BRL
    cash_out_fee       TEXT    NOT NULL,             -- FIXED[+PERCENT%] in BRL
    crypto_in_fee      TEXT    NOT NULL,             -- FIXED[+PERCENT%] in USDT
    crypto_out_fee     TEXT    NOT NULL              -- FIXED[+PERCENT%] in USDT
);

CREATE TABLE api_key (
    prefix     TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- the 8 hex digits that name it
    account_id BIGINT NOT NULL,                       -- whose it is
    hash       BYTEA  NOT NULL,                       -- SHA-256 of the 48 hex digits
    scopes     TEXT   NOT NULL,                       -- names separated by commas
    created_at BIGINT NOT NULL,                       -- microseconds UTC
    revoked_at BIGINT                                 -- microseconds UTC; NULL while it works
);

CREATE INDEX api_key_account ON api_key (account_id, created_at);

CREATE TABLE ip_block (
    network    TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- CIDR, masked
    created_at BIGINT NOT NULL,                       -- microseconds UTC
    until_at   BIGINT                                 -- microseconds UTC of the end; NULL is for good
);

-- Half-empty pages, so that an update finds room beside the old row and leaves the index alone.
CREATE TABLE balance (
    account_id BIGINT NOT NULL, -- whose it is
    currency   TEXT COLLATE "C" NOT NULL, -- BRL or USDT
    book       TEXT COLLATE "C" NOT NULL, -- available, pending, blocked or in_transit
    amount     BIGINT NOT NULL, -- what is folded; the balance is this and the deltas that wait
    last_id    UUID   NOT NULL, -- the latest transfer that is folded in
    PRIMARY KEY (account_id, currency, book)
) WITH (fillfactor = 50);

-- Rows live for a second: dead ones must go as fast, or every balance read wades through them.
CREATE TABLE delta (
    account_id BIGINT NOT NULL, -- whose it is
    currency   TEXT COLLATE "C" NOT NULL, -- BRL or USDT
    book       TEXT COLLATE "C" NOT NULL, -- the one that is credited
    id         UUID   NOT NULL, -- of the transfer
    amount     BIGINT NOT NULL CHECK (amount > 0), -- a credit that waits to be folded
    PRIMARY KEY (account_id, currency, book, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- No foreign keys: each insert would take a share lock on the one row of a busy account.
CREATE TABLE transfer (
    account_id BIGINT NOT NULL, -- whose it is
    id         UUID   NOT NULL, -- ordered by time; tells when
    currency   TEXT   NOT NULL, -- BRL or USDT
    source     TEXT   NOT NULL, -- the book that gives
    target     TEXT   NOT NULL, -- the book that takes
    amount     BIGINT NOT NULL CHECK (amount > 0), -- in the currency's smallest unit
    kind       TEXT COLLATE "C" NOT NULL, -- why
    ref        UUID,   -- the thing it belongs to; NULL for none
    once_key   TEXT COLLATE "C", -- what may be posted once a kind, such as an end-to-end id; NULL for no such rule
    memo       TEXT,   -- an operator's reason
    PRIMARY KEY (account_id, id),
    CHECK (source <> target)
);

CREATE UNIQUE INDEX transfer_once ON transfer (account_id, kind, once_key) WHERE once_key IS NOT NULL;
CREATE INDEX transfer_adjustment ON transfer (account_id, id) WHERE kind = 'adjustment';
CREATE INDEX transfer_hold ON transfer (account_id, id) WHERE kind IN ('hold', 'release');

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;
CREATE TRIGGER transfer_no_update BEFORE UPDATE ON transfer FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER transfer_no_delete BEFORE DELETE ON transfer FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER transfer_no_truncate BEFORE TRUNCATE ON transfer FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
REVOKE UPDATE, DELETE, TRUNCATE ON transfer FROM PUBLIC, CURRENT_USER;

CREATE TABLE bound_key (
    account_id BIGINT NOT NULL, -- whose it is
    route      TEXT COLLATE "C" NOT NULL, -- method and route: the scope of the key
    key        TEXT COLLATE "C" NOT NULL, -- the Idempotency-Key, answered with a resource that existed
    hash       BYTEA  NOT NULL, -- of the body that it came with
    bound_at   BIGINT NOT NULL, -- business microseconds UTC
    PRIMARY KEY (account_id, route, key)
);

CREATE INDEX bound_key_age ON bound_key (bound_at);

CREATE TABLE node (
    boot    UUID   NOT NULL PRIMARY KEY, -- one start of one process
    beat_at BIGINT NOT NULL              -- real microseconds UTC of its last sign of life
);

CREATE TABLE clock (
    name      TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- always 'business'
    offset_us BIGINT NOT NULL CHECK (offset_us >= 0) -- microseconds ahead of real time; only rises
);

-- Unlogged: a crash of the database restarts the windows, which costs nobody money.
CREATE UNLOGGED TABLE rate_window (
    prefix     TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- of the key whose requests are counted
    started_at BIGINT  NOT NULL, -- business microseconds UTC of its first request
    taken      BIGINT  NOT NULL, -- requests that nodes may answer already
    granted    BIGINT  NOT NULL, -- of those, to whoever asked last
    starved    BOOLEAN NOT NULL  -- somebody asked and got none
);

CREATE INDEX rate_window_starved ON rate_window (prefix) WHERE starved;
