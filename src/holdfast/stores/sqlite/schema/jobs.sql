-- The statements of serial queues. Values are passed as parameters only.

-- name: queue
SELECT id, name, seq, fence, turn, next_start, used, waiting, taken, dead, groups, accepted, done
FROM queues WHERE name = ?

-- name: queues_from
SELECT id, name, seq, fence, turn, next_start, used, waiting, taken, dead, groups, accepted, done
FROM queues WHERE name >= ?1 AND name < ?2 ORDER BY name

-- name: queue_new
INSERT INTO queues (name, seq, fence, turn, next_start, used, waiting, taken, dead, groups, accepted,
  done) VALUES (?, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

-- name: queue_save
UPDATE queues SET seq = ?3, fence = ?4, turn = ?5, next_start = ?6, used = ?7, waiting = ?8,
  taken = ?9, dead = ?10, groups = ?11, accepted = ?12, done = ?13 WHERE id = ?1 AND name = ?2

-- name: queues_forget
-- Queues that were unused for longer than any of their records is remembered.
DELETE FROM queues WHERE used < ?1 AND waiting = 0 AND taken = 0 AND dead = 0
  AND NOT EXISTS (SELECT 1 FROM known WHERE known.queue = queues.id)
  AND NOT EXISTS (SELECT 1 FROM groups WHERE groups.queue = queues.id)

-- name: latest
-- The latest time in the database.
SELECT max(ifnull((SELECT max(used) FROM queues), 0), ifnull((SELECT max(used) FROM lanes), 0))

-- name: group_find
SELECT id, due, size FROM groups WHERE queue = ? AND name = ?

-- name: group_get
SELECT due, size FROM groups WHERE id = ?

-- name: group_new
INSERT INTO groups (queue, name, due, size) VALUES (?, ?, ?, 0)

-- name: group_save
UPDATE groups SET due = ?2, size = ?3 WHERE id = ?1

-- name: group_due
UPDATE groups SET due = ?2 WHERE id = ?1

-- name: group_drop
DELETE FROM groups WHERE id = ?

-- name: groups_rested
DELETE FROM groups WHERE id IN (SELECT id FROM groups WHERE size = 0 AND due <= ?1 LIMIT ?2)

-- name: first
-- The first job of a group.
SELECT job, due, dead FROM jobs WHERE grp = ? AND grp > 0 AND apart = 0 ORDER BY job LIMIT 1

-- name: job_new
INSERT INTO jobs (job, id, grp, accepted, due, until, payload) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: job_get
SELECT j.id, ifnull(g.name, ''), j.payload, j.attempts, j.accepted
FROM jobs j LEFT JOIN groups g ON g.id = j.grp WHERE j.job = ?

-- name: job_end
SELECT due, attempts, id, until FROM jobs WHERE job = ?

-- name: job_apart
SELECT apart FROM jobs WHERE job = ?

-- name: job_later
UPDATE jobs SET due = ?2, attempts = ?3, reason = ifnull(?4, reason) WHERE job = ?1

-- name: job_dead
UPDATE jobs SET dead = 1, apart = ?2, attempts = ?3, reason = ifnull(?4, reason) WHERE job = ?1

-- name: job_revive
UPDATE jobs SET job = ?2, dead = 0, apart = 0, attempts = 0, due = ?3 WHERE job = ?1

-- name: job_drop
DELETE FROM jobs WHERE job = ?

-- name: ready_add
INSERT OR IGNORE INTO ready (lane, due, job, grp) VALUES (?, ?, ?, ?)

-- name: ready_drop
DELETE FROM ready WHERE lane = ? AND due = ? AND job = ?

-- name: ready_next
SELECT due, job, grp FROM ready WHERE lane = ? ORDER BY due, job LIMIT 1

-- name: loan_new
INSERT INTO loans (job, queue, grp, take, fence, expires, attempt, rest, last, blocks, owner, session)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: loan_get
SELECT job, queue, grp, take, fence, expires, attempt, rest, last, blocks, owner, session
FROM loans WHERE job = ?

-- name: loan_there
SELECT 1 FROM loans WHERE job = ?

-- name: loans_over
SELECT job, queue, grp, take, fence, expires, attempt, rest, last, blocks, owner, session
FROM loans WHERE queue = ? AND expires <= ? ORDER BY expires LIMIT ?

-- name: loans_of_take
SELECT job, queue, grp, take, fence, expires, attempt, rest, last, blocks, owner, session
FROM loans WHERE take = ? ORDER BY fence

-- name: loans_of_session
SELECT job, queue, grp, take, fence, expires, attempt, rest, last, blocks, owner, session
FROM loans WHERE queue = ? AND session = ?

-- name: loan_next
SELECT min(expires) FROM loans WHERE queue = ?

-- name: loan_extend
UPDATE loans SET expires = ?2 WHERE job = ?1

-- name: loan_drop
DELETE FROM loans WHERE job = ?

-- name: sessions
-- The sessions that have deliveries of this queue.
SELECT DISTINCT session FROM loans WHERE queue = ? LIMIT ?

-- name: session_there
SELECT 1 FROM loans WHERE session = ? LIMIT 1

-- name: known_there
SELECT 1 FROM jobs WHERE id = ?2 AND job BETWEEN ?3 AND ?4 AND until IS NOT NULL
UNION ALL SELECT 1 FROM known WHERE queue = ?1 AND id = ?2 AND until > ?5 LIMIT 1

-- name: known_add
INSERT OR REPLACE INTO known (queue, id, until) VALUES (?, ?, ?)

-- name: known_fade
DELETE FROM known WHERE (queue, id) IN (SELECT queue, id FROM known WHERE until <= ?1 LIMIT ?2)

-- name: lane_get
SELECT number, answers FROM lanes WHERE lane = ?

-- name: lane_save
INSERT OR REPLACE INTO lanes (lane, number, used, answers) VALUES (?, ?, ?, ?)

-- name: lanes_fade
DELETE FROM lanes WHERE lane IN (SELECT lane FROM lanes WHERE used <= ?1 LIMIT ?2)

-- name: tomb_there
SELECT 1 FROM tombs WHERE take = ? AND until > ?

-- name: tomb_add
INSERT OR REPLACE INTO tombs (take, until) VALUES (?, ?)

-- name: tombs_fade
DELETE FROM tombs WHERE take IN (SELECT take FROM tombs WHERE until <= ?1 LIMIT ?2)

-- name: letters
SELECT id FROM jobs WHERE job BETWEEN ?1 AND ?2 AND dead = 1 ORDER BY job

-- name: oldest
SELECT accepted FROM jobs WHERE job BETWEEN ?1 AND ?2 AND dead = 0
  AND NOT EXISTS (SELECT 1 FROM loans WHERE loans.job = jobs.job) ORDER BY job LIMIT 1

-- name: listed
-- Jobs in their order, each with its state; ?3 is the time now.
SELECT j.job, j.id, ifnull(g.name, ''), j.payload, ifnull(l.attempt, j.attempts), j.accepted,
  CASE WHEN g.due > j.due AND g.due > ?3
    AND j.job = (SELECT min(f.job) FROM jobs f WHERE f.grp = j.grp AND f.grp > 0 AND f.apart = 0)
    THEN g.due ELSE j.due END AS moment,
  l.expires, ifnull(l.owner, ''), j.reason, j.dead, j.grp
FROM jobs j LEFT JOIN groups g ON g.id = j.grp LEFT JOIN loans l ON l.job = j.job
WHERE j.job BETWEEN ?1 AND ?2

-- name: listed_waiting
AND j.dead = 0 AND l.job IS NULL AND moment <= ?3

-- name: listed_delayed
AND j.dead = 0 AND l.job IS NULL AND moment > ?3

-- name: listed_taken
AND j.job IN (SELECT job FROM loans)

-- name: listed_dead
AND j.dead = 1

-- name: listed_not_taken
AND l.job IS NULL

-- name: listed_by_id
AND j.id = ?4

-- name: listed_by_group
AND j.grp = ?4

-- name: listed_in_group
AND j.grp = ?4 AND j.grp > 0

-- name: listed_order
ORDER BY j.job LIMIT ?5

-- name: meta_get
SELECT value FROM meta WHERE key = ?

-- name: meta_set
INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)
