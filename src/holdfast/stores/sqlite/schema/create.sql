-- The shape of the database. One table holds the lines: a claim per row, in ticket order, and, for a
-- name that more than one claim has stood in since it was last empty, a header in the row of ticket 0.
-- No header means: one claim at most, and it is held. That is what lets an uncontended join or leave
-- be one statement that dirties one page.

-- name: claims
-- Header only: former, used, first, seats, waiters, holders, frontier (the greatest ticket held).
-- seat is NULL for the claim of a line without a header, 0 for one that was held at once.
CREATE TABLE claims (
  name TEXT NOT NULL,
  ticket INTEGER NOT NULL,
  id TEXT,
  held INTEGER,
  weight INTEGER,
  ttl REAL,
  since REAL,
  expires REAL,
  session TEXT,
  owner TEXT,
  meta TEXT,
  kind TEXT,
  capacity INTEGER,
  address TEXT,
  seat INTEGER,
  leaving INTEGER NOT NULL DEFAULT 0,
  former INTEGER,
  used INTEGER,
  first REAL,
  seats INTEGER,
  waiters INTEGER,
  holders INTEGER,
  frontier INTEGER,
  PRIMARY KEY (name, ticket)
) WITHOUT ROWID

-- name: by_id
-- Covers the claims of lines with a header only, so the uncontended pair never touches it.
CREATE INDEX by_id ON claims (id) WHERE seat IS NOT NULL

-- name: tombs
CREATE TABLE tombs (id TEXT PRIMARY KEY, until REAL NOT NULL, reason TEXT NOT NULL) WITHOUT ROWID

-- name: meta
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
