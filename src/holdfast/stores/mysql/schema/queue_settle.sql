-- Return the deliveries of a take, and refuse all copies of the take for p_bury microseconds. The
-- reply is the number of returned deliveries.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_return_3(
  IN p_name VARBINARY(512), IN p_take BINARY(16), IN p_bury BIGINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_queue, v_bytes INT;
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_count INT DEFAULT 0;
  DECLARE v_now, v_single BIGINT;
  DECLARE v_mine, v_gone TINYINT;
  DECLARE v_grp VARBINARY(256);
  DECLARE v_list LONGBLOB DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  INSERT INTO holdfast_takes (id, ends, buried, loans, list)
    VALUES (p_take, v_now + p_bury, 1, 0, '')
    ON DUPLICATE KEY UPDATE ends = v_now + p_bury, buried = 1;
  SELECT list INTO v_list FROM holdfast_takes WHERE id = p_take;
  SELECT id INTO v_queue FROM holdfast_queues WHERE name = p_name;
  WHILE v_at < LENGTH(v_list) DO
    SET v_bytes = CONV(HEX(SUBSTRING(v_list, v_at, 2)), 16, 10);
    SET v_grp = SUBSTRING(v_list, v_at + 2, v_bytes),
        v_single = CONV(HEX(SUBSTRING(v_list, v_at + 2 + v_bytes, 8)), 16, 10),
        v_at = v_at + 10 + v_bytes, v_mine = NULL;
    SELECT stands INTO v_mine FROM holdfast_tracks
      WHERE queue = v_queue AND grp = v_grp AND single = v_single AND stands = 2
        AND take = p_take AND moment > v_now
      FOR UPDATE;
    IF v_mine IS NOT NULL THEN
      CALL holdfast_queue_end_3(v_queue, v_grp, v_single, 3, v_now, 0, '', v_now, v_gone);
      SET v_count = v_count + 1;
    END IF;
  END WHILE;
  COMMIT;
  SELECT v_count;
END
//
-- Settle deliveries of one queue. p_list holds them in parts, as in put, in the order of group and
-- seq: the length of the group (2 bytes), the group, seq (8), the take (16), the outcome (1), the
-- delay (8), the length of the reason (2), the reason. p_takes has for each take: its id, the
-- microseconds for which all copies of it are refused (8; 0 if there is no copy), the number of its
-- deliveries in the list (2), and the place of each in the list (2, from 1). The reply: for each
-- delivery 1 if it was still of that take, else 0.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_settle_3(
  IN p_name VARBINARY(512), IN p_list LONGBLOB, IN p_takes LONGBLOB
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_queue, v_bytes, v_reason, v_loans INT;
  DECLARE v_at, v_next INT DEFAULT 1;
  DECLARE v_now, v_seq, v_single, v_moment, v_bury BIGINT;
  DECLARE v_gone_all, v_done BIGINT DEFAULT 0;
  DECLARE v_mine, v_gone, v_verdict TINYINT;
  DECLARE v_grp VARBINARY(256);
  DECLARE v_take BINARY(16);
  DECLARE v_said LONGTEXT DEFAULT '';
  DECLARE v_part LONGBLOB DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT id INTO v_queue FROM holdfast_queues WHERE name = p_name;
  WHILE v_at < LENGTH(v_part) OR v_next < LENGTH(p_list) DO
    IF v_at > LENGTH(v_part) THEN
      SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_next, 4)), 16, 10);
      SET v_part = SUBSTRING(p_list, v_next + 4, v_bytes), v_next = v_next + 4 + v_bytes, v_at = 1;
    END IF;
    SET v_bytes = CONV(HEX(SUBSTRING(v_part, v_at, 2)), 16, 10);
    SET v_grp = SUBSTRING(v_part, v_at + 2, v_bytes), v_at = v_at + 2 + v_bytes;
    SET v_seq = CONV(HEX(SUBSTRING(v_part, v_at, 8)), 16, 10),
        v_take = SUBSTRING(v_part, v_at + 8, 16),
        v_verdict = ORD(SUBSTRING(v_part, v_at + 24, 1)),
        v_reason = CONV(HEX(SUBSTRING(v_part, v_at + 33, 2)), 16, 10),
        v_single = IF(v_grp = '', v_seq, 0), v_mine = 0;
    SELECT stands = 2 AND take = v_take AND head = v_seq, moment INTO v_mine, v_moment
      FROM holdfast_tracks
      WHERE queue = v_queue AND grp = v_grp AND single = v_single FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    SET v_mine = COALESCE(v_mine, 0) AND v_moment > v_now;
    IF v_mine THEN
      CALL holdfast_queue_end_3(v_queue, v_grp, v_single, v_verdict, v_now,
        CONV(HEX(SUBSTRING(v_part, v_at + 25, 8)), 16, 10), SUBSTRING(v_part, v_at + 35, v_reason),
        v_now, v_gone);
      SET v_gone_all = v_gone_all + v_gone, v_done = v_done + (v_verdict = 0);
    END IF;
    SET v_said = CONCAT(v_said, v_mine), v_at = v_at + 35 + v_reason;
  END WHILE;
  SET v_at = 1;
  WHILE v_at < LENGTH(p_takes) DO
    SET v_take = SUBSTRING(p_takes, v_at, 16),
        v_bury = CONV(HEX(SUBSTRING(p_takes, v_at + 16, 8)), 16, 10),
        v_bytes = CONV(HEX(SUBSTRING(p_takes, v_at + 24, 2)), 16, 10), v_at = v_at + 26,
        v_loans = 0;
    WHILE v_bytes > 0 DO
      SET v_loans = v_loans
            + SUBSTRING(v_said, CONV(HEX(SUBSTRING(p_takes, v_at, 2)), 16, 10), 1),
          v_at = v_at + 2, v_bytes = v_bytes - 1;
    END WHILE;
    IF v_bury > 0 THEN
      SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
      INSERT INTO holdfast_takes (id, ends, buried, loans, list)
        VALUES (v_take, v_now + v_bury, 1, 0, '')
        ON DUPLICATE KEY UPDATE ends = GREATEST(ends, v_now + v_bury), buried = 1;
    ELSEIF v_loans > 0 THEN
      DELETE FROM holdfast_takes WHERE id = v_take AND loans <= v_loans AND NOT buried;
      IF ROW_COUNT() = 0 THEN
        UPDATE holdfast_takes SET loans = loans - v_loans WHERE id = v_take AND NOT buried;
      END IF;
    END IF;
  END WHILE;
  CALL holdfast_queue_count_3(v_queue, 0, v_done, -v_gone_all);
  COMMIT;
  SELECT v_said;
