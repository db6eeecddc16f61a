-- The shape of the database of serial queues. The row of a job contains its payload. A delivered
-- job has a second, short row, so that neither take nor ack rewrites the first one.

-- name: queues
-- id: the upper part of the numbers of its jobs; seq, the last number given, is the lower part.
-- fence: the last one given. turn: the kind that is served next, 0 groups, 1 ungrouped jobs.
-- next_start: the next start by the rate. used: the time of the last put or take.
CREATE TABLE queues (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  seq INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  next_start REAL NOT NULL,
  used REAL NOT NULL,
  waiting INTEGER NOT NULL,
  taken INTEGER NOT NULL,
  dead INTEGER NOT NULL,
  groups INTEGER NOT NULL,
  accepted INTEGER NOT NULL,
  done INTEGER NOT NULL
)

-- name: groups
-- due: nothing is delivered before, because of the last execution. size: its jobs, dead letters
-- included.
CREATE TABLE groups (
  id INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  name TEXT NOT NULL,
  due REAL NOT NULL,
  size INTEGER NOT NULL,
  UNIQUE (queue, name)
)

-- name: resting
-- Groups without jobs, which are kept until their interval ends.
CREATE INDEX resting ON groups (due) WHERE size = 0

-- name: jobs
-- grp: its group, 0 if ungrouped. due: not delivered before. until: the id is remembered until
-- then, NULL if the caller did not choose it. apart: 1 for a dead letter that has left the order of
-- its group.
CREATE TABLE jobs (
  job INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  grp INTEGER NOT NULL,
  accepted REAL NOT NULL,
  due REAL NOT NULL,
  until REAL,
  attempts INTEGER NOT NULL DEFAULT 0,
  dead INTEGER NOT NULL DEFAULT 0,
  apart INTEGER NOT NULL DEFAULT 0,
  reason TEXT NOT NULL DEFAULT '',
  payload BLOB NOT NULL
)

-- name: jobs_of_group
CREATE INDEX jobs_of_group ON jobs (grp, apart) WHERE grp > 0

-- name: jobs_by_id
CREATE INDEX jobs_by_id ON jobs (id)

-- name: letters
CREATE INDEX letters ON jobs (dead) WHERE dead = 1

-- name: ready
-- The jobs that can be served next: the first job of each group and every ungrouped job, unless it
-- is delivered or dead, ordered by the moment at which it is due. `lane`: twice the queue's id, plus
-- 1 for ungrouped jobs.
CREATE TABLE ready (
  lane INTEGER NOT NULL,
  due REAL NOT NULL,
  job INTEGER NOT NULL,
  grp INTEGER NOT NULL,
  PRIMARY KEY (lane, due, job)
) WITHOUT ROWID

-- name: loans
-- rest: the interval that begins when the delivery ends, NULL if it began with the take. last: the
-- attempt after which the job becomes a dead letter. blocks: 1 if that dead letter blocks its
-- group.
CREATE TABLE loans (
  job INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  grp INTEGER NOT NULL,
  take TEXT NOT NULL,
  fence INTEGER NOT NULL,
  expires REAL NOT NULL,
  attempt INTEGER NOT NULL,
  rest REAL,
  last INTEGER NOT NULL,
  blocks INTEGER NOT NULL,
  owner TEXT NOT NULL,
  session TEXT NOT NULL
)

-- name: loans_by_expiry
CREATE INDEX loans_by_expiry ON loans (queue, expires)

-- name: loans_by_take
CREATE INDEX loans_by_take ON loans (take)

-- name: known
-- Ids of finished jobs, until their dedup window ends.
CREATE TABLE known (
  queue INTEGER NOT NULL,
  id TEXT NOT NULL,
  until REAL NOT NULL,
  PRIMARY KEY (queue, id)
) WITHOUT ROWID

-- name: fading
CREATE INDEX fading ON known (until)

-- name: lanes
-- The last put of each producer, and its reply: a digit per job.
CREATE TABLE lanes (
  lane TEXT PRIMARY KEY,
  number INTEGER NOT NULL,
  used REAL NOT NULL,
  answers TEXT NOT NULL
) WITHOUT ROWID

-- name: lanes_by_use
CREATE INDEX lanes_by_use ON lanes (used)

-- name: tombs
-- Takes that get nothing more.
CREATE TABLE tombs (take TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID

-- name: tombs_by_end
CREATE INDEX tombs_by_end ON tombs (until)

-- name: meta
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
