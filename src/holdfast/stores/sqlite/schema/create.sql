-- The shape of the database. One table holds the lines: a claim per row, in ticket order, and a
-- header in the row of ticket 0. A name with neither waiters nor a second holder is not here but in
-- the table of lone claims (blocking/lone.py).

-- name: claims
-- Header only: kind, capacity, former, used, first, seats, waiters, holders, frontier (the greatest
-- ticket that is or was held). Claims only: the rest. seat is 0 for a claim that was held at once.
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
  address TEXT,
  seat INTEGER,
  leaving INTEGER NOT NULL DEFAULT 0,
  kind TEXT,
  capacity INTEGER,
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
CREATE INDEX by_id ON claims (id) WHERE id IS NOT NULL

-- name: tombs
CREATE TABLE tombs (id TEXT PRIMARY KEY, until REAL NOT NULL, reason TEXT NOT NULL) WITHOUT ROWID

-- name: meta
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
