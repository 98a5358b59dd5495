-- How often charges that were paid have changed. Who has a copy of one asks this before it uses the copy. Whatever becomes of
-- a paid charge, it says how much of it was given back; to pay one does not, and does not wait for a trigger.

CREATE TABLE paid_change (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- always 'all'
    count BIGINT NOT NULL                        -- of the changes, by whoever made them
);
INSERT INTO paid_change (name, count) VALUES ('all', 0);

-- It is counted at the end of a transaction, which then waits for nobody any more: two of them cannot wait for each other.
CREATE FUNCTION count_paid_change() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS
$$ BEGIN UPDATE paid_change SET count = count + 1 WHERE name = 'all'; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER charge_paid_change AFTER UPDATE OF refunded ON charge
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status = 'paid') EXECUTE FUNCTION count_paid_change();
