-- Renew one claim that is held; it can also get a smaller weight, or a new id and owner. A claim
-- that waits keeps its place for p_patience, and is granted here if its turn has come. If
-- p_patience is 0, it isn't changed, and the reply is that it is gone. The reply has the format of
-- that of join.
CREATE PROCEDURE IF NOT EXISTS holdfast_stand_4(
  IN p_name VARBINARY(512), IN p_id BINARY(16), IN p_ttl BIGINT, IN p_patience BIGINT,
  IN p_weight INT, IN p_new BINARY(16), IN p_owner VARBINARY(256)
)
SQL SECURITY INVOKER
body: BEGIN
  DECLARE v_now, v_last, v_expires, v_ticket, v_a, v_b, v_c BIGINT;
  DECLARE v_weight, v_lighter INT;
  DECLARE v_lone BINARY(16);
  -- Not NULL if the adopter withdrew the new id before this request came.
  DECLARE v_withdrawn TINYINT;
  DECLARE v_leaving, v_held, v_code TINYINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT last, lone, leaving, weight, expires INTO v_last, v_lone, v_leaving, v_weight, v_expires
    FROM holdfast_lines WHERE name = p_name FOR UPDATE;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF v_lone IS NOT NULL AND (v_lone = p_id OR v_lone <=> p_new) THEN
    IF v_lone <> p_new THEN
      CALL holdfast_tomb_4(p_name, p_new, v_now, v_withdrawn);
    END IF;
    IF v_expires <= v_now THEN
      -- Remove the expired claim, so that a break after this reply finds nothing.
      UPDATE holdfast_lines SET lone = NULL WHERE name = p_name;
      SET v_code = 0, v_a = 0;
    ELSEIF v_leaving THEN
      SET v_code = 0, v_a = 0;
    ELSEIF v_withdrawn IS NOT NULL THEN
      SET v_code = 0, v_a = v_withdrawn;
    ELSE
      SET v_code = 1, v_a = v_last, v_b = p_ttl;
      UPDATE holdfast_lines
        SET expires = GREATEST(
              LEAST(expires, v_now + GREATEST(3000000, LEAST(ttl, 86400000000))), v_now + p_ttl),
            ttl = expires - v_now, weight = IF(p_weight > 0, LEAST(weight, p_weight), weight),
            owner = IF(p_new IS NULL, owner, p_owner), lone = COALESCE(p_new, lone)
        WHERE name = p_name;
    END IF;
    COMMIT;
    SELECT CONCAT_WS(' ', v_code, v_a, COALESCE(v_b, 0));
    LEAVE body;
  END IF;
  SET v_leaving = NULL;
  IF v_last IS NULL OR v_lone IS NULL THEN
    IF p_new IS NOT NULL THEN
      SELECT ticket, held, leaving, weight, expires
        INTO v_ticket, v_held, v_leaving, v_weight, v_expires
        FROM holdfast_claims FORCE INDEX (by_id) WHERE id = p_new AND name = p_name AND held;
    END IF;
    IF v_ticket IS NULL THEN
      SELECT ticket, held, leaving, weight, expires
        INTO v_ticket, v_held, v_leaving, v_weight, v_expires
        FROM holdfast_claims FORCE INDEX (by_id) WHERE id = p_id AND name = p_name;
      IF p_new IS NOT NULL THEN
        CALL holdfast_tomb_4(p_name, p_new, v_now, v_withdrawn);
      END IF;
    END IF;
  END IF;
  IF v_ticket IS NULL OR (p_patience = 0 AND NOT v_held) THEN
    CALL holdfast_tomb_4(p_name, p_id, v_now, v_code);
    SET v_a = COALESCE(v_code, 0), v_code = 0;
  ELSEIF v_leaving OR v_expires <= v_now THEN
    CALL holdfast_settle_4(p_name, v_now);
    SET v_code = 0, v_a = 0;
  ELSEIF v_withdrawn IS NOT NULL THEN
    SET v_code = 0, v_a = v_withdrawn;
  ELSE
    IF v_last IS NULL THEN
      -- Its row was removed from outside.
      INSERT INTO holdfast_lines (name, kind, claims) VALUES (p_name, -1, -1)
        ON DUPLICATE KEY UPDATE name = p_name;
      CALL holdfast_settle_4(p_name, v_now);
    END IF;
    IF NOT v_held THEN
      UPDATE holdfast_claims SET expires = v_now + p_patience
        WHERE name = p_name AND ticket = v_ticket;
      UPDATE holdfast_lines SET first = LEAST(first, v_now + p_patience) WHERE name = p_name;
      CALL holdfast_settle_4(p_name, v_now);
      CALL holdfast_verify_4(p_name, v_now);
      SET v_held = NULL;
      SELECT held INTO v_held FROM holdfast_claims WHERE name = p_name AND ticket = v_ticket;
    END IF;
    IF v_held IS NULL THEN
      -- The claim was dropped: it is too heavy for a capacity that was reduced.
      SET v_code = 0, v_a = 0;
    ELSEIF NOT v_held THEN
      CALL holdfast_place_4(p_name, v_ticket, v_now, v_code, v_a, v_b, v_c);
    ELSE
      SET v_lighter = IF(p_weight > 0 AND p_weight < v_weight, v_weight - p_weight, 0);
      UPDATE holdfast_claims
        SET expires = GREATEST(
              LEAST(expires, v_now + GREATEST(3000000, LEAST(ttl, 86400000000))), v_now + p_ttl),
            ttl = expires - v_now, weight = weight - v_lighter,
            owner = IF(p_new IS NULL, owner, p_owner), id = COALESCE(p_new, id)
        WHERE name = p_name AND ticket = v_ticket;
      IF v_lighter > 0 THEN
        UPDATE holdfast_lines SET used = used - v_lighter WHERE name = p_name;
      END IF;
      CALL holdfast_settle_4(p_name, v_now);
      SET v_code = 1, v_a = v_ticket, v_b = p_ttl;
    END IF;
  END IF;
  COMMIT;
  SELECT CONCAT_WS(' ', v_code, COALESCE(v_a, 0), COALESCE(v_b, 0), COALESCE(v_c, 0));
END
//
