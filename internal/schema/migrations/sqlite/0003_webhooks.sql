-- Webhooks: who is told of events, what was sent to them, and the feed that readers follow.

-- The thing that an event happened to, by which each of its transitions has one event; NULL for events from before.
ALTER TABLE event ADD COLUMN ref BLOB;

CREATE UNIQUE INDEX event_once ON event (account_id, ref, type) WHERE ref IS NOT NULL;

CREATE TABLE endpoint (
    account_id    INTEGER NOT NULL, -- whose it is
    id            BLOB    NOT NULL, -- ordered by time; tells when it was registered
    url           TEXT    NOT NULL, -- where events are sent
    events        TEXT    NOT NULL, -- names of types separated by commas, or all
    status        TEXT    NOT NULL CHECK (status IN ('active', 'disabled', 'deleted')), -- only an active one is sent to
    secret        BLOB    NOT NULL, -- what signs, sealed
    next_secret   BLOB,             -- what signs from next_at on, sealed; NULL for none
    next_at       INTEGER,          -- business microseconds UTC; NULL for none
    pace          INTEGER NOT NULL CHECK (pace IN (0, 1, 2)), -- 0 common; 1 has a backlog; 2 is slow to answer
    settled       INTEGER NOT NULL CHECK (settled IN (0, 1)), -- its deliveries are in the lane that status and pace ask for
    failing_since INTEGER,          -- business microseconds UTC of the first failure after the last success; NULL for none
    version       INTEGER NOT NULL, -- of all endpoints when this one last changed
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX endpoint_url ON endpoint (account_id, url) WHERE status <> 'deleted';
CREATE INDEX endpoint_id ON endpoint (id);
CREATE INDEX endpoint_version ON endpoint (version);

CREATE TABLE delivery (
    account_id  INTEGER NOT NULL, -- whose it is
    event_id    BLOB    NOT NULL, -- what is told
    endpoint_id BLOB    NOT NULL, -- to whom
    lane        INTEGER NOT NULL CHECK (lane IN (0, 1, 2)), -- 0 common; 1 apart, found by its endpoint; 2 held while that is disabled
    state       TEXT    NOT NULL CHECK (state IN ('waiting', 'delivered', 'parked', 'cancelled')), -- parked has failed for good
    attempt     INTEGER NOT NULL, -- attempts that were made
    due_at      INTEGER NOT NULL, -- business microseconds UTC of the next attempt
    owner       BLOB,             -- the boot that has it in hand; NULL for none
    PRIMARY KEY (account_id, event_id, endpoint_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_due ON delivery (lane, due_at) WHERE (state = 'waiting') AND (owner IS NULL);
CREATE INDEX delivery_endpoint ON delivery (account_id, endpoint_id, lane, due_at) WHERE (state = 'waiting') AND (owner IS NULL);
CREATE INDEX delivery_owner ON delivery (owner, account_id, event_id, endpoint_id) WHERE owner IS NOT NULL;
CREATE INDEX delivery_parked ON delivery (account_id, event_id) WHERE state = 'parked';

CREATE TABLE delivery_attempt (
    account_id  INTEGER NOT NULL, -- whose it is
    event_id    BLOB    NOT NULL, -- what was told
    endpoint_id BLOB    NOT NULL, -- to whom
    number      INTEGER NOT NULL, -- 1, 2, 3, ...
    at          INTEGER NOT NULL, -- business microseconds UTC when it began
    took        INTEGER NOT NULL, -- real microseconds
    status      INTEGER NOT NULL, -- of the answer; 0 for none
    error       TEXT,             -- why there was no answer; NULL when there was
    response    BLOB,             -- the beginning of the answer; NULL when there was none
    PRIMARY KEY (account_id, event_id, endpoint_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE feed (
    account_id INTEGER NOT NULL PRIMARY KEY, -- whose it is
    next       INTEGER NOT NULL, -- place of the next event that is found
    border     BLOB    NOT NULL  -- every event below it has its place
) STRICT, WITHOUT ROWID;

CREATE TABLE feed_place (
    account_id INTEGER NOT NULL, -- whose it is
    place      INTEGER NOT NULL, -- 1, 2, 3, ... as events were found
    event_id   BLOB    NOT NULL, -- what stands there
    PRIMARY KEY (account_id, place)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX feed_place_event ON feed_place (account_id, event_id);

CREATE TABLE bookmark (
    name   TEXT    NOT NULL PRIMARY KEY, -- endpoints: their version; events: those below id may be gone
    number INTEGER NOT NULL,             -- a version; 0 where it means nothing
    id     BLOB    NOT NULL              -- a border; zeros where it means nothing
) STRICT, WITHOUT ROWID;

INSERT INTO bookmark (name, number, id) VALUES ('endpoints', 0, X'00000000000000000000000000000000');
-- What happened before this migration has no ref, so nobody can tell whether it is complete.
INSERT INTO bookmark (name, number, id)
SELECT 'events', 0, COALESCE((SELECT id FROM event ORDER BY id DESC LIMIT 1), X'00000000000000000000000000000000');

CREATE TABLE seal_key (
    name    TEXT NOT NULL PRIMARY KEY, -- always 'default'
    content BLOB NOT NULL              -- seals secrets where the operator gives no key of his own
) STRICT, WITHOUT ROWID;
