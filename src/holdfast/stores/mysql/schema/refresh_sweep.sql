-- Remove records that have ended at p_now (0: now), at most p_rows of each kind. Locked rows are
-- skipped. The reply is the number of removed entries.
CREATE PROCEDURE IF NOT EXISTS holdfast_refresh_sweep_2(IN p_rows INT, IN p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_guard, v_entry, v_found VARBINARY(512);
  DECLARE v_now BIGINT;
  DECLARE v_gone INT DEFAULT 0;
  DECLARE v_over TINYINT DEFAULT 0;
  DECLARE idle CURSOR FOR
    SELECT guard, entry FROM holdfast_refresh_duties
      WHERE ends <= v_now DIV 16777216 ORDER BY ends LIMIT p_rows;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET v_now = IF(p_now > 0, p_now,
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)));
  START TRANSACTION;
  OPEN idle;
  sweep: LOOP
    SET v_over = 0;
    FETCH idle INTO v_guard, v_entry;
    IF v_over THEN LEAVE sweep; END IF;
    SET v_found = NULL;
    SELECT guard INTO v_found FROM holdfast_refresh_duties
      WHERE guard = v_guard AND entry = v_entry AND ends <= v_now DIV 16777216
      FOR UPDATE SKIP LOCKED;
    IF v_found IS NOT NULL THEN
      DELETE FROM holdfast_refresh_values WHERE guard = v_guard AND entry = v_entry;
      DELETE FROM holdfast_refresh_duties WHERE guard = v_guard AND entry = v_entry;
      SET v_gone = v_gone + 1;
    END IF;
  END LOOP;
  CLOSE idle;
  COMMIT;
  DELETE FROM holdfast_refresh_tombs WHERE ends <= v_now ORDER BY ends LIMIT p_rows;
  DELETE FROM holdfast_refresh_tallies WHERE ends <= v_now ORDER BY ends LIMIT p_rows;
  SELECT v_gone;
END
//
