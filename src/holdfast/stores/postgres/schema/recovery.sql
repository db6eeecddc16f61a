-- The functions of recovery, in addition to the verbs.

-- 'mark us': the generation of this server, and the time for which nothing is granted.
CREATE OR REPLACE FUNCTION {schema}.look_{version}(
    p_window bigint, p_relaxed boolean, p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    a alive;
    now_us bigint := clock();
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    a := gate(now_us, p_window, p_relaxed);
    RETURN a.mark || ' ' || greatest(0, a.until - now_us);
END $$;

-- Put back a claim that was held, on a server that has lost it: only while recovery grants nothing
-- new. Another holder has renewed since then, or this claim takes its place.
CREATE OR REPLACE FUNCTION {schema}.reclaim_{version}(
    p_name bytea, p_id uuid, p_ticket bigint, p_kind text, p_capacity integer, p_weight integer,
    p_ttl bigint, p_owner bytea, p_meta bytea, p_window bigint, p_relaxed boolean,
    p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    l lines;
    c claims;
    d claims;
    a alive;
    now_us bigint;
    begun bigint;
    room integer;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM commits(p_relaxed);
    l := locked(p_name, true);
    now_us := clock();
    a := gate(now_us, p_window, p_relaxed);
    IF a.until <= now_us THEN
        RETURN 'G e';
    END IF;
    IF EXISTS (SELECT FROM tombs WHERE id = p_id AND until > now_us) THEN
        RETURN gone(p_id, now_us);
    END IF;
    l := settled(l, now_us, p_window, p_id);
    DELETE FROM claims WHERE id = p_id AND name || '' = p_name AND NOT leaving RETURNING * INTO c;
    IF c.id IS NOT NULL THEN
        l := without(l, c);
    END IF;
    IF l.holders + l.waiters = 0 THEN
        l.kind := p_kind;
        l.capacity := p_capacity;
        l.former := 0;
    ELSIF l.kind <> p_kind THEN
        PERFORM save(l, now_us);
        RETURN 'G e';
    END IF;
    -- Holders not renewed since the grace period began go first, the oldest renewal first.
    -- Then holders with a lesser ticket: they must have been released before this claim was held.
    begun := a.until - abs(p_window);
    SELECT coalesce(sum(o.weight), 0) INTO room FROM claims o
    WHERE o.name = p_name AND o.held AND o.ticket BETWEEN l.low AND l.high
        AND (o.ticket < p_ticket OR NOT o.leaving AND o.expires - o.ttl < begun);
    IF l.used::bigint - room + p_weight > l.capacity THEN
        PERFORM save(l, now_us);
        RETURN 'G e';
    END IF;
    FOR d IN SELECT * FROM claims o
            WHERE o.name = p_name AND o.held AND o.ticket BETWEEN l.low AND l.high
                AND (o.ticket < p_ticket OR NOT o.leaving AND o.expires - o.ttl < begun)
            ORDER BY o.leaving OR o.expires - o.ttl >= begun, o.expires - o.ttl LOOP
        EXIT WHEN l.used + p_weight <= l.capacity;
        DELETE FROM claims WHERE id = d.id AND name || '' = p_name;
        l := without(l, d);
    END LOOP;
    l.last := greatest(l.last, p_ticket);
    l := with_holder(l, p_ticket, p_weight, now_us + p_ttl);
    INSERT INTO claims (id, name, ticket, held, leaving, weight, seat, ttl, since, expires, address,
        owner, meta)
    VALUES (p_id, p_name, p_ticket, true, false, p_weight, 0, p_ttl, p_ticket, now_us + p_ttl, '',
        p_owner, p_meta);
    PERFORM save(l, now_us);
    RETURN 'H ' || p_ticket || ' ' || p_ttl;
END $$;
