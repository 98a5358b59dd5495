-- Where commands find the simulators of a server that uses some.

CREATE TABLE simulator (
    name TEXT NOT NULL PRIMARY KEY, -- always 'last'
    url  TEXT NOT NULL              -- of their controls
) STRICT, WITHOUT ROWID;
