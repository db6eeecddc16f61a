-- Repairs for jobs that no other verb reaches, because a row was removed or changed from outside,
-- or the clock was set back.

-- True if nothing leads to this job: no place in `ready`, no delivery, no dead letter before it. It
-- is one statement, because that has one snapshot, in which each job is in one place.
CREATE OR REPLACE FUNCTION {schema}.queue_stalled(j {schema}.jobs)
RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT NOT j.dead
        AND EXISTS (SELECT FROM jobs o WHERE o.queue = j.queue AND o.seq = j.seq)
        AND NOT EXISTS (SELECT FROM loans l WHERE l.queue = j.queue
            AND CASE WHEN j.grp = '' THEN l.seq = j.seq ELSE l.grp = j.grp END)
        AND NOT EXISTS (SELECT FROM ready r WHERE r.queue = j.queue AND r.lane = 1
            AND r.place = j.not_before AND r.seq = j.seq AND j.grp = '')
        AND NOT EXISTS (
            SELECT FROM (SELECT * FROM groups o WHERE o.queue = j.queue AND o.grp = j.grp
                ORDER BY o.gen DESC LIMIT 1) g
            JOIN jobs h ON h.queue = j.queue AND h.seq = g.head AND h.grp = j.grp
            LEFT JOIN ready r ON r.queue = j.queue AND r.lane = 0 AND r.place = g.place
                AND r.seq = g.head
            WHERE j.grp <> '' AND (h.dead OR r.seq IS NOT NULL))
$$;

-- After a take without success: check some jobs of the queue, and repair them. It checks the oldest
-- ones, because each job that is stuck becomes one of them, and some others. Returns how many
-- groups and ungrouped jobs are due because of this. If another session does this now: 0.
CREATE OR REPLACE FUNCTION {schema}.queue_mend(p_queue bytea, p_now bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    j jobs;
    g groups;
    from_seq bigint := 0;
    many bigint := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(encode(p_queue, 'hex'), 7236149)) THEN
        RETURN 0;
    END IF;
    UPDATE loans SET expires = clock() + ttl, taken = least(taken, p_now)
    WHERE ctid = ANY (ARRAY(SELECT l.ctid FROM loans l
        WHERE l.queue = p_queue AND l.expires > p_now AND l.ttl > 0
            AND l.expires > clock() + least(l.ttl, {ttl_max_us}) LIMIT 100 FOR UPDATE SKIP LOCKED));
    IF random() < 0.3 THEN
        SELECT (min(o.seq) + random() * (max(o.seq) - min(o.seq)))::bigint INTO from_seq
        FROM jobs o WHERE o.queue = p_queue;
    END IF;
    FOR j IN SELECT * FROM jobs o WHERE o.queue = p_queue AND o.seq >= from_seq AND NOT o.dead
            ORDER BY o.queue, o.seq LIMIT 100 LOOP
        -- Read after the rows: by an earlier time, a row that was just written looks as if the clock
        -- had been set back.
        p_now := clock();
        IF j.stamped > p_now OR j.stamped = 0 AND j.accepted > p_now
                OR j.not_before > p_now + {delay_max_us} THEN
            -- The clock was set back: its place is wrong, unless it is delivered.
            CONTINUE WHEN EXISTS (SELECT FROM loans l WHERE l.queue = p_queue AND l.seq = j.seq);
            IF j.grp = '' THEN
                WITH mine AS MATERIALIZED (
                    SELECT r.* FROM ready r WHERE r.queue = p_queue AND r.lane = 1
                        AND r.place = j.not_before AND r.seq = j.seq FOR UPDATE SKIP LOCKED)
                DELETE FROM ready r USING mine m WHERE r.queue = m.queue AND r.lane = m.lane
                    AND r.place = m.place AND r.seq = m.seq;
                CONTINUE WHEN NOT FOUND;
                j.not_before := queue_again(j, p_now);
            ELSE
                g := queue_group(p_queue, j.grp, false);
                CONTINUE WHEN g.queue IS NULL OR g.head <> j.seq;
                p_now := clock();
                many := many + queue_healed(g, p_now)::int;
                CONTINUE;
            END IF;
        ELSIF j.grp <> '' THEN
            g := queue_group(p_queue, j.grp, false);
            p_now := clock();
            IF g.queue IS NOT NULL AND g.head = j.seq AND g.place > p_now
                    AND (g.last > p_now AND g.due > g.last OR g.due > p_now + {ttl_max_us}) THEN
                many := many + queue_healed(g, p_now)::int;
                CONTINUE;
            END IF;
        END IF;
        CONTINUE WHEN NOT queue_stalled(j);
        IF j.grp = '' THEN
            DELETE FROM ready r WHERE r.queue = p_queue AND r.lane = 1 AND r.seq = j.seq;
            INSERT INTO ready (queue, lane, place, seq, grp, last)
            VALUES (p_queue, 1, j.not_before, j.seq, '', 0);
            many := many + (j.not_before < p_now + {ask_again_us})::int;
        ELSE
            g := queue_group(p_queue, j.grp, true);
            p_now := clock();
            IF queue_stalled(j) THEN
                many := many + queue_healed(g, p_now)::int;
            END IF;
        END IF;
    END LOOP;
    RETURN many;
END $$;
