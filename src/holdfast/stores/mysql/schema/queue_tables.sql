-- Where the jobs of serial queues are kept. Times are microseconds since 1970 by the server's clock.
-- Names, groups and ids are bytes, as in the tables of the lines.

-- A row for each queue that was ever used. `starts` is when a queue with a rate may start the next
-- delivery, in nanoseconds.
CREATE TABLE IF NOT EXISTS holdfast_queues (
  name VARBINARY(512) NOT NULL PRIMARY KEY,
  id INT NOT NULL AUTO_INCREMENT,
  starts BIGINT NOT NULL DEFAULT 0,
  UNIQUE KEY by_id (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- How many jobs were accepted, are done, and are there without the dead letters. Several rows for a
-- queue, because everybody would wait for one.
CREATE TABLE IF NOT EXISTS holdfast_counts (
  queue INT NOT NULL,
  shard INT NOT NULL,
  accepted BIGINT NOT NULL,
  done BIGINT NOT NULL,
  depth BIGINT NOT NULL,
  PRIMARY KEY (queue, shard)
) ENGINE=InnoDB
//
-- What runs one at a time: a group (`single` is 0), or a job of the plain lane (`grp` is empty,
-- `single` its seq). Its row's lock is what makes a verb atomic. `stands` and `moment`:
--   0, 1  due then, a group or a plain job
--   2     on loan until then, by `take`, with `fence`; what follows `owner` came with the take
--   3     held back by a dead letter, which is its first job
--   4     without jobs, and forgotten then
-- `head` is the seq of its first job, which isn't delivered before `ready`; no job of it is before
-- `rest`. `changes` is written by whoever changes what stands behind the head, because another node
-- of a Galera cluster knows of no lock. `span` is how long was asked for when `moment` was last set:
-- the lease, or the delay of a retry.
CREATE TABLE IF NOT EXISTS holdfast_tracks (
  queue INT NOT NULL,
  grp VARBINARY(256) NOT NULL,
  single BIGINT NOT NULL,
  stands TINYINT NOT NULL,
  moment BIGINT NOT NULL,
  head BIGINT NOT NULL DEFAULT 0,
  ready BIGINT NOT NULL DEFAULT 0,
  rest BIGINT NOT NULL DEFAULT 0,
  fence BIGINT NOT NULL DEFAULT 0,
  changes BIGINT NOT NULL DEFAULT 0,
  attempts INT NOT NULL DEFAULT 0,
  reason VARBINARY(1024) NOT NULL DEFAULT '',
  take BINARY(16) NULL,
  owner VARBINARY(256) NOT NULL DEFAULT '',
  gap BIGINT NOT NULL DEFAULT 0,
  by_take TINYINT NOT NULL DEFAULT 0,
  tries INT NOT NULL DEFAULT 0,
  blocks TINYINT NOT NULL DEFAULT 0,
  span BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (queue, grp, single),
  KEY by_moment (queue, stands, moment, grp, single)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- The table of an earlier release lacks a column. (MySQL knows no ADD COLUMN IF NOT EXISTS.)
SET @holdfast_sql = (SELECT IF(COUNT(*) > 0, 'DO 0',
    'ALTER TABLE holdfast_tracks ADD COLUMN span BIGINT NOT NULL DEFAULT 0')
  FROM information_schema.columns WHERE table_schema = DATABASE()
    AND table_name = 'holdfast_tracks' AND column_name = 'span')
//
PREPARE holdfast_add FROM @holdfast_sql
//
EXECUTE holdfast_add
//
-- A row for each job that is no dead letter; written once, and removed.
CREATE TABLE IF NOT EXISTS holdfast_jobs (
  queue INT NOT NULL,
  seq BIGINT NOT NULL AUTO_INCREMENT,
  grp VARBINARY(256) NOT NULL,
  id VARBINARY(256) NOT NULL,
  accepted BIGINT NOT NULL,
  ready BIGINT NOT NULL,
  payload MEDIUMBLOB NOT NULL,
  PRIMARY KEY (queue, seq),
  KEY by_seq (seq),
  KEY by_group (queue, grp, seq)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
CREATE TABLE IF NOT EXISTS holdfast_dead (
  queue INT NOT NULL,
  seq BIGINT NOT NULL,
  grp VARBINARY(256) NOT NULL,
  id VARBINARY(256) NOT NULL,
  accepted BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  attempts INT NOT NULL,
  reason VARBINARY(1024) NOT NULL,
  payload MEDIUMBLOB NOT NULL,
  PRIMARY KEY (queue, seq)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- The ids that callers chose: remembered until `ends`, and as long as the job is there. `look` is
-- when the sweeping looks again.
CREATE TABLE IF NOT EXISTS holdfast_ids (
  queue INT NOT NULL,
  id VARBINARY(256) NOT NULL,
  seq BIGINT NOT NULL,
  ends BIGINT NOT NULL,
  look BIGINT NOT NULL,
  PRIMARY KEY (queue, id),
  KEY by_look (look)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- The last request by each lane, what it was told, and the minute in which that was.
CREATE TABLE IF NOT EXISTS holdfast_lanes (
  id BINARY(16) NOT NULL PRIMARY KEY,
  number BIGINT NOT NULL,
  minute BIGINT NOT NULL,
  said VARBINARY(1000) NOT NULL,
  KEY by_minute (minute)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- Takes that got something: what (of each the bytes of its group as two bytes, the group, and
-- `single` as eight), and how many of these aren't settled. With `buried` it gets nothing any more.
CREATE TABLE IF NOT EXISTS holdfast_takes (
  id BINARY(16) NOT NULL PRIMARY KEY,
  ends BIGINT NOT NULL,
  buried TINYINT NOT NULL,
  loans INT NOT NULL,
  list LONGBLOB NOT NULL,
  KEY by_ends (ends)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
