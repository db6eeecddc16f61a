-- The tables of serial queues. Times are microseconds since 1970 by the server's clock. Names,
-- groups and ids are bytes, as in the tables of the lines.

-- A row for each queue that was ever used. `starts` is the moment at which the rate allows the next
-- delivery, in nanoseconds; a burst can come earlier.
CREATE TABLE IF NOT EXISTS holdfast_queues (
  name VARBINARY(512) NOT NULL PRIMARY KEY,
  id INT NOT NULL AUTO_INCREMENT,
  starts BIGINT NOT NULL DEFAULT 0,
  UNIQUE KEY by_id (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- The numbers of jobs that were accepted, that are done, and that are there without the dead
-- letters. A queue has several rows, because all sessions would wait for a single one.
CREATE TABLE IF NOT EXISTS holdfast_counts (
  queue INT NOT NULL,
  shard INT NOT NULL,
  accepted BIGINT NOT NULL,
  done BIGINT NOT NULL,
  depth BIGINT NOT NULL,
  PRIMARY KEY (queue, shard)
) ENGINE=InnoDB
//
-- A row for each sequence of jobs that run one at a time: a group (`single` is 0), or one ungrouped
-- job (`grp` is empty, `single` is its seq). The lock on this row makes a verb atomic. `stands` and
-- `moment`:
--   0, 1  due at that moment, a group or an ungrouped job
--   2     delivered until then, to `take`, with `fence`; columns after `owner` came with it
--   3     blocked by a dead letter, which is its first job
--   4     without jobs, removed after that moment
-- `head` is the seq of its first job, which isn't delivered before `ready`; none of its jobs is
-- delivered before `rest`. `changes` is written by each verb that changes jobs behind the head,
-- because another node of a Galera cluster does not see locks. `span` is the time that was
-- requested when `moment` was last set: the lease, or the delay of a retry.
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
-- The table of an earlier release lacks a column. (MySQL has no ADD COLUMN IF NOT EXISTS.)
SET @holdfast_sql = (SELECT IF(COUNT(*) > 0, 'DO 0',
    'ALTER TABLE holdfast_tracks ADD COLUMN span BIGINT NOT NULL DEFAULT 0')
  FROM information_schema.columns WHERE table_schema = DATABASE()
    AND table_name = 'holdfast_tracks' AND column_name = 'span')
//
PREPARE holdfast_add FROM @holdfast_sql
//
EXECUTE holdfast_add
//
-- A row for each job that isn't a dead letter. It is never updated.
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
-- Ids that callers chose: remembered until `ends`, and while the job is there. At `look` the sweep
-- checks an id again.
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
-- The last put of each producer: its number, the reply, and the minute in which it came.
CREATE TABLE IF NOT EXISTS holdfast_lanes (
  id BINARY(16) NOT NULL PRIMARY KEY,
  number BIGINT NOT NULL,
  minute BIGINT NOT NULL,
  said VARBINARY(1000) NOT NULL,
  KEY by_minute (minute)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- Takes that got deliveries: the list of these (for each the length of its group as two bytes, the
-- group, and `single` as eight), and the number of unsettled ones. With `buried` the take gets
-- nothing more.
CREATE TABLE IF NOT EXISTS holdfast_takes (
  id BINARY(16) NOT NULL PRIMARY KEY,
  ends BIGINT NOT NULL,
  buried TINYINT NOT NULL,
  loans INT NOT NULL,
  list LONGBLOB NOT NULL,
  KEY by_ends (ends)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
