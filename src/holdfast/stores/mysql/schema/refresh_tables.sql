-- Where refresh guards keep their values. Times are microseconds since 1970 by the server's clock.
-- Names and keys are bytes, as in the tables of the lines.

-- A row for each entry in use, which is there for as long as its value; its lock is what makes a
-- verb atomic. `id` is the secret of whoever has the duty until `lease`, NULL: nobody; `fence` is the
-- last one that was given. `failures` in a row count until `failed`; until `pause` nobody gets the
-- duty. `kept`: until when there is a value. `ended` counts the ends of duties: who waits looks at
-- it, and it is written by whoever ends one or makes sure that there is none, because another node
-- of a Galera cluster knows of no lock. All is over in the step `ends`, of 2^24 us since 1970. `ttl` is
-- what was left of the lease when it was last renewed.
CREATE TABLE IF NOT EXISTS holdfast_refresh_duties (
  guard VARBINARY(512) NOT NULL,
  entry VARBINARY(512) NOT NULL,
  id BINARY(16) NULL,
  owner VARBINARY(256) NOT NULL DEFAULT '',
  fence BIGINT NOT NULL DEFAULT 0,
  lease BIGINT NOT NULL DEFAULT 0,
  failures INT NOT NULL DEFAULT 0,
  pause BIGINT NOT NULL DEFAULT 0,
  failed BIGINT NOT NULL DEFAULT 0,
  reason VARBINARY(1024) NOT NULL DEFAULT '',
  kept BIGINT NOT NULL DEFAULT 0,
  ended BIGINT NOT NULL DEFAULT 0,
  ends INT NOT NULL DEFAULT 0,
  ttl BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (guard, entry),
  KEY by_ends (ends)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- The values. This is what a fresh hit reads. `version` is the fence of the duty by which it was
-- stored, `stored` when that was (0: by an earlier release).
CREATE TABLE IF NOT EXISTS holdfast_refresh_values (
  guard VARBINARY(512) NOT NULL,
  entry VARBINARY(512) NOT NULL,
  version BIGINT NOT NULL,
  fresh BIGINT NOT NULL,
  stale BIGINT NOT NULL,
  kept BIGINT NOT NULL,
  cost BIGINT NOT NULL,
  data LONGBLOB NOT NULL,
  stored BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (guard, entry)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- Tables of an earlier release lack two columns. (MySQL knows no ADD COLUMN IF NOT EXISTS.)
SET @holdfast_sql = (SELECT IF(COUNT(*) > 0, 'DO 0',
    'ALTER TABLE holdfast_refresh_duties ADD COLUMN ttl BIGINT NOT NULL DEFAULT 0')
  FROM information_schema.columns WHERE table_schema = DATABASE()
    AND table_name = 'holdfast_refresh_duties' AND column_name = 'ttl')
//
PREPARE holdfast_add FROM @holdfast_sql
//
EXECUTE holdfast_add
//
SET @holdfast_sql = (SELECT IF(COUNT(*) > 0, 'DO 0',
    'ALTER TABLE holdfast_refresh_values ADD COLUMN stored BIGINT NOT NULL DEFAULT 0')
  FROM information_schema.columns WHERE table_schema = DATABASE()
    AND table_name = 'holdfast_refresh_values' AND column_name = 'stored')
//
PREPARE holdfast_add FROM @holdfast_sql
//
EXECUTE holdfast_add
//
-- Wishes that get no duty any more, until then.
CREATE TABLE IF NOT EXISTS holdfast_refresh_tombs (
  id BINARY(16) NOT NULL PRIMARY KEY,
  ends BIGINT NOT NULL,
  KEY by_ends (ends)
) ENGINE=InnoDB
//
-- How often what happened, and until when that is remembered.
CREATE TABLE IF NOT EXISTS holdfast_refresh_tallies (
  guard VARBINARY(512) NOT NULL PRIMARY KEY,
  hits BIGINT NOT NULL,
  near BIGINT NOT NULL,
  stale BIGINT NOT NULL,
  misses BIGINT NOT NULL,
  computes BIGINT NOT NULL,
  waits BIGINT NOT NULL,
  merged BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  refused BIGINT NOT NULL,
  ends BIGINT NOT NULL,
  KEY by_ends (ends)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
