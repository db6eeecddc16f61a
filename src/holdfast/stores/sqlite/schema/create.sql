-- The shape of the database. One table contains the lines: a claim per row, in ticket order, and a
-- header in the row of ticket 0. A name with neither waiters nor a second holder is not in it, but
-- in the table of lone claims (blocking/lone.py).

-- name: claims
-- A header has: expires (no live claim of the line expires before), and state, eight words: kind,
-- capacity, former capacity, weight held, seats given, waiters, holders, and the greatest ticket
-- that is or was held. A claim has the other columns; its seat is 0 if it was granted without
-- waiting.
CREATE TABLE claims (
  name TEXT NOT NULL,
  ticket INTEGER NOT NULL,
  id TEXT,
  held INTEGER,
  weight INTEGER,
  expires REAL NOT NULL,
  session TEXT,
  address TEXT,
  seat INTEGER,
  leaving INTEGER NOT NULL DEFAULT 0,
  state TEXT,
  ttl REAL,
  since REAL,
  owner TEXT,
  meta TEXT,
  PRIMARY KEY (name, ticket)
) WITHOUT ROWID

-- name: by_id
-- Finds a claim whose ticket is unknown, and refuses a second, equal join.
CREATE UNIQUE INDEX by_id ON claims (id, name) WHERE id IS NOT NULL

-- name: tombs
CREATE TABLE tombs (id TEXT PRIMARY KEY, until REAL NOT NULL, reason TEXT NOT NULL) WITHOUT ROWID

-- name: meta
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
