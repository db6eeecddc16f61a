-- Remove records that are no longer needed, at most p_rows of each kind: groups without jobs, of
-- this queue and of a random one, and expired takes, producers and ids. The reply is the number of
-- removed records.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_sweep_3(IN p_name VARBINARY(512), IN p_rows INT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_queue, v_other INT DEFAULT 0;
  DECLARE v_gone INT DEFAULT 0;
  DECLARE v_now BIGINT
    DEFAULT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT id INTO v_queue FROM holdfast_queues WHERE name = p_name;
  SELECT FLOOR(1 + RAND() * MAX(id)) INTO v_other FROM holdfast_queues;
  SELECT id INTO v_other FROM holdfast_queues WHERE id >= v_other ORDER BY id LIMIT 1;
  DELETE FROM holdfast_tracks WHERE queue = v_queue AND stands = 4 AND moment <= v_now
    ORDER BY moment LIMIT p_rows;
  SET v_gone = v_gone + ROW_COUNT();
  DELETE FROM holdfast_tracks WHERE queue = v_other AND stands = 4 AND moment <= v_now
    ORDER BY moment LIMIT p_rows;
  SET v_gone = v_gone + ROW_COUNT();
  DELETE FROM holdfast_takes WHERE ends <= v_now ORDER BY ends LIMIT p_rows;
  SET v_gone = v_gone + ROW_COUNT();
  DELETE FROM holdfast_lanes WHERE minute < (v_now - 3600000000) DIV 60000000
    ORDER BY minute LIMIT p_rows;
  SET v_gone = v_gone + ROW_COUNT();
  -- An id whose job is still there is checked again in an hour.
  UPDATE holdfast_ids SET look = v_now + 3600000000
    WHERE look <= v_now
      AND (EXISTS (SELECT 1 FROM holdfast_jobs j
                   WHERE j.queue = holdfast_ids.queue AND j.seq = holdfast_ids.seq)
        OR EXISTS (SELECT 1 FROM holdfast_dead d
                   WHERE d.queue = holdfast_ids.queue AND d.seq = holdfast_ids.seq))
    ORDER BY look LIMIT p_rows;
  DELETE FROM holdfast_ids
    WHERE look <= v_now AND ends <= v_now
      AND NOT EXISTS (SELECT 1 FROM holdfast_jobs j
                      WHERE j.queue = holdfast_ids.queue AND j.seq = holdfast_ids.seq)
      AND NOT EXISTS (SELECT 1 FROM holdfast_dead d
                      WHERE d.queue = holdfast_ids.queue AND d.seq = holdfast_ids.seq)
    ORDER BY look LIMIT p_rows;
  SET v_gone = v_gone + ROW_COUNT();
  SELECT v_gone;
END
//
