-- Webhooks: who is told of events, what was sent to them, and the feed that readers follow.

-- The thing that an event happened to, by which each of its transitions has one event; NULL for events from before.
ALTER TABLE event ADD COLUMN ref UUID;
ALTER TABLE event ALTER COLUMN type TYPE TEXT COLLATE "C";

CREATE UNIQUE INDEX event_once ON event (account_id, ref, type) WHERE ref IS NOT NULL;

CREATE TABLE endpoint (
    account_id    BIGINT NOT NULL, -- whose it is
    id            UUID    NOT NULL, -- ordered by time; tells when it was registered
    url           TEXT COLLATE "C"    NOT NULL, -- where events are sent
    events        TEXT    NOT NULL, -- names of types separated by commas, or all
    status        TEXT    NOT NULL CHECK (status IN ('active', 'disabled', 'deleted')), -- only an active one is sent to
    secret        BYTEA    NOT NULL, -- what signs, sealed
    next_secret   BYTEA,             -- what signs from next_at on, sealed; NULL for none
    next_at       BIGINT,          -- business microseconds UTC; NULL for none
    pace          BIGINT NOT NULL CHECK (pace IN (0, 1, 2)), -- 0 common; 1 has a backlog; 2 is slow to answer
    settled       BOOLEAN NOT NULL, -- its deliveries are in the lane that status and pace ask for
    failing_since BIGINT,          -- business microseconds UTC of the first failure after the last success; NULL for none
    version       BIGINT NOT NULL, -- of all endpoints when this one last changed
    PRIMARY KEY (account_id, id)
);

CREATE UNIQUE INDEX endpoint_url ON endpoint (account_id, url) WHERE status <> 'deleted';
CREATE INDEX endpoint_id ON endpoint (id);
CREATE INDEX endpoint_version ON endpoint (version);

CREATE TABLE delivery (
    account_id  BIGINT NOT NULL, -- whose it is
    event_id    UUID    NOT NULL, -- what is told
    endpoint_id UUID    NOT NULL, -- to whom
    lane        BIGINT NOT NULL CHECK (lane IN (0, 1, 2)), -- 0 common; 1 apart, found by its endpoint; 2 held while that is disabled
    state       TEXT    NOT NULL CHECK (state IN ('waiting', 'delivered', 'parked', 'cancelled')), -- parked has failed for good
    attempt     BIGINT NOT NULL, -- attempts that were made
    due_at      BIGINT NOT NULL, -- business microseconds UTC of the next attempt
    owner       UUID,             -- the boot that has it in hand; NULL for none
    PRIMARY KEY (account_id, event_id, endpoint_id)
);

CREATE INDEX delivery_due ON delivery (lane, due_at) WHERE (state = 'waiting') AND (owner IS NULL);
CREATE INDEX delivery_endpoint ON delivery (account_id, endpoint_id, lane, due_at) WHERE (state = 'waiting') AND (owner IS NULL);
CREATE INDEX delivery_owner ON delivery (owner, account_id, event_id, endpoint_id) WHERE owner IS NOT NULL;
CREATE INDEX delivery_parked ON delivery (account_id, event_id) WHERE state = 'parked';

CREATE TABLE delivery_attempt (
    account_id  BIGINT NOT NULL, -- whose it is
    event_id    UUID    NOT NULL, -- what was told
    endpoint_id UUID    NOT NULL, -- to whom
    number      BIGINT NOT NULL, -- 1, 2, 3, ...
    at          BIGINT NOT NULL, -- business microseconds UTC when it began
    took        BIGINT NOT NULL, -- real microseconds
    status      BIGINT NOT NULL, -- of the answer; 0 for none
    error       TEXT,             -- why there was no answer; NULL when there was
    response    BYTEA,             -- the beginning of the answer; NULL when there was none
    PRIMARY KEY (account_id, event_id, endpoint_id, number)
);

CREATE TABLE feed (
    account_id BIGINT NOT NULL PRIMARY KEY, -- whose it is
    next       BIGINT NOT NULL, -- place of the next event that is found
    border     UUID    NOT NULL  -- every event below it has its place
);

CREATE TABLE feed_place (
    account_id BIGINT NOT NULL, -- whose it is
    place      BIGINT NOT NULL, -- 1, 2, 3, ... as events were found
    event_id   UUID    NOT NULL, -- what stands there
    PRIMARY KEY (account_id, place)
);

CREATE UNIQUE INDEX feed_place_event ON feed_place (account_id, event_id);

CREATE TABLE bookmark (
    name   TEXT COLLATE "C"    NOT NULL PRIMARY KEY, -- endpoints: their version; events: those below id may be gone
    number BIGINT NOT NULL,             -- a version; 0 where it means nothing
    id     UUID    NOT NULL              -- a border; zeros where it means nothing
);

INSERT INTO bookmark (name, number, id) VALUES ('endpoints', 0, '00000000-0000-0000-0000-000000000000');
-- What happened before this migration has no ref, so nobody can tell whether it is complete.
INSERT INTO bookmark (name, number, id)
SELECT 'events', 0, COALESCE((SELECT id FROM event ORDER BY id DESC LIMIT 1), CAST('00000000-0000-0000-0000-000000000000' AS UUID));

CREATE TABLE seal_key (
    name    TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- always 'default'
    content BYTEA NOT NULL              -- seals secrets where the operator gives no key of his own
);
