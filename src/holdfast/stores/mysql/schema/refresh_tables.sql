-- The tables of refresh guards. Times are microseconds since 1970 by the server's clock. Names and
-- keys are bytes, as in the tables of the lines.

-- A row for each entry in use, which stays as long as its value; the lock on this row makes a verb
-- atomic. `id` is the secret of the caller that has the refresh lease until `lease`, NULL: none;
-- `fence` is the last one granted. `failures` in a row count until `failed`; until `pause` no lease
-- is granted. `kept`: the end of the value. `ended` counts the ends of leases; waiters read it.
-- Each verb that ends a lease, or ensures that there is none, writes it, because another node of a
-- Galera cluster does not see locks. The row can be removed after the step `ends`, of 2^24 us since
-- 1970. `ttl` is the length of the lease when it was last granted or renewed.
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
-- The values. A fresh hit reads only this table. `version` is the fence of the refresh lease under
-- which the value was stored, `stored` the moment of that (0: stored by an earlier release).
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
-- Tables of an earlier release lack two columns. (MySQL has no ADD COLUMN IF NOT EXISTS.)
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
-- Ids of requests that get no refresh lease until `ends`.
CREATE TABLE IF NOT EXISTS holdfast_refresh_tombs (
  id BINARY(16) NOT NULL PRIMARY KEY,
  ends BIGINT NOT NULL,
  KEY by_ends (ends)
) ENGINE=InnoDB
//
-- The counts of a guard, remembered until `ends`.
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
