-- Infractions (MED): what is claimed of payments, blocked until it is decided, and debited once whoever tells first.

ALTER TABLE charge ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0); -- centavos of what waits for its release that infractions block or took

CREATE TABLE clawback (
    account_id    INTEGER NOT NULL, -- whose payment it was
    end_to_end_id TEXT    NOT NULL, -- of the payment
    charge_id     BLOB    NOT NULL, -- what it paid, or came in for
    amount        INTEGER NOT NULL CHECK (amount > 0),    -- centavos that were paid
    returned      INTEGER NOT NULL CHECK (returned >= 0), -- centavos that the acquirer gave back for no infraction
    enforced      INTEGER NOT NULL CHECK (enforced >= 0), -- centavos that it gave back for infractions
    claimed       INTEGER NOT NULL CHECK (claimed >= 0),  -- centavos of infractions that are not decided
    accepted      INTEGER NOT NULL CHECK (accepted >= 0), -- centavos of infractions that were accepted
    debited       INTEGER NOT NULL CHECK (debited BETWEEN 0 AND amount), -- centavos that the account no longer has of it
    PRIMARY KEY (account_id, end_to_end_id)
) STRICT, WITHOUT ROWID;

-- What was given back before there was this table.
INSERT INTO clawback (account_id, end_to_end_id, charge_id, amount, returned, enforced, claimed, accepted, debited)
SELECT r.account_id, r.end_to_end_id, r.ref, p.amount, r.amount, 0, 0, 0, r.amount
FROM (SELECT account_id, SUBSTR(once_key, 1, 32) AS end_to_end_id, ref, SUM(amount) AS amount
      FROM transfer WHERE kind = 'refund' GROUP BY account_id, SUBSTR(once_key, 1, 32), ref) r
JOIN (SELECT account_id, once_key, SUM(amount) AS amount
      FROM transfer WHERE kind IN ('cash_in', 'inflow') GROUP BY account_id, once_key) p
ON p.account_id = r.account_id AND p.once_key = r.end_to_end_id;

-- What was given back before it was credited.
INSERT INTO clawback (account_id, end_to_end_id, charge_id, amount, returned, enforced, claimed, accepted, debited)
SELECT account_id, end_to_end_id, id, refunded, refunded, 0, 0, 0, refunded
FROM charge WHERE status = 'refunded' AND paid_at IS NULL AND end_to_end_id IS NOT NULL AND refunded > 0;

CREATE TABLE infraction (
    account_id           INTEGER NOT NULL, -- whose payment is disputed
    id                   BLOB    NOT NULL, -- ordered by time; tells when we learned of it
    acquirer             TEXT    NOT NULL, -- who tells of it
    acquirer_id          TEXT    NOT NULL, -- what the acquirer knows it by
    charge_id            BLOB    NOT NULL, -- what the payment paid, or came in for
    external_id          TEXT,             -- the charge's; NULL for none
    end_to_end_id        TEXT    NOT NULL, -- of the payment
    paid                 INTEGER NOT NULL CHECK (paid > 0),   -- centavos of the payment
    amount               INTEGER NOT NULL CHECK (amount > 0), -- centavos that are claimed
    from_pending         INTEGER NOT NULL CHECK (from_pending BETWEEN 0 AND amount), -- centavos that were blocked before their release
    debited              INTEGER NOT NULL CHECK (debited BETWEEN 0 AND amount), -- centavos that its end took; 0 before
    status               TEXT    NOT NULL CHECK (status IN ('open', 'under_review', 'accepted', 'rejected', 'cancelled')), -- where it stands
    reason               TEXT,             -- in words; NULL when not told
    reason_code          TEXT,             -- the acquirer's word for the situation; NULL when not told
    opened_at            INTEGER NOT NULL, -- microseconds UTC
    deadline_at          INTEGER NOT NULL, -- microseconds UTC until when a defense is taken
    resolved_at          INTEGER,          -- microseconds UTC; NULL before
    defense_text         TEXT,             -- what the account says; NULL for nothing
    defense_evidence_url TEXT,             -- where its evidence is; NULL for none
    defended_at          INTEGER,          -- microseconds UTC when a defense was submitted, here or at the acquirer; NULL for never
    handing              TEXT CHECK (handing IN ('waiting', 'taken', 'refused')), -- what became of the defense at the acquirer; NULL for none of ours
    hand_at              INTEGER,          -- business microseconds UTC when it is handed in next; NULL when it need not be
    hand_tries           INTEGER NOT NULL CHECK (hand_tries >= 0), -- how often it was about to be handed in
    hand_doubt           INTEGER NOT NULL CHECK (hand_doubt IN (0, 1)), -- 1 when one of them may have arrived
    hand_error           TEXT,             -- why the last of them failed, for operators; NULL for none
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX infraction_once ON infraction (account_id, acquirer, acquirer_id);
CREATE INDEX infraction_name ON infraction (acquirer, acquirer_id);
CREATE INDEX infraction_undecided ON infraction (acquirer, opened_at) WHERE status IN ('open', 'under_review');
CREATE INDEX infraction_handing ON infraction (acquirer, hand_at) WHERE hand_at IS NOT NULL;
CREATE INDEX infraction_defense ON infraction (handing) WHERE handing IN ('waiting', 'refused');

CREATE TABLE unmatched_infraction (
    acquirer      TEXT    NOT NULL, -- who tells of it
    acquirer_id   TEXT    NOT NULL, -- what the acquirer knows it by
    end_to_end_id TEXT    NOT NULL, -- of the payment
    amount        INTEGER NOT NULL, -- centavos that are claimed
    status        TEXT    NOT NULL, -- where it stood when it was last listed
    opened_at     INTEGER NOT NULL, -- microseconds UTC
    found_at      INTEGER NOT NULL, -- business microseconds UTC when it was found
    reason        TEXT    NOT NULL, -- why it is nobody's
    PRIMARY KEY (acquirer, acquirer_id)
) STRICT, WITHOUT ROWID;
