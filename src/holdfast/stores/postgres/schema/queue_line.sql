-- Helpers that the verbs of queues share. Clients cannot call them.
--
-- Rows are locked in this order: a delivery, known ids, groups (ascending), the queue's bell. Code
-- that needs another order skips locked rows.

CREATE OR REPLACE FUNCTION {schema}.queue_begin(p_relaxed boolean)
RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'holdfast needs READ COMMITTED' USING ERRCODE = 'HF001';
    END IF;
    PERFORM commits(p_relaxed);
    RETURN clock();
END $$;

-- The lock of a producer or of a take: a copy of a request waits until the first one has ended.
CREATE OR REPLACE FUNCTION {schema}.queue_alone(p_id uuid)
RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(p_id::text, 7236144))
$$;

-- The key of a queue's bell. A transaction that makes a job ready locks it, shared, until its
-- commit; a take that begins to wait locks it alone. So no take begins to wait while a job is being
-- put.
CREATE OR REPLACE FUNCTION {schema}.queue_bell(p_queue bytea)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(encode(p_queue, 'hex'), 7236145)
$$;

-- Wake at most `p_many` waiting takes, the latest first.
CREATE OR REPLACE FUNCTION {schema}.queue_ring(p_queue bytea, p_many bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w record;
    now_us bigint := clock();
BEGIN
    IF p_many <= 0 THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(queue_bell(p_queue));
    FOR w IN
        WITH woken AS MATERIALIZED (
            SELECT i.ctid AS at FROM idle i WHERE i.queue = p_queue AND i.until > now_us
            ORDER BY i.queue DESC, i.until DESC LIMIT p_many FOR UPDATE SKIP LOCKED)
        DELETE FROM idle i USING woken o WHERE i.ctid = o.at RETURNING i.take, i.address
    LOOP
        PERFORM pg_notify(w.address, replace(w.take::text, '-', '') || ' 1');
    END LOOP;
END $$;

-- Return the row of a group, locked. With `p_wait` it is made if it is missing; without, the result
-- is NULL if it is missing or another transaction has locked it.
CREATE OR REPLACE FUNCTION {schema}.queue_group(p_queue bytea, p_grp bytea, p_wait boolean)
RETURNS {schema}.groups LANGUAGE plpgsql AS $$
DECLARE
    g groups;
BEGIN
    IF NOT p_wait THEN
        SELECT * INTO g FROM groups WHERE queue = p_queue AND grp = p_grp
        ORDER BY gen DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
        RETURN g;
    END IF;
    SELECT * INTO g FROM groups WHERE queue = p_queue AND grp = p_grp
    ORDER BY gen DESC LIMIT 1 FOR UPDATE;
    IF g.queue IS NULL THEN
        PERFORM pg_advisory_xact_lock(
            hashtextextended(encode(p_queue, 'hex') || ' ' || encode(p_grp, 'hex'), 7236146));
        SELECT * INTO g FROM groups WHERE queue = p_queue AND grp = p_grp
        ORDER BY gen DESC LIMIT 1 FOR UPDATE;
        IF g.queue IS NULL THEN
            INSERT INTO groups (queue, grp) VALUES (p_queue, p_grp) RETURNING * INTO g;
            IF EXISTS (SELECT FROM jobs WHERE queue = p_queue AND grp = p_grp AND grp <> ''
                    AND NOT aside) THEN  -- its row was removed from outside
                PERFORM queue_healed(g, clock());
                SELECT * INTO g FROM groups WHERE queue = p_queue AND grp = p_grp
                ORDER BY gen DESC LIMIT 1;
            END IF;
        END IF;
    END IF;
    RETURN g;
END $$;

CREATE OR REPLACE FUNCTION {schema}.queue_save(g {schema}.groups, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE groups SET
        gen = (g.changes + 1) / 32, changes = g.changes + 1, head = g.head, due = g.due,
        place = g.place, last = g.last, hour = p_now / 3600000000
    WHERE queue = g.queue AND grp = g.grp AND gen = g.gen;
END $$;

CREATE OR REPLACE FUNCTION {schema}.queue_count(
    p_queue bytea, p_accepted bigint, p_done bigint, p_removed bigint, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    c counts;
BEGIN
    SELECT * INTO c FROM counts WHERE queue = p_queue AND session = pg_backend_pid()
    ORDER BY gen DESC LIMIT 1 FOR UPDATE;
    IF c.queue IS NULL THEN
        INSERT INTO counts (queue, session, accepted, done, removed, hour)
        VALUES (p_queue, pg_backend_pid(), p_accepted, p_done, p_removed, p_now / 3600000000)
        ON CONFLICT (queue, session, gen) DO UPDATE SET
            accepted = counts.accepted + excluded.accepted, done = counts.done + excluded.done,
            removed = counts.removed + excluded.removed;
    ELSE
        UPDATE counts SET
            gen = (c.changes + 1) / 32, changes = c.changes + 1,
            accepted = c.accepted + p_accepted, done = c.done + p_done,
            removed = c.removed + p_removed, hour = p_now / 3600000000
        WHERE queue = p_queue AND session = c.session AND gen = c.gen;
    END IF;
END $$;

-- A job has ended, and its row is deleted: its id is remembered for the rest of its dedup window.
CREATE OR REPLACE FUNCTION {schema}.queue_forget(j {schema}.jobs, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF j.known > p_now THEN
        UPDATE known SET until = j.known WHERE queue = j.queue AND id = j.id;
    ELSIF j.known > 0 THEN
        DELETE FROM known WHERE queue = j.queue AND id = j.id;
    END IF;
END $$;

-- Give a job its delay again, because the clock that counted it was set back. Returns when it is
-- due.
CREATE OR REPLACE FUNCTION {schema}.queue_again(j {schema}.jobs, p_now bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    j.not_before := p_now + greatest(0, least({delay_max_us},
        j.not_before - CASE WHEN j.stamped = 0 THEN j.accepted ELSE j.stamped END));
    UPDATE jobs SET not_before = j.not_before, stamped = p_now
    WHERE queue = j.queue AND seq = j.seq;
    RETURN j.not_before;
END $$;

-- Repair a group with contradicting rows: line it up by its jobs and its delivery. True: it is due
-- now or soon.
CREATE OR REPLACE FUNCTION {schema}.queue_healed(g {schema}.groups, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    since_us bigint;
BEGIN
    -- Waits for a take that is deleting this row, and then sees the delivery of that take.
    DELETE FROM ready WHERE queue = g.queue AND lane = 0 AND grp = g.grp;
    SELECT seq INTO g.head FROM loans WHERE queue = g.queue AND grp = g.grp LIMIT 1;
    IF FOUND THEN
        g.place := 0;
        PERFORM queue_save(g, p_now);
        RETURN false;
    END IF;
    g.last := CASE WHEN g.last BETWEEN 0 AND {clock_max} THEN g.last ELSE 0 END;
    -- The last fence is a time of the same clock. A future one shows that the clock was set back,
    -- and how long after that time the group had to pause.
    IF g.last > p_now AND g.due > g.last THEN
        g.due := p_now + (g.due - g.last);
    ELSIF g.last > p_now AND g.due > p_now THEN
        -- The clock was set back again after `due` was set. The first job has a time of that clock.
        SELECT CASE WHEN stamped = 0 THEN accepted ELSE stamped END INTO since_us FROM jobs
        WHERE queue = g.queue AND grp <= g.grp AND (grp, seq) > (g.grp, 0)
            AND grp <> '' AND NOT aside
        ORDER BY grp, seq LIMIT 1;
        IF since_us > p_now THEN
            g.due := p_now + greatest(0, g.due - since_us);
        END IF;
    END IF;
    g.due := greatest(0, least(g.due, p_now + {ttl_max_us}));
    g.changes := CASE WHEN g.changes BETWEEN 0 AND {clock_max} THEN g.changes ELSE 0 END;
    RETURN queue_line_up(g, 0, p_now);
END $$;

-- Give a group the place of its first job, and save it. True: it is due now or soon. The group has
-- no delivery, and is not in `ready`.
CREATE OR REPLACE FUNCTION {schema}.queue_line_up(
    g {schema}.groups, p_after bigint, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    j jobs;
BEGIN
    -- This order leaves the planner only the index of groups, and never reads past this group.
    SELECT * INTO j FROM jobs
    WHERE queue = g.queue AND grp <= g.grp AND (grp, seq) > (g.grp, p_after)
        AND grp <> '' AND NOT aside
    ORDER BY grp, seq LIMIT 1;
    g.head := coalesce(j.seq, 0);
    g.place := 0;
    IF j.stamped > p_now OR j.stamped = 0 AND j.accepted > p_now THEN
        j.not_before := queue_again(j, p_now);
    END IF;
    IF j.seq IS NOT NULL AND NOT j.dead THEN
        g.place := greatest(p_now, g.due, j.not_before);
        INSERT INTO ready (queue, lane, place, seq, grp, last)
        VALUES (g.queue, 0, g.place, j.seq, g.grp, g.last);
    END IF;
    PERFORM queue_save(g, p_now);
    RETURN g.place > 0 AND g.place < p_now + {ask_again_us};
END $$;

-- A delivery ended at p_when, and its row is deleted: update its job, and its group, which is
-- locked. True: a job is due because of this, now or soon.
CREATE OR REPLACE FUNCTION {schema}.queue_ended(
    l {schema}.loans, g {schema}.groups, p_verdict text, p_when bigint, p_delay bigint,
    p_reason bytea, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    j jobs;
    at_us bigint := p_now;
    goes boolean := p_verdict = 'ack' OR p_verdict = 'dead' AND NOT (l.blocks AND l.grp <> '');
BEGIN
    IF p_verdict = 'ack' THEN
        DELETE FROM jobs WHERE queue = l.queue AND seq = l.seq RETURNING * INTO j;
        PERFORM queue_forget(j, p_now);
        PERFORM queue_count(l.queue, 0, 1, 0, p_now);
    ELSE
        IF p_verdict = 'retry' THEN
            at_us := greatest(p_now, p_when + p_delay);
        END IF;
        UPDATE jobs SET
            attempts = CASE WHEN p_verdict = 'return' THEN attempts ELSE l.attempt END,
            not_before = CASE WHEN p_verdict = 'dead' THEN not_before ELSE at_us END,
            stamped = p_now,
            dead = p_verdict = 'dead', aside = goes,
            reason = CASE WHEN p_reason = '' THEN reason ELSE p_reason END
        WHERE queue = l.queue AND seq = l.seq;
    END IF;
    IF l.grp = '' THEN
        IF NOT goes THEN
            INSERT INTO ready (queue, lane, place, seq, grp, last)
            VALUES (l.queue, 1, at_us, l.seq, '', l.fence);
        END IF;
        RETURN NOT goes AND at_us < p_now + {ask_again_us};
    END IF;
    g.last := l.fence;
    -- A future time was issued by a clock that was set back since.
    g.due := greatest(CASE WHEN l.fence > p_now THEN least(g.due, p_now) ELSE g.due END,
        CASE WHEN l.from_take THEN least(l.taken, p_now) ELSE p_when END + l.min_interval);
    RETURN queue_line_up(g, CASE WHEN goes THEN l.seq ELSE l.seq - 1 END, p_now);
END $$;

-- Recover deliveries whose lease has ended, searching from p_from on. Returns the moment from which
-- the next search has to start.
CREATE OR REPLACE FUNCTION {schema}.queue_reap(p_queue bytea, p_from bigint, p_now bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    l loans;
    g groups;
    many bigint := 0;
    left_us bigint := p_now;
    steps integer := 0;
BEGIN
    -- Compare with the clock again: a lease can be renewed after p_now, with the clock set back.
    FOR l IN SELECT * FROM loans WHERE queue = p_queue AND expires >= p_from AND expires <= p_now
            AND expires <= clock()
            ORDER BY queue, expires LIMIT 100 FOR UPDATE SKIP LOCKED LOOP
        steps := steps + 1;
        IF steps = 100 THEN
            left_us := least(left_us, l.expires);
        END IF;
        IF l.grp <> '' THEN
            g := queue_group(l.queue, l.grp, false);
            IF g.queue IS NULL THEN
                left_us := least(left_us, l.expires);
                CONTINUE;
            END IF;
        END IF;
        DELETE FROM loans WHERE take = l.take AND seq = l.seq;
        IF queue_ended(l, g, CASE WHEN l.attempt >= l.attempts_max THEN 'dead' ELSE 'retry' END,
                l.expires, 0, convert_to('the lease expired: ', 'UTF8') || l.owner
                || convert_to(' did not renew it', 'UTF8'), p_now) THEN
            many := many + 1;
        END IF;
    END LOOP;
    PERFORM queue_ring(p_queue, many);
    RETURN left_us;
END $$;

-- Remove a limited number of records that are no longer needed; locked ones are skipped.
CREATE OR REPLACE FUNCTION {schema}.queue_tidy(p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    c counts;
    hour_now integer := p_now / 3600000000;
BEGIN
    DELETE FROM lanes WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM lanes WHERE hour < hour_now - 1
        ORDER BY hour LIMIT 100 FOR UPDATE SKIP LOCKED));
    DELETE FROM known WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM known WHERE until <= p_now AND until < 9223372036854775807
        ORDER BY until LIMIT 4000 FOR UPDATE SKIP LOCKED));
    DELETE FROM idle WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM idle WHERE until <= p_now LIMIT 1000 FOR UPDATE SKIP LOCKED));
    DELETE FROM groups WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM groups WHERE hour < hour_now - 1 AND head = 0 AND due <= p_now
        ORDER BY hour LIMIT 1000 FOR UPDATE SKIP LOCKED));
    FOR c IN SELECT * FROM counts o WHERE o.hour < hour_now - 1
            ORDER BY o.hour LIMIT 20 FOR UPDATE SKIP LOCKED LOOP
        INSERT INTO queues (queue, accepted, done, removed, hour)
        VALUES (c.queue, c.accepted, c.done, c.removed, hour_now)
        ON CONFLICT (queue) DO UPDATE SET
            accepted = queues.accepted + excluded.accepted, done = queues.done + excluded.done,
            removed = queues.removed + excluded.removed, hour = hour_now;
        DELETE FROM counts WHERE queue = c.queue AND session = c.session AND gen = c.gen;
    END LOOP;
    -- Forget a queue that was empty and unused for a day.
    DELETE FROM queues q WHERE q.hour < hour_now - 24
        AND NOT EXISTS (SELECT FROM counts o WHERE o.queue = q.queue)
        AND NOT EXISTS (SELECT FROM jobs j WHERE j.queue = q.queue);
    DELETE FROM rates WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM rates WHERE next_start < p_now - 3600000000.0
        LIMIT 100 FOR UPDATE SKIP LOCKED));
END $$;
