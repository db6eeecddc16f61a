-- Procedures that several verbs of queues use. The caller has locked the row of the group or of the
-- ungrouped job.

-- Add to the counts of a queue, as the last statement before the commit. Sessions use different
-- rows where possible, and so do the nodes of a Galera cluster.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_count_3(
  IN p_queue INT, IN p_accepted BIGINT, IN p_done BIGINT, IN p_depth BIGINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_shard INT DEFAULT
    CONNECTION_ID() % 8 * @@auto_increment_increment + @@auto_increment_offset;
  IF p_accepted <> 0 OR p_done <> 0 OR p_depth <> 0 THEN
    INSERT INTO holdfast_counts (queue, shard, accepted, done, depth)
      VALUES (p_queue, v_shard, p_accepted, p_done, p_depth)
      ON DUPLICATE KEY UPDATE accepted = accepted + p_accepted, done = done + p_done,
        depth = depth + p_depth;
  END IF;
END
//
-- The first job has left the group: the next job becomes the first.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_next_3(
  IN p_queue INT, IN p_grp VARBINARY(256), IN p_single BIGINT, IN p_now BIGINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_former, v_head, v_ready BIGINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  IF p_grp = '' THEN
    DELETE FROM holdfast_tracks WHERE queue = p_queue AND grp = '' AND single = p_single;
  ELSE
    SELECT head INTO v_former FROM holdfast_tracks
      WHERE queue = p_queue AND grp = p_grp AND single = 0;
    SELECT seq, ready INTO v_head, v_ready FROM holdfast_jobs FORCE INDEX (by_group)
      WHERE queue = p_queue AND grp = p_grp AND seq > v_former ORDER BY seq LIMIT 1;
    IF v_head IS NULL THEN
      UPDATE holdfast_tracks SET stands = 4, moment = GREATEST(rest, p_now + 3600000000)
        WHERE queue = p_queue AND grp = p_grp AND single = 0;
    ELSE
      UPDATE holdfast_tracks
        SET stands = 0, moment = GREATEST(rest, v_ready), head = v_head, ready = v_ready, span = 0,
            attempts = 0, reason = ''
        WHERE queue = p_queue AND grp = p_grp AND single = 0;
    END IF;
  END IF;
END
//
-- End a delivery, as of p_when. p_verdict: 0 done, 1 retry after p_delay, 2 dead letter, 3 as if it
-- had not been taken. r_gone: 1 if the job is done or a dead letter.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_end_3(
  IN p_queue INT, IN p_grp VARBINARY(256), IN p_single BIGINT, IN p_verdict TINYINT,
  IN p_when BIGINT, IN p_delay BIGINT, IN p_reason VARBINARY(1024), IN p_now BIGINT,
  OUT r_gone TINYINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_head, v_ready, v_rest, v_fence, v_gap BIGINT;
  DECLARE v_attempts INT;
  DECLARE v_by_take, v_blocks TINYINT;
  DECLARE v_reason VARBINARY(1024);
  SELECT head, ready, rest, fence, attempts, reason, gap, by_take, blocks
    INTO v_head, v_ready, v_rest, v_fence, v_attempts, v_reason, v_gap, v_by_take, v_blocks
    FROM holdfast_tracks WHERE queue = p_queue AND grp = p_grp AND single = p_single;
  IF p_grp <> '' AND NOT v_by_take THEN
    SET v_rest = GREATEST(v_rest, p_when + GREATEST(0, LEAST(v_gap, 86400000000)));
  END IF;
  SET r_gone = p_verdict IN (0, 2), v_reason = IF(p_reason = '', v_reason, p_reason);
  IF NOT r_gone THEN
    SET v_ready = GREATEST(v_ready, p_when + IF(p_verdict = 1, p_delay, 0));
    UPDATE holdfast_tracks
      SET stands = IF(p_grp = '', 1, 0), moment = GREATEST(v_rest, v_ready), ready = v_ready,
          span = IF(p_verdict = 1, p_delay, 0), rest = v_rest, attempts = attempts - IF(p_verdict = 3, 1, 0), reason = v_reason
      WHERE queue = p_queue AND grp = p_grp AND single = p_single;
  ELSE
    IF p_verdict = 2 THEN
      INSERT INTO holdfast_dead (queue, seq, grp, id, accepted, fence, attempts, reason, payload)
        SELECT queue, seq, grp, id, accepted, v_fence, v_attempts, v_reason, payload
        FROM holdfast_jobs WHERE queue = p_queue AND seq = v_head;
    END IF;
    DELETE FROM holdfast_jobs WHERE queue = p_queue AND seq = v_head;
    IF p_verdict = 2 AND v_blocks AND p_grp <> '' THEN
      UPDATE holdfast_tracks SET stands = 3, moment = 0, rest = v_rest
        WHERE queue = p_queue AND grp = p_grp AND single = 0;
    ELSE
      IF p_grp <> '' THEN
        UPDATE holdfast_tracks SET rest = v_rest
          WHERE queue = p_queue AND grp = p_grp AND single = 0;
      END IF;
      CALL holdfast_queue_next_3(p_queue, p_grp, p_single, p_now);
    END IF;
  END IF;
END
//
