-- What an operator has settled by hand, or found to be nobody's, need not be looked at again. It stays listed.
ALTER TABLE unmatched ADD COLUMN dismissed TEXT; -- why nothing more is to be done about it; NULL while something is
