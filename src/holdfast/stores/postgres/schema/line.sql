-- Helpers that the verbs share. Clients cannot call them: see rights.sql.

CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- Return the row of a name, locked. Reads after this see all earlier changes, because under READ
-- COMMITTED each statement of a volatile function has a new snapshot.
--
-- A new row is made under a lock for its name, because the index cannot find the name under another
-- gen. The row is derived from the claims; if it contradicts itself, or was removed from outside,
-- it is derived again.
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
            IF EXISTS (SELECT FROM claims WHERE name = p_name) THEN
                RETURN rebuilt(l, clock());
            END IF;
        END IF;
    ELSIF l.name IS NULL THEN
        IF EXISTS (SELECT FROM claims WHERE name = p_name) THEN
            RETURN locked(p_name, true);
        END IF;
    ELSIF least(l.last, l.changes) < 0 OR greatest(l.last, l.changes) > {clock_max} THEN
        RETURN rebuilt(l, clock());
    -- Each part of an expression costs time in each transaction. So there are few of them, and the
    -- fields of holders and of waiters are not checked where there are none.
    ELSIF l.holders = 0 THEN
        IF l.used <> 0 OR l.high <> 0 OR least(l.first, l.low) < {never} THEN
            RETURN rebuilt(l, clock());
        END IF;
    ELSIF least(l.holders, l.used) < 1 OR l.high = 0 OR greatest(l.first, l.low) = {never} THEN
        RETURN rebuilt(l, clock());
    END IF;
    IF l.waiters = 0 THEN
        IF l.head <> {never} THEN
            RETURN rebuilt(l, clock());
        END IF;
        IF l.holders = 0 THEN
            RETURN l;  -- the next claim that enters the line sets the other fields
        END IF;
    ELSIF l.head = {never} OR l.waiters NOT BETWEEN 0 AND {waiters_max} THEN
        RETURN rebuilt(l, clock());
    END IF;
    IF l.capacity < 1 OR l.seats NOT BETWEEN 0 AND {seats_max}
            OR l.kind NOT IN ('lock', 'semaphore', 'rwlock', 'election', '') THEN
        RETURN rebuilt(l, clock());
    END IF;
    RETURN l;
END $$;

-- A renewal takes no lock of the line, so it can come after a verb read the clock and before the
-- verb reads the claim. Wherever a claim could end, its expiry is compared with the clock again.
-- Otherwise, if the clock is set back in between, a claim ends that was just renewed.

-- Derive the row of a line from the claims of its name. An expiry further ahead than the ttl of its
-- claim shows that the clock was set back, or that the row was changed: it becomes the expiry of a
-- renewal at this moment. No row contains a replacement for an invalid kind or capacity: the next
-- claim that enters the line brings them.
CREATE OR REPLACE FUNCTION {schema}.rebuilt(l {schema}.lines, p_now bigint)
RETURNS {schema}.lines LANGUAGE plpgsql AS $$
DECLARE
    n record;
BEGIN
    DELETE FROM claims WHERE name = l.name AND (weight < 1 OR ticket < 0 OR ticket > {clock_max});
    UPDATE claims SET expires = clock() + lease(ttl), ttl = lease(ttl)
    WHERE name = l.name AND expires > clock() + lease(ttl);
    IF l.kind NOT IN ('lock', 'semaphore', 'rwlock', 'election') OR l.capacity < 1 THEN
        l.kind := '';
        l.capacity := 1;
        l.former := 0;
    ELSIF l.kind IN ('lock', 'election') THEN
        l.capacity := 1;
    END IF;
    IF l.kind NOT IN ('', 'semaphore') THEN
        -- More holders than the capacity allows: the earliest ones stay.
        UPDATE claims SET held = false WHERE name = l.name AND ticket IN (
            SELECT o.ticket FROM (
                SELECT c.ticket, sum(c.weight) OVER (ORDER BY c.ticket) AS upto FROM claims c
                WHERE c.name = l.name AND c.held) o
            WHERE o.upto > l.capacity);
    END IF;
    SELECT count(*) FILTER (WHERE held) AS holders, count(*) FILTER (WHERE NOT held) AS waiters,
        coalesce(sum(weight) FILTER (WHERE held), 0) AS used,
        coalesce(min(ticket) FILTER (WHERE held), {never}) AS low,
        coalesce(max(ticket) FILTER (WHERE held), 0) AS high,
        coalesce(min(expires) FILTER (WHERE held), {never}) AS first,
        coalesce(min(ticket) FILTER (WHERE NOT held), {never}) AS head,
        coalesce(max(ticket), 0) AS last,
        least({seats_max}, greatest(0, coalesce(max(seat), 0))) AS seats
    INTO n FROM claims WHERE name = l.name;
    l.holders := n.holders;
    l.waiters := n.waiters;
    l.used := least(2147483647, n.used);
    l.low := n.low;
    l.high := n.high;
    l.first := n.first;
    l.head := n.head;
    l.headexp := 0;
    l.headseat := 0;
    l.headweight := 0;
    l.seats := n.seats;
    l.last := greatest(n.last, CASE WHEN l.last BETWEEN 0 AND {clock_max} THEN l.last ELSE 0 END);
    IF l.changes < 0 OR l.changes > {clock_max} THEN
        -- Greater than every earlier gen of this name, or a search passes all old versions first.
        l.changes := (p_now / 1000) * 32;
    END IF;
    RETURN l;
