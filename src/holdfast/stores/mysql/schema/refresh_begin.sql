-- Take the refresh lease of an entry. The reply: a code, and its fields:
--   1 fence, microseconds of the lease, 0, 0, failures     the caller has the lease
--   2 0, microseconds of the lease, 0, 0, 0, ended         another caller has the lease
--   3 0, microseconds of the pause, 0, 0, 0, ended, reason the last computation failed
--   4 version, microseconds for which it is fresh, and for which it can be served, cost, 0, 0, data
CREATE PROCEDURE IF NOT EXISTS holdfast_refresh_begin_2(
  IN p_guard VARBINARY(512), IN p_entry VARBINARY(512), IN p_id BINARY(16),
  IN p_owner VARBINARY(256), IN p_lease BIGINT, IN p_known BIGINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_fence, v_lease, v_pause, v_failed, v_kept, v_ended BIGINT;
  DECLARE v_version, v_fresh, v_stale, v_stored, v_cost, v_tomb, v_n, v_left, v_ttl BIGINT;
  DECLARE v_failures INT;
  DECLARE v_code TINYINT;
  DECLARE v_id BINARY(16);
  DECLARE v_reason VARBINARY(1024);
  DECLARE v_data LONGBLOB;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT id, fence, lease, failures, pause, failed, reason, kept, ended, ttl
    INTO v_id, v_fence, v_lease, v_failures, v_pause, v_failed, v_reason, v_kept, v_ended, v_ttl
    FROM holdfast_refresh_duties WHERE guard = p_guard AND entry = p_entry FOR UPDATE;
  IF v_fence IS NULL THEN
    INSERT INTO holdfast_refresh_duties (guard, entry) VALUES (p_guard, p_entry)
      ON DUPLICATE KEY UPDATE guard = p_guard;
    SELECT id, fence, lease, failures, pause, failed, reason, kept, ended, ttl
      INTO v_id, v_fence, v_lease, v_failures, v_pause, v_failed, v_reason, v_kept, v_ended, v_ttl
      FROM holdfast_refresh_duties WHERE guard = p_guard AND entry = p_entry FOR UPDATE;
  END IF;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF v_fence > v_now OR v_fence < 0 OR v_lease > v_now + IF(v_ttl > 0, v_ttl, 86400000000)
      OR v_pause > v_failed OR v_failures NOT BETWEEN 0 AND 1000000 THEN
    -- The clock was set back since the lease was granted, or the row was changed from outside.
    SET v_fence = IF(v_fence BETWEEN 0 AND 4611686018427387904, v_fence, 0);
    IF v_lease > v_now THEN
      SET v_lease = v_now + LEAST(IF(v_ttl > 0, v_ttl, p_lease), v_lease - v_now, 86400000000);
    END IF;
    -- A pause ends no later than the memory of its failure.
    SET v_pause = LEAST(v_pause, v_failed);
    IF v_pause > v_now THEN
      SET v_pause = v_now
        + GREATEST(0, LEAST(v_pause - GREATEST(v_fence, v_now), 86400000000));
      SET v_failed = v_pause;
    END IF;
    SET v_failures = GREATEST(0, LEAST(v_failures, 1000000));
    UPDATE holdfast_refresh_duties
      SET fence = v_fence, lease = v_lease, pause = v_pause, failed = v_failed,
          failures = v_failures
      WHERE guard = p_guard AND entry = p_entry;
  END IF;
  IF v_lease <= v_now THEN
    SET v_id = NULL;
  END IF;
  IF v_failed <= v_now THEN
    SET v_failures = 0, v_reason = '';
  END IF;
  SELECT version, fresh, stale, cost, stored INTO v_version, v_fresh, v_stale, v_cost, v_stored
    FROM holdfast_refresh_values WHERE guard = p_guard AND entry = p_entry;
  IF COALESCE(NULLIF(v_stored, 0), v_version) > v_now THEN
    SET v_fresh = 0;  -- the clock was set back since then, so the age is unknown
  END IF;
  IF v_id = p_id THEN
    SET v_code = 1, v_n = v_fence, v_left = v_lease - v_now;
  ELSEIF v_fresh > v_now AND v_version <> p_known THEN
    SET v_code = 4, v_n = v_version, v_left = v_fresh - v_now;
    SELECT data INTO v_data
      FROM holdfast_refresh_values WHERE guard = p_guard AND entry = p_entry;
  ELSEIF v_id IS NOT NULL THEN
    SET v_code = 2, v_left = v_lease - v_now;
  ELSEIF v_pause > v_now THEN
    SET v_code = 3, v_left = v_pause - v_now, v_data = v_reason;
  ELSE
    SELECT ends INTO v_tomb FROM holdfast_refresh_tombs WHERE id = p_id;
    IF v_tomb > v_now THEN
      SET v_code = 2, v_left = 0;
    ELSE
      SET v_code = 1, v_left = p_lease,
          v_n = GREATEST(v_now, v_fence + 1, COALESCE(IF(v_version < 4611686018427387904, v_version, 0) + 1, 0));
      -- The row stays a minute longer than needed, so that fences rise even if the clock is set
      -- back.
      UPDATE holdfast_refresh_duties
        SET id = p_id, owner = p_owner, fence = v_n, lease = v_now + p_lease, ttl = p_lease,
            failures = v_failures, reason = v_reason,
            ends = GREATEST(v_now + p_lease, v_failed, v_kept, v_now + 60000000) DIV 16777216 + 1
        WHERE guard = p_guard AND entry = p_entry;
    END IF;
  END IF;
  COMMIT;
  SELECT v_code, COALESCE(v_n, 0), v_left, COALESCE(v_stale - v_now, 0), COALESCE(v_cost, 0),
    v_failures, v_ended, v_data;
END
//
-- Renew refresh leases. p_list holds them in ascending order: the length of the guard (2 bytes),
-- the guard, the length of the key (2), the key, the id (16), the fence (8), the lease (8). The
-- reply: for each its fence, or 0 if the lease has ended, and a comma.
CREATE PROCEDURE IF NOT EXISTS holdfast_refresh_prolong_2(IN p_list LONGBLOB)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_bytes INT;
  DECLARE v_now, v_until, v_fence BIGINT;
  DECLARE v_guard, v_entry VARBINARY(512);
  DECLARE v_id BINARY(16);
  DECLARE v_said LONGTEXT DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  WHILE v_at < LENGTH(p_list) DO
    SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_guard = SUBSTRING(p_list, v_at + 2, v_bytes), v_at = v_at + 2 + v_bytes;
    SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_entry = SUBSTRING(p_list, v_at + 2, v_bytes), v_at = v_at + 2 + v_bytes;
    SET v_id = SUBSTRING(p_list, v_at, 16), v_fence = NULL;
    SELECT fence, lease INTO v_fence, v_until FROM holdfast_refresh_duties
      WHERE guard = v_guard AND entry = v_entry AND id = v_id
        AND fence = CONV(HEX(SUBSTRING(p_list, v_at + 16, 8)), 16, 10)
      FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    IF v_fence IS NOT NULL AND v_until > v_now THEN
      SET v_until = v_now + CONV(HEX(SUBSTRING(p_list, v_at + 24, 8)), 16, 10);
      UPDATE holdfast_refresh_duties
        SET lease = v_until, ttl = v_until - v_now,
            ends = GREATEST(v_until, failed, kept, v_now + 60000000) DIV 16777216 + 1
        WHERE guard = v_guard AND entry = v_entry;
    ELSE
      SET v_fence = 0;
    END IF;
    SET v_said = CONCAT(v_said, v_fence, ','), v_at = v_at + 32;
  END WHILE;
  COMMIT;
  SELECT v_said;
END
//
