-- The last name that the sweep has reached: one row.
CREATE TABLE IF NOT EXISTS holdfast_sweep (
  one TINYINT NOT NULL PRIMARY KEY,
  done VARBINARY(512) NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
//
-- Check the next p_rows names, and remove names unused for p_idle microseconds. A locked name
-- is skipped; while another sweep runs, nothing is done. The reply is the number of removed names.
CREATE PROCEDURE IF NOT EXISTS holdfast_sweep_4(IN p_rows INT, IN p_idle BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_from, v_to, v_name, v_found VARBINARY(512);
  DECLARE v_now BIGINT;
  DECLARE v_gone INT DEFAULT 0;
  DECLARE v_claims INT;
  DECLARE v_over TINYINT DEFAULT 0;
  DECLARE idle CURSOR FOR
    SELECT name FROM holdfast_lines
      WHERE name > v_from AND (v_to IS NULL OR name <= v_to) AND last < v_now - p_idle
        AND tomb <= v_now AND (claims = 0 OR first <= v_now)
        AND (lone IS NULL OR expires <= v_now);
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  INSERT INTO holdfast_sweep (one, done) VALUES (1, '') ON DUPLICATE KEY UPDATE one = 1;
  START TRANSACTION;
  SELECT done INTO v_from FROM holdfast_sweep WHERE one = 1 FOR UPDATE SKIP LOCKED;
  IF v_from IS NOT NULL THEN
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    SELECT MAX(name) INTO v_to FROM
      (SELECT name FROM holdfast_lines WHERE name > v_from ORDER BY name LIMIT p_rows) some;
    UPDATE holdfast_sweep SET done = COALESCE(v_to, '') WHERE one = 1;
    OPEN idle;
    SET v_over = 0;
    sweep: LOOP
      FETCH idle INTO v_name;
      IF v_over THEN LEAVE sweep; END IF;
      SET v_found = NULL;
      SELECT name, claims INTO v_found, v_claims FROM holdfast_lines
        WHERE name = v_name AND last < v_now - p_idle AND tomb <= v_now
          AND (lone IS NULL OR expires <= v_now)
        FOR UPDATE SKIP LOCKED;
      IF v_found IS NOT NULL AND v_claims > 0 THEN
        CALL holdfast_settle_4(v_name, v_now);
        SELECT claims INTO v_claims FROM holdfast_lines WHERE name = v_name;
      END IF;
      IF v_found IS NOT NULL AND v_claims = 0 THEN
        DELETE FROM holdfast_tombs WHERE name = v_name;
        DELETE FROM holdfast_lines WHERE name = v_name;
        SET v_gone = v_gone + 1;
      END IF;
      SET v_over = 0;
    END LOOP;
    CLOSE idle;
  END IF;
  COMMIT;
  SELECT v_gone;
END
//
