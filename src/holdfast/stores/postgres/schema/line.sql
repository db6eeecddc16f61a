-- What the verbs share. None of this is called from outside: see the end of verbs.sql.

CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- The row of a name, locked. What is read after this sees all that was done before, as every
-- statement of a volatile function has a snapshot of its own under READ COMMITTED.
--
-- A new row is made under a lock for its name, because the index can't tell that a name is there
-- under another gen.
CREATE OR REPLACE FUNCTION {schema}.locked(p_name bytea, p_make boolean)
RETURNS {schema}.lines LANGUAGE plpgsql AS $$
DECLARE
    l lines;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'holdfast needs READ COMMITTED' USING ERRCODE = 'HF001';
    END IF;
    SELECT * INTO l FROM lines WHERE name = p_name ORDER BY gen DESC LIMIT 1 FOR UPDATE;
    IF l.name IS NULL AND p_make THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(encode(p_name, 'hex'), 7236143));
        SELECT * INTO l FROM lines WHERE name = p_name ORDER BY gen DESC LIMIT 1 FOR UPDATE;
        IF l.name IS NULL THEN
            INSERT INTO lines (name) VALUES (p_name) RETURNING * INTO l;
        END IF;
    END IF;
    RETURN l;
END $$;

CREATE OR REPLACE FUNCTION {schema}.save(l {schema}.lines, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lines SET
        gen = (l.changes + 1) / 32, changes = l.changes + 1, kind = l.kind, capacity = l.capacity,
        former = l.former, used = l.used, holders = l.holders, waiters = l.waiters, low = l.low,
        high = l.high, first = l.first, head = l.head, headseat = l.headseat,
        headweight = l.headweight, headexp = l.headexp, seats = l.seats, last = l.last,
        tombs = l.tombs, hour = p_now / 3600000000
    WHERE name = l.name AND gen = l.gen;
END $$;

-- Which history this server is part of: another one after every promotion.
CREATE OR REPLACE FUNCTION {schema}.timeline() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
$$;

-- Until when nobody is let in (0, or a time in the past: somebody is), because what was
-- acknowledged may be lost, and those who hold may have to say so first.
CREATE OR REPLACE FUNCTION {schema}.gate(p_now bigint, p_window bigint, p_relaxed boolean)
RETURNS {schema}.alive LANGUAGE plpgsql AS $$
DECLARE
    a alive;
    g guard;
    history text;
BEGIN
    SELECT * INTO a FROM alive;
    IF a.mark IS NOT NULL AND (a.relaxed OR NOT p_relaxed) THEN
        RETURN a;
    END IF;
    SELECT * INTO g FROM guard FOR UPDATE;
    SELECT * INTO a FROM alive;
    IF a.mark IS NULL THEN
        history := timeline();
        a.mark := gen_random_uuid();
        a.relaxed := coalesce(g.relaxed, false);
        a.until := 0;
        IF g.relaxed IS NOT FALSE OR g.timeline <> history THEN
            a.until := p_now + p_window;
        END IF;
        INSERT INTO alive VALUES (a.*);
        INSERT INTO guard (timeline, relaxed) VALUES (history, a.relaxed)
        ON CONFLICT (one) DO UPDATE SET timeline = history;
    END IF;
    IF p_relaxed AND NOT a.relaxed THEN
        a.relaxed := true;
        UPDATE alive SET relaxed = true;
        UPDATE guard SET relaxed = true;
        -- This one must be on the disk before anything that need not be.
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN a;
END $$;

-- How long what is done here may be lost: durable unless asked otherwise.
CREATE OR REPLACE FUNCTION {schema}.commits(p_relaxed boolean)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_relaxed <> (current_setting('synchronous_commit') = 'off') THEN
        PERFORM set_config('synchronous_commit', CASE WHEN p_relaxed THEN 'off' ELSE 'on' END, true);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION {schema}.bury(p_id uuid, p_now bigint, p_until bigint, p_broken boolean)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tombs WHERE id IN (
        SELECT id FROM tombs WHERE until <= p_now ORDER BY until LIMIT 4 FOR UPDATE SKIP LOCKED);
    INSERT INTO tombs (id, until, broken) VALUES (p_id, p_until, p_broken)
    ON CONFLICT (id) DO UPDATE SET until = excluded.until, broken = excluded.broken;
END $$;

-- 'G b' if it was broken, 'G e' if not.
CREATE OR REPLACE FUNCTION {schema}.gone(p_id uuid, p_now bigint)
RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM tombs WHERE id = p_id AND until > p_now AND broken)
        THEN 'G b' ELSE 'G e' END
$$;

