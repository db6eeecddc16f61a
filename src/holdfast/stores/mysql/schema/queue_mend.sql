-- Requests of an administrator. A list has jobs in the order of group and seq: 1 if it is a dead
-- letter (1 byte), seq (8), the length of the group (2), the group. A job that has left its place
-- since then is skipped.

-- Retry dead letters. The reply is their number.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_revive_3(
  IN p_name VARBINARY(512), IN p_list LONGBLOB
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_queue, v_bytes INT;
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_count BIGINT DEFAULT 0;
  DECLARE v_now, v_seq, v_new, v_accepted, v_fence, v_head BIGINT;
  DECLARE v_stands TINYINT;
  DECLARE v_grp, v_id VARBINARY(256);
  DECLARE v_payload MEDIUMBLOB;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT id INTO v_queue FROM holdfast_queues WHERE name = p_name;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  mend: WHILE v_at < LENGTH(p_list) DO
    SET v_seq = CONV(HEX(SUBSTRING(p_list, v_at + 1, 8)), 16, 10),
        v_bytes = CONV(HEX(SUBSTRING(p_list, v_at + 9, 2)), 16, 10);
    SET v_grp = SUBSTRING(p_list, v_at + 11, v_bytes), v_at = v_at + 11 + v_bytes, v_id = NULL;
    IF v_grp <> '' THEN
      INSERT INTO holdfast_tracks (queue, grp, single, stands, moment)
        VALUES (v_queue, v_grp, 0, 4, v_now + 3600000000)
        ON DUPLICATE KEY UPDATE changes = changes + 1;
    END IF;
    SELECT id, accepted, fence, payload INTO v_id, v_accepted, v_fence, v_payload
      FROM holdfast_dead WHERE queue = v_queue AND seq = v_seq FOR UPDATE;
    IF v_id IS NULL THEN ITERATE mend; END IF;
    DELETE FROM holdfast_dead WHERE queue = v_queue AND seq = v_seq;
    SET v_count = v_count + 1, v_stands = NULL;
    SELECT stands, head INTO v_stands, v_head FROM holdfast_tracks
      WHERE queue = v_queue AND grp = v_grp AND single = 0;
    IF v_grp = '' OR (v_stands = 3 AND v_head = v_seq) THEN
      INSERT INTO holdfast_jobs (queue, seq, grp, id, accepted, ready, payload)
        VALUES (v_queue, v_seq, v_grp, v_id, v_accepted, v_now, v_payload);
      SET v_new = v_seq;
    ELSE
      INSERT INTO holdfast_jobs (queue, grp, id, accepted, ready, payload)
        VALUES (v_queue, v_grp, v_id, v_accepted, v_now, v_payload);
      SET v_new = LAST_INSERT_ID();
      UPDATE holdfast_ids SET seq = v_new WHERE queue = v_queue AND id = v_id AND seq = v_seq;
    END IF;
    IF v_grp = '' THEN
      INSERT INTO holdfast_tracks (queue, grp, single, stands, moment, head, ready, fence)
        VALUES (v_queue, '', v_seq, 1, v_now, v_seq, v_now, v_fence);
    ELSEIF v_new = v_seq OR v_stands = 4 THEN
      UPDATE holdfast_tracks
        SET stands = 0, moment = GREATEST(rest, v_now), head = v_new, ready = v_now, attempts = 0,
            reason = ''
        WHERE queue = v_queue AND grp = v_grp AND single = 0;
    END IF;
  END WHILE;
  CALL holdfast_queue_count_3(v_queue, 0, 0, v_count);
  COMMIT;
  SELECT v_count;
END
//
-- Remove jobs, except delivered ones. The reply is their number.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_purge_3(
  IN p_name VARBINARY(512), IN p_list LONGBLOB
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_queue, v_bytes INT;
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_count, v_gone BIGINT DEFAULT 0;
  DECLARE v_now, v_seq, v_single, v_head, v_moment BIGINT;
  DECLARE v_dead, v_stands TINYINT;
  DECLARE v_grp VARBINARY(256);
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT id INTO v_queue FROM holdfast_queues WHERE name = p_name;
  mend: WHILE v_at < LENGTH(p_list) DO
    SET v_dead = ORD(SUBSTRING(p_list, v_at, 1)),
        v_seq = CONV(HEX(SUBSTRING(p_list, v_at + 1, 8)), 16, 10),
        v_bytes = CONV(HEX(SUBSTRING(p_list, v_at + 9, 2)), 16, 10);
    SET v_grp = SUBSTRING(p_list, v_at + 11, v_bytes), v_at = v_at + 11 + v_bytes;
    SET v_single = IF(v_grp = '', v_seq, 0), v_stands = NULL;
    UPDATE holdfast_tracks SET changes = changes + 1
      WHERE queue = v_queue AND grp = v_grp AND single = v_single;
    SELECT stands, moment, head INTO v_stands, v_moment, v_head FROM holdfast_tracks
      WHERE queue = v_queue AND grp = v_grp AND single = v_single;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    IF v_stands = 2 AND v_moment > v_now AND v_head = v_seq THEN ITERATE mend; END IF;
    IF v_dead THEN
      DELETE FROM holdfast_dead WHERE queue = v_queue AND seq = v_seq;
    ELSE
      DELETE FROM holdfast_jobs WHERE queue = v_queue AND seq = v_seq;
    END IF;
    IF ROW_COUNT() = 1 THEN
      SET v_count = v_count + 1, v_gone = v_gone + (NOT v_dead);
      IF v_head = v_seq AND (v_stands = 3 OR (NOT v_dead AND v_stands < 3)) THEN
        CALL holdfast_queue_next_3(v_queue, v_grp, v_single, v_now);
      END IF;
    END IF;
  END WHILE;
  CALL holdfast_queue_count_3(v_queue, 0, 0, -v_gone);
  COMMIT;
  SELECT v_count;
END
//
