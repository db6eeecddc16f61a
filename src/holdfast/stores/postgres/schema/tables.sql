-- The tables. {schema} is the schema's name; every statement here may be said again.
-- Times are microseconds since 1970 by the server's clock; 9223372036854775807 is never.

-- Who may not make schemas may have been given one.
DO $$ BEGIN
    IF to_regnamespace('{schema}') IS NULL THEN
        CREATE SCHEMA {schema};
    END IF;
END $$;
-- The bodies of the functions are read with this path.
SET LOCAL search_path = {schema}, pg_temp;

-- A row for each name: how its line stands. Whoever changes a line locks this row first.
--
-- `gen` grows with every 32nd change, and the row is looked for from the greatest one down. So the
-- versions that somebody's old snapshot keeps from being removed are never walked through: of one
-- gen there are 32 at most.
CREATE TABLE IF NOT EXISTS {schema}.lines (
    name bytea NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    kind text NOT NULL DEFAULT '',
    capacity integer NOT NULL DEFAULT 1,
    -- Claims that come with this one are taken in, too: what the capacity was before a resize.
    former integer NOT NULL DEFAULT 0,
    used integer NOT NULL DEFAULT 0,
    holders integer NOT NULL DEFAULT 0,
    waiters integer NOT NULL DEFAULT 0,
    -- The tickets of all who hold are from low to high, and none of them expires before first.
    low bigint NOT NULL DEFAULT 9223372036854775807,
    high bigint NOT NULL DEFAULT 0,
    first bigint NOT NULL DEFAULT 9223372036854775807,
    -- Nobody with a lesser ticket waits. Of who is first of them: its seat, its weight, its expiry
    -- (at the soonest; 0: to be looked up).
    head bigint NOT NULL DEFAULT 9223372036854775807,
    headseat integer NOT NULL DEFAULT 0,
    headweight integer NOT NULL DEFAULT 0,
    headexp bigint NOT NULL DEFAULT 0,
    seats integer NOT NULL DEFAULT 0,
    -- The last ticket that was given.
    last bigint NOT NULL DEFAULT 0,
    -- When the last tombstone of this name ends.
    tombs bigint NOT NULL DEFAULT 0,
    -- The hour of the last change; a line that nobody used for longer than one is removed.
    hour integer NOT NULL DEFAULT 0,
    PRIMARY KEY (name, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS lines_hour ON {schema}.lines (hour);

-- Who holds and who waits. The id is the secret of a claim: who knows it owns the claim.
CREATE TABLE IF NOT EXISTS {schema}.claims (
    id uuid PRIMARY KEY,
    name bytea NOT NULL,
    ticket bigint NOT NULL,
    held boolean NOT NULL,
    leaving boolean NOT NULL DEFAULT false,
    weight integer NOT NULL,
    seat integer NOT NULL,
    ttl bigint NOT NULL,
    since bigint NOT NULL,
    expires bigint NOT NULL,
    -- The channel on which it hears that it was served; '': nowhere.
    address text NOT NULL,
    owner bytea NOT NULL,
    meta bytea NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX IF NOT EXISTS claims_line ON {schema}.claims (name, ticket);

-- Claims that must not enter any more, and whether it is because they were broken.
CREATE TABLE IF NOT EXISTS {schema}.tombs (
    id uuid PRIMARY KEY,
    until bigint NOT NULL,
    broken boolean NOT NULL
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS tombs_until ON {schema}.tombs (until);

-- The guard: the timeline of the server that gave the latest grants, and whether any of them was
-- acknowledged before it was on the disk.
CREATE TABLE IF NOT EXISTS {schema}.guard (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    timeline text NOT NULL,
    relaxed boolean NOT NULL
);

-- Unlogged, because such a table is emptied by whatever may lose data: a crash, a promotion, a
-- copy that is started. Its row says: nothing of that has happened since.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.alive (
    mark uuid NOT NULL,
    until bigint NOT NULL,
    relaxed boolean NOT NULL
);
-- The table in which the row was written: a row that came with a dump stands in another one.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '{schema}.alive'::regclass
            AND attname = 'home') THEN
        ALTER TABLE {schema}.alive ADD COLUMN home oid;
        UPDATE {schema}.alive SET home = tableoid;
    END IF;
END $$;

-- Which version of the schema this is, and since when.
CREATE TABLE IF NOT EXISTS {schema}.version (
    version integer PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT now()
);
