-- What would interfere with every definition that follows: dropped, or put to sleep where it belongs to
-- an extension.
SELECT pg_catalog.format(
  CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_depend d
                    WHERE d.classid = 'pg_catalog.pg_event_trigger'::regclass AND d.objid = e.oid AND d.deptype = 'e')
       THEN 'ALTER EVENT TRIGGER %I DISABLE' ELSE 'DROP EVENT TRIGGER %I CASCADE' END, evtname)
FROM pg_catalog.pg_event_trigger e \gexec
