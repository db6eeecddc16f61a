-- The verbs of queues: one function each, and one call is one transaction.
--
-- `expires + 0` and `OFFSET 0` force the planner to find a row by its own key, even if it assumes
-- an empty table: another index could lead through all row versions that an old snapshot keeps.

-- Accept jobs, all or none: 't' for each new job, 'f' for a duplicate; NULL: this is a late copy of
-- an earlier request.
CREATE OR REPLACE FUNCTION {schema}.queue_put_{queue_version}(
    p_queue bytea, p_lane uuid, p_number bigint, p_ids bytea[], p_groups bytea[],
    p_payloads bytea[], p_delays bigint[], p_known boolean[], p_window bigint, p_tidy boolean,
    p_relaxed boolean, p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    a lanes;
    g groups;
    grps groups[] := '{}';
    one bytea;
    now_us bigint;
    fresh jsonb;
    is_new boolean[];
    many bigint;
    rung bigint;
    first_seq bigint;
    answer text;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM queue_begin(p_relaxed);
    PERFORM queue_alone(p_lane);
    SELECT * INTO a FROM lanes WHERE lane = p_lane ORDER BY number DESC LIMIT 1;
    IF a.number >= p_number THEN
        RETURN CASE WHEN a.number = p_number THEN a.answer END;
    END IF;
    now_us := clock();
    -- Known ids in ascending order, like groups. Of equal ids in one request, the first one counts.
    IF true = ANY (p_known) THEN
        WITH new AS (
            INSERT INTO known AS k (queue, id, until)
            SELECT DISTINCT p_queue, w.id, 9223372036854775807
            FROM unnest(p_ids, p_known) AS w(id, known)
            WHERE w.known AND NOT EXISTS (SELECT FROM known o
                WHERE o.queue = p_queue AND o.id = w.id AND o.until > now_us OFFSET 0)
            ORDER BY w.id
            ON CONFLICT (queue, id) DO UPDATE SET until = excluded.until WHERE k.until <= now_us
            RETURNING k.id)
        SELECT jsonb_object_agg(encode(new.id, 'hex'), 1) INTO fresh FROM new;
        SELECT array_agg(NOT w.known OR w.nth = 1 AND coalesce(fresh ? encode(w.id, 'hex'), false)
            ORDER BY w.at)
        INTO is_new FROM (
            SELECT v.*, row_number() OVER (PARTITION BY v.known, v.id ORDER BY v.at) AS nth
            FROM unnest(p_ids, p_known) WITH ORDINALITY AS v(id, known, at)) w;
    END IF;
    FOR one IN SELECT DISTINCT w.grp FROM unnest(p_groups) AS w(grp)
            WHERE w.grp <> '' ORDER BY w.grp LOOP
        grps := grps || queue_group(p_queue, one, true);
    END LOOP;
    now_us := clock();
    WITH new AS (
        INSERT INTO jobs (queue, seq, grp, id, known, accepted, not_before, payload)
        SELECT p_queue, nextval('queue_seq'), w.grp, w.id,
            CASE WHEN w.known THEN greatest(1, now_us + p_window) ELSE 0 END,
            now_us, now_us + w.delay, w.payload
        FROM (SELECT * FROM unnest(p_ids, p_groups, p_payloads, p_delays, p_known)
            WITH ORDINALITY AS v(id, grp, payload, delay, known, at) ORDER BY v.at) w
        WHERE is_new IS NULL OR is_new[w.at]
        RETURNING seq, grp, not_before
    ), plain AS (
        INSERT INTO ready (queue, lane, place, seq, grp, last)
        SELECT p_queue, 1, new.not_before, new.seq, '', 0 FROM new
        WHERE new.grp = ''
    )
    SELECT count(*), coalesce(sum((new.grp = '' AND new.not_before < now_us + {ask_again_us})::int), 0),
        min(new.seq)
    INTO many, rung, first_seq FROM new;
    FOREACH g IN ARRAY grps LOOP
        IF g.head <> 0 AND EXISTS (SELECT FROM ready r WHERE r.queue = p_queue AND r.lane = 0
                AND r.place = g.place AND r.seq = g.head) THEN
            CONTINUE;
        END IF;
        -- It is delivered, or blocked, or its row is wrong.
        IF g.changes > 0 AND EXISTS (SELECT FROM loans l WHERE l.queue = p_queue AND l.grp = g.grp)
                OR g.head <> 0 AND EXISTS (SELECT FROM jobs j WHERE j.queue = p_queue
                    AND j.seq = g.head AND j.grp = g.grp AND j.dead) THEN
            CONTINUE;
        END IF;
        IF g.head = 0 AND g.place = 0 THEN
            rung := rung + queue_line_up(g, first_seq - 1, now_us)::int;
        ELSE
            rung := rung + queue_healed(g, now_us)::int;
        END IF;
    END LOOP;
    answer := coalesce(
        (SELECT string_agg(CASE WHEN n THEN 't' ELSE 'f' END, '' ORDER BY at)
            FROM unnest(is_new) WITH ORDINALITY AS w(n, at)),
        repeat('t', cardinality(p_ids)));
    INSERT INTO lanes (lane, number, hour, answer)
    VALUES (p_lane, p_number, now_us / 3600000000, answer);
    DELETE FROM lanes WHERE lane = p_lane AND number = a.number;
    PERFORM queue_count(p_queue, many, 0, 0, now_us);
    IF p_tidy THEN
        PERFORM queue_tidy(now_us);
    END IF;
    PERFORM queue_ring(p_queue, rung);
    RETURN answer;
END $$;

-- The number of deliveries that the rate of a queue allows now, at most `p_most`, and the
-- microseconds until the next one. Locks the row of the rate.
CREATE OR REPLACE FUNCTION {schema}.queue_allowed(
    p_queue bytea, p_rate double precision, p_burst double precision, p_most integer, p_now bigint,
    OUT room integer, OUT pause bigint, OUT r {schema}.rates)
LANGUAGE plpgsql AS $$
DECLARE
    spare double precision;
BEGIN
    SELECT * INTO r FROM rates WHERE queue = p_queue ORDER BY gen DESC LIMIT 1 FOR UPDATE;
    IF r.queue IS NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(encode(p_queue, 'hex'), 7236147));
        SELECT * INTO r FROM rates WHERE queue = p_queue ORDER BY gen DESC LIMIT 1 FOR UPDATE;
        IF r.queue IS NULL THEN
            INSERT INTO rates (queue) VALUES (p_queue) RETURNING * INTO r;
        END IF;
    END IF;
    -- Further ahead than a whole burst is only possible if the clock was set back.
    IF r.next_start > p_now + (p_burst + p_most) / p_rate * 1000000.0 THEN
        r.next_start := p_now + p_burst / p_rate * 1000000.0;
        UPDATE rates SET next_start = r.next_start WHERE queue = p_queue AND gen = r.gen;
    END IF;
    -- The number that can start now: the burst, minus what is used of it.
    spare := p_burst - (greatest(r.next_start, p_now) - p_now) / 1000000.0 * p_rate;
    room := greatest(0, least(p_most, floor(spare + 0.000001)::integer));
    pause := CASE WHEN room > 0 THEN 0 ELSE ceil((1 - spare) / p_rate * 1000000)::bigint END;
