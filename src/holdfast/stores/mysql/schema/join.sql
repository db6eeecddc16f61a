-- Enter the line. The reply is one text: a code, then up to four fields:
--   1 ticket microseconds               held; the rest of the lease
--   2 ticket position microseconds      waiting; the time until it is useful to ask again
--   3 0 0 microseconds owner            refused, as p_wait is 0; the owner of the first claim
--   4 kind capacity                     kind or capacity differs, or the weight is too large
--   5 waiters                           the line is full
--   0 why                               gone: 0 expired, 1 broken, 2 released
CREATE PROCEDURE IF NOT EXISTS holdfast_join_4(
  IN p_name VARBINARY(512), IN p_id BINARY(16), IN p_kind TINYINT, IN p_capacity INT,
  IN p_weight INT, IN p_ttl BIGINT, IN p_owner VARBINARY(256), IN p_meta VARBINARY(4096),
  IN p_wait TINYINT, IN p_patience BIGINT
)
SQL SECURITY INVOKER
body: BEGIN
  DECLARE v_now, v_last, v_tomb, v_expires, v_a, v_b, v_c BIGINT;
  DECLARE v_claims INT;
  DECLARE v_lone BINARY(16);
  DECLARE v_code TINYINT;
  DECLARE v_text VARBINARY(256);
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT last, tomb, claims, lone, expires, used, waiters
    INTO v_last, v_tomb, v_claims, v_lone, v_expires, v_a, v_b
    FROM holdfast_lines WHERE name = p_name FOR UPDATE;
  IF v_last IS NULL THEN
    INSERT INTO holdfast_lines (name) VALUES (p_name) ON DUPLICATE KEY UPDATE name = p_name;
    SELECT last, tomb, claims, lone, expires, used, waiters
      INTO v_last, v_tomb, v_claims, v_lone, v_expires, v_a, v_b
      FROM holdfast_lines WHERE name = p_name FOR UPDATE;
    SELECT COUNT(*) INTO v_code FROM (
      SELECT 1 FROM holdfast_claims WHERE name = p_name LIMIT 1) some;
    IF v_code > 0 AND v_last = 0 AND v_claims = 0 THEN
      -- The name's row was deleted from outside.
      UPDATE holdfast_lines SET kind = -1, claims = -1 WHERE name = p_name;
      SET v_claims = -1;
    END IF;
    SET v_code = NULL;
  END IF;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  -- v_a: the weight in use; v_b: the number of waiters. Below they have other uses, because each
  -- variable and each step costs time.
  IF v_claims = 0 AND v_a = 0 AND v_b = 0 AND (v_lone IS NULL OR v_expires <= v_now)
      AND v_tomb <= v_now AND v_last BETWEEN 0 AND 4611686018427387904 THEN
    SET v_a = GREATEST(v_last + 1, v_now);
    UPDATE holdfast_lines
      SET last = v_a, kind = p_kind, capacity = p_capacity, former = 0, lone = p_id, leaving = 0,
          weight = p_weight, ttl = p_ttl, since = v_now, expires = v_now + p_ttl, owner = p_owner,
          meta = p_meta
      WHERE name = p_name;
    COMMIT;
    SELECT CONCAT_WS(' ', 1, v_a, p_ttl, 0);
    LEAVE body;
  END IF;
  CALL holdfast_join_line_4(p_name, p_id, p_kind, p_capacity, p_weight, p_ttl, p_owner, p_meta,
    p_wait, p_patience, v_now, v_code, v_a, v_b, v_c, v_text);
  COMMIT;
  SELECT CONCAT_WS(' ', v_code, COALESCE(v_a, 0), COALESCE(v_b, 0), COALESCE(v_c, 0), v_text);
