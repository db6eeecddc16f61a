-- The rights on the functions of queues, as for the verbs of locks. Listing, reviving and purging
-- read jobs in order of acceptance; only counting reads whole tables.
REVOKE ALL ON {schema}.standing FROM PUBLIC;

DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT oid::regprocedure AS name,
                proname IN ('queue_extend_{queue_version}', 'queue_give_back_{queue_version}',
                    'queue_jobs_{queue_version}', 'queue_purge_{queue_version}',
                    'queue_put_{queue_version}', 'queue_revive_{queue_version}',
                    'queue_settle_{queue_version}', 'queue_survey_{queue_version}',
                    'queue_take_{queue_version}') AS verb,
                proname = 'queue_survey_{queue_version}' AS counts,
                proname IN ('queue_jobs_{queue_version}', 'queue_purge_{queue_version}',
                    'queue_revive_{queue_version}') AS looks
            FROM pg_proc
            WHERE pronamespace = '{schema}'::regnamespace AND proname IN (
                'queue_allowed', 'queue_alone', 'queue_begin', 'queue_bell', 'queue_count',
                'queue_again', 'queue_healed', 'queue_mend', 'queue_stalled',
                'queue_ended', 'queue_forget', 'queue_group', 'queue_lent', 'queue_line_up',
                'queue_reap', 'queue_ring', 'queue_save', 'queue_soonest', 'queue_tidy',
                'queue_extend_{queue_version}', 'queue_give_back_{queue_version}',
                'queue_jobs_{queue_version}', 'queue_purge_{queue_version}',
                'queue_put_{queue_version}', 'queue_revive_{queue_version}',
                'queue_settle_{queue_version}', 'queue_survey_{queue_version}',
                'queue_take_{queue_version}') LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.name);
        IF f.verb THEN
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = {schema}, pg_temp '
                'SET jit = off', f.name);
        END IF;
        IF f.verb AND NOT f.counts THEN
            EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off '
                'SET enable_bitmapscan = off SET enable_sort = off SET enable_mergejoin = off',
                f.name);
        END IF;
        IF f.verb AND NOT f.counts AND NOT f.looks THEN
            EXECUTE format('ALTER FUNCTION %s SET enable_hashjoin = off '
                'SET plan_cache_mode = force_generic_plan', f.name);
        END IF;
    END LOOP;
END $$;

INSERT INTO {schema}.version (version) VALUES ({version_with_queues}) ON CONFLICT DO NOTHING;