END $$;

-- At most p_most deliveries that are due. The first row is the state: `n`: the microseconds until
-- more can be due; `fence`, `seq` and `id`: the moments from which the next take of this client has
-- to search for groups, for ungrouped jobs, and for expired leases. A row for each delivery
-- follows; texts are hexadecimal. Without an address the take does not wait.
CREATE OR REPLACE FUNCTION {schema}.queue_take_{queue_version}(
    p_queue bytea, p_id uuid, p_most integer, p_ttl bigint, p_owner bytea, p_interval bigint,
    p_from_take boolean, p_rate double precision, p_burst double precision, p_attempts integer,
    p_blocks boolean, p_address text, p_turn integer, p_grouped bigint, p_plain bigint,
    p_expired bigint, p_stale uuid[], p_window bigint, p_relaxed boolean,
    p_within integer DEFAULT 0)
RETURNS TABLE (seq bigint, fence bigint, age bigint, attempt integer, n bigint, id text, grp text,
    payload text)
LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    a alive;
    rate record;
    now_us bigint;
    room integer := p_most;
    got integer := 0;
    lent_now integer;
    want integer;
    at_lane integer;
    last_place bigint;
    low bigint[] := ARRAY[p_grouped, p_plain];
    expired bigint := p_expired;
    reaped_us bigint;
    asleep boolean := false;
    dry boolean := false;
    retry bigint := {ask_again_us};
    orphans bytea[];
    mended boolean := false;
    many bigint;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    now_us := queue_begin(p_relaxed);
    reaped_us := now_us;
    PERFORM queue_alone(p_id);
    IF greatest(p_grouped, p_plain, p_expired) > now_us THEN  -- the clock was set back
        low := ARRAY[0, 0];
        expired := 0;
    END IF;
    IF EXISTS (SELECT FROM loans l WHERE l.take = p_id AND l.expires + 0 > now_us) THEN
        RETURN QUERY SELECT * FROM queue_lent(p_id, low || expired, now_us, 0);
        RETURN;
    END IF;
    IF p_window >= 0 THEN
        a := gate(now_us, p_window, p_relaxed);
        IF a.until > now_us THEN
            room := 0;
            retry := least(retry, a.until - now_us);
        END IF;
    END IF;
    IF EXISTS (SELECT FROM tombs t WHERE t.id = p_id AND t.until > now_us) THEN
        room := 0;
    END IF;
    IF room > 0 THEN
        expired := queue_reap(p_queue, expired, now_us);
        now_us := clock();
    END IF;
    IF room > 0 AND p_rate > 0 THEN
        rate := queue_allowed(p_queue, p_rate, p_burst, room, now_us);
        room := rate.room;
        retry := least(retry, rate.pause);
    END IF;
    -- Groups and ungrouped jobs in turn, half of the room for each if there are enough. Then once
    -- more before the take waits, while no other transaction can make a job ready.
    FOR pass IN 1 .. CASE WHEN room = 0 THEN 0 WHEN p_address = '' THEN 3 ELSE 6 END LOOP
        IF pass = 4 THEN
            EXIT WHEN got > 0;
            asleep := pg_try_advisory_xact_lock(queue_bell(p_queue));
            IF NOT asleep THEN
                retry := 5000;
                EXIT;
            END IF;
            now_us := greatest(now_us, clock());
        END IF;
        at_lane := CASE WHEN pass IN (2, 5) THEN 1 - p_turn ELSE p_turn END;
        want := CASE WHEN pass IN (1, 4) THEN (room + 1) / 2 ELSE room - got END;
        CONTINUE WHEN want <= 0 OR dry AND pass IN (3, 6);
        WITH picked AS MATERIALIZED (
            SELECT r.ctid AS at FROM ready r
            WHERE r.queue = p_queue AND r.lane = at_lane AND r.place >= low[at_lane + 1]
                AND r.place <= now_us
            ORDER BY r.queue, r.lane, r.place, r.seq LIMIT want FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM ready r USING picked p WHERE r.ctid = p.at
            RETURNING r.seq, r.grp, r.place, r.last
        ), lent AS (
            INSERT INTO loans (take, seq, queue, grp, place, attempt, fence, taken, expires, owner,
                min_interval, from_take, attempts_max, blocks, ttl)
            SELECT p_id, g.seq, p_queue, j.grp, g.place, least(j.attempts, 1000000) + 1,
                greatest(now_us, CASE WHEN g.last < {clock_max} THEN g.last + 1 END),
                now_us, now_us + p_ttl, p_owner, p_interval, p_from_take, p_attempts, p_blocks, p_ttl
            FROM gone g CROSS JOIN LATERAL (
                SELECT o.attempts, o.grp FROM jobs o
                WHERE o.queue = p_queue AND o.seq = g.seq OFFSET 0) j
            RETURNING place
        )
        SELECT count(*), max(lent.place),
            (SELECT array_agg(g.grp) FROM gone g WHERE g.grp <> '' AND (SELECT count(*) FROM gone)
                > (SELECT count(*) FROM lent))
        INTO lent_now, last_place, orphans FROM lent;
        got := got + lent_now;
        mended := mended OR orphans IS NOT NULL;
        dry := pass IN (1, 4) AND lent_now < want OR pass IN (2, 5) AND dry;
        -- A job with an earlier place can become visible later: the next search starts before it.
        low[at_lane + 1] := greatest(low[at_lane + 1], last_place - 100000,
            CASE WHEN lent_now < want THEN now_us - {ask_again_us} END);
        EXIT WHEN got >= room;
    END LOOP;
    IF mended OR got = 0 AND room > 0 AND random() < 0.25 THEN
        many := queue_mend(p_queue, now_us);
        PERFORM queue_ring(p_queue, many);
        IF got = 0 AND (many > 0 OR random() < 0.1) THEN  -- a repaired job can be before `low`
            retry := CASE WHEN many > 0 THEN 0 ELSE retry END;
            low := ARRAY[0, 0];
            expired := 0;
        END IF;
    END IF;
    IF p_stale <> '{}' OR got > 0 AND p_address <> '' THEN
        DELETE FROM idle WHERE take = ANY (CASE WHEN got > 0 THEN p_stale || p_id ELSE p_stale END);
    END IF;
    IF got > 0 THEN
        IF p_rate > 0 THEN
            UPDATE rates SET gen = (changes + 1) / 32, changes = changes + 1,
                next_start = greatest((rate.r).next_start, now_us) + got * 1000000.0 / p_rate
            WHERE queue = p_queue AND gen = (rate.r).gen;
        END IF;
    ELSIF room > 0 THEN
        IF asleep THEN
            INSERT INTO idle (take, queue, until, address)
            VALUES (p_id, p_queue, now_us + {asleep_us}, p_address)
            ON CONFLICT (take) DO UPDATE SET until = excluded.until, address = excluded.address;
        END IF;
        -- A lease can have expired since the search for expired ones.
        retry := least(retry,
            greatest(0, queue_soonest(p_queue, reaped_us) - (now_us - reaped_us)));
    END IF;
    RETURN QUERY SELECT * FROM queue_lent(p_id, low || expired, now_us, retry);
