-- The tables. {schema} is the name of the schema. Every statement here can run again.
-- Times are microseconds since 1970 by the server's clock; 9223372036854775807 means never.

-- A role without the right to create schemas can use one that was made for it.
DO $$ BEGIN
    IF to_regnamespace('{schema}') IS NULL THEN
        CREATE SCHEMA {schema};
    END IF;
END $$;
-- The bodies of the functions are parsed with this path.
SET LOCAL search_path = {schema}, pg_temp;

-- One row for each name: the state of its line. A change of a line locks this row first.
--
-- `gen` grows with every 32nd change, and a search for the row starts at the greatest `gen`. So a
-- search passes at most 32 old versions of the row, however many an old snapshot keeps.
CREATE TABLE IF NOT EXISTS {schema}.lines (
    name bytea NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    kind text NOT NULL DEFAULT '',
    capacity integer NOT NULL DEFAULT 1,
    -- The capacity before a resize: claims with this capacity are accepted, too.
    former integer NOT NULL DEFAULT 0,
    used integer NOT NULL DEFAULT 0,
    holders integer NOT NULL DEFAULT 0,
    waiters integer NOT NULL DEFAULT 0,
    -- The tickets of all holders are from low to high, and no holder expires before first.
    low bigint NOT NULL DEFAULT 9223372036854775807,
    high bigint NOT NULL DEFAULT 0,
    first bigint NOT NULL DEFAULT 9223372036854775807,
    -- No waiter has a lesser ticket. Of the first waiter: its seat, its weight, its expiry
    -- (at the earliest; 0: unknown, read its claim).
    head bigint NOT NULL DEFAULT 9223372036854775807,
    headseat integer NOT NULL DEFAULT 0,
    headweight integer NOT NULL DEFAULT 0,
    headexp bigint NOT NULL DEFAULT 0,
    seats integer NOT NULL DEFAULT 0,
    -- The last ticket that was issued.
    last bigint NOT NULL DEFAULT 0,
    -- When the last tombstone of this name ends.
    tombs bigint NOT NULL DEFAULT 0,
    -- The hour of the last change; a line that was unused for longer than an hour is removed.
    hour integer NOT NULL DEFAULT 0,
    PRIMARY KEY (name, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS lines_hour ON {schema}.lines (hour);

-- Holders and waiters. The id is the secret of a claim: a client that knows it owns the claim.
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
    -- The channel of its wake-up when it is granted; '': none.
    address text NOT NULL,
    owner bytea NOT NULL,
    meta bytea NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX IF NOT EXISTS claims_line ON {schema}.claims (name, ticket);

-- Tombstones: claims that can no longer enter a line. `broken`: a break ended the claim.
CREATE TABLE IF NOT EXISTS {schema}.tombs (
    id uuid PRIMARY KEY,
    until bigint NOT NULL,
    broken boolean NOT NULL
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS tombs_until ON {schema}.tombs (until);

-- Recovery: the timeline of the server of the latest grants, and whether any grant was
-- acknowledged before it was on disk.
CREATE TABLE IF NOT EXISTS {schema}.guard (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    timeline text NOT NULL,
    relaxed boolean NOT NULL
);

-- Unlogged: PostgreSQL empties such a table after each event that can lose data (a crash, a
-- promotion, the start of a copy). Its row means that none of them has happened since.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.alive (
    mark uuid NOT NULL,
    until bigint NOT NULL,
    relaxed boolean NOT NULL
);
-- The table in which the row was written: a row from a dump names another table.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '{schema}.alive'::regclass
            AND attname = 'home') THEN
        ALTER TABLE {schema}.alive ADD COLUMN home oid;
        UPDATE {schema}.alive SET home = tableoid;
    END IF;
END $$;

-- The versions of the schema, each with the time of its installation.
DO $$ BEGIN
    IF to_regclass('{schema}.version') IS NULL THEN
        CREATE TABLE {schema}.version (
            version integer PRIMARY KEY,
            since timestamptz NOT NULL DEFAULT now()
        );
        COMMENT ON TABLE {schema}.version IS 'layout {layout}';
    END IF;
END $$;
