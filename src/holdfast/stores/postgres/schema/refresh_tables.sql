-- The tables of refresh guards. Times are microseconds since 1970 by the server's clock.
--
-- They are unlogged, as a cache can be: storing a value does not wait for the disk. A crash or a
-- promotion empties them, the refresh leases with the values: a value that is being computed is
-- refused then, as after an invalidation.

-- A row for each entry in use; it exists at least as long as the value. A change of an entry locks
-- this row first; `gen` works as in `lines`. The id is the secret of the caller that has the
-- refresh lease; NULL: none has.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.refresh_duties (
    guard bytea NOT NULL,
    key bytea NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    id uuid,
    owner bytea NOT NULL DEFAULT '',
    -- The last fence that was issued, and when the refresh lease ends.
    fence bigint NOT NULL DEFAULT 0,
    lease bigint NOT NULL DEFAULT 0,
    -- Failures in a row, counted until `failed`; until `pause` no refresh lease is granted.
    failures integer NOT NULL DEFAULT 0,
    pause bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    reason bytea NOT NULL DEFAULT '',
    -- When the value ends.
    kept bigint NOT NULL DEFAULT 0,
    -- All of it has ended in this step of 16.8 s (2^24 us) since 1970; in steps, for the index.
    ends integer NOT NULL DEFAULT 2147483647,
    PRIMARY KEY (guard, key, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- The ttl of the last renewal.
ALTER TABLE {schema}.refresh_duties ADD COLUMN IF NOT EXISTS ttl bigint NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS refresh_duties_ends ON {schema}.refresh_duties (ends);

-- The values. A fresh hit reads only this table; it contains no secret. `version` is the fence of
-- the refresh lease that stored the value.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.refresh_values (
    guard bytea NOT NULL,
    key bytea NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL,
    fresh bigint NOT NULL,
    stale bigint NOT NULL,
    kept bigint NOT NULL,
    cost bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (guard, key, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_scale_factor = 0.05,
        toast.autovacuum_vacuum_threshold = 2000, toast.autovacuum_vacuum_cost_delay = 0);

-- When it was stored; 0: by an earlier release. A future time shows that the clock was set back.
ALTER TABLE {schema}.refresh_values ADD COLUMN IF NOT EXISTS stored bigint NOT NULL DEFAULT 0;

-- Values are not compressed: a caller would wait for it.
ALTER TABLE {schema}.refresh_values ALTER COLUMN data SET STORAGE EXTERNAL;

-- The callers that wait for a value, each with the channel of its wake-up.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.refresh_waiters (
    guard bytea NOT NULL,
    key bytea NOT NULL,
    wish uuid NOT NULL,
    until bigint NOT NULL,
    address text NOT NULL,
    PRIMARY KEY (guard, key, wish)
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS refresh_waiters_until ON {schema}.refresh_waiters (until);

-- The counts of each guard, and the hour of the last change.
CREATE TABLE IF NOT EXISTS {schema}.refresh_tallies (
    guard bytea PRIMARY KEY,
    counts bigint[] NOT NULL,
    hour integer NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS refresh_tallies_hour ON {schema}.refresh_tallies (hour);
