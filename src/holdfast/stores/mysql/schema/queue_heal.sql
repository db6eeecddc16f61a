-- Repairs of damage that no verb meets on the usual path of a job: a row was deleted or changed
-- from outside, or the clock was set back.

-- Rebuild the locked row of a group, or of an ungrouped job, from its jobs; a delivery stays. A
-- moment further ahead than the requested time shows that the clock was set back.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_heal_3(
  IN p_queue INT, IN p_grp VARBINARY(256), IN p_single BIGINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_head, v_ready, v_accepted, v_fence, v_moment, v_rest, v_gap, v_span BIGINT;
  DECLARE v_former, v_retry, v_now BIGINT;
  DECLARE v_stands TINYINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT stands, fence, moment, rest, head, ready, GREATEST(0, LEAST(gap, 86400000000)),
      GREATEST(0, LEAST(span, 31622400000000))
    INTO v_stands, v_fence, v_moment, v_rest, v_former, v_retry, v_gap, v_span
    FROM holdfast_tracks WHERE queue = p_queue AND grp = p_grp AND single = p_single;
  -- Read after the row: by an earlier time, a row that was just written looks as if the clock had
  -- been set back.
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF v_stands = 2 AND v_fence BETWEEN 0 AND 4611686018427387904 THEN
    UPDATE holdfast_tracks
      SET moment = LEAST(v_moment, LEAST(86400000000, IF(v_span > 0, v_span, 86400000000))
        + v_now)
      WHERE queue = p_queue AND grp = p_grp AND single = p_single;
  ELSE
    IF p_grp = '' THEN
      SELECT seq, ready, accepted INTO v_head, v_ready, v_accepted FROM holdfast_jobs
        WHERE queue = p_queue AND seq = p_single;
    ELSE
      SELECT seq, ready, accepted INTO v_head, v_ready, v_accepted
        FROM holdfast_jobs FORCE INDEX (by_group)
        WHERE queue = p_queue AND grp = p_grp ORDER BY seq LIMIT 1;
    END IF;
    IF v_head IS NOT NULL THEN
      IF v_accepted > v_now THEN
        SET v_ready = v_now + GREATEST(0, CAST(v_ready AS DECIMAL(30)) - v_accepted);
      END IF;
      SET v_ready = LEAST(v_ready, v_now + 31622400000000),
          v_rest = GREATEST(0, LEAST(v_rest, v_now + v_gap));
      IF v_head = v_former AND v_retry > v_ready THEN
        SET v_ready = GREATEST(v_ready, LEAST(v_retry, v_now + v_span));
      END IF;
      UPDATE holdfast_tracks
        SET stands = IF(p_grp = '', 1, 0), moment = GREATEST(0, v_rest, v_ready), head = v_head,
            ready = v_ready, rest = v_rest, attempts = GREATEST(0, LEAST(attempts, 1000000)),
            fence = IF(v_fence BETWEEN 0 AND 4611686018427387904, v_fence, 0)
        WHERE queue = p_queue AND grp = p_grp AND single = p_single;
    END IF;
  END IF;
END
//
-- Check some jobs of a queue from which a take got nothing, and repair what is wrong: the oldest
-- jobs, because every stuck job becomes one of them in the end, and sometimes others. Never waits
-- for a lock.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_mend_3(IN p_queue INT, IN p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_from, v_seq, v_single BIGINT DEFAULT 0;
  DECLARE v_steps INT DEFAULT 10;
  DECLARE v_stands TINYINT;
  DECLARE v_grp, v_found VARBINARY(256);
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_seq = NULL;
  IF RAND() < 0.3 THEN
    SELECT FLOOR(MIN(seq) + RAND() * (MAX(seq) - MIN(seq))) INTO v_from
      FROM holdfast_jobs WHERE queue = p_queue;
    SET v_from = COALESCE(v_from, 0);
  END IF;
  mend: WHILE v_steps > 0 DO
    SET v_steps = v_steps - 1;
    SELECT j.seq, j.grp, IF(j.grp = '', j.seq, 0) INTO v_seq, v_grp, v_single
      FROM (SELECT * FROM holdfast_jobs
          WHERE queue = p_queue AND seq >= v_from ORDER BY seq LIMIT 100) j
        LEFT JOIN holdfast_tracks t ON t.queue = p_queue AND t.grp = j.grp
          AND t.single = IF(j.grp = '', j.seq, 0)
      WHERE t.stands IS NULL OR t.stands NOT IN (0, 1, 2, 3)
        OR (t.stands IN (0, 1) AND ((j.grp = '') <> (t.stands = 1) OR j.seq < t.head
          OR t.fence NOT BETWEEN 0 AND 4611686018427387904 OR t.attempts NOT BETWEEN 0 AND 1000000
          OR t.moment < 0 OR t.moment > p_now + 31622400000000
          OR (t.head = j.seq AND t.moment > t.rest AND t.moment > t.ready)
          OR (t.head = j.seq AND t.moment > t.rest AND CAST(t.moment AS DECIMAL(30)) - p_now > t.span
            AND t.moment > LEAST(j.ready, p_now + GREATEST(0,
              CAST(j.ready AS DECIMAL(30)) - IF(j.accepted > p_now, j.accepted, 0))))
          OR (t.moment <= t.rest AND CAST(t.moment AS DECIMAL(30)) - p_now > t.gap)
          OR NOT EXISTS (SELECT 1 FROM holdfast_jobs h WHERE h.queue = p_queue AND h.seq = t.head)))
        OR (t.stands = 3 AND NOT EXISTS (
          SELECT 1 FROM holdfast_dead d WHERE d.queue = p_queue AND d.seq = t.head))
        OR (t.stands = 2 AND CAST(t.moment AS DECIMAL(30)) - p_now >
          LEAST(86400000000, IF(t.span > 0, t.span, 86400000000)))
      ORDER BY j.seq LIMIT 1;
    IF v_seq IS NULL THEN LEAVE mend; END IF;
    SET v_from = v_seq + 1, v_found = NULL;
    INSERT IGNORE INTO holdfast_tracks (queue, grp, single, stands, moment)
      SELECT p_queue, v_grp, v_single, 4, p_now + 3600000000 FROM holdfast_jobs
      WHERE queue = p_queue AND seq = v_seq AND grp = v_grp AND NOT EXISTS (
        SELECT 1 FROM holdfast_tracks o
        WHERE o.queue = p_queue AND o.grp = v_grp AND o.single = v_single);
    BEGIN
      DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
      SELECT 'x' INTO v_found FROM holdfast_tracks
        WHERE queue = p_queue AND grp = v_grp AND single = v_single FOR UPDATE SKIP LOCKED;
    END;
    IF v_found IS NOT NULL THEN
      CALL holdfast_queue_heal_3(p_queue, v_grp, v_single);
    END IF;
  END WHILE;
END
//
