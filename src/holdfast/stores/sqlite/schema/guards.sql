-- The statements of refresh guards.

-- name: value
SELECT fresh, stale, kept, cost, version, data FROM cached WHERE guard = ? AND key = ?

-- name: value_head
SELECT fresh, kept, version FROM cached WHERE guard = ? AND key = ?

-- name: value_seen
SELECT fresh, stale, kept, cost, version, length(data) FROM cached WHERE guard = ? AND key = ?

-- name: value_put
INSERT OR REPLACE INTO cached (guard, key, fresh, stale, kept, cost, version, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: value_drop
DELETE FROM cached WHERE guard = ? AND key = ?

-- name: values_fade
DELETE FROM cached WHERE rowid IN (SELECT rowid FROM cached WHERE kept <= ? ORDER BY kept LIMIT ?)

-- name: duty
SELECT guard, key, id, owner, session, fence, lease, failures, pause, failed, reason, until
FROM duties WHERE guard = ? AND key = ?

-- name: duty_put
INSERT OR REPLACE INTO duties
  (guard, key, id, owner, session, fence, lease, failures, pause, failed, reason, until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: duty_drop
DELETE FROM duties WHERE guard = ? AND key = ?

-- name: duties_fade
DELETE FROM duties WHERE (guard, key) IN
  (SELECT guard, key FROM duties WHERE until <= ? ORDER BY until LIMIT ?)

-- name: session_there
SELECT 1 FROM duties WHERE session = ? AND id <> '' LIMIT 1

-- name: session_over
UPDATE duties SET id = '', session = '' WHERE session = ?

-- name: tally_add
INSERT INTO tallies
  (guard, used, hits, near, stale, misses, computes, waits, merged, failures, refused)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (guard) DO UPDATE SET
  used = excluded.used,
  hits = hits + excluded.hits,
  near = near + excluded.near,
  stale = stale + excluded.stale,
  misses = misses + excluded.misses,
  computes = computes + excluded.computes,
  waits = waits + excluded.waits,
  merged = merged + excluded.merged,
  failures = failures + excluded.failures,
  refused = refused + excluded.refused

-- name: tallies_from
SELECT guard, hits, near, stale, misses, computes, waits, merged, failures, refused
FROM tallies WHERE guard >= ? AND guard < ? AND used > ? ORDER BY guard

-- name: tallies_fade
DELETE FROM tallies WHERE used <= ?

-- name: meta_get
SELECT value FROM meta WHERE key = ?
