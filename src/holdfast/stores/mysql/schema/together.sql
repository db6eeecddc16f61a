-- Several names in one transaction. A list has for each claim: the length of its name (2 bytes),
-- the name, its id, and the further fields of the procedure. The caller sorts the list by name, so
-- that two calls never wait for each other.

-- Renew held claims; each also has its ttl (8 bytes). The reply: for each claim its ticket, or 0 if
-- it needs a separate request, and a comma.
CREATE PROCEDURE IF NOT EXISTS holdfast_renew_4(IN p_list LONGBLOB)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_bytes, v_claims INT;
  DECLARE v_now, v_ttl, v_last, v_first, v_expires, v_ticket BIGINT;
  DECLARE v_leaving, v_held TINYINT;
  DECLARE v_name VARBINARY(512);
  DECLARE v_id, v_lone BINARY(16);
  DECLARE v_said LONGTEXT DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  WHILE v_at < LENGTH(p_list) DO
    SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_name = SUBSTRING(p_list, v_at + 2, v_bytes),
        v_id = SUBSTRING(p_list, v_at + 2 + v_bytes, 16),
        v_ttl = CONV(HEX(SUBSTRING(p_list, v_at + 18 + v_bytes, 8)), 16, 10),
        v_at = v_at + 26 + v_bytes, v_lone = NULL, v_claims = 0, v_ticket = NULL;
    SELECT last, claims, lone, leaving, expires, first
      INTO v_last, v_claims, v_lone, v_leaving, v_expires, v_first
      FROM holdfast_lines WHERE name = v_name FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    IF v_lone = v_id AND NOT v_leaving AND v_expires > v_now THEN
      SET v_ticket = v_last;
      UPDATE holdfast_lines
        SET expires = GREATEST(
              LEAST(expires, v_now + GREATEST(3000000, LEAST(ttl, 86400000000))), v_now + v_ttl),
            ttl = expires - v_now
        WHERE name = v_name;
    ELSEIF v_claims > 0 AND v_first > v_now THEN
      -- Here nothing has expired. Otherwise other claims have to be removed or granted, too, which
      -- a separate request does.
      SELECT ticket, held, leaving INTO v_ticket, v_held, v_leaving
        FROM holdfast_claims FORCE INDEX (by_id) WHERE id = v_id AND name = v_name;
      IF v_ticket IS NOT NULL AND v_held AND NOT v_leaving THEN
        UPDATE holdfast_claims
          SET expires = GREATEST(
                LEAST(expires, v_now + GREATEST(3000000, LEAST(ttl, 86400000000))), v_now + v_ttl),
              ttl = expires - v_now
          WHERE name = v_name AND ticket = v_ticket;
      ELSE
        SET v_ticket = NULL;
      END IF;
    END IF;
    SET v_said = CONCAT(v_said, COALESCE(v_ticket, 0), ',');
  END WHILE;
  COMMIT;
  SELECT v_said;
END
//
-- Release lone claims. The reply: for each claim 1 if it was there, 0 if not, or 2 if it needs a
-- separate request, and a comma.
CREATE PROCEDURE IF NOT EXISTS holdfast_leave_all_4(IN p_list LONGBLOB)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_bytes, v_claims INT;
  DECLARE v_now, v_expires BIGINT;
  DECLARE v_answer TINYINT;
  DECLARE v_name VARBINARY(512);
  DECLARE v_id, v_lone BINARY(16);
  DECLARE v_said LONGTEXT DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  WHILE v_at < LENGTH(p_list) DO
    SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_name = SUBSTRING(p_list, v_at + 2, v_bytes),
        v_id = SUBSTRING(p_list, v_at + 2 + v_bytes, 16),
        v_at = v_at + 18 + v_bytes, v_lone = NULL, v_claims = 0, v_answer = 0;
    SELECT claims, lone, expires INTO v_claims, v_lone, v_expires
      FROM holdfast_lines WHERE name = v_name FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    IF v_lone = v_id THEN
      SET v_answer = v_expires > v_now;
      UPDATE holdfast_lines SET lone = NULL WHERE name = v_name;
    ELSEIF v_claims > 0 THEN
      SET v_answer = 2;
    END IF;
    SET v_said = CONCAT(v_said, v_answer, ',');
  END WHILE;
  COMMIT;
  SELECT v_said;
