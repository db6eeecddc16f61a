-- Rules for the database of serial queues, in an order in which a rule can rely on the rules above.
-- The block "must X" selects violations of rule X, as messages; `mend X` repairs them, in steps.
-- "drop X" does both, for rows that can be deleted: it is the rest of a DELETE FROM and of a
-- SELECT. The functions: readable(typeof(x), CAST(x AS BLOB)): is it text? clock(x): is it a record
-- of the clock? moment(): the time now. called(x): the job with this number, as words.

-- name: view firsts
-- The first job of each group.
CREATE TEMP VIEW firsts AS
SELECT grp, min(job) AS job FROM jobs WHERE grp > 0 AND apart = 0 GROUP BY grp

-- name: view due
-- The rows that the table of ready jobs must have.
CREATE TEMP VIEW due AS
SELECT (j.job >> 40) * 2 + (j.grp = 0) AS lane, max(j.due, ifnull(g.due, j.due)) AS due, j.job, j.grp
FROM jobs j LEFT JOIN groups g ON g.id = j.grp AND j.grp > 0
WHERE j.dead = 0 AND j.job NOT IN (SELECT job FROM loans)
  AND (j.grp = 0 OR j.job IN (SELECT job FROM firsts))

-- name: view counts
-- The counts of each queue: its waiting, taken and dead jobs, and the groups of these jobs.
CREATE TEMP VIEW counts AS
SELECT q.id, ifnull(j.waiting, 0) AS waiting, ifnull(j.taken, 0) AS taken, ifnull(j.dead, 0) AS dead,
  ifnull(j.groups, 0) AS groups, ifnull(j.last - (q.id << 40), 0) AS seq
FROM queues q LEFT JOIN (
  SELECT job >> 40 AS queue, sum(dead = 0 AND NOT lent) AS waiting, sum(lent) AS taken,
    sum(dead = 1) AS dead, count(DISTINCT nullif(grp, 0)) AS groups, max(job) AS last
  FROM (SELECT job, dead, grp, job IN (SELECT job FROM loans) AS lent FROM jobs) GROUP BY 1
) j ON j.queue = q.id

-- name: must queue
SELECT printf('queue %d says what can''t be', id) FROM queues WHERE (
  readable(typeof(name), CAST(name AS BLOB)) AND typeof(seq) = 'integer'
  AND seq BETWEEN 0 AND 1 << 39 AND typeof(fence) = 'integer' AND fence BETWEEN 0 AND 1 << 62
  AND turn IN (0, 1) AND next_start BETWEEN -1e11 AND 1e11 AND used BETWEEN -1e11 AND 1e11
  AND typeof(accepted) = 'integer' AND accepted BETWEEN 0 AND 1 << 62
  AND typeof(done) = 'integer' AND done BETWEEN 0 AND 1 << 62) IS NOT TRUE

-- name: mend queue 1
UPDATE queues SET
  name = iif(readable(typeof(name), CAST(name AS BLOB)), name, 'recovered-' || id),
  seq = iif(typeof(seq) = 'integer' AND seq BETWEEN 0 AND 1 << 39, seq, 0),
  fence = iif(typeof(fence) = 'integer' AND fence BETWEEN 0 AND 1 << 62, fence, 0),
  turn = iif(turn IN (0, 1), turn, 0),
  next_start = iif(next_start BETWEEN -1e11 AND 1e11, next_start, 0),
  used = iif(used BETWEEN -1e11 AND 1e11, used, 0),
  accepted = iif(typeof(accepted) = 'integer' AND accepted BETWEEN 0 AND 1 << 62, accepted, 0),
  done = iif(typeof(done) = 'integer' AND done BETWEEN 0 AND 1 << 62, done, 0)

-- name: must group
SELECT printf('group %d says what can''t be', id) FROM groups WHERE (
  readable(typeof(name), CAST(name AS BLOB)) AND typeof(queue) = 'integer'
  AND due BETWEEN -1e11 AND 1e11 AND typeof(size) = 'integer') IS NOT TRUE

-- name: mend group 1
UPDATE OR IGNORE groups SET
  name = iif(readable(typeof(name), CAST(name AS BLOB)), name, 'recovered-' || id),
  queue = iif(typeof(queue) = 'integer', queue, 0),
  due = iif(due BETWEEN -1e11 AND 1e11, due, 0),
  size = iif(typeof(size) = 'integer', size, 0)

