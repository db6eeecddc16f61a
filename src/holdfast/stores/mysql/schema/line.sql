-- What several verbs need. Whoever calls these has the name's row locked.

-- From now on no claim of this id enters the line.
CREATE PROCEDURE IF NOT EXISTS holdfast_bury_1(
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
-- Why a claim that isn't in the line is gone: 1 if it was broken, else 0. NULL: no tombstone.
CREATE PROCEDURE IF NOT EXISTS holdfast_tomb_1(
  IN p_name VARBINARY(512), IN p_id BINARY(16), IN p_now BIGINT, OUT r_broken TINYINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET r_broken = NULL;
  SELECT broken INTO r_broken FROM holdfast_tombs
    WHERE name = p_name AND id = p_id AND ends > p_now;
END
//
-- Drop who is dead, and serve who fits then. A grant never touches an expiry.
CREATE PROCEDURE IF NOT EXISTS holdfast_settle_1(IN p_name VARBINARY(512), IN p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_capacity, v_used, v_claims, v_waiters, v_dead, v_heavy, v_weight INT;
  DECLARE v_first, v_low, v_head, v_ticket, v_expires BIGINT;
  -- So many are passed or served in one call; the next verb goes on.
  DECLARE v_steps INT DEFAULT 500;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT capacity, used, claims, waiters, first, low, head
    INTO v_capacity, v_used, v_claims, v_waiters, v_first, v_low, v_head
    FROM holdfast_lines WHERE name = p_name;
  IF p_now >= v_first AND v_claims > 0 THEN
    -- Dead holders, and the next expiry: the only look at all of them, once per expiry that passes.
    SELECT COUNT(*), COALESCE(SUM(weight), 0) INTO v_dead, v_heavy FROM holdfast_claims
      WHERE name = p_name AND ticket >= v_low AND ticket < v_head AND expires <= p_now;
    IF v_dead > 0 THEN
      DELETE FROM holdfast_claims
        WHERE name = p_name AND ticket >= v_low AND ticket < v_head AND expires <= p_now;
      SET v_claims = v_claims - v_dead, v_used = v_used - v_heavy;
    END IF;
    SELECT COALESCE(MIN(IF(expires > p_now, expires, NULL)), p_now),
           COALESCE(MIN(ticket), v_low)
      INTO v_first, v_low
      FROM holdfast_claims WHERE name = p_name AND ticket >= v_low;
  END IF;
  serve: WHILE v_waiters > 0 AND v_steps > 0 DO
    SET v_steps = v_steps - 1, v_ticket = NULL;
    SELECT ticket, weight, expires INTO v_ticket, v_weight, v_expires FROM holdfast_claims
      WHERE name = p_name AND ticket >= v_head ORDER BY ticket LIMIT 1;
    IF v_ticket IS NULL THEN
      SET v_waiters = 0;
      LEAVE serve;
    END IF;
    SET v_head = v_ticket;
    IF v_expires <= p_now OR v_weight > v_capacity THEN
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
-- How one who waits stands: its ticket, its place behind the head, in how many microseconds it is
-- of use to ask again.
CREATE PROCEDURE IF NOT EXISTS holdfast_place_1(
  IN p_name VARBINARY(512), IN p_ticket BIGINT, IN p_now BIGINT,
  OUT r_code TINYINT, OUT r_a BIGINT, OUT r_b BIGINT, OUT r_c BIGINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_first, v_head, v_seat, v_headseat BIGINT;
  SELECT first, head INTO v_first, v_head FROM holdfast_lines WHERE name = p_name;
  SELECT seat INTO v_seat FROM holdfast_claims WHERE name = p_name AND ticket = p_ticket;
  SELECT seat INTO v_headseat FROM holdfast_claims
    WHERE name = p_name AND ticket >= v_head ORDER BY ticket LIMIT 1;
  SET r_code = 2, r_a = p_ticket, r_b = v_seat - v_headseat + 1,
      r_c = GREATEST(0, LEAST(1000000, v_first - p_now));
END
//
