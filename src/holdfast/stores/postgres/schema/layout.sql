-- A later layout is refused. Every role can read a comment, and a dump contains it. No comment: 1.
DO $$
DECLARE
    found integer := substring(
        obj_description(to_regclass('{schema}.version'), 'pg_class') FROM '^layout (\d+)$');
BEGIN
    IF found > {layout} THEN
        RAISE EXCEPTION 'layout %', found USING ERRCODE = 'HF003';
    END IF;
END $$;