-- Microseconds until asking again can be of use.
CREATE OR REPLACE FUNCTION {schema}.retry(l {schema}.lines, p_now bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(0, least({ask_again_us}, l.first - p_now,
        CASE WHEN l.waiters > 0 THEN l.headexp - p_now ELSE {ask_again_us} END))
$$;

-- The line without a claim that was just deleted.
CREATE OR REPLACE FUNCTION {schema}.without(l {schema}.lines, c {schema}.claims)
RETURNS {schema}.lines LANGUAGE plpgsql AS $$
BEGIN
    IF NOT c.held THEN
        l.waiters := l.waiters - 1;
        IF l.waiters = 0 THEN
            l.head := 9223372036854775807;
        ELSIF c.ticket <= l.head THEN
            l.headexp := 0;
        END IF;
        RETURN l;
    END IF;
    l.holders := l.holders - 1;
    l.used := l.used - c.weight;
    IF l.holders = 0 THEN
        l.low := 9223372036854775807;
        l.first := 9223372036854775807;
        l.high := 0;
    ELSIF c.ticket = l.low THEN
        SELECT ticket INTO l.low FROM claims
        WHERE name = l.name AND ticket > c.ticket AND ticket <= l.high AND held
        ORDER BY ticket LIMIT 1;
    END IF;
    RETURN l;
END $$;

-- The line with one more holder.
CREATE OR REPLACE FUNCTION {schema}.with_holder(
    l {schema}.lines, p_ticket bigint, p_weight integer, p_expires bigint)
RETURNS {schema}.lines LANGUAGE plpgsql AS $$
BEGIN
    l.holders := l.holders + 1;
    l.used := l.used + p_weight;
    l.low := least(l.low, p_ticket);
    l.high := greatest(l.high, p_ticket);
    l.first := least(l.first, p_expires);
    RETURN l;
END $$;

-- Drop who is dead, and serve who fits then: a grant never touches an expiry. `p_self` is not
-- told, as it is the one who asks. In one call so many are passed, or served, at most; the next
-- verb goes on.
CREATE OR REPLACE FUNCTION {schema}.settled(
    l {schema}.lines, p_now bigint, p_window bigint, p_self uuid)
RETURNS {schema}.lines LANGUAGE plpgsql AS $$
DECLARE
    c claims;
    a alive;
    steps integer := 300;
    grants integer := 100;
BEGIN
    IF p_now >= l.first THEN
        WITH dead AS (
            DELETE FROM claims
            WHERE name = l.name AND ticket >= l.low AND ticket <= l.high AND held
                AND expires <= p_now
            RETURNING weight)
        SELECT l.holders - count(*), l.used - coalesce(sum(weight), 0)
        INTO l.holders, l.used FROM dead;
        SELECT coalesce(min(expires), 9223372036854775807),
            coalesce(min(ticket), 9223372036854775807), coalesce(max(ticket), 0)
        INTO l.first, l.low, l.high FROM claims
        WHERE name = l.name AND ticket >= l.low AND ticket <= l.high AND held;
    END IF;
    WHILE l.waiters > 0 AND steps > 0 AND grants > 0 LOOP
        IF p_now < l.headexp AND l.headweight <= l.capacity
                AND l.used + l.headweight > l.capacity THEN
            RETURN l;
        END IF;
        steps := steps - 1;
        SELECT * INTO c FROM claims
        WHERE name = l.name AND ticket >= l.head AND NOT held ORDER BY ticket LIMIT 1;
        IF c.id IS NULL THEN
            l.waiters := 0;
            EXIT;
        END IF;
        l.head := c.ticket;
        l.headseat := c.seat;
        l.headweight := c.weight;
        l.headexp := c.expires;
        IF c.expires <= p_now OR c.weight > l.capacity THEN
            DELETE FROM claims WHERE name = l.name AND ticket = c.ticket;
        ELSIF l.used + c.weight > l.capacity THEN
            RETURN l;
        ELSE
            IF p_window >= 0 THEN
                a := gate(p_now, p_window, false);
                IF a.until > p_now THEN
                    RETURN l;
                END IF;
            END IF;
            UPDATE claims SET held = true, since = p_now WHERE name = l.name AND ticket = c.ticket;
            l := with_holder(l, c.ticket, c.weight, c.expires);
            grants := grants - 1;
            IF c.address <> '' AND c.id IS DISTINCT FROM p_self THEN
                PERFORM pg_notify(c.address, replace(c.id::text, '-', '') || ' ' || c.ticket);
            END IF;
        END IF;
        l.waiters := l.waiters - 1;
        l.head := c.ticket + 1;
        l.headexp := 0;
    END LOOP;
    IF l.waiters = 0 THEN
        l.head := 9223372036854775807;
    END IF;
    RETURN l;
END $$;

-- A few lines that nobody used for more than an hour go, and who died there. Never waits.
CREATE OR REPLACE FUNCTION {schema}.tidy(p_now bigint, p_window bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    l lines;
BEGIN
    FOR l IN SELECT * FROM lines WHERE hour < p_now / 3600000000 - 1
            ORDER BY hour LIMIT 3 FOR UPDATE SKIP LOCKED LOOP
        l := settled(l, p_now, p_window, NULL);
        IF l.holders + l.waiters = 0 AND l.tombs <= p_now THEN
            DELETE FROM lines WHERE name = l.name AND gen = l.gen;
        ELSE
            PERFORM save(l, p_now);
        END IF;
    END LOOP;
END $$;
