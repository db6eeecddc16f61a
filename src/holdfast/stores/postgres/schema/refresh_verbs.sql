-- The verbs of refresh guards. A fresh hit calls none of them: it reads `refresh_values`. None of
-- them has to wait for the disk: a lost commit is a miss.

-- The gen of a new row: greater than every gen of an earlier row of the same key that was swept.
CREATE OR REPLACE FUNCTION {schema}.refresh_gen() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (extract(epoch FROM now()) * 256)::bigint
$$;

-- Return the row of an entry, locked; with `p_make` it is made if it is missing.
CREATE OR REPLACE FUNCTION {schema}.refresh_locked(p_guard bytea, p_key bytea, p_make boolean)
RETURNS {schema}.refresh_duties LANGUAGE plpgsql AS $$
DECLARE
    d refresh_duties;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'holdfast needs READ COMMITTED' USING ERRCODE = 'HF001';
    END IF;
    SELECT * INTO d FROM refresh_duties WHERE guard = p_guard AND key = p_key
    ORDER BY gen DESC LIMIT 1 FOR UPDATE;
    IF d.guard IS NULL AND p_make THEN
        PERFORM pg_advisory_xact_lock(
            hashtextextended(encode(p_guard, 'hex') || ' ' || encode(p_key, 'hex'), 7236148));
        SELECT * INTO d FROM refresh_duties WHERE guard = p_guard AND key = p_key
        ORDER BY gen DESC LIMIT 1 FOR UPDATE;
        IF d.guard IS NULL THEN
            INSERT INTO refresh_duties (guard, key, gen, changes)
            VALUES (p_guard, p_key, refresh_gen(), refresh_gen() * 32) RETURNING * INTO d;
        END IF;
    END IF;
    RETURN refresh_checked(d, clock());
END $$;

-- Correct impossible values of a row. A lease further ahead than the ttl of its renewal, or a fence
-- in the future, shows that the clock was set back, or that the row was changed from outside.
CREATE OR REPLACE FUNCTION {schema}.refresh_checked(d {schema}.refresh_duties, p_now bigint)
RETURNS {schema}.refresh_duties LANGUAGE plpgsql AS $$
BEGIN
    IF d.ttl > 0 AND d.lease > p_now + least(d.ttl, {ttl_max_us}) THEN
        d.lease := p_now + least(d.ttl, {ttl_max_us});
    ELSIF d.fence BETWEEN 0 AND {clock_max} AND d.changes BETWEEN 0 AND {clock_max}
            AND d.failures BETWEEN 0 AND 1000000
            AND (d.fence <= p_now OR d.pause <= d.fence) AND d.pause <= d.failed THEN
        RETURN d;
    END IF;
    IF d.fence NOT BETWEEN 0 AND {clock_max} THEN
        d.fence := 0;
        d.id := NULL;
    END IF;
    IF d.changes NOT BETWEEN 0 AND {clock_max} THEN
        d.changes := refresh_gen() * 32;
    END IF;
    d.failures := greatest(0, least(d.failures, 1000000));
    -- No pause lasts longer than the memory of its failure.
    d.pause := least(d.pause, d.failed);
    IF d.pause > p_now THEN
        d.pause := p_now + greatest(0, least(d.pause - greatest(d.fence, p_now), {ttl_max_us}));
        d.failed := greatest(d.pause, least(d.failed, p_now + {ttl_max_us}));
    END IF;
    PERFORM refresh_save(d, p_now);
    SELECT * INTO d FROM refresh_duties WHERE guard = d.guard AND key = d.key
    ORDER BY gen DESC LIMIT 1;
    RETURN d;
END $$;

-- Clear the fields of a row that have expired.
CREATE OR REPLACE FUNCTION {schema}.refresh_now(d {schema}.refresh_duties, p_now bigint)
RETURNS {schema}.refresh_duties LANGUAGE plpgsql AS $$
BEGIN
    IF d.lease <= p_now THEN
        d.id := NULL;
    END IF;
    IF d.failed <= p_now THEN
        d.failures := 0;
        d.reason := '';
    END IF;
    RETURN d;
