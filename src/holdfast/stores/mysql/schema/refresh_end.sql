-- Store the value of a refresh lease, and end the lease. The reply: 1 if the value is stored, else
-- 0. The id alone does not identify the lease: after an invalidation, a late copy of the request
-- can have taken it again, under another fence.
CREATE PROCEDURE IF NOT EXISTS holdfast_refresh_finish_2(
  IN p_guard VARBINARY(512), IN p_entry VARBINARY(512), IN p_id BINARY(16), IN p_fence BIGINT,
  IN p_ttl BIGINT, IN p_stale BIGINT, IN p_keep BIGINT, IN p_cost BIGINT, IN p_data LONGBLOB
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_fence, v_lease, v_version, v_kept BIGINT;
  DECLARE v_id BINARY(16);
  DECLARE v_done TINYINT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT id, fence, lease INTO v_id, v_fence, v_lease FROM holdfast_refresh_duties
    WHERE guard = p_guard AND entry = p_entry FOR UPDATE;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF v_id = p_id AND v_fence = p_fence AND v_lease > v_now THEN
    SET v_done = 1, v_kept = v_now + p_ttl + p_stale + p_keep;
    INSERT INTO holdfast_refresh_values
      (guard, entry, version, fresh, stale, kept, cost, data, stored)
      VALUES (p_guard, p_entry, v_fence, v_now + p_ttl, v_now + p_ttl + p_stale, v_kept, p_cost,
        p_data, v_now)
      ON DUPLICATE KEY UPDATE version = v_fence, fresh = v_now + p_ttl,
        stale = v_now + p_ttl + p_stale, kept = v_kept, cost = p_cost, data = p_data,
        stored = v_now;
    UPDATE holdfast_refresh_duties
      SET id = NULL, failures = 0, pause = 0, failed = 0, reason = '', kept = v_kept,
          ended = ended + 1, ends = GREATEST(v_kept, v_now + 60000000) DIV 16777216 + 1
      WHERE guard = p_guard AND entry = p_entry;
  ELSE
    SELECT version, kept INTO v_version, v_kept FROM holdfast_refresh_values
      WHERE guard = p_guard AND entry = p_entry;
    SET v_done = COALESCE(v_version = p_fence AND v_kept > v_now, 0);
  END IF;
  COMMIT;
  SELECT v_done;
END
//
-- End a refresh lease without a value, and grant none for p_pause. With p_bury, copies of the
-- request get no lease for that time. The reply: 1 if this id had the lease, else 0.
CREATE PROCEDURE IF NOT EXISTS holdfast_refresh_abandon_2(
  IN p_guard VARBINARY(512), IN p_entry VARBINARY(512), IN p_id BINARY(16), IN p_pause BIGINT,
  IN p_memory BIGINT, IN p_reason VARBINARY(1024), IN p_bury BIGINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_lease, v_failed, v_kept, v_pause BIGINT;
  DECLARE v_failures INT;
  DECLARE v_id BINARY(16);
  DECLARE v_reason VARBINARY(1024);
  DECLARE v_mine TINYINT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  IF p_bury > 0 THEN
    -- Another node of a Galera cluster can be granting the lease to this id: both write the entry's
    -- row, so that they conflict.
    INSERT INTO holdfast_refresh_duties (guard, entry, ended) VALUES (p_guard, p_entry, 1)
      ON DUPLICATE KEY UPDATE ended = ended + 1;
  END IF;
  SELECT id, lease, failures, pause, failed, reason, kept
    INTO v_id, v_lease, v_failures, v_pause, v_failed, v_reason, v_kept
    FROM holdfast_refresh_duties WHERE guard = p_guard AND entry = p_entry FOR UPDATE;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF p_bury > 0 THEN
    INSERT INTO holdfast_refresh_tombs (id, ends) VALUES (p_id, v_now + p_bury)
      ON DUPLICATE KEY UPDATE ends = v_now + p_bury;
  END IF;
  IF v_id = p_id AND v_lease > v_now THEN
    SET v_mine = 1;
    IF v_failed <= v_now THEN
      SET v_failures = 0, v_reason = '';
    END IF;
    IF p_pause > 0 THEN
      SET v_failures = v_failures + 1, v_reason = p_reason, v_pause = v_now + p_pause,
          v_failed = v_now + GREATEST(p_pause, p_memory);
    END IF;
    UPDATE holdfast_refresh_duties
      SET id = NULL, failures = v_failures, pause = v_pause, failed = v_failed, reason = v_reason,
          ended = ended + 1,
          ends = GREATEST(v_failed, v_kept, v_now + 60000000) DIV 16777216 + 1
      WHERE guard = p_guard AND entry = p_entry;
  END IF;
  COMMIT;
  SELECT v_mine;
END
//
-- Remove values, failures and refresh leases. p_list has the entries in ascending order: the length
-- of the guard (2 bytes), the guard, the length of the key (2), the key. The reply: for each 1 if
-- there was a value, else 0.
--
-- Each row is written, and inserted if it is missing: on another node of a Galera cluster a refresh
-- can have begun that this node has not received yet.
CREATE PROCEDURE IF NOT EXISTS holdfast_refresh_invalidate_2(IN p_list LONGBLOB)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_bytes INT;
  DECLARE v_now, v_kept BIGINT;
  DECLARE v_guard, v_entry VARBINARY(512);
  DECLARE v_said LONGTEXT DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  WHILE v_at < LENGTH(p_list) DO
    SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_guard = SUBSTRING(p_list, v_at + 2, v_bytes), v_at = v_at + 2 + v_bytes;
    SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_entry = SUBSTRING(p_list, v_at + 2, v_bytes), v_at = v_at + 2 + v_bytes;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    INSERT INTO holdfast_refresh_duties (guard, entry, ended, ends)
      VALUES (v_guard, v_entry, 1, (v_now + 60000000) DIV 16777216 + 1)
      ON DUPLICATE KEY UPDATE id = NULL, failures = 0, pause = 0, failed = 0, reason = '',
        kept = 0, ended = ended + 1, ends = (v_now + 60000000) DIV 16777216 + 1;
    -- The row is locked from here on.
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
        v_kept = 0;
    SELECT kept INTO v_kept FROM holdfast_refresh_values
      WHERE guard = v_guard AND entry = v_entry FOR UPDATE;
    DELETE FROM holdfast_refresh_values WHERE guard = v_guard AND entry = v_entry;
    SET v_said = CONCAT(v_said, v_kept > v_now);
  END WHILE;
  COMMIT;
  SELECT v_said;
END
//