-- name: must job
SELECT called(job) || ' says what can''t be' FROM jobs WHERE (
  readable(typeof(id), CAST(id AS BLOB)) AND typeof(grp) = 'integer' AND grp >= 0
  AND accepted BETWEEN -1e11 AND 1e11 AND due BETWEEN -1e11 AND 1e11
  AND (until IS NULL OR until BETWEEN -1e11 AND 1e11)
  AND typeof(attempts) = 'integer' AND attempts BETWEEN 0 AND 1 << 32 AND dead IN (0, 1)
  AND apart IN (0, 1) AND apart <= dead
  AND readable(typeof(reason), CAST(reason AS BLOB)) AND typeof(payload) = 'blob') IS NOT TRUE

-- name: mend job 1
UPDATE jobs SET
  id = iif(readable(typeof(id), CAST(id AS BLOB)), id, 'recovered-' || job),
  grp = iif(typeof(grp) = 'integer' AND grp >= 0, grp, 0),
  accepted = iif(accepted BETWEEN -1e11 AND 1e11, accepted, moment()),
  due = iif(due BETWEEN -1e11 AND 1e11, due, moment()),
  until = iif(until BETWEEN -1e11 AND 1e11, until, NULL),
  attempts = iif(typeof(attempts) = 'integer' AND attempts BETWEEN 0 AND 1 << 32, attempts, 0),
  dead = iif(dead IN (0, 1), dead, 0),
  apart = iif(apart = 1 AND dead = 1, 1, 0),
  reason = iif(readable(typeof(reason), CAST(reason AS BLOB)), reason, ''),
  payload = CAST(payload AS BLOB)

-- name: must number
SELECT called(job) || ' has a number that can''t be' FROM jobs
WHERE job NOT BETWEEN 1 << 40 AND 1 << 60 OR job & (1 << 40) - 1 > 1 << 39

-- name: mend number 1
-- A job without a known queue gets a new queue.
UPDATE OR IGNORE jobs SET grp = 0,
  job = ((SELECT ifnull(max(id), 0) + 1 FROM queues WHERE id < 1 << 20) << 40) + 1 + (job & 1048575)
WHERE job NOT BETWEEN 1 << 40 AND 1 << 60 OR job & (1 << 40) - 1 > 1 << 39

-- name: mend number 2
DELETE FROM jobs WHERE job NOT BETWEEN 1 << 40 AND 1 << 60 OR job & (1 << 40) - 1 > 1 << 39

-- name: drop loan
-- No lease is longer than a day.
loans WHERE (typeof(queue) = 'integer' AND typeof(grp) = 'integer'
  AND readable(typeof(take), CAST(take AS BLOB))
  AND typeof(fence) = 'integer' AND fence BETWEEN 0 AND 1 << 62
  AND expires BETWEEN -1e11 AND moment() + 90000
  AND typeof(attempt) = 'integer' AND attempt BETWEEN 0 AND 1 << 32
  AND (rest IS NULL OR rest BETWEEN 0 AND 1e11) AND typeof(last) = 'integer' AND blocks IN (0, 1)
  AND readable(typeof(owner), CAST(owner AS BLOB))
  AND readable(typeof(session), CAST(session AS BLOB))) IS NOT TRUE

-- name: drop known
known WHERE (typeof(queue) = 'integer' AND readable(typeof(id), CAST(id AS BLOB))
  AND until BETWEEN -1e11 AND 1e11) IS NOT TRUE

-- name: drop lane
lanes WHERE (readable(typeof(lane), CAST(lane AS BLOB)) AND typeof(number) = 'integer'
  AND used BETWEEN -1e11 AND 1e11 AND readable(typeof(answers), CAST(answers AS BLOB))) IS NOT TRUE

-- name: drop tomb
tombs WHERE (readable(typeof(take), CAST(take AS BLOB)) AND until BETWEEN -1e11 AND 1e11) IS NOT TRUE

-- name: drop clock
meta WHERE key = 'clock' AND NOT clock(CAST(value AS BLOB))

-- name: must queue number
SELECT printf('queue %d has a number that can''t be', id) FROM queues
WHERE id NOT BETWEEN 1 AND 1 << 20

-- name: mend queue number 1
-- It gets the number of jobs without a queue, if there are any.
UPDATE OR IGNORE queues SET id = (SELECT ifnull(
  (SELECT min(job >> 40) FROM jobs WHERE job >> 40 NOT IN (SELECT id FROM queues)),
  (SELECT ifnull(max(id), 0) + 1 FROM queues WHERE id <= 1 << 20)))
WHERE id NOT BETWEEN 1 AND 1 << 20

-- name: mend queue number 2
DELETE FROM queues WHERE id NOT BETWEEN 1 AND 1 << 20

