-- Lists of one kind of transfer. An index that has everything a list asks for is taken without statistics too; where only
-- its condition had the kind, SQLite read all older transfers instead.

DROP INDEX transfer_inflow;
DROP INDEX transfer_adjustment;

ALTER TABLE transfer ALTER COLUMN currency TYPE TEXT COLLATE "C";

CREATE INDEX transfer_inflow ON transfer (account_id, kind, currency, id) WHERE kind = 'inflow';
CREATE INDEX transfer_adjustment ON transfer (account_id, kind, currency, id) WHERE kind = 'adjustment';
