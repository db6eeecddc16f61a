-- A later layout is refused. Every role can read a comment, and a dump contains it. No comment: 1.
-- The catalog is read by a query: to_regclass() would remember that there is no schema yet.
DO $$
DECLARE
    found integer := (
        SELECT substring(obj_description(c.oid, 'pg_class') FROM '^layout (\d+)$')::integer
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = '{plain_schema}' AND c.relname = 'version');
BEGIN
    IF found > {layout} THEN
        RAISE EXCEPTION 'layout %', found USING ERRCODE = 'HF003';
    END IF;
END $$;
