"""The tables, as numbered steps that are never edited once released: a change is a further step at the end.

`events` is the truth and only grows; every other table is the state that follows from it, for who starts or asks,
but for `meta`, `commands`, `call_use`, `web_tokens`, `notifications`, `notification_cursors` and a few `counters`.
"""

from __future__ import annotations

from .backfill_usage import BACKFILL_USAGE

# Written into the file's header, so that another program's database is never taken for ours.
APPLICATION_ID = 0x536F7274

_FIRST = """
CREATE TABLE schema_migrations (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL
) STRICT;

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
INSERT INTO meta VALUES ('store_id', lower(hex(randomblob(16))));

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    issue_id TEXT,
    run_id TEXT,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX events_of_issue ON events (issue_id, seq) WHERE issue_id IS NOT NULL;
CREATE INDEX events_of_run ON events (run_id, seq) WHERE run_id IS NOT NULL;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_are_never_removed BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- What the tracker showed last, and why the issue did not start.
CREATE TABLE issues (
    issue_id TEXT PRIMARY KEY,
    identifier TEXT NOT NULL,
    data TEXT NOT NULL,
    skip_rule TEXT NOT NULL DEFAULT '',
    skip_detail TEXT NOT NULL DEFAULT ''
) STRICT;

-- Open runs. The key is the promise that an issue has at most one.
CREATE TABLE claims (
    issue_id TEXT PRIMARY KEY CHECK (issue_id <> ''),
    run_id TEXT NOT NULL UNIQUE CHECK (run_id <> ''),
    identifier TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    cause TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    workspace TEXT NOT NULL DEFAULT '',
    claimed_at REAL NOT NULL,
    pid INTEGER,
    start_ticks INTEGER,
    boot_id TEXT,
    turn INTEGER NOT NULL DEFAULT 0,
    turn_done INTEGER NOT NULL DEFAULT 0 CHECK (turn_done IN (0, 1)),
    stop_cause TEXT NOT NULL DEFAULT '',
    stop_detail TEXT NOT NULL DEFAULT '',
    ending TEXT
) STRICT;

-- Finished runs; agents read it through the history tool, people through `sortie history`.
CREATE TABLE run_history (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL UNIQUE,
    issue_id TEXT NOT NULL,
    identifier TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    agent_adapter TEXT NOT NULL,
    workspace TEXT NOT NULL,
    started_at TEXT NOT NULL,
    completed_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('succeeded', 'failed', 'timed_out', 'stalled', 'cancelled')),
    error TEXT,
    turns INTEGER NOT NULL,
    soft_stop TEXT NOT NULL,
    reason TEXT NOT NULL,
    session_id TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    total_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL
) STRICT;
CREATE INDEX run_history_of_issue ON run_history (issue_id, id);
CREATE INDEX run_history_of_identifier ON run_history (identifier, id);

CREATE TABLE retries (
    issue_id TEXT PRIMARY KEY,
    identifier TEXT NOT NULL,
    kind TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    due_at REAL NOT NULL,
    error TEXT NOT NULL,
    session_id TEXT NOT NULL
) STRICT;

CREATE TABLE parked (
    issue_id TEXT PRIMARY KEY,
    identifier TEXT NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    since REAL NOT NULL
) STRICT;

CREATE TABLE budget (
    scope TEXT NOT NULL CHECK (scope IN ('issue', 'day')),
    key TEXT NOT NULL,
    sessions INTEGER NOT NULL CHECK (sessions >= 0),
    turns INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    usd REAL NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT;

CREATE TABLE pauses (
    provider TEXT PRIMARY KEY,
    until REAL NOT NULL,
    detail TEXT NOT NULL
) STRICT;

-- Tracker writes that are planned and not known to have happened.
CREATE TABLE effects (
    effect_id TEXT PRIMARY KEY,
    issue_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    verb TEXT NOT NULL,
    argument TEXT NOT NULL,
    planned_at REAL NOT NULL
) STRICT;

CREATE TABLE workspaces (
    key TEXT PRIMARY KEY,
    issue_id TEXT NOT NULL,
    identifier TEXT NOT NULL,
    path TEXT NOT NULL,
    created_at REAL NOT NULL
) STRICT;

-- What people asked for from other processes; the orchestrator answers in the same row.
CREATE TABLE commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    verb TEXT NOT NULL,
    issue TEXT NOT NULL,
    done_at REAL,
    outcome TEXT NOT NULL DEFAULT '',
    ok INTEGER CHECK (ok IN (0, 1))
) STRICT;
CREATE INDEX commands_waiting ON commands (id) WHERE done_at IS NULL;
"""

