-- Inspecting queues, and reviving and purging jobs.

-- Every job with its state. From `due` on, only its group can hold it back.
CREATE OR REPLACE VIEW {schema}.standing AS
SELECT j.queue, j.seq, j.grp, j.id, j.payload, j.accepted, j.attempts, j.reason, j.dead,
    l.take, l.attempt, l.expires, l.owner,
    CASE WHEN g.head = j.seq THEN greatest(g.due, j.not_before) ELSE j.not_before END AS due
FROM {schema}.jobs j
LEFT JOIN {schema}.loans l ON l.queue = j.queue AND l.seq = j.seq
LEFT JOIN LATERAL (
    SELECT o.head, o.due FROM {schema}.groups o WHERE o.queue = j.queue AND o.grp = j.grp
    ORDER BY o.gen DESC LIMIT 1) g ON j.grp <> '';

-- At most `p_most` jobs of a queue, in order of acceptance. Texts are hexadecimal.
CREATE OR REPLACE FUNCTION {schema}.queue_jobs_{queue_version}(
    p_queue bytea, p_state text, p_grp bytea, p_most integer)
RETURNS TABLE (id text, grp text, state text, payload text, attempts integer, age bigint,
    due_in bigint, expires_in bigint, owner text, reason text)
LANGUAGE plpgsql AS $$
DECLARE
    now_us bigint := queue_begin(true);
    these bigint[];
BEGIN
    PERFORM queue_reap(p_queue, 0, now_us);
    now_us := clock();
    IF p_state = 'dead' THEN
        these := ARRAY(SELECT j.seq FROM jobs j WHERE j.queue = p_queue AND j.dead
            AND (p_grp IS NULL OR j.grp = p_grp) ORDER BY j.seq LIMIT p_most);
    ELSIF p_state = 'taken' THEN
        these := ARRAY(SELECT l.seq FROM loans l WHERE l.queue = p_queue
            AND (p_grp IS NULL OR l.grp = p_grp) ORDER BY l.seq LIMIT p_most);
    ELSIF p_state IS NULL AND p_grp <> '' THEN
        these := ARRAY(
            (SELECT j.seq FROM jobs j WHERE j.queue = p_queue AND j.grp = p_grp AND j.grp <> ''
                AND NOT j.aside ORDER BY j.seq LIMIT p_most)
            UNION ALL
            (SELECT j.seq FROM jobs j WHERE j.queue = p_queue AND j.grp = p_grp AND j.dead
                AND j.aside ORDER BY j.seq LIMIT p_most)
            ORDER BY seq LIMIT p_most);
    ELSE
        these := ARRAY(SELECT s.seq FROM standing s WHERE s.queue = p_queue
            AND (p_grp IS NULL OR s.grp = p_grp)
            AND (p_state IS NULL OR s.take IS NULL AND NOT s.dead
                AND (s.due > now_us) = (p_state = 'delayed'))
            ORDER BY s.seq LIMIT p_most);
    END IF;
    RETURN QUERY SELECT encode(s.id, 'hex'), encode(s.grp, 'hex'),
        CASE WHEN s.dead THEN 'dead' WHEN s.take IS NOT NULL THEN 'taken'
            WHEN s.due > now_us THEN 'delayed' ELSE 'waiting' END,
        encode(s.payload, 'hex'), coalesce(s.attempt, s.attempts),
        greatest(0, now_us - s.accepted),
        CASE WHEN s.dead OR s.take IS NOT NULL THEN 0 ELSE greatest(0, s.due - now_us) END,
        greatest(0, coalesce(s.expires, now_us) - now_us),
        encode(coalesce(s.owner, ''), 'hex'), encode(s.reason, 'hex')
    -- One by one: a join, or `= ANY`, can read the whole queue to get them in order.
    FROM unnest(these) t(seq), LATERAL (
        SELECT * FROM standing o WHERE o.queue = p_queue AND o.seq = t.seq LIMIT 1) s
    ORDER BY t.seq;
END $$;

-- The queues whose names are from p_from up to, but without, p_to (NULL: to the end). Waiting jobs
-- are not counted one by one, because that takes long: their number is computed.
CREATE OR REPLACE FUNCTION {schema}.queue_survey_{queue_version}(p_from bytea, p_to bytea)
RETURNS TABLE (name text, waiting bigint, taken bigint, dead bigint, groups bigint, oldest bigint,
    accepted bigint, done bigint)
LANGUAGE plpgsql AS $$
DECLARE
    q record;
    now_us bigint := clock();
