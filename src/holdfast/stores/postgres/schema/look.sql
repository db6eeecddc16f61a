-- Changing the capacity of a line, and inspecting lines.

-- 'C capacity': the former one; 'M capacity kind': it is no semaphore; NULL: the line is empty.
CREATE OR REPLACE FUNCTION {schema}.resize_{version}(
    p_name bytea, p_capacity integer, p_window bigint, p_relaxed boolean,
    p_within integer DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound text;
    l lines;
    now_us bigint;
    before integer;
BEGIN
    IF p_within > 0 THEN
        bound := set_config('lock_timeout', p_within::text, true);
    END IF;
    PERFORM commits(p_relaxed);
    l := locked(p_name, false);
    IF l.name IS NULL THEN
        RETURN NULL;
    END IF;
    now_us := clock();
    l := verified(settled(l, now_us, p_window, NULL), now_us, p_window, NULL);
    before := l.capacity;
    IF l.holders + l.waiters > 0 AND l.kind = 'semaphore' AND before <> p_capacity THEN
        l.former := before;
        l.capacity := p_capacity;
        l := settled(l, now_us, p_window, NULL);
    END IF;
    PERFORM save(l, now_us);
    RETURN CASE WHEN l.holders + l.waiters = 0 THEN NULL
        WHEN l.kind <> 'semaphore' THEN 'M ' || l.capacity || ' ' || l.kind
        ELSE 'C ' || before END;
END $$;

-- The live claims of the names from p_from up to, but without, p_to (NULL: to the end). Texts are
-- hexadecimal.
CREATE OR REPLACE FUNCTION {schema}.inspect_{version}(p_from bytea, p_to bytea)
RETURNS TABLE (name text, kind text, capacity integer, held boolean, ticket bigint,
    weight integer, age bigint, expires_in bigint, owner text, meta text, kept boolean)
LANGUAGE plpgsql AS $$
DECLARE
    now_us bigint := clock();
BEGIN
    RETURN QUERY
        SELECT encode(c.name, 'hex'), l.kind, l.capacity, c.held, c.ticket, c.weight,
            greatest(0, now_us - greatest(0, c.since)), c.expires - now_us, encode(c.owner, 'hex'),
            encode(c.meta, 'hex'), c.leaving
        FROM lines l JOIN claims c ON c.name = l.name
        WHERE l.name >= p_from AND (p_to IS NULL OR l.name < p_to)
            AND c.ticket >= least(l.low, l.head) AND c.expires > now_us
        ORDER BY c.name, c.held DESC, c.ticket;
END $$;
