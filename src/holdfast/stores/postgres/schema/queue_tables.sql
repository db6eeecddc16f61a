-- The tables of serial queues. Times are microseconds since 1970 by the server's clock.
--
-- The unit of `ready` and `loans` is a group, or a single ungrouped job (`lane` 1). It is in
-- `ready`, with the moment at which it becomes due, or in `loans` while a worker has its first job,
-- or in neither.
--
-- No statement on the path of a job starts at the least key of an index: each time it would pass
-- all row versions that an old snapshot keeps. Clients send the moment from which to search.

CREATE SEQUENCE IF NOT EXISTS {schema}.queue_seq;

-- The jobs and the dead letters, in order of acceptance.
CREATE TABLE IF NOT EXISTS {schema}.jobs (
    queue bytea NOT NULL,
    seq bigint NOT NULL,
    -- '' for an ungrouped job.
    grp bytea NOT NULL,
    id bytea NOT NULL,
    -- If the caller chose the id: the end of its dedup window; 0: the client made the id.
    known bigint NOT NULL,
    accepted bigint NOT NULL,
    -- For an ungrouped job also its place in `ready`.
    not_before bigint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    dead boolean NOT NULL DEFAULT false,
    -- A dead letter that does not block its group: it is no longer part of the group.
    aside boolean NOT NULL DEFAULT false,
    reason bytea NOT NULL DEFAULT '',
    payload bytea NOT NULL,
    PRIMARY KEY (queue, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- When `not_before` was set; 0: with `accepted`. A future time shows that the clock was set back.
ALTER TABLE {schema}.jobs ADD COLUMN IF NOT EXISTS stamped bigint NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS jobs_line ON {schema}.jobs (queue, grp, seq)
    WHERE grp <> '' AND NOT aside;
CREATE INDEX IF NOT EXISTS jobs_dead ON {schema}.jobs (queue, seq) WHERE dead;

-- A row for each group. A change of the jobs of a group locks this row first; `gen` works as in
-- `lines`.
CREATE TABLE IF NOT EXISTS {schema}.groups (
    queue bytea NOT NULL,
    grp bytea NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    -- Its first job; 0: it has none.
    head bigint NOT NULL DEFAULT 0,
    -- The earliest next delivery, because of the last execution and its `min_interval`.
    due bigint NOT NULL DEFAULT 0,
    -- Its place in `ready`, if it is there.
    place bigint NOT NULL DEFAULT 0,
    -- The last fence that was issued.
    last bigint NOT NULL DEFAULT 0,
    -- The hour of the last change; a group without jobs is removed an hour later.
    hour integer NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, grp, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS groups_hour ON {schema}.groups (hour);

-- The groups and ungrouped jobs that are due, now or later, with the last fence of each. The
-- transaction that deletes a row owns the job.
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

-- The deliveries that are not settled. The id of the take is the secret of their worker.
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

-- The time left of the lease at its last renewal.
ALTER TABLE {schema}.loans ADD COLUMN IF NOT EXISTS ttl bigint NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS loans_expire ON {schema}.loans (queue, expires);

-- The ids that callers chose, with the end of the dedup window (9223372036854775807: the job
-- exists).
CREATE TABLE IF NOT EXISTS {schema}.known (
    queue bytea NOT NULL,
    id bytea NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS known_until ON {schema}.known (until)
    WHERE until < 9223372036854775807;

-- The last reply to each producer (`lane`).
CREATE TABLE IF NOT EXISTS {schema}.lanes (
    lane uuid NOT NULL,
    number bigint NOT NULL,
    hour integer NOT NULL,
    answer text NOT NULL,
    PRIMARY KEY (lane, number)
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS lanes_hour ON {schema}.lanes (hour);

-- The numbers of jobs accepted, done, and removed by hand: a row for each session, so that no
-- session waits for another one to count. A row unchanged for an hour is added to `queues`.
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

-- For a queue with a rate: the moment at which its whole burst is available again.
CREATE TABLE IF NOT EXISTS {schema}.rates (
    queue bytea NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT 0,
    next_start double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

-- The takes that wait for a job, each with the channel of its wake-up. A lost row costs its worker
-- one second.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.idle (
    take uuid PRIMARY KEY,
    queue bytea NOT NULL,
    until bigint NOT NULL,
    address text NOT NULL
) WITH (autovacuum_vacuum_cost_delay = 0);

CREATE INDEX IF NOT EXISTS idle_until ON {schema}.idle (queue, until);