END $$;

-- The rows that a take returns.
CREATE OR REPLACE FUNCTION {schema}.queue_lent(
    p_id uuid, p_low bigint[], p_now bigint, p_retry bigint)
RETURNS TABLE (seq bigint, fence bigint, age bigint, attempt integer, n bigint, id text, grp text,
    payload text)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT p_low[2], p_low[1], p_now, 0, p_retry, p_low[3]::text, '', '';
    RETURN QUERY SELECT l.seq, l.fence, greatest(0, p_now - greatest(0, j.accepted)), l.attempt, 0::bigint,
            encode(j.id, 'hex'), encode(j.grp, 'hex'), encode(j.payload, 'hex')
        FROM loans l CROSS JOIN LATERAL (
            SELECT * FROM jobs o WHERE o.queue = l.queue AND o.seq = l.seq OFFSET 0) j
        WHERE l.take = p_id AND l.expires + 0 > p_now
        ORDER BY l.place, l.seq;
END $$;

-- The microseconds until a job can be due, at most the time until the next poll.
CREATE OR REPLACE FUNCTION {schema}.queue_soonest(p_queue bytea, p_now bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at_us bigint := p_now + {ask_again_us};
    one bigint;
BEGIN
    FOR lane_of IN 0 .. 1 LOOP
        SELECT r.place INTO one FROM ready r
        WHERE r.queue = p_queue AND r.lane = lane_of AND r.place > p_now AND r.place < at_us
        ORDER BY r.queue, r.lane, r.place LIMIT 1;
        at_us := least(at_us, one);
    END LOOP;
    SELECT l.expires INTO one FROM loans l
    WHERE l.queue = p_queue AND l.expires > p_now AND l.expires < at_us
    ORDER BY l.queue, l.expires LIMIT 1;
    RETURN least(at_us, one) - p_now;
END $$;

-- Release the deliveries of a take; their number. A late copy of the take gets nothing.
CREATE OR REPLACE FUNCTION {schema}.queue_give_back_{queue_version}(
    p_queue bytea, p_id uuid, p_ttl bigint, p_within integer DEFAULT 0)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    l loans;
    g groups;
    now_us bigint;
    given integer := 0;
    waited boolean;
    many bigint := 0;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM queue_begin(true);
    PERFORM queue_alone(p_id);
    now_us := clock();
    PERFORM bury(p_id, now_us, now_us + p_ttl + {tomb_us}, false);
    DELETE FROM idle WHERE take = p_id;
    waited := FOUND;
    FOR l IN SELECT * FROM loans WHERE take = p_id AND expires + 0 > now_us
            ORDER BY grp, seq FOR UPDATE LOOP
        IF l.grp <> '' THEN
            g := queue_group(l.queue, l.grp, true);
        END IF;
        DELETE FROM loans WHERE take = p_id AND seq = l.seq;
        given := given + 1;
        IF queue_ended(l, g, 'return', now_us, 0, '', now_us) THEN
            many := many + 1;
        END IF;
    END LOOP;
    -- If the take no longer waits, because it was woken for a job that is due, wake another one.
    IF many = 0 AND NOT waited AND EXISTS (SELECT FROM ready r
            WHERE r.queue = p_queue AND r.lane IN (0, 1) AND r.place < now_us + {ask_again_us}) THEN
        many := 1;
    END IF;
    PERFORM queue_ring(p_queue, many);
    RETURN given;
END $$;

-- Settle deliveries: 't' for each that this take still had. The queues, and the groups of each, are
-- in ascending order.
--
-- This need not wait for the disk. If a crash loses it, the delivery stays until its lease ends,
-- and then the job is delivered again. All later takes are flushed after it.
CREATE OR REPLACE FUNCTION {schema}.queue_settle_{queue_version}(
    p_queues bytea[], p_takes uuid[], p_seqs bigint[], p_verdicts text[], p_delays bigint[],
    p_reasons bytea[], p_ttls bigint[], p_suspects boolean[], p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    l loans;
    g groups;
    now_us bigint;
    answer text := '';
    many bigint := 0;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM queue_begin(true);
    FOR i IN 1 .. cardinality(p_seqs) LOOP
        IF p_suspects[i] THEN
            PERFORM queue_alone(p_takes[i]);
        END IF;
        SELECT * INTO l FROM loans
        WHERE take = p_takes[i] AND seq = p_seqs[i] FOR UPDATE;
        now_us := clock();
        IF l.take IS NULL OR l.expires <= now_us THEN
            answer := answer || 'f';
        ELSE
            IF p_suspects[i] THEN
                PERFORM bury(l.take, now_us, now_us + p_ttls[i] + {tomb_us}, false);
            END IF;
            IF l.grp <> '' THEN
                g := queue_group(l.queue, l.grp, true);
                now_us := clock();
            END IF;
            DELETE FROM loans WHERE take = l.take AND seq = l.seq;
            IF queue_ended(l, g, p_verdicts[i], now_us, p_delays[i], p_reasons[i], now_us) THEN
                many := many + 1;
            END IF;
            answer := answer || 't';
        END IF;
        IF i = cardinality(p_seqs) OR p_queues[i] <> p_queues[i + 1] THEN
            PERFORM queue_ring(p_queues[i], many);
            many := 0;
        END IF;
    END LOOP;
    RETURN answer;
END $$;

-- Renew leases: the fences in order, 0 for each that has ended.
CREATE OR REPLACE FUNCTION {schema}.queue_extend_{queue_version}(
    p_takes uuid[], p_seqs bigint[], p_ttls bigint[], p_relaxed boolean,
    p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    now_us bigint;
    one bigint;
    answer text;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    now_us := queue_begin(p_relaxed);
    FOR i IN 1 .. cardinality(p_seqs) LOOP
        UPDATE loans SET
            expires = greatest(CASE WHEN ttl > 0 THEN least(expires, clock() + ttl) ELSE expires END,
                now_us + p_ttls[i]),
            ttl = greatest(CASE WHEN ttl > 0 THEN least(expires - clock(), ttl) ELSE expires - clock()
                END, p_ttls[i])
        WHERE take = p_takes[i] AND seq = p_seqs[i] AND expires + 0 > now_us
        RETURNING fence INTO one;
        answer := concat_ws(' ', answer, coalesce(one, 0));
    END LOOP;
    RETURN answer;
END $$;
