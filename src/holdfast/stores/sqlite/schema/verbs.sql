-- All statements that run after the database is open. Values are passed as parameters only.

-- name: renew
-- Renew a held claim of our session with its full weight, if nothing in its line has expired.
UPDATE claims SET expires = max(expires, ?4 + ?5), ttl = ?5
WHERE name = ?1 AND ticket = ?2 AND id = ?3 AND session = ?6 AND held = 1 AND leaving = 0
  AND expires > ?4
  AND NOT EXISTS (SELECT 1 FROM claims WHERE name = ?1 AND ticket = 0 AND expires <= ?4)

-- name: front
-- The header and the first claims.
SELECT ticket, id, held, weight, expires, session, address, seat, leaving, state
FROM claims WHERE name = ?1 ORDER BY ticket LIMIT ?2

-- name: header_insert
INSERT INTO claims (name, ticket, expires, state) VALUES (?1, 0, ?2, ?3)

-- name: header_update
UPDATE claims SET expires = ?2, state = ?3 WHERE name = ?1 AND ticket = 0

-- name: header_delete
DELETE FROM claims WHERE name = ?1 AND ticket = 0

-- name: row_by_ticket
SELECT ticket, id, held, weight, expires, session, address, seat, leaving
FROM claims WHERE name = ?1 AND ticket = ?2

-- name: row_by_id
SELECT ticket, id, held, weight, expires, session, address, seat, leaving
FROM claims WHERE id = ?2 AND name = ?1

-- name: row_after
-- The first waiter is the first claim after the frontier: the held claims are a prefix of the line.
SELECT ticket, id, held, weight, expires, session, address, seat, leaving
FROM claims WHERE name = ?1 AND ticket > ?2 ORDER BY ticket LIMIT 1

-- name: row_before
SELECT ticket, id, held, weight, expires, session, address, seat, leaving
FROM claims WHERE name = ?1 AND ticket BETWEEN 1 AND ?2 - 1 ORDER BY ticket DESC LIMIT 1

-- name: holders
SELECT ticket, weight, session FROM claims
WHERE name = ?1 AND ticket BETWEEN 1 AND ?2 ORDER BY ticket LIMIT ?3

-- name: holders_expired
SELECT ticket, weight FROM claims
WHERE name = ?1 AND ticket BETWEEN 1 AND ?2 AND expires <= ?3 ORDER BY ticket LIMIT ?4

-- name: first_expiry
SELECT min(expires) FROM claims WHERE name = ?1 AND ticket > 0 AND expires > ?2

-- name: words
-- Columns that only a reader of messages and an adopter of the hold need.
SELECT owner, ttl FROM claims WHERE name = ?1 AND ticket = ?2

-- name: enter
INSERT INTO claims
  (name, ticket, id, held, weight, expires, session, address, seat, ttl, since, owner, meta)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)

-- name: drop
DELETE FROM claims WHERE name = ?1 AND ticket = ?2

-- name: grant
UPDATE claims SET held = 1, since = ?3 WHERE name = ?1 AND ticket = ?2

-- name: renew_waiting
UPDATE claims SET expires = ?3, address = coalesce(?4, address) WHERE name = ?1 AND ticket = ?2

-- name: renew_held
UPDATE claims SET expires = ?3, ttl = ?4, weight = ?5, id = ?6, session = ?7,
  owner = coalesce(?8, owner)
WHERE name = ?1 AND ticket = ?2

-- name: leave_later
UPDATE claims SET leaving = 1, expires = ?3, session = NULL WHERE name = ?1 AND ticket = ?2

-- name: tomb
SELECT until, reason FROM tombs WHERE id = ?1

-- name: bury
INSERT INTO tombs (id, until, reason) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET until = excluded.until, reason = excluded.reason

-- name: tombs_clean
DELETE FROM tombs WHERE until <= ?1

-- name: session_names
SELECT DISTINCT name FROM claims WHERE session = ?1 LIMIT ?2

-- name: session_rows
SELECT ticket, held, weight FROM claims WHERE name = ?1 AND session = ?2 AND ticket > 0
ORDER BY ticket LIMIT ?3

-- name: session_move
UPDATE claims SET session = ?2 WHERE session = ?1

-- name: names_between
SELECT name, ticket, state, owner, held, weight, since, expires, meta, session, leaving
FROM claims WHERE name >= ?1 AND name < ?2 ORDER BY name, ticket

-- name: standing
SELECT id, held FROM claims WHERE name = ?1 AND ticket = ?2

-- name: names
-- Every name that has a line.
SELECT name FROM claims WHERE ticket = 0

-- name: all_clear
DELETE FROM claims

-- name: tombs_clear
DELETE FROM tombs

-- name: latest_expiry
SELECT max(expires) FROM claims WHERE ticket > 0

-- name: latest_ticket
SELECT max(ticket) FROM claims

-- name: meta_get
SELECT value FROM meta WHERE key = ?1

-- name: meta_set
INSERT INTO meta (key, value) VALUES (?1, ?2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: meta_drop
DELETE FROM meta WHERE key = ?1
