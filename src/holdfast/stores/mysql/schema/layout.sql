-- Only for a script, which no program checks: an error if the tables have a later layout.
CREATE PROCEDURE IF NOT EXISTS holdfast_layout_1() SQL SECURITY INVOKER
BEGIN
  IF (SELECT SUBSTRING(table_comment, 8) + 0 FROM information_schema.tables
      WHERE table_schema = DATABASE() AND table_name = 'holdfast_lines'
        AND table_comment REGEXP '^layout [0-9]+$') > 1 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the tables have a later layout: upgrade holdfast';
  END IF;
END
//
CALL holdfast_layout_1()
//
