-- The tables of serial queues. Times are microseconds since 1970 by the server's clock.
--
-- What runs one at a time is a track: a group, or one job of the plain lane (lane 1). A track
-- stands in `ready` at the moment at which it becomes due, or in `loans` while a worker has its
-- first job, or in neither of them.
--
-- No statement on the way of a job begins at the least key of an index: what an old snapshot keeps
-- would be walked through each time. Clients say from which moment on there can be anything.

CREATE SEQUENCE IF NOT EXISTS {schema}.queue_seq;

-- Every job that isn't over, in the order of acceptance.
CREATE TABLE IF NOT EXISTS {schema}.jobs (
    queue bytea NOT NULL,
    seq bigint NOT NULL,
    -- '' in the plain lane.
    grp bytea NOT NULL,
    id bytea NOT NULL,
    -- The caller chose the id: until when it is remembered; 0: the client made it.
    known bigint NOT NULL,
    accepted bigint NOT NULL,
    -- In the plain lane also its place in `ready`.
    not_before bigint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    dead boolean NOT NULL DEFAULT false,
    -- A dead letter that holds nobody back: it doesn't stand in its group any more.
    aside boolean NOT NULL DEFAULT false,
    reason bytea NOT NULL DEFAULT '',
    payload bytea NOT NULL,
    PRIMARY KEY (queue, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- When `not_before` was set; 0: with `accepted`. That is in the future only if the clock was set back.
ALTER TABLE {schema}.jobs ADD COLUMN IF NOT EXISTS stamped bigint NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS jobs_line ON {schema}.jobs (queue, grp, seq)
    WHERE grp <> '' AND NOT aside;
CREATE INDEX IF NOT EXISTS jobs_dead ON {schema}.jobs (queue, seq) WHERE dead;

-- A row for each group. Whoever changes what stands in a group locks this row first; `gen` is as
-- in `lines`.
CREATE TABLE IF NOT EXISTS {schema}.groups (
    queue bytea NOT NULL,
    grp bytea NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    -- Its first job; 0: it has none.
    head bigint NOT NULL DEFAULT 0,
    -- Not before this moment, by its last execution.
    due bigint NOT NULL DEFAULT 0,
    -- Where it stands in `ready`, if it stands there.
    place bigint NOT NULL DEFAULT 0,
    -- The last fence that was given.
    last bigint NOT NULL DEFAULT 0,
    -- The hour of the last change; a group without jobs is removed an hour after it.
    hour integer NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, grp, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS groups_hour ON {schema}.groups (hour);

-- The tracks that may be taken, or will be, with the last fence of each. Who deletes a row has it.
CREATE TABLE IF NOT EXISTS {schema}.ready (
    queue bytea NOT NULL,
    lane smallint NOT NULL,
    place bigint NOT NULL,
    seq bigint NOT NULL,
    grp bytea NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (queue, lane, place, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- The deliveries that aren't settled. The id of the take is the secret of whoever has them.
CREATE TABLE IF NOT EXISTS {schema}.loans (
    take uuid NOT NULL,
    seq bigint NOT NULL,
    queue bytea NOT NULL,
    grp bytea NOT NULL,
    place bigint NOT NULL,
    attempt integer NOT NULL,
    fence bigint NOT NULL,
    taken bigint NOT NULL,
    expires bigint NOT NULL,
    owner bytea NOT NULL,
    min_interval bigint NOT NULL,
    from_take boolean NOT NULL,
    attempts_max integer NOT NULL,
    blocks boolean NOT NULL,
    PRIMARY KEY (take, seq)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- What was left of the lease when it was last renewed.
ALTER TABLE {schema}.loans ADD COLUMN IF NOT EXISTS ttl bigint NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS loans_expire ON {schema}.loans (queue, expires);

-- Ids that the callers chose: remembered until then, 9223372036854775807 while the job is there.
CREATE TABLE IF NOT EXISTS {schema}.known (
    queue bytea NOT NULL,
    id bytea NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS known_until ON {schema}.known (until)
    WHERE until < 9223372036854775807;

-- The last answer of each lane that jobs are put by.
CREATE TABLE IF NOT EXISTS {schema}.lanes (
    lane uuid NOT NULL,
    number bigint NOT NULL,
    hour integer NOT NULL,
    answer text NOT NULL,
    PRIMARY KEY (lane, number)
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS lanes_hour ON {schema}.lanes (hour);

-- What was accepted, done, and removed by hand: a row for each session, so that nobody waits for
-- another to count. What wasn't touched for an hour is added up in `queues`.
CREATE TABLE IF NOT EXISTS {schema}.counts (
    queue bytea NOT NULL,
    session integer NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    accepted bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    removed bigint NOT NULL DEFAULT 0,
    hour integer NOT NULL,
    PRIMARY KEY (queue, session, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS counts_hour ON {schema}.counts (hour);

CREATE TABLE IF NOT EXISTS {schema}.queues (
    queue bytea PRIMARY KEY,
    accepted bigint NOT NULL,
    done bigint NOT NULL,
    removed bigint NOT NULL,
    hour integer NOT NULL
);

-- Of a queue that has a rate: when the next delivery may start.
CREATE TABLE IF NOT EXISTS {schema}.rates (
    queue bytea NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    next_start double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

-- Who waits for a job, and where it hears of one. Losing a row costs its worker a second.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.idle (
    take uuid PRIMARY KEY,
    queue bytea NOT NULL,
    until bigint NOT NULL,
    address text NOT NULL
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS idle_until ON {schema}.idle (queue, until);
