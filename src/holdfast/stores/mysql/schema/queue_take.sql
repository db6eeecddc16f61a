-- Reap deliveries whose lease has expired: at most 100, and none whose row is locked.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_reap_3(
  IN p_queue INT, IN p_now BIGINT, OUT r_gone BIGINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_steps INT DEFAULT 100;
  DECLARE v_moment, v_single, v_ends BIGINT DEFAULT -1;
  DECLARE v_attempts, v_tries INT;
  DECLARE v_gone TINYINT;
  DECLARE v_grp VARBINARY(256) DEFAULT '';
  DECLARE v_owner VARBINARY(256);
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_grp = NULL;
  SET r_gone = 0;
  reap: WHILE v_steps > 0 DO
    SET v_steps = v_steps - 1;
    SELECT moment, grp, single INTO v_moment, v_grp, v_single
      FROM holdfast_tracks FORCE INDEX (by_moment)
      WHERE queue = p_queue AND stands = 2 AND moment >= v_moment AND moment <= p_now
        AND (moment > v_moment OR grp > v_grp OR (grp = v_grp AND single > v_single))
      ORDER BY moment, grp, single LIMIT 1;
    IF v_grp IS NULL THEN LEAVE reap; END IF;
    SET v_ends = NULL;
    BEGIN
      DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
      SELECT moment, attempts, tries, owner INTO v_ends, v_attempts, v_tries, v_owner
        FROM holdfast_tracks
        WHERE queue = p_queue AND grp = v_grp AND single = v_single AND stands = 2
          AND moment <= p_now
        FOR UPDATE SKIP LOCKED;
    END;
    -- Compare with the clock again: the lease can have been renewed since p_now, after the clock
    -- was set back.
    IF v_ends <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN
      CALL holdfast_queue_end_3(p_queue, v_grp, v_single, IF(v_attempts >= v_tries, 2, 1), v_ends,
        0, CONCAT('the lease expired: ', v_owner, ' did not renew it'), p_now, v_gone);
      SET r_gone = r_gone + v_gone;
    END IF;
  END WHILE;
END
//
-- The deliveries that a take still has: p_list as in the table of takes.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_again_3(
  IN p_name VARBINARY(512), IN p_take BINARY(16), IN p_list LONGBLOB, IN p_now BIGINT,
  OUT r_said LONGBLOB
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_bytes INT;
  DECLARE v_single BIGINT;
  DECLARE v_grp VARBINARY(256);
  DECLARE v_one LONGBLOB;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET r_said = '';
  WHILE v_at < LENGTH(p_list) DO
    SET v_bytes = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_grp = SUBSTRING(p_list, v_at + 2, v_bytes),
        v_single = CONV(HEX(SUBSTRING(p_list, v_at + 2 + v_bytes, 8)), 16, 10),
        v_at = v_at + 10 + v_bytes, v_one = NULL;
    SELECT CONCAT(
        CONCAT_WS(' ', j.seq, t.attempts, t.fence, p_now - GREATEST(0, j.accepted), LENGTH(j.id), LENGTH(j.grp),
          LENGTH(j.payload), ''),
        j.id, j.grp, j.payload)
      INTO v_one
      FROM holdfast_queues q
        JOIN holdfast_tracks t ON t.queue = q.id AND t.grp = v_grp AND t.single = v_single
        JOIN holdfast_jobs j ON j.queue = t.queue AND j.seq = t.head
      WHERE q.name = p_name AND t.stands = 2 AND t.take = p_take AND t.moment > p_now;
    SET r_said = CONCAT(r_said, COALESCE(v_one, ''));
  END WHILE;
END
//
-- Deliver up to p_most jobs that are due, the longest due first, groups (0) and ungrouped jobs (1)
-- in turn, beginning with p_lane. p_gap, p_by_take: the least interval, and 1 if it counts from the
-- take. p_step, p_burst: nanoseconds between two deliveries of the queue, and by how many they can
-- be early; p_step 0: no rate. The reply: microseconds until it is useful to ask again, a blank,
-- and for each delivery seven numbers, each with a blank after it, then its id, group and payload.
CREATE PROCEDURE IF NOT EXISTS holdfast_queue_take_3(
  IN p_name VARBINARY(512), IN p_id BINARY(16), IN p_most INT, IN p_ttl BIGINT,
  IN p_owner VARBINARY(256), IN p_gap BIGINT, IN p_by_take TINYINT, IN p_step BIGINT,
  IN p_burst BIGINT, IN p_tries INT, IN p_blocks TINYINT, IN p_lane TINYINT, IN p_bury BIGINT
)
SQL SECURITY INVOKER
body: BEGIN
  DECLARE v_queue INT;
  DECLARE v_now, v_starts, v_single, v_moment, v_busy_single, v_next, v_head, v_fence BIGINT;
  -- How far the groups and the ungrouped jobs were read.
  DECLARE v_from, v_from_other, v_after, v_after_other BIGINT DEFAULT -1;
  DECLARE v_behind, v_behind_other VARBINARY(256) DEFAULT '';
  DECLARE v_gone, v_pause BIGINT DEFAULT 0;
  DECLARE v_got, v_dry, v_long INT DEFAULT 0;
  DECLARE v_lane TINYINT DEFAULT p_lane;
  DECLARE v_attempts INT;
  DECLARE v_buried TINYINT;
  DECLARE v_patient TINYINT DEFAULT 0;
  DECLARE v_grp, v_busy, v_id VARBINARY(256);
  DECLARE v_list, v_one LONGBLOB;
  DECLARE v_said, v_part LONGBLOB DEFAULT '';
  -- When the reply is longer than this, no further job is added.
  DECLARE v_room INT DEFAULT LEAST(4194304, @@max_allowed_packet DIV 2);
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT buried, list INTO v_buried, v_list FROM holdfast_takes WHERE id = p_id;
  IF v_buried IS NULL THEN
    IF p_step > 0 THEN
      SELECT id, starts INTO v_queue, v_starts FROM holdfast_queues WHERE name = p_name FOR UPDATE;
    ELSE
      SELECT id INTO v_queue FROM holdfast_queues WHERE name = p_name;
    END IF;
  END IF;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF v_queue IS NULL THEN
    IF NOT v_buried THEN
      CALL holdfast_queue_again_3(p_name, p_id, v_list, v_now, v_said);
    END IF;
    COMMIT;
    SELECT CONCAT(IF(v_said = '', 1000000, 0), ' ', v_said);
    LEAVE body;
  END IF;
  CALL holdfast_queue_reap_3(v_queue, v_now, v_gone);
  -- Only a clock that was set back makes it further ahead than a whole burst.
  SET v_list = '', v_starts = GREATEST(0, v_starts);
  IF p_step > 0 AND v_starts > v_now * 1000 + p_burst + p_step * p_most THEN
    SET v_starts = v_now * 1000 + p_burst + p_step;
    UPDATE holdfast_queues SET starts = v_starts WHERE name = p_name;
  END IF;
  lend: WHILE v_got < p_most AND v_dry < 2 AND v_long < v_room DO
    SET v_pause = IF(p_step > 0, v_starts - p_burst - v_now * 1000, 0);
    IF v_pause > 0 THEN LEAVE lend; END IF;
    SET v_grp = NULL, v_head = NULL, v_id = NULL;
    IF v_patient THEN
      -- All due rows were locked: wait for the first one. Otherwise a group that gets puts all the
      -- time would be skipped all the time.
      SET v_grp = v_busy, v_single = v_busy_single, v_dry = 2;
      SELECT head, LEAST(attempts, 1000000) + 1,
            GREATEST(IF(fence < 4611686018427387904, fence + 1, 0), v_now)
        INTO v_head, v_attempts, v_fence FROM holdfast_tracks
        WHERE queue = v_queue AND grp = v_grp AND single = v_single AND stands IN (0, 1)
          AND moment <= v_now
        FOR UPDATE;
      SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    ELSE
      SELECT moment, grp, single INTO v_moment, v_grp, v_single
        FROM holdfast_tracks FORCE INDEX (by_moment)
        WHERE queue = v_queue AND stands = v_lane AND moment >= v_from AND moment <= v_now
          AND (moment > v_from OR grp > v_behind OR (grp = v_behind AND single > v_after))
        ORDER BY moment, grp, single LIMIT 1;
      IF v_grp IS NOT NULL THEN
        SELECT head, LEAST(attempts, 1000000) + 1,
            GREATEST(IF(fence < 4611686018427387904, fence + 1, 0), v_now)
          INTO v_head, v_attempts, v_fence FROM holdfast_tracks
          WHERE queue = v_queue AND grp = v_grp AND single = v_single AND stands = v_lane
            AND moment <= v_now
          FOR UPDATE SKIP LOCKED;
      END IF;
    END IF;
    IF v_head IS NOT NULL THEN
      SELECT id, CONCAT(
          CONCAT_WS(' ', seq, v_attempts, v_fence, v_now - GREATEST(0, accepted), LENGTH(id), LENGTH(grp),
            LENGTH(payload), ''),
          id, grp, payload)
        INTO v_id, v_one FROM holdfast_jobs WHERE queue = v_queue AND seq = v_head;
      IF v_id IS NULL THEN
        -- The job's row was deleted from outside.
        CALL holdfast_queue_next_3(v_queue, v_grp, v_single, v_now);
      ELSE
        UPDATE holdfast_tracks
          SET stands = 2, moment = v_now + p_ttl, span = p_ttl, fence = v_fence, attempts = v_attempts,
              take = p_id, owner = p_owner, gap = p_gap, by_take = p_by_take, tries = p_tries,
              blocks = p_blocks, rest = IF(grp <> '' AND p_by_take, v_now + p_gap, rest)
          WHERE queue = v_queue AND grp = v_grp AND single = v_single;
        SET v_got = v_got + 1, v_long = v_long + LENGTH(v_one), v_part = CONCAT(v_part, v_one),
            v_list = CONCAT(v_list, UNHEX(LPAD(HEX(LENGTH(v_grp)), 4, '0')), v_grp,
              UNHEX(LPAD(HEX(v_single), 16, '0'))),
            v_starts = IF(p_step > 0, GREATEST(v_starts, v_now * 1000) + p_step, 0);
        IF LENGTH(v_part) > 16384 THEN
          SET v_said = CONCAT(v_said, v_part), v_part = '';
        END IF;
      END IF;
    END IF;
    IF NOT v_patient THEN
      IF v_grp IS NULL THEN
        SET v_dry = v_dry + 1;
      ELSE
        -- Continue behind this row: rows that were just delivered are still in the index, marked as
        -- deleted.
        SET v_from = v_moment, v_behind = v_grp, v_after = v_single;
        IF v_head IS NULL AND v_busy IS NULL THEN
          SET v_busy = v_grp, v_busy_single = v_single;
        END IF;
      END IF;
      IF v_grp IS NULL OR (v_id IS NOT NULL AND v_dry = 0) THEN
        -- Alternate between groups and ungrouped jobs, until one of them has nothing left.
        SET v_lane = 1 - v_lane, v_moment = v_from, v_grp = v_behind, v_single = v_after;
        SET v_from = v_from_other, v_behind = v_behind_other, v_after = v_after_other;
        SET v_from_other = v_moment, v_behind_other = v_grp, v_after_other = v_single;
      END IF;
      IF v_dry = 2 AND v_got = 0 AND v_busy IS NOT NULL THEN
        SET v_patient = 1, v_dry = 0;
      END IF;
    END IF;
  END WHILE;
  IF v_got > 0 THEN
    BEGIN
      DECLARE CONTINUE HANDLER FOR 1062 SET v_buried = 1;
      INSERT INTO holdfast_takes (id, ends, buried, loans, list)
        VALUES (p_id, v_now + p_ttl + p_bury, 0, v_got, v_list);
    END;
  ELSE
    SELECT buried INTO v_buried FROM holdfast_takes WHERE id = p_id;
  END IF;
  IF v_buried IS NOT NULL THEN
    -- A copy of this request came first, or the request that cancels it.
    ROLLBACK;
    START TRANSACTION;
    SET v_said = '';
    SELECT buried, list INTO v_buried, v_list FROM holdfast_takes WHERE id = p_id;
    IF NOT v_buried THEN
      CALL holdfast_queue_again_3(p_name, p_id, v_list, v_now, v_said);
    END IF;
    COMMIT;
    SELECT CONCAT(IF(v_said = '', 1000000, 0), ' ', v_said);
    LEAVE body;
  END IF;
  IF v_got > 0 THEN
    IF p_step > 0 THEN
      UPDATE holdfast_queues SET starts = v_starts WHERE name = p_name;
    END IF;
  ELSE
    IF RAND() < 0.25 THEN
      CALL holdfast_queue_mend_3(v_queue, v_now);
    END IF;
    SELECT MIN(soon) INTO v_next FROM (
      (SELECT moment AS soon FROM holdfast_tracks FORCE INDEX (by_moment)
        WHERE queue = v_queue AND stands = 0 ORDER BY moment LIMIT 1)
      UNION ALL
      (SELECT moment FROM holdfast_tracks FORCE INDEX (by_moment)
        WHERE queue = v_queue AND stands = 1 ORDER BY moment LIMIT 1)
      UNION ALL
      (SELECT moment FROM holdfast_tracks FORCE INDEX (by_moment)
        WHERE queue = v_queue AND stands = 2 ORDER BY moment LIMIT 1)) firsts;
    SET v_next = GREATEST(COALESCE(v_next - v_now, 1000000), v_pause DIV 1000);
  END IF;
  CALL holdfast_queue_count_3(v_queue, 0, 0, -v_gone);
  COMMIT;
  SELECT CONCAT(COALESCE(LEAST(GREATEST(v_next, 0), 1000000), 0), ' ', v_said, v_part);
END
//
