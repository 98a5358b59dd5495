-- What operators did, and the acquirers that they switched off.

CREATE TABLE operator_log (
    id         BLOB    NOT NULL PRIMARY KEY, -- ordered by time; tells when
    kind       TEXT    NOT NULL CHECK (kind IN ('person', 'cli', 'system')), -- by which way it was done
    who        TEXT    NOT NULL, -- a person's address, or the user of the command line; empty for the service itself
    action     TEXT    NOT NULL, -- what was done, such as account.set
    account_id INTEGER,          -- on whose account; NULL for none
    subject    TEXT    NOT NULL, -- on what, by its public name
    before     TEXT    NOT NULL, -- what it was, as a JSON object of texts
    after      TEXT    NOT NULL, -- what it became, or was asked to become
    reason     TEXT              -- why, in the operator's words; NULL when not told
) STRICT, WITHOUT ROWID;

CREATE INDEX operator_log_account ON operator_log (account_id, id) WHERE account_id IS NOT NULL;

CREATE TRIGGER operator_log_no_update BEFORE UPDATE ON operator_log BEGIN SELECT RAISE(ABORT, 'operator_log is append-only'); END;
CREATE TRIGGER operator_log_no_delete BEFORE DELETE ON operator_log BEGIN SELECT RAISE(ABORT, 'operator_log is append-only'); END;

CREATE TABLE acquirer_switch (
    acquirer TEXT    NOT NULL PRIMARY KEY, -- that is given nothing new while this row is here
    off_at   INTEGER NOT NULL,             -- business microseconds UTC since when
    who      TEXT    NOT NULL,             -- who switched it off
    reason   TEXT    NOT NULL              -- why
) STRICT, WITHOUT ROWID;

-- What an operator has settled by hand, or found to be nobody's, need not be looked at again. It stays listed.
ALTER TABLE unmatched_infraction ADD COLUMN dismissed TEXT; -- why nothing more is to be done about it; NULL while something is
ALTER TABLE unmatched_deposit ADD COLUMN dismissed TEXT; -- why nothing more is to be done about it; NULL while something is

-- Operators look at accounts and at infractions from the latest on.
CREATE INDEX account_created ON account (created_at, id);
CREATE INDEX infraction_latest ON infraction (id);