_TOOL_CALLS = """
-- sortie_tool_calls_total, by tool and result.
CREATE TABLE tool_calls (
    tool TEXT NOT NULL,
    result TEXT NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (tool, result)
) STRICT;
"""

_FAULTS_OF_AGENTS = """
ALTER TABLE pauses ADD COLUMN error_kind TEXT NOT NULL DEFAULT 'rate_limited';
ALTER TABLE pauses ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pauses ADD COLUMN issue_id TEXT NOT NULL DEFAULT '';
"""

_ACTED_ON = """
-- An issue that only agents of other issues have touched is in no table but this one.
CREATE INDEX events_of_acted_on ON events (json_extract(data, '$.identifier')) WHERE kind = 'acted';
"""

_LOOKING_UP = """
-- What a person types is looked for by its identifier.
CREATE INDEX issues_by_identifier ON issues (identifier);
CREATE INDEX claims_by_identifier ON claims (identifier);
CREATE INDEX retries_by_identifier ON retries (identifier);
CREATE INDEX parked_by_identifier ON parked (identifier);

-- All finished runs together, so that `sortie status` need not read every one of them.
CREATE TABLE run_totals (
    status TEXT PRIMARY KEY,
    runs INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    seconds REAL NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    total_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL
) STRICT;
INSERT INTO run_totals
SELECT status, count(*), sum(turns), total((julianday(completed_at) - julianday(started_at)) * 86400.0),
       sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(total_tokens), sum(cost_usd)
FROM run_history GROUP BY status;
"""

_HOSTS = """
ALTER TABLE claims ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN provider TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN inode INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN asked_in TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN signal TEXT NOT NULL DEFAULT '.sortie/status';
ALTER TABLE retries ADD COLUMN by_hand INTEGER NOT NULL DEFAULT 0;
ALTER TABLE parked ADD COLUMN state TEXT NOT NULL DEFAULT '';
ALTER TABLE workspaces ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE workspaces ADD COLUMN inode INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workspaces ADD COLUMN used INTEGER NOT NULL DEFAULT 0;

-- The rules in force are the last ones, and there are few.
CREATE INDEX events_policies ON events (kind, seq) WHERE kind = 'policy';

-- What had to be looked up in the log before.
UPDATE workspaces SET inode = coalesce(
    (SELECT json_extract(data, '$.inode') FROM events
     WHERE events.issue_id = workspaces.issue_id AND kind = 'workspace' AND json_valid(data)
       AND json_extract(data, '$.key') = workspaces.key
     ORDER BY seq DESC LIMIT 1), 0);
UPDATE workspaces SET used = EXISTS
    (SELECT 1 FROM events AS made JOIN events AS turn ON turn.run_id = made.run_id AND turn.kind = 'turn'
     WHERE made.issue_id = workspaces.issue_id AND made.kind = 'workspace' AND json_valid(made.data)
       AND json_extract(made.data, '$.key') = workspaces.key
       AND coalesce(json_extract(made.data, '$.inode'), 0) = workspaces.inode);
UPDATE claims SET inode = coalesce(
    (SELECT json_extract(data, '$.inode') FROM events
     WHERE events.run_id = claims.run_id AND kind = 'workspace' AND json_valid(data)
     ORDER BY seq DESC LIMIT 1), 0);
"""

_CALL_USE = """
-- What the server of the tracker allows, as it was when somebody last asked it; one row.
CREATE TABLE call_use (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    as_of REAL NOT NULL,
    made INTEGER NOT NULL,
    per_minute INTEGER NOT NULL,
    allowed INTEGER,
    remaining INTEGER,
    resets_at REAL,
    held_until REAL
) STRICT;
"""