BEGIN
    FOR q IN
        SELECT c.queue, sum(c.accepted)::bigint AS accepted, sum(c.done)::bigint AS done,
            sum(c.removed)::bigint AS removed
        FROM (SELECT o.queue, o.accepted, o.done, o.removed FROM counts o
            UNION ALL SELECT o.queue, o.accepted, o.done, o.removed FROM queues o) c
        WHERE c.queue >= p_from AND (p_to IS NULL OR c.queue < p_to)
        GROUP BY c.queue HAVING sum(c.accepted) > 0 ORDER BY c.queue
    LOOP
        name := encode(q.queue, 'hex');
        SELECT count(*) INTO taken FROM loans l WHERE l.queue = q.queue AND l.expires > now_us;
        SELECT count(*) INTO dead FROM jobs j WHERE j.queue = q.queue AND j.dead;
        SELECT count(*) INTO groups FROM (
            SELECT g.grp FROM groups g WHERE g.queue = q.queue AND g.head > 0
            UNION SELECT j.grp FROM jobs j WHERE j.queue = q.queue AND j.dead AND j.grp <> '') several;
        accepted := q.accepted;
        done := q.done;
        waiting := greatest(0, accepted - done - q.removed - taken - dead);
        SELECT j.accepted INTO oldest FROM jobs j
        WHERE j.queue = q.queue AND NOT j.dead AND j.seq NOT IN (
            SELECT l.seq FROM loans l WHERE l.queue = q.queue AND l.expires > now_us)
        ORDER BY j.queue, j.seq LIMIT 1;
        oldest := greatest(0, now_us - coalesce(oldest, now_us));
        RETURN NEXT;
    END LOOP;
END $$;

-- Revive at most 1,000 dead letters: the given ones, or all; their number. A dead letter that
-- blocks its group keeps its place, another one goes to the end of its group.
CREATE OR REPLACE FUNCTION {schema}.queue_revive_{queue_version}(
    p_queue bytea, p_ids bytea[], p_relaxed boolean, p_within integer DEFAULT 0)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    j jobs;
    g groups;
    now_us bigint;
    revived integer := 0;
    many bigint := 0;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM queue_begin(p_relaxed);
    FOR j IN SELECT o.* FROM (
            SELECT * FROM jobs d WHERE d.queue = p_queue AND d.dead
                AND (p_ids IS NULL OR d.id = ANY (p_ids)) ORDER BY d.seq LIMIT 1000) o
            ORDER BY o.grp, o.seq LOOP
        IF j.grp <> '' THEN
            g := queue_group(p_queue, j.grp, true);
        END IF;
        now_us := clock();
        UPDATE jobs SET dead = false, aside = false, attempts = 0, not_before = now_us,
            stamped = now_us,
            seq = CASE WHEN grp <> '' AND aside THEN nextval('queue_seq') ELSE seq END
        WHERE queue = p_queue AND seq = j.seq AND dead RETURNING * INTO j;
        CONTINUE WHEN j.seq IS NULL;  -- another client was first
        revived := revived + 1;
        IF j.grp = '' THEN
            INSERT INTO ready (queue, lane, place, seq, grp, last)
            VALUES (p_queue, 1, now_us, j.seq, '', 0);
            many := many + 1;
        ELSIF g.head IN (0, j.seq) THEN
            many := many + queue_line_up(g, j.seq - 1, now_us)::int;
        END IF;
    END LOOP;
    PERFORM queue_ring(p_queue, many);
    RETURN revived;
END $$;

-- Remove at most `p_most` jobs of a state, or the given ones, the oldest first; their number. A job
-- that is delivered, or is being taken, stays.
CREATE OR REPLACE FUNCTION {schema}.queue_purge_{queue_version}(
    p_queue bytea, p_state text, p_ids bytea[], p_most integer, p_relaxed boolean,
    p_within integer DEFAULT 0)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    one record;
    j jobs;
    g groups;
    now_us bigint := queue_begin(p_relaxed);
    removed integer := 0;
    many bigint := 0;
    first boolean;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM queue_reap(p_queue, 0, now_us);
    now_us := clock();
    FOR one IN SELECT o.* FROM (
            SELECT s.grp, s.seq FROM standing s WHERE s.queue = p_queue AND s.take IS NULL
                AND (p_ids IS NULL OR s.id = ANY (p_ids))
                AND (p_state IS NULL OR p_state = CASE WHEN s.dead THEN 'dead'
                    WHEN s.due > now_us THEN 'delayed' ELSE 'waiting' END)
            ORDER BY s.seq LIMIT p_most) o
            ORDER BY o.grp, o.seq LOOP
        IF one.grp <> '' THEN
            g := queue_group(p_queue, one.grp, true);
        END IF;
        SELECT * INTO j FROM jobs WHERE queue = p_queue AND seq = one.seq FOR UPDATE;
        CONTINUE WHEN j.seq IS NULL;
        first := NOT j.aside AND (j.grp = '' OR g.head = j.seq);
        -- A take that is picking it has locked, or removed, its row in `ready`.
        IF first AND NOT j.dead THEN
            WITH mine AS MATERIALIZED (
                SELECT r.* FROM ready r WHERE r.queue = p_queue AND r.seq = j.seq
                    AND r.lane = (j.grp = '')::int
                    AND r.place = CASE WHEN j.grp = '' THEN j.not_before ELSE g.place END
                FOR UPDATE SKIP LOCKED)
            DELETE FROM ready r USING mine m WHERE r.queue = m.queue AND r.lane = m.lane
                AND r.place = m.place AND r.seq = m.seq;
            CONTINUE WHEN NOT FOUND;
        END IF;
        DELETE FROM jobs WHERE queue = p_queue AND seq = j.seq;
        PERFORM queue_forget(j, now_us);
        removed := removed + 1;
        IF first AND j.grp <> '' THEN
            many := many + queue_line_up(g, j.seq, now_us)::int;
        END IF;
    END LOOP;
    IF removed > 0 THEN
        PERFORM queue_count(p_queue, 0, 0, removed, now_us);
    END IF;
    PERFORM queue_ring(p_queue, many);
    RETURN removed;
END $$;
