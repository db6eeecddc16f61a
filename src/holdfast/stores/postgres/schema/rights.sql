-- Who may call what. The verbs work with the rights of their owner, so that nobody else can read a
-- claim's secret in the tables, and each with a path of its own, so that nobody can slip in
-- another table. The plans go by the primary keys, however small the tables are.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT oid::regprocedure AS name, proname LIKE '%\_{version}' AS verb FROM pg_proc
            WHERE pronamespace = '{schema}'::regnamespace AND proname IN (
                'bury', 'clock', 'commits', 'gate', 'gone', 'locked', 'retry', 'save', 'settled',
                'tidy', 'timeline', 'with_holder', 'without', 'inspect_{version}',
                'join_{version}', 'join_free_{version}', 'keep_{version}', 'leave_{version}',
                'leave_all_{version}', 'look_{version}', 'reclaim_{version}', 'resize_{version}',
                'stand_{version}') LOOP
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
-- Only with the schema itself: later, that there is no row says that something may be lost.
INSERT INTO {schema}.alive (mark, until, relaxed)
SELECT gen_random_uuid(), 0, false FROM {schema}.guard
WHERE NOT EXISTS (SELECT FROM {schema}.version) AND NOT EXISTS (SELECT FROM {schema}.alive);
INSERT INTO {schema}.version (version) VALUES ({version}) ON CONFLICT DO NOTHING;
