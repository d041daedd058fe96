"""The join of `stillopen logs` in SQL: requests of both logs, answers received, answers sent and never received."""

import json
import sys

import duckdb

COLUMNS = "columns = {ts: 'TIMESTAMP', event: 'VARCHAR', id: 'VARCHAR', attempt: 'INTEGER'}"
QUERY = f"""
WITH client AS (
    SELECT id, attempt,
        min(ts) FILTER (WHERE event = 'sent') AS asked,
        min(ts) FILTER (WHERE event = 'received') AS answered
    FROM read_json(?, format = 'newline_delimited', {COLUMNS}) GROUP BY ALL
), server AS (
    SELECT id, attempt,
        min(ts) FILTER (WHERE event = 'received') AS received,
        min(ts) FILTER (WHERE event = 'sent') AS sent
    FROM read_json(?, format = 'newline_delimited', {COLUMNS}) GROUP BY ALL
)
SELECT count(*), count(answered), count(*) FILTER (WHERE sent IS NOT NULL AND answered IS NULL),
    max(sent - asked) FILTER (WHERE answered IS NOT NULL),
    min(sent - asked) FILTER (WHERE answered IS NULL),
    min(received - asked), max(sent - answered)
FROM client JOIN server USING (id, attempt)
"""

matched, received, lost, *_ = duckdb.execute(QUERY, sys.argv[1:3]).fetchone()
print(json.dumps({"matched": matched, "received": received, "lost": lost}))
