-- Accept jobs, all or none. p_groups has their groups, sorted and without duplicates: the length of
-- the group (2 bytes), and the group. p_list has the jobs in parts, because each SUBSTRING of a
-- long text copies it: the length of the part (4 bytes), and for each job: 1 if the caller chose
-- its id (1), its delay (8), the lengths of its id and of its group (2 each) and of its payload
-- (4), and all three. The reply: for each job 1 if it is new, else 0. NULL: a later request of this
-- producer came before.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_put_3(
  IN p_name VARBINARY(512), IN p_lane BINARY(16), IN p_number BIGINT, IN p_window BIGINT,
  IN p_groups LONGBLOB, IN p_list LONGBLOB
)
SQL SECURITY INVOKER
body: BEGIN
  DECLARE v_queue, v_bytes, v_ids INT;
  DECLARE v_at, v_next INT DEFAULT 1;
  DECLARE v_count BIGINT DEFAULT 0;
  DECLARE v_number, v_now, v_ready, v_seq, v_ends, v_there BIGINT;
  DECLARE v_known, v_stands TINYINT;
  DECLARE v_grp, v_id VARBINARY(256);
  DECLARE v_head VARBINARY(17);
  DECLARE v_said VARBINARY(1000);
  DECLARE v_part LONGBLOB DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT id INTO v_queue FROM holdfast_queues WHERE name = p_name;
  IF v_queue IS NULL THEN
    INSERT INTO holdfast_queues (name) VALUES (p_name) ON DUPLICATE KEY UPDATE name = p_name;
    SELECT id INTO v_queue FROM holdfast_queues WHERE name = p_name;
  END IF;
  SELECT number, said INTO v_number, v_said FROM holdfast_lanes WHERE id = p_lane FOR UPDATE;
  IF v_number IS NULL THEN
    INSERT INTO holdfast_lanes (id, number, minute, said) VALUES (p_lane, 0, 0, '')
      ON DUPLICATE KEY UPDATE id = p_lane;
    SELECT number, said INTO v_number, v_said FROM holdfast_lanes WHERE id = p_lane FOR UPDATE;
  END IF;
  IF p_number <= v_number THEN
    ROLLBACK;
    SELECT IF(p_number < v_number, NULL, v_said);
    LEAVE body;
  END IF;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  WHILE v_at < LENGTH(p_groups) DO
    SET v_bytes = CONV(HEX(SUBSTRING(p_groups, v_at, 2)), 16, 10);
    SET v_grp = SUBSTRING(p_groups, v_at + 2, v_bytes), v_at = v_at + 2 + v_bytes;
    INSERT INTO holdfast_tracks (queue, grp, single, stands, moment)
      VALUES (v_queue, v_grp, 0, 4, v_now + 3600000000)
      ON DUPLICATE KEY UPDATE changes = changes + 1;
    IF ROW_COUNT() = 1 THEN
      -- The row is new; or it was deleted from outside, and jobs are there.
      CALL holdfast_queue_heal_3(v_queue, v_grp, 0);
    END IF;
  END WHILE;
  SET v_at = 1, v_said = '';
  accept: WHILE v_at < LENGTH(v_part) OR v_next < LENGTH(p_list) DO
    IF v_at > LENGTH(v_part) THEN
      SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_next, 4)), 16, 10);
      SET v_part = SUBSTRING(p_list, v_next + 4, v_bytes), v_next = v_next + 4 + v_bytes, v_at = 1;
    END IF;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
        v_head = SUBSTRING(v_part, v_at, 17);
    SET v_known = ORD(v_head),
        v_ready = v_now + CONV(HEX(SUBSTRING(v_head, 2, 8)), 16, 10),
        v_ids = CONV(HEX(SUBSTRING(v_head, 10, 2)), 16, 10),
        v_bytes = CONV(HEX(SUBSTRING(v_head, 12, 2)), 16, 10);
    SET v_id = SUBSTRING(v_part, v_at + 17, v_ids),
        v_grp = SUBSTRING(v_part, v_at + 17 + v_ids, v_bytes),
        v_at = v_at + 17 + v_ids + v_bytes,
        v_bytes = CONV(HEX(SUBSTRING(v_head, 14, 4)), 16, 10);
    IF v_known THEN
      SET v_ends = NULL, v_there = NULL;
      SELECT ends, seq INTO v_ends, v_seq FROM holdfast_ids
        WHERE queue = v_queue AND id = v_id FOR UPDATE;
      IF v_ends <= v_now THEN
        -- Plain reads: a condition with a subquery would lock the rows that it finds.
        SELECT seq INTO v_there FROM holdfast_jobs WHERE queue = v_queue AND seq = v_seq;
        SELECT seq INTO v_there FROM holdfast_dead WHERE queue = v_queue AND seq = v_seq;
      END IF;
      IF v_ends > v_now OR v_there IS NOT NULL THEN
        SET v_said = CONCAT(v_said, '0'), v_at = v_at + v_bytes;
        ITERATE accept;
      END IF;
    END IF;
    INSERT INTO holdfast_jobs (queue, grp, id, accepted, ready, payload)
      VALUES (v_queue, v_grp, v_id, v_now, v_ready, SUBSTRING(v_part, v_at, v_bytes));
    SET v_seq = LAST_INSERT_ID(), v_said = CONCAT(v_said, '1'), v_count = v_count + 1,
        v_at = v_at + v_bytes;
    IF v_known THEN
      INSERT INTO holdfast_ids (queue, id, seq, ends, look)
        VALUES (v_queue, v_id, v_seq, v_now + p_window, v_now + p_window)
        ON DUPLICATE KEY UPDATE seq = v_seq, ends = v_now + p_window, look = v_now + p_window;
    END IF;
    IF v_grp = '' THEN
      INSERT INTO holdfast_tracks (queue, grp, single, stands, moment, head, ready)
        VALUES (v_queue, '', v_seq, 1, v_ready, v_seq, v_ready);
    ELSE
      SELECT stands INTO v_stands FROM holdfast_tracks
        WHERE queue = v_queue AND grp = v_grp AND single = 0;
      IF v_stands = 4 THEN
        UPDATE holdfast_tracks
          SET stands = 0, moment = GREATEST(rest, v_ready), head = v_seq, ready = v_ready,
              attempts = 0, reason = ''
          WHERE queue = v_queue AND grp = v_grp AND single = 0;
      END IF;
    END IF;
  END WHILE;
  UPDATE holdfast_lanes SET number = p_number, minute = v_now DIV 60000000, said = v_said
    WHERE id = p_lane;
  CALL holdfast_queue_count_3(v_queue, v_count, 0, v_count);
  COMMIT;
  SELECT v_said;
END
//
