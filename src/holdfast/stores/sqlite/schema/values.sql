-- The shape of the database of refresh guards: a cache, which is made again after each boot.
-- Moments are seconds by the clock of this boot.

-- name: cached
-- fresh, stale, kept: the ends of the times in which it is fresh, can be served, and exists.
-- version: the fence of the refresh lease that stored it. The data are the last column, so that a
-- read of the other columns does not pass through them.
CREATE TABLE cached (
  guard TEXT NOT NULL,
  key TEXT NOT NULL,
  fresh REAL NOT NULL,
  stale REAL NOT NULL,
  kept REAL NOT NULL,
  cost REAL NOT NULL,
  version INTEGER NOT NULL,
  data BLOB NOT NULL CHECK (typeof(data) = 'blob'),
  PRIMARY KEY (guard, key)
)

-- name: cached_by_end
CREATE INDEX cached_by_end ON cached (kept)

-- name: duties
-- id: the secret of the caller that has the refresh lease; empty if there is none and the row only
-- counts failures. lease: the end of the lease. failures: failures in a row, counted until failed.
-- pause: no lease is granted before. until: the row can be removed then.
CREATE TABLE duties (
  guard TEXT NOT NULL,
  key TEXT NOT NULL,
  id TEXT NOT NULL,
  owner TEXT NOT NULL,
  session TEXT NOT NULL,
  fence INTEGER NOT NULL,
  lease REAL NOT NULL,
  failures INTEGER NOT NULL,
  pause REAL NOT NULL,
  failed REAL NOT NULL,
  reason TEXT NOT NULL,
  until REAL NOT NULL,
  PRIMARY KEY (guard, key)
) WITHOUT ROWID

-- name: duties_by_end
CREATE INDEX duties_by_end ON duties (until)

-- name: tallies
CREATE TABLE tallies (
  guard TEXT PRIMARY KEY,
  used REAL NOT NULL,
  hits INTEGER NOT NULL,
  near INTEGER NOT NULL,
  stale INTEGER NOT NULL,
  misses INTEGER NOT NULL,
  computes INTEGER NOT NULL,
  waits INTEGER NOT NULL,
  merged INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  refused INTEGER NOT NULL
) WITHOUT ROWID

-- name: meta
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