END
//
-- The same for a line that has claims or a tombstone, or is damaged.
CREATE PROCEDURE IF NOT EXISTS holdfast_join_line_4(
  IN p_name VARBINARY(512), IN p_id BINARY(16), IN p_kind TINYINT, IN p_capacity INT,
  IN p_weight INT, IN p_ttl BIGINT, IN p_owner VARBINARY(256), IN p_meta VARBINARY(4096),
  IN p_wait TINYINT, IN p_patience BIGINT, IN p_now BIGINT,
  OUT r_code TINYINT, OUT r_a BIGINT, OUT r_b BIGINT, OUT r_c BIGINT, OUT r_text VARBINARY(256)
)
SQL SECURITY INVOKER
line: BEGIN
  DECLARE v_last, v_tomb, v_expires, v_first, v_low, v_seats, v_ticket BIGINT;
  DECLARE v_capacity, v_former, v_used, v_claims, v_waiters, v_weight INT;
  DECLARE v_kind, v_leaving, v_held, v_why TINYINT;
  DECLARE v_lone BINARY(16);
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT last, tomb, kind, capacity, used, lone, leaving, weight, expires
    INTO v_last, v_tomb, v_kind, v_capacity, v_used, v_lone, v_leaving, v_weight, v_expires
    FROM holdfast_lines WHERE name = p_name;
  IF v_tomb > p_now THEN
    CALL holdfast_tomb_4(p_name, p_id, p_now, v_why);
    IF v_why IS NOT NULL THEN
      SET r_code = 0, r_a = v_why;
      LEAVE line;
    END IF;
  END IF;
  IF v_lone IS NOT NULL AND v_expires > p_now THEN
    UPDATE holdfast_lines
      SET ttl = GREATEST(3000000, LEAST(ttl, 86400000000)), expires = p_now + ttl
      WHERE name = p_name AND expires > p_now + GREATEST(3000000, LEAST(ttl, 86400000000));
    IF v_lone = p_id THEN
      IF v_leaving THEN
        SET r_code = 0, r_a = 0;
      ELSE
        SET r_code = 1, r_a = v_last, r_b = v_expires - p_now;
      END IF;
      LEAVE line;
    END IF;
    -- A second claim asks, so the lone claim moves to the table of claims.
    INSERT INTO holdfast_claims
        (name, ticket, id, seat, held, leaving, weight, ttl, since, expires, owner, meta)
      SELECT name, last, lone, 0, 1, leaving, GREATEST(1, LEAST(weight, capacity)), ttl, since,
        expires, owner, meta
      FROM holdfast_lines WHERE name = p_name;
    UPDATE holdfast_lines
      SET lone = NULL, used = GREATEST(1, LEAST(weight, capacity)), claims = 1, waiters = 0, seats = 0, first = expires,
          low = last, head = last + 1
      WHERE name = p_name;
  ELSEIF v_lone IS NOT NULL THEN
    UPDATE holdfast_lines SET lone = NULL WHERE name = p_name;
  END IF;
  CALL holdfast_settle_4(p_name, p_now);
  IF NOT p_wait THEN
    CALL holdfast_verify_4(p_name, p_now);
  END IF;
  SELECT last, kind, capacity, former, used, claims, waiters, seats, first, low
    INTO v_last, v_kind, v_capacity, v_former, v_used, v_claims, v_waiters, v_seats, v_first,
      v_low
    FROM holdfast_lines WHERE name = p_name;
  IF v_claims = 0 THEN
    SET r_code = 1, r_a = GREATEST(v_last + 1, p_now), r_b = p_ttl;
    UPDATE holdfast_lines
      SET last = r_a, kind = p_kind, capacity = p_capacity, former = 0, lone = p_id, leaving = 0,
          weight = p_weight, ttl = p_ttl, since = p_now, expires = p_now + p_ttl, owner = p_owner,
          meta = p_meta
      WHERE name = p_name;
    LEAVE line;
  END IF;
  -- The request can be a repetition.
  SELECT ticket, held, leaving, expires INTO v_ticket, v_held, v_leaving, v_expires
    FROM holdfast_claims FORCE INDEX (by_id) WHERE id = p_id AND name = p_name;
  IF v_ticket IS NOT NULL THEN
    IF v_leaving OR v_expires <= p_now THEN
      SET r_code = 0, r_a = 0;
    ELSEIF v_held THEN
      SET r_code = 1, r_a = v_ticket, r_b = v_expires - p_now;
    ELSE
      UPDATE holdfast_claims SET expires = p_now + p_patience
        WHERE name = p_name AND ticket = v_ticket;
      CALL holdfast_place_4(p_name, v_ticket, p_now, r_code, r_a, r_b, r_c);
    END IF;
    LEAVE line;
  END IF;
  IF v_kind = -1 OR (v_kind = p_kind AND p_kind <> 1) THEN
    SET v_kind = p_kind, v_capacity = p_capacity;
    UPDATE holdfast_lines SET kind = p_kind, capacity = p_capacity WHERE name = p_name;
  END IF;
  IF v_kind <> p_kind OR (p_capacity <> v_capacity AND p_capacity <> v_former)
      OR p_weight > v_capacity THEN
    SET r_code = 4, r_a = v_kind, r_b = v_capacity;
    LEAVE line;
  END IF;
  SET v_held = v_waiters = 0 AND v_used + p_weight <= v_capacity;
  IF NOT v_held AND NOT p_wait THEN
    SET r_code = 3, r_c = GREATEST(0, LEAST(1000000, GREATEST(0, v_first) - p_now));
    SELECT owner INTO r_text FROM holdfast_claims
      WHERE name = p_name AND ticket >= v_low ORDER BY ticket LIMIT 1;
    LEAVE line;
  END IF;
  IF NOT v_held AND v_waiters >= 10000 THEN
    SET r_code = 5, r_a = v_waiters;
    LEAVE line;
  END IF;
  SET v_ticket = GREATEST(v_last + 1, p_now), v_seats = v_seats + 1,
      v_expires = p_now + IF(v_held, p_ttl, p_patience);
  INSERT INTO holdfast_claims
      (name, ticket, id, seat, held, leaving, weight, ttl, since, expires, owner, meta)
    VALUES (p_name, v_ticket, p_id, v_seats, v_held, 0, p_weight, p_ttl, p_now, v_expires, p_owner,
      p_meta);
  UPDATE holdfast_lines
    SET last = v_ticket, seats = v_seats, claims = claims + 1, first = LEAST(first, v_expires),
        used = used + IF(v_held, p_weight, 0), waiters = waiters + IF(v_held, 0, 1),
        head = IF(v_held, v_ticket + 1, head)
    WHERE name = p_name;
  IF v_held THEN
    SET r_code = 1, r_a = v_ticket, r_b = p_ttl;
  ELSE
    CALL holdfast_place_4(p_name, v_ticket, p_now, r_code, r_a, r_b, r_c);
  END IF;
END
//