END
//
-- Renew leases of one queue. p_list holds them in order of group and seq: the length of the group
-- (2 bytes), the group, seq (8), the take (16), the ttl (8). The reply: for each its fence, or 0 if
-- it is no longer of that take, and a comma.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_extend_3(
  IN p_name VARBINARY(512), IN p_list LONGBLOB
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_queue, v_bytes INT;
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_now, v_seq, v_single, v_moment, v_fence, v_ttl BIGINT;
  DECLARE v_grp VARBINARY(256);
  DECLARE v_take BINARY(16);
  DECLARE v_said LONGTEXT DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT id INTO v_queue FROM holdfast_queues WHERE name = p_name;
  WHILE v_at < LENGTH(p_list) DO
    SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_grp = SUBSTRING(p_list, v_at + 2, v_bytes), v_at = v_at + 2 + v_bytes;
    SET v_seq = CONV(HEX(SUBSTRING(p_list, v_at, 8)), 16, 10),
        v_take = SUBSTRING(p_list, v_at + 8, 16),
        v_single = IF(v_grp = '', v_seq, 0), v_fence = NULL;
    SELECT moment, fence INTO v_moment, v_fence FROM holdfast_tracks
      WHERE queue = v_queue AND grp = v_grp AND single = v_single AND stands = 2
        AND take = v_take AND head = v_seq
      FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    IF v_fence IS NOT NULL AND v_moment > v_now THEN
      SET v_ttl = CONV(HEX(SUBSTRING(p_list, v_at + 24, 8)), 16, 10);
      UPDATE holdfast_tracks
        SET moment = v_now + v_ttl, span = v_ttl
        WHERE queue = v_queue AND grp = v_grp AND single = v_single;
    ELSE
      SET v_fence = 0;
    END IF;
    SET v_said = CONCAT(v_said, v_fence, ','), v_at = v_at + 32;
  END WHILE;
  COMMIT;
  SELECT v_said;
END
//