-- name: must nameless queue
SELECT DISTINCT printf('the queue %d has jobs, but no name', job >> 40)
FROM jobs WHERE job >> 40 NOT IN (SELECT id FROM queues)

-- name: mend nameless queue 1
INSERT INTO queues (id, name, seq, fence, turn, next_start, used, waiting, taken, dead, groups,
  accepted, done)
SELECT DISTINCT job >> 40, 'recovered-' || (job >> 40), 0, 0, 0, 0, moment(), 0, 0, 0, 0, 0, 0
FROM jobs WHERE job >> 40 NOT IN (SELECT id FROM queues)

-- name: must nameless group
SELECT DISTINCT printf('the group %d has jobs, but no name', grp)
FROM jobs WHERE grp > 0 AND grp NOT IN (SELECT id FROM groups)

-- name: mend nameless group 1
INSERT INTO groups (id, queue, name, due, size) SELECT grp, min(job) >> 40, 'recovered-' || grp, 0, 0
FROM jobs WHERE grp > 0 AND grp NOT IN (SELECT id FROM groups) GROUP BY grp

-- name: must strange group
SELECT printf('group %d belongs to another queue than its jobs, or to none', id) FROM groups g
WHERE queue NOT IN (SELECT id FROM queues) OR EXISTS (
  SELECT 1 FROM jobs j WHERE j.grp = g.id AND g.id > 0 AND j.job >> 40 <> g.queue)

-- name: mend strange group 1
UPDATE OR IGNORE groups SET queue = (SELECT min(job) >> 40 FROM jobs WHERE grp = groups.id)
WHERE id IN (SELECT grp FROM jobs WHERE grp > 0)

-- name: mend strange group 2
UPDATE jobs SET grp = 0 WHERE grp > 0 AND job >> 40 <> (SELECT queue FROM groups WHERE id = grp)

-- name: mend strange group 3
DELETE FROM groups WHERE queue NOT IN (SELECT id FROM queues)

-- name: drop strange loan
-- A delivered job must exist, must not be dead, and must be the first of its group.
loans WHERE job NOT IN (
  SELECT l.job FROM loans l JOIN jobs j ON j.job = l.job AND j.dead = 0
  LEFT JOIN firsts f ON f.grp = j.grp AND j.grp > 0
  WHERE l.queue = j.job >> 40 AND l.grp = j.grp AND (j.grp = 0 OR f.job = j.job))

-- name: must ready
SELECT called(job) || ' is due, and never served' FROM (
  SELECT lane, due, job, grp FROM due EXCEPT SELECT lane, due, job, grp FROM ready)
UNION ALL SELECT iif(job IN (SELECT job FROM jobs), called(job) || ' is served out of turn',
  called(job) || ' is to be served, and gone')
FROM (SELECT lane, due, job, grp FROM ready EXCEPT SELECT lane, due, job, grp FROM due)

-- name: mend ready 1
DELETE FROM ready

-- name: mend ready 2
INSERT INTO ready (lane, due, job, grp) SELECT lane, due, job, grp FROM due

-- name: must size
SELECT printf('group %d has %d jobs, not %s', g.id, count(j.job), g.size)
FROM groups g LEFT JOIN jobs j ON j.grp = g.id AND j.grp > 0
GROUP BY g.id HAVING g.size IS NOT count(j.job)

-- name: mend size 1
UPDATE groups SET size = (SELECT count(*) FROM jobs WHERE grp = groups.id AND grp > 0)

-- name: must count
SELECT printf('queue %d has %d jobs that wait, %d taken, %d dead, not %s, %s, %s; or its numbers are behind',
  q.id, c.waiting, c.taken, c.dead, q.waiting, q.taken, q.dead)
FROM queues q JOIN counts c ON c.id = q.id
WHERE q.waiting IS NOT c.waiting OR q.taken IS NOT c.taken OR q.dead IS NOT c.dead
  OR q.groups IS NOT c.groups OR q.seq < c.seq
  OR q.fence < (SELECT ifnull(max(fence), 0) FROM loans WHERE queue = q.id)

-- name: mend count 1
UPDATE queues SET
  waiting = (SELECT c.waiting FROM counts c WHERE c.id = queues.id),
  taken = (SELECT c.taken FROM counts c WHERE c.id = queues.id),
  dead = (SELECT c.dead FROM counts c WHERE c.id = queues.id),
  groups = (SELECT c.groups FROM counts c WHERE c.id = queues.id),
  seq = max(seq, (SELECT c.seq FROM counts c WHERE c.id = queues.id)),
  fence = max(fence, (SELECT ifnull(max(fence), 0) FROM loans WHERE queue = queues.id))
