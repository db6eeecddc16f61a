-- The shape of the database of serial queues. A job's row is written once and read by whoever takes
-- it; while it is on loan it has a second, short one, so that neither take nor ack rewrites the first.

-- name: queues
-- id is the upper part of the numbers of its jobs; seq, the last number given, is the lower one.
-- fence: the last one given. turn: the lane that is served next. next_start: by its rate. used: when
-- something was last put or taken.
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
-- due: nothing is delivered before, by the last execution. size: its jobs, dead letters included.
CREATE TABLE groups (
  id INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  name TEXT NOT NULL,
  due REAL NOT NULL,
  size INTEGER NOT NULL,
  UNIQUE (queue, name)
)

-- name: resting
-- Groups without jobs, which are kept until their interval is over.
CREATE INDEX resting ON groups (due) WHERE size = 0

-- name: jobs
-- grp: its group, 0 in the plain lane. due: not delivered before. until: a known id is remembered so
-- long, NULL for one that wasn't chosen by the caller. apart: out of its group's line, for good.
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
-- What is served next: the first job of each group and every job of the plain lane, unless it is on
-- loan or dead, by the moment at which it is due. lane: twice the queue's id, and 1 for the plain one.
CREATE TABLE ready (
  lane INTEGER NOT NULL,
  due REAL NOT NULL,
  job INTEGER NOT NULL,
  grp INTEGER NOT NULL,
  PRIMARY KEY (lane, due, job)
) WITHOUT ROWID

-- name: loans
-- rest: the interval that counts from its end, NULL if it counted from the take. last: the number of
-- the attempt after which it is a dead letter. blocks: that one then holds back its group.
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
-- Ids of jobs that are over, until their window is over, too.
CREATE TABLE known (
  queue INTEGER NOT NULL,
  id TEXT NOT NULL,
  until REAL NOT NULL,
  PRIMARY KEY (queue, id)
) WITHOUT ROWID

-- name: fading
CREATE INDEX fading ON known (until)

-- name: lanes
-- The last request to put of each lane, and its answer: a digit per job.
CREATE TABLE lanes (
  lane TEXT PRIMARY KEY,
  number INTEGER NOT NULL,
  used REAL NOT NULL,
  answers TEXT NOT NULL
) WITHOUT ROWID

-- name: lanes_by_use
CREATE INDEX lanes_by_use ON lanes (used)

-- name: tombs
-- Takes that get nothing any more.
CREATE TABLE tombs (take TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID

-- name: tombs_by_end
CREATE INDEX tombs_by_end ON tombs (until)

-- name: meta
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
