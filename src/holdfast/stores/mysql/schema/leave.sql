-- Withdraw or release a claim (by id), or break it (by ticket, id NULL); then grant the waiters
-- that fit. p_after: microseconds for which a released hold stays. p_bury: microseconds for which a
-- tombstone stays; a break adds the claim's ttl. The reply is 1 if the claim was there and had not
-- expired, else 0.
CREATE PROCEDURE IF NOT EXISTS holdfast_leave_4(
  IN p_name VARBINARY(512), IN p_id BINARY(16), IN p_ticket BIGINT, IN p_after BIGINT,
  IN p_bury BIGINT
)
SQL SECURITY INVOKER
body: BEGIN
  DECLARE v_now, v_last, v_expires, v_ticket, v_ttl BIGINT;
  DECLARE v_claims, v_weight INT;
  DECLARE v_lone, v_id BINARY(16);
  DECLARE v_leaving, v_held TINYINT;
  DECLARE v_there TINYINT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT last, claims, lone, leaving, ttl, expires
    INTO v_last, v_claims, v_lone, v_leaving, v_ttl, v_expires
    FROM holdfast_lines WHERE name = p_name FOR UPDATE;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF p_bury > 0 AND p_id IS NOT NULL THEN
    IF v_last IS NULL THEN
      INSERT INTO holdfast_lines (name) VALUES (p_name) ON DUPLICATE KEY UPDATE name = p_name;
      SELECT last, claims, lone, leaving, ttl, expires
        INTO v_last, v_claims, v_lone, v_leaving, v_ttl, v_expires
        FROM holdfast_lines WHERE name = p_name FOR UPDATE;
    END IF;
    CALL holdfast_bury_4(p_name, p_id, v_now, v_now + p_bury, 0);
  END IF;
  IF v_lone IS NOT NULL AND (v_lone <=> p_id OR (p_id IS NULL AND p_ticket = v_last)) THEN
    SET v_there = v_expires > v_now;
    IF p_after > 0 AND v_there AND p_id IS NOT NULL THEN
      IF NOT v_leaving THEN
        UPDATE holdfast_lines
          SET leaving = 1, expires = v_now + p_after, ttl = GREATEST(ttl, p_after)
          WHERE name = p_name;
      END IF;
    ELSE
      IF p_id IS NULL THEN
        CALL holdfast_bury_4(p_name, v_lone, v_now,
          v_now + GREATEST(0, LEAST(v_ttl, 86400000000)) + p_bury, 1);
      END IF;
      UPDATE holdfast_lines SET lone = NULL WHERE name = p_name;
    END IF;
  ELSEIF v_claims > 0 THEN
    IF p_id IS NULL THEN
      SELECT ticket, id, held, leaving, weight, ttl, expires
        INTO v_ticket, v_id, v_held, v_leaving, v_weight, v_ttl, v_expires
        FROM holdfast_claims WHERE name = p_name AND ticket = p_ticket;
    ELSE
      SELECT ticket, id, held, leaving, weight, ttl, expires
        INTO v_ticket, v_id, v_held, v_leaving, v_weight, v_ttl, v_expires
        FROM holdfast_claims FORCE INDEX (by_id) WHERE id = p_id AND name = p_name;
    END IF;
    IF v_ticket IS NOT NULL THEN
      SET v_there = v_expires > v_now;
      IF p_after > 0 AND v_held AND v_there AND p_id IS NOT NULL THEN
        IF NOT v_leaving THEN
          UPDATE holdfast_claims
            SET leaving = 1, expires = v_now + p_after, ttl = GREATEST(ttl, p_after)
            WHERE name = p_name AND ticket = v_ticket;
          UPDATE holdfast_lines SET first = LEAST(first, v_now + p_after) WHERE name = p_name;
        END IF;
      ELSE
        IF p_id IS NULL THEN
          CALL holdfast_bury_4(p_name, v_id, v_now,
            v_now + GREATEST(0, LEAST(v_ttl, 86400000000)) + p_bury, 1);
        END IF;
        DELETE FROM holdfast_claims WHERE name = p_name AND ticket = v_ticket;
        UPDATE holdfast_lines
          SET claims = claims - 1, used = used - IF(v_held, GREATEST(0, LEAST(v_weight, used)), 0),
              waiters = waiters - IF(v_held, 0, 1)
          WHERE name = p_name;
        CALL holdfast_settle_4(p_name, v_now);
        IF NOT v_held THEN
          CALL holdfast_verify_4(p_name, v_now);
        END IF;
      END IF;
    END IF;
  END IF;
  COMMIT;
  SELECT v_there;
END
//
-- Change the capacity of a line that isn't empty. The reply is a code, the kind and the former
-- capacity. The code is 1: changed; 4: the line is no semaphore; 0: the line is empty.
CREATE PROCEDURE IF NOT EXISTS holdfast_resize_4(
  IN p_name VARBINARY(512), IN p_kind TINYINT, IN p_capacity INT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_expires BIGINT;
  DECLARE v_claims, v_capacity INT;
  DECLARE v_kind TINYINT;
  DECLARE v_lone BINARY(16);
  DECLARE v_code TINYINT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT lone, expires INTO v_lone, v_expires
    FROM holdfast_lines WHERE name = p_name FOR UPDATE;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  CALL holdfast_settle_4(p_name, v_now);
  CALL holdfast_verify_4(p_name, v_now);
  SELECT claims, kind, capacity INTO v_claims, v_kind, v_capacity
    FROM holdfast_lines WHERE name = p_name;
  IF v_claims > 0 OR (v_lone IS NOT NULL AND v_expires > v_now) THEN
    SET v_code = IF(v_kind = p_kind, 1, 4);
    IF v_code = 1 AND p_capacity <> v_capacity THEN
      UPDATE holdfast_lines SET former = capacity, capacity = p_capacity WHERE name = p_name;
      CALL holdfast_settle_4(p_name, v_now);
    END IF;
  END IF;
  COMMIT;
  SELECT CONCAT_WS(' ', v_code, COALESCE(v_kind, 0), COALESCE(v_capacity, 0));
END
//
