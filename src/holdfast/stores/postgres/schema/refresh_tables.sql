-- The tables of refresh guards. Times are microseconds since 1970 by the server's clock.
--
-- They are unlogged, as a cache may be: to store a value waits for no disk. What empties such a
-- table, a crash or a promotion, takes the duties with the values: what was being computed is
-- refused then, as after an invalidation.

-- A row for each entry in use, which is there for as long as its value. Whoever changes anything of
-- an entry locks this row first; `gen` is as in `lines`. The id is the secret of whoever has the
-- duty; NULL: nobody.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.refresh_duties (
    guard bytea NOT NULL,
    key bytea NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    id uuid,
    owner bytea NOT NULL DEFAULT '',
    -- The last fence that was given, and when the lease of its duty ends.
    fence bigint NOT NULL DEFAULT 0,
    lease bigint NOT NULL DEFAULT 0,
    -- Failures in a row, which count until `failed`; until `pause` nobody gets the duty.
    failures integer NOT NULL DEFAULT 0,
    pause bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    reason bytea NOT NULL DEFAULT '',
    -- Until when the value is kept.
    kept bigint NOT NULL DEFAULT 0,
    -- All of it is over in this 16.8th second (2^24 us) since 1970: in steps, as it is indexed.
    ends integer NOT NULL DEFAULT 2147483647,
    PRIMARY KEY (guard, key, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- What was left of the lease when it was last renewed.
ALTER TABLE {schema}.refresh_duties ADD COLUMN IF NOT EXISTS ttl bigint NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS refresh_duties_ends ON {schema}.refresh_duties (ends);

-- The values. This is what a fresh hit reads; there is no secret in it. `version` is the fence of
-- the duty by which it was stored.
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

-- When it was stored; 0: by an earlier release. That is in the future only if the clock was set back.
ALTER TABLE {schema}.refresh_values ADD COLUMN IF NOT EXISTS stored bigint NOT NULL DEFAULT 0;

-- Nobody waits for a value to be compressed.
ALTER TABLE {schema}.refresh_values ALTER COLUMN data SET STORAGE EXTERNAL;

-- Who waits for a value, and where it hears that the duty has ended.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.refresh_waiters (
    guard bytea NOT NULL,
    key bytea NOT NULL,
    wish uuid NOT NULL,
    until bigint NOT NULL,
    address text NOT NULL,
    PRIMARY KEY (guard, key, wish)
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS refresh_waiters_until ON {schema}.refresh_waiters (until);

-- How often what happened, and the hour of the last change.
CREATE TABLE IF NOT EXISTS {schema}.refresh_tallies (
    guard bytea PRIMARY KEY,
    counts bigint[] NOT NULL,
    hour integer NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS refresh_tallies_hour ON {schema}.refresh_tallies (hour);
