-- How often charges that were paid have changed. Who has a copy of one asks this before it uses the copy. Whatever becomes of
-- a paid charge, it says how much of it was given back; to pay one does not, and does not wait for a trigger.

CREATE TABLE paid_change (
    name  TEXT    NOT NULL PRIMARY KEY, -- always 'all'
    count INTEGER NOT NULL              -- of the changes, by whoever made them
) STRICT, WITHOUT ROWID;
INSERT INTO paid_change (name, count) VALUES ('all', 0);

CREATE TRIGGER charge_paid_change AFTER UPDATE OF refunded ON charge WHEN OLD.status = 'paid'
BEGIN UPDATE paid_change SET count = count + 1 WHERE name = 'all'; END;