END $$;

-- Write the row. It stays a minute longer than needed: fences rise even if the clock is set back.
CREATE OR REPLACE FUNCTION {schema}.refresh_save(d {schema}.refresh_duties, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE refresh_duties SET
        gen = (d.changes + 1) / 32, changes = d.changes + 1, id = d.id, owner = d.owner,
        fence = d.fence, lease = d.lease, ttl = d.ttl, failures = d.failures, pause = d.pause,
        failed = d.failed, reason = d.reason, kept = d.kept,
        ends = least(2147483646, greatest(d.lease, d.failed, d.kept, p_now + 60000000) / 16777216) + 1
    WHERE guard = d.guard AND key = d.key AND gen = d.gen;
END $$;

-- The refresh lease has ended: wake all waiters of the entry.
CREATE OR REPLACE FUNCTION {schema}.refresh_wake(p_guard bytea, p_key bytea, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w record;
BEGIN
    FOR w IN DELETE FROM refresh_waiters o WHERE o.guard = p_guard AND o.key = p_key
            RETURNING o.wish, o.address, o.until LOOP
        IF w.until > p_now THEN
            PERFORM pg_notify(w.address, replace(w.wish::text, '-', '') || ' 1');
        END IF;
    END LOOP;
END $$;

-- Ask for a refresh lease: `kind` is 'd' (granted), 'b' (another caller holds it), 'f' (the last
-- computation failed) or 'v' (a fresh value). `n`: the fence, or the version; `left_us`: the time
-- left of the lease, of the pause, or of freshness; `stale_us`: the time for which the value can be
-- served. With an address the caller waits.
CREATE OR REPLACE FUNCTION {schema}.refresh_begin_{refresh_version}(
    p_guard bytea, p_key bytea, p_id uuid, p_owner bytea, p_lease bigint, p_known bigint,
    p_address text, p_within integer DEFAULT 0,
    OUT kind text, OUT n bigint, OUT left_us bigint, OUT stale_us bigint, OUT cost_us bigint,
    OUT failures integer, OUT data bytea)
LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    d refresh_duties;
    v record;
    now_us bigint;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    d := refresh_locked(p_guard, p_key, true);
    now_us := clock();
    d := refresh_now(d, now_us);
    failures := d.failures;
    IF d.id = p_id THEN
        kind := 'd';
        n := d.fence;
        left_us := d.lease - now_us;
        RETURN;
    END IF;
    SELECT o.gen, o.version, o.fresh, o.stale, o.cost, o.stored INTO v FROM refresh_values o
    WHERE o.guard = p_guard AND o.key = p_key ORDER BY o.gen DESC LIMIT 1;
    IF coalesce(nullif(v.stored, 0), v.version) > now_us THEN
        v.fresh := 0;  -- the clock was set back since: the age is unknown
    END IF;
    IF v.fresh > now_us AND v.version <> p_known THEN
        kind := 'v';
        n := v.version;
        left_us := v.fresh - now_us;
        stale_us := v.stale - now_us;
        cost_us := v.cost;
        SELECT o.data INTO data FROM refresh_values o
        WHERE o.guard = p_guard AND o.key = p_key AND o.gen = v.gen;
        RETURN;
    END IF;
    IF d.id IS NOT NULL OR d.pause > now_us THEN
        kind := CASE WHEN d.id IS NULL THEN 'f' ELSE 'b' END;
        left_us := CASE WHEN d.id IS NULL THEN d.pause ELSE d.lease END - now_us;
        data := d.reason;
        IF p_address <> '' THEN
            INSERT INTO refresh_waiters (guard, key, wish, until, address)
            VALUES (p_guard, p_key, p_id, now_us + {asleep_us}, p_address)
            ON CONFLICT (guard, key, wish) DO UPDATE
            SET until = excluded.until, address = excluded.address;
        END IF;
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM tombs t WHERE t.id = p_id AND t.until > now_us) THEN
        kind := 'b';
        left_us := 0;
    ELSE
        d.id := p_id;
        d.owner := p_owner;
        d.fence := greatest(now_us, d.fence + 1,
            CASE WHEN v.version < {clock_max} THEN v.version + 1 END);
        d.lease := now_us + p_lease;
        d.ttl := p_lease;
        kind := 'd';
        n := d.fence;
        left_us := p_lease;
    END IF;
    PERFORM refresh_save(d, now_us);
END $$;

-- Store the value that a refresh lease computed, and end the lease. True: it is stored. The id
-- alone is not enough: after an invalidation a late copy of the request can hold a new refresh
-- lease, under another fence.
CREATE OR REPLACE FUNCTION {schema}.refresh_finish_{refresh_version}(
    p_guard bytea, p_key bytea, p_id uuid, p_fence bigint, p_data bytea, p_ttl bigint,
    p_stale bigint, p_keep bigint, p_cost bigint, p_within integer DEFAULT 0)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    d refresh_duties;
    v record;
    now_us bigint;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    d := refresh_locked(p_guard, p_key, false);
    now_us := clock();
    SELECT o.gen, o.changes, o.version, o.kept INTO v FROM refresh_values o
    WHERE o.guard = p_guard AND o.key = p_key ORDER BY o.gen DESC LIMIT 1;
    IF d.id IS DISTINCT FROM p_id OR d.fence <> p_fence OR d.lease <= now_us THEN
        RETURN coalesce(v.version = p_fence AND v.kept > now_us, false);
    END IF;
    d.kept := now_us + p_ttl + p_stale + p_keep;
    IF v.gen IS NULL THEN
        INSERT INTO refresh_values (
            guard, key, gen, changes, version, fresh, stale, kept, stored, cost, data)
        VALUES (p_guard, p_key, refresh_gen(), refresh_gen() * 32, d.fence, now_us + p_ttl,
            now_us + p_ttl + p_stale, d.kept, now_us, p_cost, p_data);
    ELSE
        UPDATE refresh_values SET
            gen = (v.changes + 1) / 32, changes = v.changes + 1, version = d.fence,
            fresh = now_us + p_ttl, stale = now_us + p_ttl + p_stale, kept = d.kept,
            stored = now_us, cost = p_cost, data = p_data
        WHERE guard = p_guard AND key = p_key AND gen = v.gen;
    END IF;
    d.id := NULL;
    d.failures := 0;
    d.failed := 0;
    d.pause := 0;
    d.reason := '';
    PERFORM refresh_save(d, now_us);
    PERFORM refresh_wake(p_guard, p_key, now_us);
    RETURN true;
END $$;

-- End a refresh lease without a value, and grant no other one for `p_pause`. True: the caller held
-- it. If `p_bury` is not 0, a late copy of its request is refused for this time.
CREATE OR REPLACE FUNCTION {schema}.refresh_abandon_{refresh_version}(
    p_guard bytea, p_key bytea, p_id uuid, p_pause bigint, p_memory bigint, p_reason bytea,
    p_bury bigint, p_within integer DEFAULT 0)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    d refresh_duties;
    now_us bigint;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    -- The request that gets the tombstone can be uncommitted, with a new row that is invisible
    -- here. So lock as a writer does, to wait for it. Otherwise the tombstone would come before it.
    d := refresh_locked(p_guard, p_key, p_bury > 0);
    now_us := clock();
    IF p_bury > 0 THEN
        PERFORM commits(true);
        PERFORM bury(p_id, now_us, now_us + p_bury, false);
    END IF;
    DELETE FROM refresh_waiters WHERE guard = p_guard AND key = p_key AND wish = p_id;
    d := refresh_now(d, now_us);
    IF d.id IS DISTINCT FROM p_id THEN
        IF p_bury > 0 THEN
            PERFORM refresh_save(d, now_us);  -- otherwise a row made here is never swept
        END IF;
        RETURN false;
    END IF;
    d.id := NULL;
    IF p_pause > 0 THEN
        d.failures := d.failures + 1;
        d.reason := p_reason;
        d.pause := now_us + p_pause;
        d.failed := now_us + greatest(p_memory, p_pause);
    END IF;
    PERFORM refresh_save(d, now_us);
    PERFORM refresh_wake(p_guard, p_key, now_us);
    RETURN true;
END $$;

-- Renew refresh leases, in ascending order: the fence of each; 0: it has ended.
CREATE OR REPLACE FUNCTION {schema}.refresh_prolong_{refresh_version}(
    p_guards bytea[], p_keys bytea[], p_ids uuid[], p_fences bigint[], p_leases bigint[],
    p_within integer DEFAULT 0)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    d refresh_duties;
    now_us bigint;
    fences bigint[] := '{}';
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    FOR i IN 1 .. cardinality(p_keys) LOOP
        d := refresh_locked(p_guards[i], p_keys[i], false);
        now_us := clock();
        IF d.id = p_ids[i] AND d.fence = p_fences[i] AND d.lease > now_us THEN
            d.lease := now_us + p_leases[i];
            d.ttl := p_leases[i];
            PERFORM refresh_save(d, now_us);
            fences := fences || d.fence;
        ELSE
            fences := fences || 0::bigint;
        END IF;
    END LOOP;
    RETURN fences;
END $$;

-- Forget values, failures and refresh leases, in ascending order: 't' for each that had a value.
--
-- An entry without a row has none of them; a caller that makes one now begins after this. The row
-- of a value stays: a search would find a new row only after the old versions that a snapshot
-- keeps.
CREATE OR REPLACE FUNCTION {schema}.refresh_invalidate_{refresh_version}(
    p_guards bytea[], p_keys bytea[], p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    d refresh_duties;
    v record;
    now_us bigint;
    answer text := '';
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    FOR i IN 1 .. cardinality(p_keys) LOOP
        d := refresh_locked(p_guards[i], p_keys[i], false);
        IF d.guard IS NULL THEN
            answer := answer || 'f';
            CONTINUE;
        END IF;
        now_us := clock();
        SELECT o.gen, o.changes, o.kept INTO v FROM refresh_values o
        WHERE o.guard = d.guard AND o.key = d.key ORDER BY o.gen DESC LIMIT 1;
        answer := answer || CASE WHEN v.kept > now_us THEN 't' ELSE 'f' END;
        IF v.kept > 0 THEN
            UPDATE refresh_values SET
                gen = (v.changes + 1) / 32, changes = v.changes + 1, fresh = 0, stale = 0, kept = 0,
                data = ''
            WHERE guard = d.guard AND key = d.key AND gen = v.gen;
        END IF;
        IF v.kept > 0 OR d.id IS NOT NULL OR d.failed > 0 THEN
            d.id := NULL;
            d.failures := 0;
            d.failed := 0;
            d.pause := 0;
            d.reason := '';
            d.kept := 0;
            PERFORM refresh_save(d, now_us);
        END IF;
        PERFORM refresh_wake(d.guard, d.key, now_us);
    END LOOP;
    RETURN answer;
END $$;

-- Remove at most `p_many` expired entries, waiters and counts each; search from step p_from on.
-- Returns the step from which the next sweep has to search. Never waits.
CREATE OR REPLACE FUNCTION {schema}.refresh_sweep(p_now bigint, p_many integer, p_from integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    d refresh_duties;
    step integer := p_now / 16777216;
    seen integer := 0;
BEGIN
    FOR d IN SELECT * FROM refresh_duties WHERE ends >= p_from AND ends <= step
            ORDER BY ends LIMIT p_many FOR UPDATE SKIP LOCKED LOOP
        DELETE FROM refresh_values WHERE guard = d.guard AND key = d.key;
        DELETE FROM refresh_duties WHERE guard = d.guard AND key = d.key AND gen = d.gen;
        seen := seen + 1;
    END LOOP;
    DELETE FROM refresh_waiters w USING (
        SELECT o.guard, o.key, o.wish FROM refresh_waiters o
        WHERE o.until >= (p_from - 1) * 16777216::bigint AND o.until <= p_now
        ORDER BY o.until LIMIT p_many FOR UPDATE SKIP LOCKED) gone
    WHERE w.guard = gone.guard AND w.key = gone.key AND w.wish = gone.wish;
    DELETE FROM refresh_tallies t USING (
        SELECT o.guard FROM refresh_tallies o
        WHERE o.hour < p_now / 3600000000 - {tally_hours}
        ORDER BY o.hour LIMIT p_many FOR UPDATE SKIP LOCKED) gone
    WHERE t.guard = gone.guard;
    RETURN CASE WHEN seen < p_many THEN step ELSE p_from END;
END $$;

CREATE OR REPLACE FUNCTION {schema}.refresh_tidy_{refresh_version}(
    p_many integer, p_from integer, p_within integer DEFAULT 0)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    bound text;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM commits(true);
    RETURN refresh_sweep(clock(), p_many, p_from);
END $$;

-- The state of an entry; `version` is NULL if it has no value.
CREATE OR REPLACE FUNCTION {schema}.refresh_look_{refresh_version}(
    p_guard bytea, p_key bytea,
    OUT version bigint, OUT size integer, OUT fresh_us bigint, OUT stale_us bigint,
    OUT cost_us bigint, OUT owner bytea, OUT lease_us bigint, OUT failures integer,
    OUT pause_us bigint, OUT reason bytea)
LANGUAGE plpgsql AS $$
DECLARE
    d refresh_duties;
    now_us bigint;
BEGIN
    SELECT * INTO d FROM refresh_duties o WHERE o.guard = p_guard AND o.key = p_key
    ORDER BY o.gen DESC LIMIT 1;
    now_us := clock();
    d := refresh_now(d, now_us);
    owner := CASE WHEN d.id IS NULL THEN '' ELSE d.owner END;
    lease_us := CASE WHEN d.id IS NULL THEN 0 ELSE d.lease - now_us END;
    failures := coalesce(d.failures, 0);
    pause_us := greatest(0, d.pause - now_us);
    reason := coalesce(d.reason, '');
    SELECT o.version, octet_length(o.data),
        CASE WHEN o.stored > now_us THEN 0 ELSE o.fresh - now_us END,
        CASE WHEN o.stored > now_us THEN 0 ELSE o.stale - now_us END, o.cost
    INTO version, size, fresh_us, stale_us, cost_us
    FROM refresh_values o WHERE o.guard = p_guard AND o.key = p_key AND o.kept > now_us
    ORDER BY o.gen DESC LIMIT 1;
END $$;

-- The guards whose names are from p_from up to, but without, p_to (NULL: to the end), with counts.
CREATE OR REPLACE FUNCTION {schema}.refresh_survey_{refresh_version}(p_from bytea, p_to bytea)
RETURNS TABLE (name bytea, numbers text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT t.guard, array_to_string(t.counts, ' ') FROM refresh_tallies t
    WHERE t.guard >= p_from AND (p_to IS NULL OR t.guard < p_to) ORDER BY t.guard;
END $$;

-- Add to the counts of a guard.
CREATE OR REPLACE FUNCTION {schema}.refresh_tally_{refresh_version}(
    p_guard bytea, p_counts bigint[], p_within integer DEFAULT 0)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    bound text;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM commits(true);
    INSERT INTO refresh_tallies AS t (guard, counts, hour) VALUES (p_guard, p_counts, clock() / 3600000000)
    ON CONFLICT (guard) DO UPDATE SET hour = excluded.hour, counts = ARRAY(
        SELECT coalesce(w.a, 0) + coalesce(w.b, 0)
        FROM unnest(t.counts, excluded.counts) WITH ORDINALITY AS w(a, b, nth) ORDER BY w.nth);
END $$;