END
//
-- Enter several lines if all of them are empty. Each claim also has: kind (1 byte), capacity,
-- weight (4 each), ttl (8), the lengths of its owner and of its note (2 each), and both. The reply:
-- the tickets, each with a comma. NULL: a line has a claim or a tombstone or is damaged, and no
-- line was entered.
CREATE PROCEDURE IF NOT EXISTS holdfast_join_free_4(IN p_list LONGBLOB)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_bytes, v_words, v_notes INT;
  DECLARE v_claims, v_now, v_last, v_tomb, v_expires, v_ttl BIGINT;
  DECLARE v_name VARBINARY(512);
  DECLARE v_id, v_lone BINARY(16);
  DECLARE v_said LONGTEXT DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  enter: WHILE v_at < LENGTH(p_list) DO
    SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_name = SUBSTRING(p_list, v_at + 2, v_bytes), v_at = v_at + 2 + v_bytes;
    SET v_id = SUBSTRING(p_list, v_at, 16),
        v_ttl = CONV(HEX(SUBSTRING(p_list, v_at + 25, 8)), 16, 10),
        v_words = CONV(HEX(SUBSTRING(p_list, v_at + 33, 2)), 16, 10),
        v_notes = CONV(HEX(SUBSTRING(p_list, v_at + 35, 2)), 16, 10), v_last = NULL;
    -- ABS: a count below 0 was written from outside; it must not cancel out another one.
    SELECT last, tomb, ABS(claims) + ABS(used) + ABS(waiters), lone, expires
      INTO v_last, v_tomb, v_claims, v_lone, v_expires
      FROM holdfast_lines WHERE name = v_name FOR UPDATE;
    IF v_last IS NULL THEN
      INSERT INTO holdfast_lines (name) VALUES (v_name) ON DUPLICATE KEY UPDATE name = v_name;
      -- If the row was deleted from outside, its claims are still there.
      SELECT last, tomb, ABS(claims) + ABS(used) + ABS(waiters)
          + EXISTS (SELECT 1 FROM holdfast_claims c WHERE c.name = v_name), lone, expires
        INTO v_last, v_tomb, v_claims, v_lone, v_expires
        FROM holdfast_lines WHERE name = v_name FOR UPDATE;
    END IF;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    IF v_claims > 0 OR (v_lone IS NOT NULL AND v_expires > v_now) OR v_tomb > v_now
        OR v_last NOT BETWEEN 0 AND 4611686018427387904 THEN
      -- Separate requests repair the damage.
      SET v_said = NULL;
      LEAVE enter;
    END IF;
    SET v_last = GREATEST(v_last + 1, v_now);
    UPDATE holdfast_lines
      SET last = v_last, kind = ORD(SUBSTRING(p_list, v_at + 16, 1)),
          capacity = CONV(HEX(SUBSTRING(p_list, v_at + 17, 4)), 16, 10), former = 0, lone = v_id,
          leaving = 0, weight = CONV(HEX(SUBSTRING(p_list, v_at + 21, 4)), 16, 10), ttl = v_ttl,
          since = v_now, expires = v_now + v_ttl, owner = SUBSTRING(p_list, v_at + 37, v_words),
          meta = SUBSTRING(p_list, v_at + 37 + v_words, v_notes)
      WHERE name = v_name;
    SET v_said = CONCAT(v_said, v_last, ','), v_at = v_at + 37 + v_words + v_notes;
  END WHILE;
  IF v_said IS NULL THEN ROLLBACK; ELSE COMMIT; END IF;
  SELECT v_said;
END
//
