-- Procedures that several verbs use. The caller has locked the name's row.

-- Compare a name's row with its claims, before a request is refused because of that row. The more
-- claims there are, the fewer calls compare: a call reads about eight rows on average.
CREATE PROCEDURE IF NOT EXISTS holdfast_verify_4(IN p_name VARBINARY(512), IN p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_claims, v_waiters, v_used, v_first, v_rows, v_waiting, v_weight, v_soonest BIGINT;
  DECLARE v_far TINYINT;
  SELECT claims, waiters, used, first INTO v_claims, v_waiters, v_used, v_first
    FROM holdfast_lines WHERE name = p_name;
  IF v_claims > 0 AND RAND() * LEAST(v_claims, 20000) < 8 THEN
    SELECT COUNT(*), COALESCE(SUM(NOT held), 0), COALESCE(SUM(IF(held, weight, 0)), 0),
        MIN(IF(held, expires, NULL)),
        MAX(expires > p_now + GREATEST(3000000, LEAST(ttl, 86400000000)))
      INTO v_rows, v_waiting, v_weight, v_soonest, v_far
      FROM holdfast_claims WHERE name = p_name;
    IF v_rows <> v_claims OR v_waiting <> v_waiters OR v_weight <> v_used OR v_far
        OR v_first > COALESCE(v_soonest, v_first) THEN
      CALL holdfast_rebuild_4(p_name, p_now);
      CALL holdfast_settle_4(p_name, p_now);
    END IF;
  END IF;
END
//
-- Write a tombstone: until p_ends, no claim with this id enters the line.
CREATE PROCEDURE IF NOT EXISTS holdfast_bury_4(
  IN p_name VARBINARY(512), IN p_id BINARY(16), IN p_now BIGINT, IN p_ends BIGINT,
  IN p_broken TINYINT
)
SQL SECURITY INVOKER
BEGIN
  DELETE FROM holdfast_tombs WHERE name = p_name AND ends <= p_now;
  INSERT INTO holdfast_tombs (name, id, ends, broken) VALUES (p_name, p_id, p_ends, p_broken)
    ON DUPLICATE KEY UPDATE ends = p_ends, broken = p_broken;
  UPDATE holdfast_lines SET tomb = GREATEST(tomb, p_ends) WHERE name = p_name;
END
//
-- The reason why a claim isn't in the line: 1 if it was broken, 2 if it was released. NULL: no
-- tombstone.
CREATE PROCEDURE IF NOT EXISTS holdfast_tomb_4(
  IN p_name VARBINARY(512), IN p_id BINARY(16), IN p_now BIGINT, OUT r_why TINYINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET r_why = NULL;
  SELECT IF(broken, 1, 2) INTO r_why FROM holdfast_tombs
    WHERE name = p_name AND id = p_id AND ends > p_now;
END
//
-- Rebuild a name's row from its claims, without expired holders. If a claim expires later than its
-- ttl from now, the clock was set back, or the row was changed from outside: it gets the expiry of
-- a renewal at this moment. An impossible kind or capacity becomes kind -1; the next join sets
-- both.
CREATE PROCEDURE IF NOT EXISTS holdfast_rebuild_4(IN p_name VARBINARY(512), IN p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_kind TINYINT;
  DECLARE v_capacity, v_claims, v_waiters INT;
  DECLARE v_last, v_used, v_first, v_low, v_high, v_head, v_seats, v_full BIGINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT kind, capacity, last INTO v_kind, v_capacity, v_last
    FROM holdfast_lines WHERE name = p_name;
  DELETE FROM holdfast_claims WHERE name = p_name
    AND (weight < 1 OR ticket < 0 OR ticket > 4611686018427387904 OR (held AND expires <= p_now));
  UPDATE holdfast_claims
    SET ttl = GREATEST(3000000, LEAST(ttl, 86400000000)), expires = p_now + ttl
    WHERE name = p_name AND expires > p_now + GREATEST(3000000, LEAST(ttl, 86400000000));
  IF v_kind NOT BETWEEN 0 AND 3 OR v_capacity < 1 THEN
    SET v_kind = -1, v_capacity = 1;
  ELSEIF v_kind IN (0, 3) THEN
    SET v_capacity = 1;
  END IF;
  IF v_kind IN (0, 2, 3) THEN
    -- The holders have more weight than the capacity: those with the lowest tickets stay.
    SELECT MIN(ticket) INTO v_full FROM (
      SELECT ticket, SUM(weight) OVER (ORDER BY ticket) AS upto FROM holdfast_claims
        WHERE name = p_name AND held) heavy WHERE upto > v_capacity;
    UPDATE holdfast_claims SET held = 0 WHERE name = p_name AND held AND ticket >= v_full;
  END IF;
  SELECT COUNT(*), COALESCE(SUM(NOT held), 0), COALESCE(SUM(IF(held, weight, 0)), 0),
      COALESCE(MIN(IF(expires > p_now, expires, NULL)), p_now), COALESCE(MIN(ticket), v_last),
      COALESCE(MAX(ticket), 0), MIN(IF(held, NULL, ticket)),
      LEAST(2000000000, GREATEST(0, COALESCE(MAX(seat), 0)))
    INTO v_claims, v_waiters, v_used, v_first, v_low, v_high, v_head, v_seats
    FROM holdfast_claims WHERE name = p_name;
  SET v_last = GREATEST(v_high, IF(v_last BETWEEN 0 AND 4611686018427387904, v_last, 0));
  UPDATE holdfast_lines
    SET kind = v_kind, capacity = v_capacity, last = v_last, claims = v_claims,
        waiters = v_waiters, used = LEAST(v_used, 2147483647), first = v_first, low = v_low,
        head = COALESCE(v_head, v_high + 1), seats = v_seats,
        lone = IF(v_claims > 0, NULL, lone)
    WHERE name = p_name;
END
//
-- Remove dead claims, and grant the waiters that fit then. A grant never changes an expiry.
CREATE PROCEDURE IF NOT EXISTS holdfast_settle_4(IN p_name VARBINARY(512), IN p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_capacity, v_claims, v_waiters, v_weight INT;
  DECLARE v_used, v_first, v_low, v_head, v_ticket, v_expires, v_last, v_seats BIGINT;
  DECLARE v_kind, v_lone TINYINT;
  -- Maximum number of waiters that one call removes or grants; the next verb continues.
  DECLARE v_steps INT DEFAULT 500;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT capacity, used, claims, waiters, first, low, head, last, seats, kind, lone IS NOT NULL
    INTO v_capacity, v_used, v_claims, v_waiters, v_first, v_low, v_head, v_last, v_seats, v_kind,
      v_lone
    FROM holdfast_lines WHERE name = p_name;
  -- An expiry has passed, or the row contradicts itself: read all claims.
  IF (p_now >= v_first AND v_claims > 0) OR v_claims < 0 OR v_waiters < 0 OR v_waiters > v_claims
      OR v_used < v_claims - v_waiters OR (v_claims = 0 AND (v_used <> 0 OR v_waiters <> 0))
      OR (v_claims > 0 AND v_first > p_now + 86400000000) OR (v_claims > 0 AND v_lone)
      OR v_capacity < 0 OR v_kind NOT BETWEEN -1 AND 3 OR v_last < 0
      OR v_last > 4611686018427387904 OR v_seats < 0 OR v_seats > 2000000000
      OR (v_claims > 0 AND v_used > v_capacity AND v_kind <> 1) THEN
    CALL holdfast_rebuild_4(p_name, p_now);
    SELECT capacity, used, claims, waiters, first, low, head
      INTO v_capacity, v_used, v_claims, v_waiters, v_first, v_low, v_head
      FROM holdfast_lines WHERE name = p_name;
  END IF;
  serve: WHILE v_waiters > 0 AND v_steps > 0 DO
    SET v_steps = v_steps - 1, v_ticket = NULL;
    SELECT ticket, weight, expires INTO v_ticket, v_weight, v_expires FROM holdfast_claims
      WHERE name = p_name AND ticket >= v_head AND NOT held ORDER BY ticket LIMIT 1;
    IF v_ticket IS NULL THEN
      SET v_claims = GREATEST(0, v_claims - v_waiters), v_waiters = 0;
      LEAVE serve;
    END IF;
    SET v_head = v_ticket;
    IF v_expires <= p_now OR v_weight > v_capacity OR v_weight < 1 THEN
      DELETE FROM holdfast_claims WHERE name = p_name AND ticket = v_ticket;
      SET v_waiters = v_waiters - 1, v_claims = v_claims - 1;
    ELSEIF v_used + v_weight <= v_capacity THEN
      UPDATE holdfast_claims SET held = 1, since = p_now WHERE name = p_name AND ticket = v_ticket;
      SET v_waiters = v_waiters - 1, v_used = v_used + v_weight, v_head = v_ticket + 1;
    ELSE
      LEAVE serve;
    END IF;
  END WHILE;
  UPDATE holdfast_lines
    SET used = v_used, claims = v_claims, waiters = v_waiters, first = v_first, low = v_low,
        head = v_head
    WHERE name = p_name;
END
//
-- The state of a waiter: its ticket, its position, and the microseconds until it is useful to ask
-- again. They are 0 if the head is dead or fits, because one call serves a limited number of
-- waiters.
CREATE PROCEDURE IF NOT EXISTS holdfast_place_4(
  IN p_name VARBINARY(512), IN p_ticket BIGINT, IN p_now BIGINT,
  OUT r_code TINYINT, OUT r_a BIGINT, OUT r_b BIGINT, OUT r_c BIGINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_first, v_head, v_seat, v_headseat, v_headexpires, v_free BIGINT;
  DECLARE v_headweight INT;
  SELECT first, head, capacity - used INTO v_first, v_head, v_free
    FROM holdfast_lines WHERE name = p_name;
  SELECT seat INTO v_seat FROM holdfast_claims WHERE name = p_name AND ticket = p_ticket;
  SELECT seat, expires, weight INTO v_headseat, v_headexpires, v_headweight FROM holdfast_claims
    WHERE name = p_name AND ticket >= v_head AND NOT held ORDER BY ticket LIMIT 1;
  SET r_code = 2, r_a = p_ticket, r_b = GREATEST(1, v_seat - v_headseat + 1),
      r_c = IF(v_headexpires <= p_now OR v_headweight <= v_free, 0,
        GREATEST(0, LEAST(1000000, GREATEST(0, v_first) - p_now)));
END
//
