-- What people search by.

CREATE INDEX payout_end_to_end ON payout (account_id, end_to_end_id) WHERE end_to_end_id IS NOT NULL;
