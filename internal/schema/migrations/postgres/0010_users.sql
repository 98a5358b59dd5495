-- People: who may use the dashboard, how they sign in, and what a person did by hand.

CREATE TABLE person (
    id           UUID NOT NULL PRIMARY KEY, -- ordered by time; tells when they first came
    email        TEXT COLLATE "C" NOT NULL, -- what they sign in with, in lower case
    name         TEXT NOT NULL, -- as people call them
    password     TEXT NOT NULL, -- argon2id with its parameters and salt
    operator     BOOLEAN NOT NULL, -- may use the operator's pages
    totp         BYTEA, -- the secret of their authenticator app, sealed; NULL for none
    totp_next    BYTEA, -- one that they have not confirmed yet, sealed; NULL for none
    totp_step    BIGINT NOT NULL, -- the last step whose code was taken: each is good once
    totp_for     TEXT NOT NULL, -- what that code was given for: the key of a form, or nothing
    created_at   BIGINT NOT NULL -- real microseconds UTC
);

CREATE UNIQUE INDEX person_email ON person (email);

CREATE TABLE member (
    account_id BIGINT NOT NULL, -- of which account
    person_id  UUID NOT NULL, -- who
    role       TEXT NOT NULL CHECK (role IN ('owner', 'finance', 'developer', 'viewer')), -- what they may do there
    created_at BIGINT NOT NULL, -- real microseconds UTC
    PRIMARY KEY (account_id, person_id)
);

CREATE INDEX member_person ON member (person_id, account_id);

CREATE TABLE recovery_code (
    person_id UUID NOT NULL, -- whose it is
    hash      BYTEA NOT NULL, -- SHA-256; the row goes when it is used
    PRIMARY KEY (person_id, hash)
);

CREATE TABLE invitation (
    hash       BYTEA NOT NULL PRIMARY KEY, -- SHA-256 of what is in the link
    id         UUID NOT NULL, -- names it without opening it
    kind       TEXT NOT NULL CHECK (kind IN ('invite', 'reset')), -- to come in, or to choose a new password
    email      TEXT COLLATE "C" NOT NULL, -- whom it is for
    operator   BOOLEAN NOT NULL, -- makes an operator
    account_id BIGINT, -- makes a member; NULL for none
    role       TEXT CHECK (role IN ('owner', 'finance', 'developer', 'viewer')), -- of the member; NULL for none
    expires_at BIGINT NOT NULL -- real microseconds UTC; the row goes when it is used
);

CREATE INDEX invitation_account ON invitation (account_id, expires_at);
CREATE INDEX invitation_expires ON invitation (expires_at);

CREATE TABLE session (
    id         UUID NOT NULL PRIMARY KEY, -- names it without opening it
    hash       BYTEA NOT NULL, -- SHA-256 of what is in the cookie
    person_id  UUID NOT NULL, -- whose it is
    whole      BOOLEAN NOT NULL, -- the second factor was given, or is not needed; else the session is good for giving it and nothing more
    strong     BOOLEAN NOT NULL, -- the second factor was given
    created_at BIGINT NOT NULL, -- real microseconds UTC
    seen_at    BIGINT NOT NULL, -- real microseconds UTC, to the minute
    expires_at BIGINT NOT NULL, -- real microseconds UTC of its end when it is not used
    address    TEXT NOT NULL, -- where it was opened from
    agent      TEXT NOT NULL -- with which browser
);

CREATE UNIQUE INDEX session_hash ON session (hash);
CREATE INDEX session_person ON session (person_id, id);
CREATE INDEX session_expires ON session (expires_at);

CREATE TABLE sign_in_try (
    source   TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- an address, or a hash of whom somebody wanted to be
    tries    BIGINT NOT NULL, -- since since_at
    since_at BIGINT NOT NULL -- real microseconds UTC
);

CREATE INDEX sign_in_try_since ON sign_in_try (since_at);

-- When a key was used, and by which form it was made.
ALTER TABLE api_key ADD COLUMN used_at BIGINT; -- business microseconds UTC of the last use, to the minute; NULL for never
ALTER TABLE api_key ADD COLUMN once TEXT COLLATE "C"; -- names the form that made it, so that it makes one; NULL for keys that operators made

CREATE UNIQUE INDEX api_key_once ON api_key (account_id, once) WHERE once IS NOT NULL;

-- What proved an attempt to its receiver, as it was sent; NULL for attempts from before, and where nothing was sent.
ALTER TABLE delivery_attempt ADD COLUMN signature TEXT;

-- Whether a person made it by hand or a key by the API.
ALTER TABLE charge ADD COLUMN origin TEXT NOT NULL DEFAULT 'api' CHECK (origin IN ('api', 'manual'));
ALTER TABLE payout ADD COLUMN origin TEXT NOT NULL DEFAULT 'api' CHECK (origin IN ('api', 'manual'));
ALTER TABLE withdrawal ADD COLUMN origin TEXT NOT NULL DEFAULT 'api' CHECK (origin IN ('api', 'manual'));

-- The few of an account that nobody knows of, for its own pages.
CREATE INDEX payout_own_doubt ON payout (account_id, doubt_at) WHERE doubt_at IS NOT NULL;
CREATE INDEX withdrawal_own_doubt ON withdrawal (account_id, doubt_at) WHERE doubt_at IS NOT NULL;

-- What came in and went out a day, added up as far as the mark.
CREATE TABLE activity (
    account_id BIGINT NOT NULL, -- whose it is
    currency   TEXT COLLATE "C" NOT NULL, -- BRL or USDT
    day        BIGINT NOT NULL, -- days since 1970-01-01, in Brasilia's time
    inflow     BIGINT NOT NULL, -- from acquirers, in the currency's smallest unit
    outflow    BIGINT NOT NULL, -- to acquirers
    fees       BIGINT NOT NULL, -- charged
    PRIMARY KEY (account_id, currency, day)
);

CREATE TABLE activity_mark (
    account_id BIGINT NOT NULL PRIMARY KEY, -- whose it is
    up_to      UUID NOT NULL -- the last transfer that is added up
);