END $$;

-- The longest lease that a claim with this ttl can have at this moment: a grant keeps the expiry
-- that the claim had as a waiter.
CREATE OR REPLACE FUNCTION {schema}.lease(p_ttl bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest({patience_us}, least(p_ttl, {ttl_max_us}))
$$;

-- Compare the line of a name in use with its claims, before a client is refused by it. With many
-- holders only some calls compare: on average a call reads four rows.
CREATE OR REPLACE FUNCTION {schema}.verified(
    l {schema}.lines, p_now bigint, p_window bigint, p_self uuid)
RETURNS {schema}.lines LANGUAGE plpgsql AS $$
DECLARE
    n record;
BEGIN
    IF random() * least(l.holders, 10000) > 4 THEN
        RETURN l;
    END IF;
    SELECT count(*) AS holders, coalesce(sum(weight), 0) AS used, min(expires) AS first,
        bool_or(expires > clock() + lease(ttl) OR weight < 1) AS odd
    INTO n FROM claims
    WHERE name = l.name AND ticket >= l.low AND ticket <= l.high AND held;
    IF n.holders = l.holders AND n.used = l.used AND NOT n.odd AND l.first <= n.first THEN
        RETURN l;
    END IF;
    RETURN settled(rebuilt(l, p_now), p_now, p_window, p_self);
END $$;

-- Write the row of a line. It returns true, so that an assignment can call it without a query.
CREATE OR REPLACE FUNCTION {schema}.save(l {schema}.lines, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lines SET
        gen = (l.changes + 1) / 32, changes = l.changes + 1, kind = l.kind, capacity = l.capacity,
        former = l.former, used = l.used, holders = l.holders, waiters = l.waiters, low = l.low,
        high = l.high, first = l.first, head = l.head, headseat = l.headseat,
        headweight = l.headweight, headexp = l.headexp, seats = l.seats, last = l.last,
        tombs = l.tombs, hour = p_now / 3600000000
    WHERE name = l.name AND gen = l.gen;
    RETURN true;
END $$;

-- The timeline of this server: every promotion starts a new one.
CREATE OR REPLACE FUNCTION {schema}.timeline() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
$$;

-- Return the row of `alive`. Nothing is granted until its `until` (0, or a time in the past:
-- claims are granted), because acknowledged claims can be lost and their holders must renew first.
--
-- The mark of a living server is absent after a crash, a promotion, or the start of a copy; `home`
-- shows a mark that was restored from a dump. A crash alone loses nothing, but the start of a copy
-- of a live data directory looks the same: strict recovery (p_window < 0) treats both as a copy.
CREATE OR REPLACE FUNCTION {schema}.gate(p_now bigint, p_window bigint, p_relaxed boolean)
RETURNS {schema}.alive LANGUAGE plpgsql AS $$
DECLARE
    a alive;
    g guard;
    history text;
BEGIN
    SELECT * INTO a FROM alive WHERE home = tableoid;
    IF a.mark IS NOT NULL AND (a.relaxed OR NOT p_relaxed) THEN
        -- Further ahead than any grace period can be: the clock was set back.
        IF a.until > p_now THEN
            IF a.until > p_now + {window_max_us} THEN
                a.until := p_now + abs(p_window);
                UPDATE alive SET until = a.until;
            END IF;
        END IF;
        RETURN a;
    END IF;
    SELECT * INTO g FROM guard FOR UPDATE;
    SELECT * INTO a FROM alive WHERE home = tableoid;
    IF a.mark IS NULL THEN
        history := timeline();
        a.mark := gen_random_uuid();
        a.relaxed := coalesce(g.relaxed, false);
        a.until := 0;
        a.home := 'alive'::regclass;
        IF p_window < 0 OR g.relaxed IS NOT FALSE OR g.timeline <> history THEN
            a.until := p_now + abs(p_window);
        END IF;
        DELETE FROM alive;
        INSERT INTO alive (mark, until, relaxed, home)
        VALUES (a.mark, a.until, a.relaxed, a.home);
        INSERT INTO guard (timeline, relaxed) VALUES (history, a.relaxed)
        ON CONFLICT (one) DO UPDATE SET timeline = history;
    END IF;
    IF p_relaxed AND NOT a.relaxed THEN
        a.relaxed := true;
        UPDATE alive SET relaxed = true;
        UPDATE guard SET relaxed = true;
        -- This commit must be on disk before a commit that does not wait for the disk.
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN a;
END $$;

-- Make the commit durable before the reply, unless p_relaxed.
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

-- Why a claim is gone: 'G b' if it was broken, 'G r' if it was released, else 'G e'.
CREATE OR REPLACE FUNCTION {schema}.gone(p_id uuid, p_now bigint)
RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT coalesce((SELECT CASE WHEN broken THEN 'G b' ELSE 'G r' END
        FROM tombs WHERE id = p_id AND until > p_now), 'G e')
$$;

-- Microseconds after which asking again can be useful.
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
        l.waiters := greatest(0, l.waiters - 1);
        IF l.waiters = 0 THEN
            l.head := {never};
        ELSIF c.ticket <= l.head THEN
            l.headexp := 0;
        END IF;
        RETURN l;
    END IF;
    IF c.ticket < l.low OR c.ticket > l.high THEN
        RETURN rebuilt(l, clock());  -- it was changed from outside, and is perhaps not counted
    END IF;
    IF l.holders = 1 AND c.weight = l.used THEN
        l.holders := 0;
        l.used := 0;
        l.low := {never};
        l.first := {never};
        l.high := 0;
        RETURN l;
    END IF;
    l.holders := l.holders - 1;
    l.used := l.used - greatest(0, least(c.weight, l.used));
    IF l.holders < 1 OR l.used < l.holders THEN  -- each weighs at least 1
        IF l.holders <> 0 OR l.used <> 0 THEN
            RETURN rebuilt(l, clock());
        END IF;
        l.low := {never};
        l.first := {never};
        l.high := 0;
    ELSIF c.ticket = l.low THEN
        l.low := (SELECT ticket FROM claims
            WHERE name = l.name AND ticket > c.ticket AND ticket <= l.high AND held
            ORDER BY ticket LIMIT 1);
        IF l.low IS NULL THEN
            RETURN rebuilt(l, clock());
        END IF;
    END IF;
    RETURN l;
END $$;

-- The line with one more holder.
CREATE OR REPLACE FUNCTION {schema}.with_holder(
    l {schema}.lines, p_ticket bigint, p_weight integer, p_expires bigint)
RETURNS {schema}.lines LANGUAGE plpgsql AS $$
BEGIN
    l.holders := l.holders + 1;
    l.used := least(2147483647, l.used::bigint + p_weight);
    l.low := least(l.low, p_ticket);
    l.high := greatest(l.high, p_ticket);
    l.first := least(l.first, p_expires);
    RETURN l;
END $$;

-- Remove expired claims, and grant the next waiters that fit; a grant never changes an expiry.
-- `p_self` gets no wake-up, because it is the caller. One call handles at most `steps` waiters and
-- grants at most `grants` of them; the next verb continues.
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
        -- A claim that weighs less than 1 was changed from outside, and would make room for two.
        DELETE FROM claims
        WHERE name = l.name AND ticket >= l.low AND ticket <= l.high AND held
            AND (weight < 1 OR expires <= p_now AND expires <= clock());
        SELECT count(*), least(2147483647, coalesce(sum(weight), 0)), coalesce(min(expires), {never}),
            coalesce(min(ticket), {never}), coalesce(max(ticket), 0)
        INTO l.holders, l.used, l.first, l.low, l.high FROM claims
        WHERE name = l.name AND ticket >= l.low AND ticket <= l.high AND held;
    END IF;
    WHILE l.waiters > 0 AND steps > 0 AND grants > 0 LOOP
        IF p_now < l.headexp AND l.headexp <= p_now + {patience_us} AND l.headweight <= l.capacity
                AND l.used::bigint + l.headweight > l.capacity THEN
            RETURN l;
        END IF;
        steps := steps - 1;
        SELECT * INTO c FROM claims
        WHERE name = l.name AND ticket >= l.head AND NOT held ORDER BY ticket LIMIT 1;
        IF c.id IS NULL THEN
            l.waiters := 0;
            EXIT;
        END IF;
        l.waiters := greatest(l.waiters, 1);
        l.head := c.ticket;
        l.headseat := c.seat;
        l.headweight := c.weight;
        l.headexp := c.expires;
        IF c.expires <= p_now OR c.weight > l.capacity OR c.weight < 1 THEN
            DELETE FROM claims WHERE name = l.name AND ticket = c.ticket;
        ELSIF l.used::bigint + c.weight > l.capacity THEN
            RETURN l;
        ELSE
            IF p_window <> 0 THEN
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
        l.head := {never};
    END IF;
    RETURN l;
END $$;

-- Remove a few lines that were unused for more than an hour, and expired claims there. Locked lines
-- are skipped.
CREATE OR REPLACE FUNCTION {schema}.tidy(p_now bigint, p_window bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    l lines;
BEGIN
    FOR l IN SELECT * FROM lines WHERE hour < p_now / 3600000000 - 1
            ORDER BY hour LIMIT 100 FOR UPDATE SKIP LOCKED LOOP
        l := settled(l, p_now, p_window, NULL);
        IF l.holders + l.waiters = 0 AND l.tombs <= p_now THEN
            DELETE FROM lines WHERE name = l.name AND gen = l.gen;
        ELSE
            PERFORM save(l, p_now);
        END IF;
    END LOOP;
END $$;
