"""Fills the tables of counters and usage from the runs in a store of an earlier version, which did not have them.

Part of the migration that creates these tables, so it is not edited once released. A run's tokens count for the day
of its end; those of a running one are in the event log, with their day.
"""

from __future__ import annotations

BACKFILL_USAGE = """
INSERT INTO usage
SELECT substr(completed_at, 1, 10), agent_adapter, '', issue_id, max(identifier), count(*),
       sum(NOT measured),
       sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), total(cost_usd)
FROM run_history GROUP BY 1, 2, 4;

INSERT INTO usage
SELECT coalesce(json_extract(data, '$.day'), date(at, 'unixepoch')), agent, '', claims.issue_id, identifier, 0, 0,
       CAST(total(json_extract(data, '$.usage.input')) AS INTEGER),
       CAST(total(json_extract(data, '$.usage.output')) AS INTEGER),
       CAST(total(json_extract(data, '$.usage.cache_read')) AS INTEGER),
       total(json_extract(data, '$.usage.cost_usd'))
FROM claims JOIN events ON events.run_id = claims.run_id
WHERE kind = 'charge' AND json_valid(data) AND ending IS NULL GROUP BY 1, 2, 4
ON CONFLICT (day, agent, model, issue_id) DO UPDATE SET
    input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
    cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens, cost_usd = cost_usd + excluded.cost_usd;

INSERT INTO counters SELECT 'tokens', '{"type":"input"}', total(input_tokens) FROM usage;
INSERT INTO counters SELECT 'tokens', '{"type":"output"}', total(output_tokens) FROM usage;
INSERT INTO counters SELECT 'tokens', '{"type":"cache_read"}', total(cache_read_tokens) FROM usage;
INSERT INTO counters SELECT 'cost_usd', '{}', total(cost_usd) FROM usage;

CREATE TEMP TABLE earlier_runs AS
SELECT CASE status WHEN 'succeeded' THEN iif(soft_stop = '', 'normal', 'soft_stop')
                   WHEN 'cancelled' THEN 'cancelled' ELSE 'error' END AS exit_type,
       turns > 0 OR status = 'succeeded' AS began,
       max(strftime('%s', completed_at) - strftime('%s', started_at), 0.0) AS seconds
FROM run_history;
INSERT INTO counters
SELECT 'worker_exits', json_object('exit_type', exit_type), count(*) FROM earlier_runs GROUP BY exit_type;
INSERT INTO counters
SELECT 'dispatches', json_object('outcome', iif(began, 'success', exit_type)), count(*)
FROM earlier_runs GROUP BY 2;
INSERT INTO counters SELECT 'agent_runtime_seconds', '{}', total(seconds) FROM earlier_runs;
INSERT INTO counters
SELECT 'worker_duration_seconds_sum', json_object('exit_type', exit_type), total(seconds)
FROM earlier_runs GROUP BY exit_type;
WITH RECURSIVE bounds(bound) AS (SELECT 10 UNION ALL SELECT bound * 2 FROM bounds WHERE bound < 20480)
INSERT INTO counters
SELECT 'worker_duration_seconds_bucket', json_object('exit_type', exit_type, 'le', coalesce(
           (SELECT min(bound) || '.0' FROM bounds WHERE bound >= seconds), '+Inf')), count(*)
FROM earlier_runs GROUP BY 2;
DROP TABLE earlier_runs;
"""