_SEEN_AND_STEERED = """
-- What a person says with a command: the text of an answer.
ALTER TABLE commands ADD COLUMN text TEXT NOT NULL DEFAULT '';

-- What people answered, until a turn has completed in which the agent was told of it.
CREATE TABLE answers (
    answer_id TEXT PRIMARY KEY,
    issue_id TEXT NOT NULL,
    text TEXT NOT NULL,
    answered_at REAL NOT NULL,
    number INTEGER NOT NULL,
    told_in TEXT NOT NULL,
    told_turn INTEGER NOT NULL
) STRICT;
CREATE INDEX answers_of_issue ON answers (issue_id, number);

-- When a fault of an agent began, however many runs met it since.
ALTER TABLE pauses ADD COLUMN since REAL NOT NULL DEFAULT 0;
UPDATE pauses SET since = coalesce(
    (SELECT at FROM events
     WHERE kind = 'pause' AND json_valid(data) AND json_extract(data, '$.provider') = pauses.provider AND seq > (
         SELECT coalesce(max(seq), 0) FROM events
         WHERE kind IN ('pause', 'unpause') AND json_valid(data)
           AND json_extract(data, '$.provider') = pauses.provider
           AND (kind = 'unpause' OR coalesce(json_extract(data, '$.error_kind'), 'rate_limited') = 'rate_limited'))
     ORDER BY seq LIMIT 1), 0)
WHERE error_kind <> 'rate_limited';

ALTER TABLE run_history ADD COLUMN model TEXT NOT NULL DEFAULT '';
-- Whether it told what it used; of earlier runs only those that completed a turn are known to have used anything.
ALTER TABLE run_history ADD COLUMN measured INTEGER NOT NULL DEFAULT 1;
UPDATE run_history SET measured = 0
WHERE turns > 0 AND max(input_tokens, output_tokens, cache_read_tokens, cost_usd) = 0;
-- Found without reading all: who opened the store last, and what an issue was called.
CREATE INDEX events_opened ON events (kind, seq) WHERE kind = 'opened';
CREATE INDEX events_seen ON events (issue_id, seq) WHERE kind = 'seen';

-- What was used, by the day that pays. A run counts on the day of its end; `unmeasured` are those of them that told
-- nothing of what they used.
CREATE TABLE usage (
    day TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    issue_id TEXT NOT NULL,
    identifier TEXT NOT NULL,
    runs INTEGER NOT NULL DEFAULT 0,
    unmeasured INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (day, agent, model, issue_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_of_issue ON usage (issue_id, day);

-- Counters and histograms, whose buckets hold what is in none before them; `labels` is JSON with sorted keys.
CREATE TABLE counters (
    name TEXT NOT NULL,
    labels TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (name, labels)
) STRICT, WITHOUT ROWID;

-- Who may do what over HTTP; of a token only its digest is kept.
CREATE TABLE web_tokens (
    digest TEXT PRIMARY KEY,
    scope TEXT NOT NULL CHECK (scope IN ('read', 'operate', 'metrics')),
    created_at REAL NOT NULL
) STRICT;

-- What people are told when something needs them: once for each event and channel. What is neither sent nor dropped
-- waits; `dropped` says why it is not sent any more.
CREATE TABLE notifications (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    seq INTEGER NOT NULL,
    issue_id TEXT NOT NULL,
    identifier TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    at REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    next_try_at REAL NOT NULL DEFAULT 0,
    sent_at REAL,
    dropped TEXT NOT NULL DEFAULT '' CHECK (dropped IN ('', 'settled', 'given up')),
    error TEXT NOT NULL DEFAULT '',
    UNIQUE (channel, seq)
) STRICT;
CREATE INDEX notifications_waiting ON notifications (channel, seq) WHERE sent_at IS NULL AND dropped = '';
CREATE TABLE notification_cursors (
    channel TEXT PRIMARY KEY,
    seq INTEGER NOT NULL
) STRICT;
"""

MIGRATIONS: tuple[str, ...] = (
    *(_FIRST, _TOOL_CALLS, _FAULTS_OF_AGENTS, _ACTED_ON, _LOOKING_UP, _HOSTS, _CALL_USE),
    _SEEN_AND_STEERED + BACKFILL_USAGE,
)
