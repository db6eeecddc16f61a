-- The rights on the functions. The verbs run with the rights of their owner, so that no other role
-- can read the secret of a claim in the tables. Each has its own search path, so that no role can
-- substitute another table. The plans use indexes, however small the tables are.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS name, w.verb FROM pg_proc p JOIN (VALUES
            ('bury', false), ('clock', false), ('commits', false), ('gate', false),
            ('gone', false), ('lease', false), ('locked', false), ('rebuilt', false),
            ('retry', false), ('save', false), ('settled', false), ('tidy', false),
            ('timeline', false), ('verified', false), ('with_holder', false), ('without', false),
            ('inspect_{version}', true), ('join_{version}', true), ('join_free_{version}', true),
            ('leave_{version}', true), ('leave_all_{version}', true), ('look_{version}', true),
            ('reclaim_{version}', true), ('renew_{version}', true), ('resize_{version}', true),
            ('stand_{version}', true)) w(name, verb) ON w.name = p.proname
            WHERE p.pronamespace = '{schema}'::regnamespace LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.name);
        IF f.verb THEN
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = {schema}, pg_temp '
                'SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off '
                'SET enable_hashjoin = off SET enable_mergejoin = off '
                'SET plan_cache_mode = force_generic_plan SET jit = off', f.name);
        END IF;
    END LOOP;
END $$;

INSERT INTO {schema}.guard (timeline, relaxed) SELECT {schema}.timeline(), false
ON CONFLICT DO NOTHING;
-- Only together with the schema: later, a missing row means that data can be lost.
INSERT INTO {schema}.alive (mark, until, relaxed, home)
SELECT gen_random_uuid(), 0, false, '{schema}.alive'::regclass FROM {schema}.guard
WHERE NOT EXISTS (SELECT FROM {schema}.version) AND NOT EXISTS (SELECT FROM {schema}.alive);
INSERT INTO {schema}.version (version) VALUES ({version}) ON CONFLICT DO NOTHING;
