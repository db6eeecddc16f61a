-- The rights on the functions of refresh guards, as for the verbs of locks.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT oid::regprocedure AS name,
                proname IN ('refresh_abandon_{refresh_version}', 'refresh_begin_{refresh_version}',
                    'refresh_finish_{refresh_version}', 'refresh_invalidate_{refresh_version}',
                    'refresh_look_{refresh_version}', 'refresh_prolong_{refresh_version}',
                    'refresh_survey_{refresh_version}', 'refresh_tally_{refresh_version}',
                    'refresh_tidy_{refresh_version}') AS verb
            FROM pg_proc
            WHERE pronamespace = '{schema}'::regnamespace AND proname IN (
                'refresh_checked', 'refresh_gen', 'refresh_locked', 'refresh_now', 'refresh_save', 'refresh_sweep',
                'refresh_wake',
                'refresh_abandon_{refresh_version}', 'refresh_begin_{refresh_version}',
                'refresh_finish_{refresh_version}', 'refresh_invalidate_{refresh_version}',
                'refresh_look_{refresh_version}', 'refresh_prolong_{refresh_version}',
                'refresh_survey_{refresh_version}', 'refresh_tally_{refresh_version}',
                'refresh_tidy_{refresh_version}') LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.name);
        IF f.verb THEN
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = {schema}, pg_temp '
                'SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off '
                'SET enable_hashjoin = off SET enable_mergejoin = off '
                'SET plan_cache_mode = force_generic_plan SET jit = off', f.name);
        END IF;
    END LOOP;
END $$;

INSERT INTO {schema}.version (version) VALUES ({version_with_guards}), ({whole}) ON CONFLICT DO NOTHING;
