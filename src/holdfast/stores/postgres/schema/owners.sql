-- The functions run with the rights of the role that makes the schema. A role that owns an object
-- in it could add a trigger or replace a function, which would run with these rights: so only
-- trusted roles may own one.
DO $$
DECLARE
    odd text;
BEGIN
    WITH ours AS (
        SELECT oid FROM pg_namespace WHERE nspname = '{plain_schema}'
    ), owned AS (
        SELECT 'the schema itself' AS what, nspowner AS owner FROM pg_namespace JOIN ours USING (oid)
        UNION ALL SELECT 'the table ' || relname, relowner FROM pg_class
            WHERE relnamespace IN (SELECT oid FROM ours) AND relkind IN ('r', 'p', 'f', 'v', 'm', 'S')
        UNION ALL SELECT 'the function ' || proname, proowner FROM pg_proc
            WHERE pronamespace IN (SELECT oid FROM ours)
        UNION ALL SELECT 'the type ' || typname, typowner FROM pg_type
            WHERE typnamespace IN (SELECT oid FROM ours) AND typrelid = 0 AND typelem = 0
        UNION ALL SELECT 'the right to create in it', a.grantee FROM pg_namespace n JOIN ours USING (oid),
            aclexplode(n.nspacl) a WHERE a.privilege_type = 'CREATE'
        UNION ALL SELECT 'a trigger of the table ' || c.relname, p.proowner
            FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
            WHERE c.relnamespace IN (SELECT oid FROM ours) AND NOT t.tgisinternal
    ), whose AS (
        -- pg_database_owner means the owner of the database.
        SELECT o.what, CASE WHEN r.rolname = 'pg_database_owner' THEN pg_get_userbyid(d.datdba)
            ELSE coalesce(r.rolname, 'everybody') END AS name
        FROM owned o LEFT JOIN pg_roles r ON r.oid = o.owner, pg_database d
        WHERE d.datname = current_database()
    )
    SELECT string_agg(format('%s is %s''s', w.what, w.name), ', ') INTO odd FROM (
        SELECT DISTINCT o.what, o.name FROM whose o LEFT JOIN pg_roles r ON r.rolname = o.name
        WHERE o.name <> current_user AND NOT coalesce(r.rolsuper, false)
            AND o.name <> ALL (ARRAY[{trusted}]::text[])
        ORDER BY o.what LIMIT 3) w;
    IF odd IS NOT NULL THEN
        RAISE EXCEPTION 'in the schema {plain_schema}, %', odd USING ERRCODE = 'HF002';
    END IF;
END $$;
