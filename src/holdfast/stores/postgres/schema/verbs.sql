-- The verbs: one function each, and one call is one transaction. A trailing number is the version
-- of the functions, so that clients of two releases can share the schema.
--
-- Replies are texts: 'H ticket us' held, with the time left; 'W ticket position us' waiting, with
-- the time until the next request; 'R us owner' would have to wait; 'M capacity kind' in use as
-- something else; 'F waiters' the line is full; 'G reason' gone (e: expired, b: broken,
-- r: released); 'N us' recovery grants nothing for this time.
-- With `p_patience` below 0 the claim does not wait: it enters only if it is held immediately.
-- `name || ''` forces the planner to find a claim by its id, even if it assumes an empty table:
-- another index could lead through all row versions that an old snapshot keeps.
-- `p_window` is the grace period of recovery in microseconds: 0 without it, below 0 if strict.
-- `p_within` is the maximum time in milliseconds for which the verb waits for a locked row: after
-- that the client has given up, and its request must not stay. 0: the limit of the session applies,
-- because setting one takes time.

CREATE OR REPLACE FUNCTION {schema}.join_{version}(
    p_name bytea, p_id uuid, p_kind text, p_capacity integer, p_weight integer, p_ttl bigint,
    p_patience bigint, p_address text, p_owner bytea, p_meta bytea, p_window bigint,
    p_relaxed boolean, p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    saved boolean;
    l lines;
    c claims;
    a alive;
    t tombs;
    now_us bigint;
    ticket bigint;
    fresh boolean;
    patience bigint := abs(p_patience);
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    IF p_relaxed <> (current_setting('synchronous_commit') = 'off') THEN
        PERFORM commits(p_relaxed);
    END IF;
    l := locked(p_name, true);
    now_us := clock();
    IF p_window <> 0 THEN
        a := gate(now_us, p_window, p_relaxed);
        IF a.until > now_us THEN
            RETURN 'N ' || a.until - now_us;
        END IF;
    END IF;
    IF l.tombs > now_us THEN
        SELECT * INTO t FROM tombs WHERE id = p_id AND until > now_us;
        IF t.id IS NOT NULL THEN
            RETURN CASE WHEN t.broken THEN 'G b' ELSE 'G r' END;
        END IF;
    END IF;
    fresh := l.holders + l.waiters = 0;
    IF NOT fresh THEN
        l := settled(l, now_us, p_window, p_id);
        IF p_patience < 0 AND (l.waiters > 0 OR l.used::bigint + p_weight > l.capacity) THEN
            l := verified(l, now_us, p_window, p_id);
        END IF;
        fresh := l.holders + l.waiters = 0;
    END IF;
    IF fresh THEN
        l.kind := p_kind;
        l.capacity := p_capacity;
        l.former := 0;
        l.seats := 0;
    ELSE
        SELECT * INTO c FROM claims WHERE id = p_id AND name || '' = p_name;
        IF c.id IS NOT NULL THEN
            IF c.leaving OR c.expires <= now_us THEN
                PERFORM save(l, now_us);
                RETURN 'G e';
            END IF;
            IF c.held THEN
                PERFORM save(l, now_us);
                RETURN 'H ' || c.ticket || ' ' || c.expires - now_us;
            END IF;
            UPDATE claims SET expires = now_us + patience WHERE id = p_id AND name || '' = p_name;
            IF c.ticket = l.head THEN
                l.headexp := now_us + patience;
            END IF;
            PERFORM save(l, now_us);
            RETURN 'W ' || c.ticket || ' ' || c.seat - l.headseat + 1 || ' ' || retry(l, now_us);
        END IF;
        IF l.kind = '' OR l.kind = p_kind AND p_kind <> 'semaphore' THEN
            l.kind := p_kind;
            l.capacity := p_capacity;
        END IF;
        IF l.kind <> p_kind OR p_capacity NOT IN (l.capacity, l.former)
                OR p_weight > l.capacity THEN
            PERFORM save(l, now_us);
            RETURN 'M ' || l.capacity || ' ' || l.kind;
        END IF;
    END IF;
    ticket := greatest(now_us, l.last + 1);
    IF l.waiters = 0 AND l.used::bigint + p_weight <= l.capacity THEN
        l.last := ticket;
        IF fresh THEN  -- `with_holder`, in fewer steps
            l.holders := 1;
            l.used := p_weight;
            l.low := ticket;
            l.high := ticket;
            l.first := now_us + p_ttl;
        ELSE
            l := with_holder(l, ticket, p_weight, now_us + p_ttl);
        END IF;
        INSERT INTO claims (id, name, ticket, held, leaving, weight, seat, ttl, since, expires,
            address, owner, meta)
        VALUES (p_id, p_name, ticket, true, false, p_weight, 0, p_ttl, now_us, now_us + p_ttl, '',
            p_owner, p_meta);
        saved := save(l, now_us);
        IF ticket % 64 = 0 OR l.changes = 0 THEN
            PERFORM tidy(now_us, p_window);
        END IF;
        RETURN 'H ' || ticket || ' ' || p_ttl;
    END IF;
    IF p_patience < 0 THEN
        PERFORM save(l, now_us);
        SELECT * INTO c FROM claims
        WHERE name = p_name AND claims.ticket >= least(l.low, l.head) ORDER BY claims.ticket LIMIT 1;
        RETURN 'R ' || retry(l, now_us) || ' ' || encode(coalesce(c.owner, ''), 'hex');
    END IF;
    IF l.waiters >= {waiters_max} THEN
        PERFORM save(l, now_us);
        RETURN 'F ' || l.waiters;
    END IF;
    l.last := ticket;
    l.seats := l.seats + 1;
    IF l.waiters = 0 THEN
        l.head := ticket;
        l.headseat := l.seats;
        l.headweight := p_weight;
        l.headexp := now_us + patience;
    END IF;
    l.waiters := l.waiters + 1;
    INSERT INTO claims (id, name, ticket, held, leaving, weight, seat, ttl, since, expires, address,
        owner, meta)
    VALUES (p_id, p_name, ticket, false, false, p_weight, l.seats, p_ttl, now_us, now_us + patience,
        p_address, p_owner, p_meta);
    PERFORM save(l, now_us);
    RETURN 'W ' || ticket || ' ' || l.seats - l.headseat + 1 || ' ' || retry(l, now_us);
END $$;

-- Acquire all names, if all these lines are empty; else NULL. Names are in ascending order, so that
-- two clients that want the same names never wait for each other.
CREATE OR REPLACE FUNCTION {schema}.join_free_{version}(
    p_names bytea[], p_ids uuid[], p_kinds text[], p_capacities integer[], p_weights integer[],
    p_ttls bigint[], p_owners bytea[], p_metas bytea[], p_window bigint, p_relaxed boolean,
    p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    l lines;
    a alive;
    now_us bigint;
    answer text := '';
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM commits(p_relaxed);
    IF p_window <> 0 THEN
        now_us := clock();
        a := gate(now_us, p_window, p_relaxed);
        IF a.until > now_us THEN
            RETURN NULL;
        END IF;
    END IF;
    FOR i IN 1 .. cardinality(p_names) LOOP
        l := locked(p_names[i], true);
        now_us := clock();
        IF l.holders + l.waiters > 0 THEN
            l := verified(settled(l, now_us, p_window, NULL), now_us, p_window, NULL);
            PERFORM save(l, now_us);
        END IF;
        IF l.holders + l.waiters > 0 OR l.tombs > now_us THEN
            RETURN NULL;
        END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(p_names) LOOP
        l := locked(p_names[i], true);
        l.kind := p_kinds[i];
        l.capacity := p_capacities[i];
        l.former := 0;
        l.seats := 0;
        l.last := greatest(now_us, l.last + 1);
        l := with_holder(l, l.last, p_weights[i], now_us + p_ttls[i]);
        INSERT INTO claims (id, name, ticket, held, leaving, weight, seat, ttl, since, expires,
            address, owner, meta)
        VALUES (p_ids[i], p_names[i], l.last, true, false, p_weights[i], 0, p_ttls[i], now_us,
            now_us + p_ttls[i], '', p_owners[i], p_metas[i]);
        PERFORM save(l, now_us);
        answer := answer || l.last || ' ';
    END LOOP;
    RETURN answer;
END $$;

-- Renew the claims that are held, and leave the others unchanged: the tickets in order, 0 for each
-- that needs `stand`. A renewal needs no lock of its line: while the row of a claim exists, its
-- place is not granted to another claim, and a row with an extended lease is not removed. The ttl
-- in the row is the time left of the lease now: an expiry further ahead shows that the clock was
-- set back.
CREATE OR REPLACE FUNCTION {schema}.renew_{version}(
    p_names bytea[], p_ids uuid[], p_ttls bigint[], p_relaxed boolean,
    p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    now_us bigint;
    answer text;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM commits(p_relaxed);
    now_us := clock();
    WITH wanted AS (
        SELECT * FROM unnest(p_names, p_ids, p_ttls) WITH ORDINALITY AS w(name, id, ttl, at)
    ), renewed AS (
        UPDATE claims c SET
            expires = greatest(least(c.expires, clock() + lease(c.ttl)), now_us + w.ttl),
            ttl = greatest(least(c.expires - clock(), lease(c.ttl)), w.ttl)
        FROM wanted w
        WHERE c.id = w.id AND c.name || '' = w.name AND c.held AND NOT c.leaving AND c.expires > now_us
        RETURNING w.at, c.ticket)
    SELECT string_agg(coalesce(r.ticket, 0)::text, ' ' ORDER BY w.at) INTO answer
    FROM wanted w LEFT JOIN renewed r ON r.at = w.at;
    RETURN answer;
END $$;

-- Renew one claim that is held; it can also get a lesser weight, or a new secret and owner. A claim
-- that waits keeps its place for p_patience, and is granted here if it is its turn. If p_patience
-- is 0, it isn't changed, and the reply is that it is gone.
CREATE OR REPLACE FUNCTION {schema}.stand_{version}(
    p_name bytea, p_id uuid, p_ttl bigint, p_patience bigint, p_address text, p_weight integer,
    p_new uuid, p_owner bytea, p_window bigint, p_relaxed boolean, p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    l lines;
    c claims;
    now_us bigint;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM commits(p_relaxed);
    l := locked(p_name, false);
    now_us := clock();
    IF l.name IS NULL THEN
        RETURN gone(p_id, now_us);
    END IF;
    IF p_new IS NOT NULL THEN
        SELECT * INTO c FROM claims WHERE id = p_new AND name || '' = p_name AND held;
    END IF;
    IF c.id IS NULL THEN
        SELECT * INTO c FROM claims WHERE id = p_id AND name || '' = p_name;
    END IF;
    IF c.id IS NULL OR (p_patience = 0 AND NOT c.held) THEN
        RETURN gone(p_id, now_us);
    END IF;
    IF c.leaving OR c.expires <= now_us THEN
        PERFORM save(settled(l, now_us, p_window, p_id), now_us);
        RETURN 'G e';
    END IF;
    -- The adopter withdrew the new id before this request came.
    IF p_new <> c.id AND l.tombs > now_us
            AND EXISTS (SELECT FROM tombs t WHERE t.id = p_new AND t.until > now_us) THEN
        RETURN gone(p_new, now_us);
    END IF;
    IF c.held AND c.ticket > l.high OR NOT c.held AND (l.waiters < 1 OR c.ticket < l.head) THEN
        l := rebuilt(l, now_us);
        SELECT * INTO c FROM claims WHERE id = c.id AND name || '' = p_name;
    END IF;
    IF NOT c.held THEN
        UPDATE claims SET expires = now_us + p_patience,
            address = CASE WHEN p_address = '' THEN address ELSE p_address END
        WHERE id = c.id AND name || '' = p_name;
        IF c.ticket = l.head THEN
            l.headexp := now_us + p_patience;
        END IF;
        l := settled(l, now_us, p_window, p_id);
        IF l.used > 0 AND l.head >= c.ticket THEN
            l := verified(l, now_us, p_window, p_id);
        END IF;
        SELECT * INTO c FROM claims WHERE id = p_id AND name || '' = p_name;
        IF c.id IS NULL OR NOT c.held THEN
            PERFORM save(l, now_us);
            IF c.id IS NULL THEN  -- heavier than the capacity that a resize set
                RETURN 'G e';
            END IF;
            RETURN 'W ' || c.ticket || ' ' || c.seat - l.headseat + 1 || ' ' || retry(l, now_us);
        END IF;
    END IF;
    UPDATE claims SET
        expires = greatest(least(expires, clock() + lease(ttl)), now_us + p_ttl),
        ttl = greatest(least(expires - clock(), lease(ttl)), p_ttl),
        weight = CASE WHEN p_weight BETWEEN 1 AND weight THEN p_weight ELSE weight END,
        id = coalesce(p_new, id), owner = CASE WHEN p_new IS NULL THEN owner ELSE p_owner END
    WHERE id = c.id AND name || '' = p_name;
    IF p_weight BETWEEN 1 AND c.weight THEN
        l.used := l.used - c.weight + p_weight;
    END IF;
    IF l.holders = 1 THEN
        l.first := greatest(least(c.expires, now_us + lease(c.ttl)), now_us + p_ttl);
    END IF;
    PERFORM save(settled(l, now_us, p_window, p_id), now_us);
    RETURN 'H ' || c.ticket || ' ' || p_ttl;
END $$;

-- Withdraw or release a claim, by its secret or (p_id is NULL) by its ticket, and grant the next
-- waiters that fit.
--
-- A release need not wait for the disk. If a crash loses it, the claim stays until its lease ends.
-- A waiter that it granted is still in the line until the expiry of its last reply, which is on
-- disk; its client relies on nothing more. All later grants are flushed after the release.
CREATE OR REPLACE FUNCTION {schema}.leave_{version}(
    p_name bytea, p_id uuid, p_ticket bigint, p_after bigint, p_suspect boolean, p_ttl bigint,
    p_window bigint, p_relaxed boolean, p_within integer DEFAULT 0)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    saved boolean;
    l lines;
    c claims;
    now_us bigint;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    IF p_relaxed OR p_id IS NOT NULL AND p_after <= 0 THEN
        bound := set_config('synchronous_commit', 'off', true);
    ELSE
        PERFORM commits(false);
    END IF;
    l := locked(p_name, p_suspect);
    IF l.name IS NULL THEN
        RETURN false;
    END IF;
    now_us := clock();
    IF p_suspect AND p_id IS NOT NULL THEN
        l.tombs := greatest(l.tombs, now_us + p_ttl + {tomb_us});
        PERFORM bury(p_id, now_us, now_us + p_ttl + {tomb_us}, false);
    END IF;
    IF p_after > 0 AND p_id IS NOT NULL THEN
        SELECT * INTO c FROM claims WHERE id = p_id AND name || '' = p_name;
        IF c.held AND c.expires > now_us THEN
            IF NOT c.leaving THEN
                UPDATE claims
                SET leaving = true, expires = now_us + p_after, ttl = greatest(ttl, p_after)
                WHERE id = p_id AND name || '' = p_name;
                l.first := least(l.first, now_us + p_after);
            END IF;
            PERFORM save(l, now_us);
            RETURN true;
        END IF;
    END IF;
    IF p_id IS NOT NULL THEN
        DELETE FROM claims WHERE id = p_id AND name || '' = p_name RETURNING * INTO c;
    ELSE
        DELETE FROM claims WHERE name = p_name AND ticket = p_ticket RETURNING * INTO c;
        IF c.id IS NOT NULL THEN
            l.tombs := greatest(l.tombs, now_us + lease(c.ttl) + {tomb_us});
            PERFORM bury(c.id, now_us, now_us + lease(c.ttl) + {tomb_us}, true);
        END IF;
    END IF;
    IF c.id IS NOT NULL THEN
        l := without(l, c);
        IF NOT c.held THEN
            l := verified(l, now_us, p_window, NULL);
        END IF;
        IF l.waiters > 0 OR now_us >= l.first THEN
            l := settled(l, now_us, p_window, NULL);
        END IF;
    ELSIF NOT p_suspect THEN
        RETURN false;
    END IF;
    saved := save(l, now_us);
    RETURN coalesce(c.expires > now_us, false);
END $$;

-- `leave` for several secrets, in one transaction; names in ascending order. 't' or 'f' for each.
CREATE OR REPLACE FUNCTION {schema}.leave_all_{version}(
    p_names bytea[], p_ids uuid[], p_suspects boolean[], p_ttls bigint[], p_window bigint,
    p_relaxed boolean, p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    answer text := '';
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    FOR i IN 1 .. cardinality(p_names) LOOP
        answer := answer || CASE WHEN leave_{version}(p_names[i], p_ids[i], 0, 0, p_suspects[i],
            p_ttls[i], p_window, p_relaxed, p_within) THEN 't' ELSE 'f' END;
    END LOOP;
    RETURN answer;
END $$;
