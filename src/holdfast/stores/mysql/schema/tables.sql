-- The tables of the lines. Times are microseconds since 1970 by the server's clock, in UTC. Names,
-- owners and notes are bytes: letter case and trailing blanks count.

-- A row for each name; the lock on this row makes a verb atomic. A lone claim is in this row:
-- `last` is its ticket, `lone` its id. When a second claim comes, all claims are in the other
-- table. `claims` and `waiters` count the rows there, `used` is the weight of the holders. Holders
-- have tickets from `low` to below `head`, waiters from `head` on. No live claim expires
-- before `first`. `tomb` is the end of the last tombstone. The comment of the table is the layout of
-- all tables.
CREATE TABLE IF NOT EXISTS holdfast_lines (
  name VARBINARY(512) NOT NULL PRIMARY KEY,
  last BIGINT NOT NULL DEFAULT 0,
  tomb BIGINT NOT NULL DEFAULT 0,
  kind TINYINT NOT NULL DEFAULT 0,
  capacity INT NOT NULL DEFAULT 0,
  former INT NOT NULL DEFAULT 0,
  used INT NOT NULL DEFAULT 0,
  claims INT NOT NULL DEFAULT 0,
  waiters INT NOT NULL DEFAULT 0,
  seats BIGINT NOT NULL DEFAULT 0,
  first BIGINT NOT NULL DEFAULT 0,
  low BIGINT NOT NULL DEFAULT 0,
  head BIGINT NOT NULL DEFAULT 0,
  lone BINARY(16) NULL,
  leaving TINYINT NOT NULL DEFAULT 0,
  weight INT NOT NULL DEFAULT 0,
  ttl BIGINT NOT NULL DEFAULT 0,
  since BIGINT NOT NULL DEFAULT 0,
  expires BIGINT NOT NULL DEFAULT 0,
  owner VARBINARY(256) NOT NULL DEFAULT '',
  meta VARBINARY(4096) NOT NULL DEFAULT ''
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='layout 1'
//
CREATE TABLE IF NOT EXISTS holdfast_claims (
  name VARBINARY(512) NOT NULL,
  ticket BIGINT NOT NULL,
  id BINARY(16) NOT NULL,
  seat BIGINT NOT NULL,
  held TINYINT NOT NULL,
  leaving TINYINT NOT NULL,
  weight INT NOT NULL,
  ttl BIGINT NOT NULL,
  since BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  owner VARBINARY(256) NOT NULL,
  meta VARBINARY(4096) NOT NULL,
  PRIMARY KEY (name, ticket),
  KEY by_id (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- Ids of claims that must not enter the line (again), until `ends`. `broken`: 1 if a break ended
-- the claim.
CREATE TABLE IF NOT EXISTS holdfast_tombs (
  name VARBINARY(512) NOT NULL,
  id BINARY(16) NOT NULL,
  ends BIGINT NOT NULL,
  broken TINYINT NOT NULL,
  PRIMARY KEY (name, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
