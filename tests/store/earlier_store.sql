PRAGMA application_id = 1399812724;
BEGIN TRANSACTION;
CREATE TABLE budget (
    scope TEXT NOT NULL CHECK (scope IN ('issue', 'day')),
    key TEXT NOT NULL,
    sessions INTEGER NOT NULL CHECK (sessions >= 0),
    turns INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    usd REAL NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT;
INSERT INTO "budget" VALUES('issue','1',1,2,120,0.25);
INSERT INTO "budget" VALUES('day','2026-03-30',7,7,120,0.25);
INSERT INTO "budget" VALUES('issue','2',1,1,0,0.0);
INSERT INTO "budget" VALUES('issue','3',1,1,0,0.0);
INSERT INTO "budget" VALUES('issue','4',1,1,0,0.0);
INSERT INTO "budget" VALUES('issue','5',1,1,0,0.0);
INSERT INTO "budget" VALUES('issue','6',1,0,0,0.0);
INSERT INTO "budget" VALUES('issue','7',1,1,0,0.0);
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
INSERT INTO "claims" VALUES('1','r1','DEMO-1',1,0,'new','codex','s1','/w/DEMO-1',1774880400.25,4711,99,'b',2,0,'','',NULL);
INSERT INTO "claims" VALUES('4','r4','DEMO-4',1,0,'new','codex','','/w/DEMO-4',1774880400.25,4712,99,'b',1,1,'shutdown','asked','{"kind":"end","at":1774880460.25,"issue_id":"4","run_id":"r4","status":"succeeded","turns":1,"session_id":"s4","usage":{"input":1,"output":2,"cache_read":0,"cost_usd":0.0},"handoff_planned":true}');
CREATE TABLE commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    verb TEXT NOT NULL,
    issue TEXT NOT NULL,
    done_at REAL,
    outcome TEXT NOT NULL DEFAULT '',
    ok INTEGER CHECK (ok IN (0, 1))
) STRICT;
INSERT INTO "commands" VALUES(1,1774880400.25,'stop','DEMO-1',NULL,'',NULL);
CREATE TABLE effects (
    effect_id TEXT PRIMARY KEY,
    issue_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    verb TEXT NOT NULL,
    argument TEXT NOT NULL,
    planned_at REAL NOT NULL
) STRICT;
INSERT INTO "effects" VALUES('r4.handoff','4','r4','transition','review',1774880460.25);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    issue_id TEXT,
    run_id TEXT,
    data TEXT NOT NULL
) STRICT;
INSERT INTO "events" VALUES(1,1774880400.25,'opened',NULL,NULL,'{"kind":"opened","at":1774880400.25,"pid":1,"version":"0.1.0","workflow":"WORKFLOW.md"}');
INSERT INTO "events" VALUES(2,1774880400.25,'policy',NULL,NULL,'{"kind":"policy","at":1774880400.25,"policy":{"active_states":["todo"],"terminal_states":["done"],"handoff_state":"","provider":"codex","max_concurrent":10,"max_concurrent_by_state":{},"max_turns":20,"turn_timeout":3600.0,"stall_timeout":300.0,"backoff_cap":300.0,"per_issue":{"sessions":null,"turns":null,"tokens":null,"usd":null},"per_day":{"sessions":null,"turns":null,"tokens":null,"usd":null}}}');
INSERT INTO "events" VALUES(3,1774880400.25,'seen','1',NULL,'{"kind":"seen","at":1774880400.25,"issue_id":"1","view":{"id":"1","identifier":"DEMO-1","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}}');
INSERT INTO "events" VALUES(4,1774880400.25,'seen','2',NULL,'{"kind":"seen","at":1774880400.25,"issue_id":"2","view":{"id":"2","identifier":"DEMO-2","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}}');
INSERT INTO "events" VALUES(5,1774880400.25,'seen','3',NULL,'{"kind":"seen","at":1774880400.25,"issue_id":"3","view":{"id":"3","identifier":"DEMO-3","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}}');
INSERT INTO "events" VALUES(6,1774880400.25,'seen','4',NULL,'{"kind":"seen","at":1774880400.25,"issue_id":"4","view":{"id":"4","identifier":"DEMO-4","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}}');
INSERT INTO "events" VALUES(7,1774880400.25,'seen','5',NULL,'{"kind":"seen","at":1774880400.25,"issue_id":"5","view":{"id":"5","identifier":"DEMO-5","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}}');
INSERT INTO "events" VALUES(8,1774880400.25,'seen','6',NULL,'{"kind":"seen","at":1774880400.25,"issue_id":"6","view":{"id":"6","identifier":"DEMO-6","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}}');
INSERT INTO "events" VALUES(9,1774880400.25,'seen','7',NULL,'{"kind":"seen","at":1774880400.25,"issue_id":"7","view":{"id":"7","identifier":"DEMO-7","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}}');
INSERT INTO "events" VALUES(10,1774880400.25,'seen','8',NULL,'{"kind":"seen","at":1774880400.25,"issue_id":"8","view":{"id":"8","identifier":"DEMO-8","title":"Mend it","state":"todo","priority":2,"created_at":"","blocked_by":["DEMO-1"],"fingerprint":""}}');
INSERT INTO "events" VALUES(11,1774880400.25,'tick',NULL,NULL,'{"kind":"tick","at":1774880400.25,"candidates_known":true,"now":1774880400.25,"actions":[{"do":"start","issue_id":"1","identifier":"DEMO-1","attempt":1},{"do":"skip","issue_id":"8","identifier":"DEMO-8","rule":"blocked-by","detail":"DEMO-1"}]}');
INSERT INTO "events" VALUES(12,1774880400.25,'claim','1','r1','{"kind":"claim","at":1774880400.25,"issue_id":"1","run_id":"r1","identifier":"DEMO-1","attempt":1,"agent":"codex","day":"2026-03-30"}');
INSERT INTO "events" VALUES(13,1774880400.25,'skip','8',NULL,'{"kind":"skip","at":1774880400.25,"issue_id":"8","identifier":"DEMO-8","rule":"blocked-by","detail":"DEMO-1"}');
INSERT INTO "events" VALUES(14,1774880400.25,'workspace','1','r1','{"kind":"workspace","at":1774880400.25,"issue_id":"1","run_id":"r1","identifier":"DEMO-1","key":"DEMO-1","path":"/w/DEMO-1","inode":11}');
INSERT INTO "events" VALUES(15,1774880400.25,'process','1','r1','{"kind":"process","at":1774880400.25,"issue_id":"1","run_id":"r1","pid":4711,"start_ticks":99,"boot_id":"b"}');
INSERT INTO "events" VALUES(16,1774880400.25,'session','1','r1','{"kind":"session","at":1774880400.25,"issue_id":"1","run_id":"r1","session_id":"s1"}');
INSERT INTO "events" VALUES(17,1774880401.25,'turn','1','r1','{"kind":"turn","at":1774880401.25,"issue_id":"1","run_id":"r1","turn":1,"day":"2026-03-30"}');
INSERT INTO "events" VALUES(18,1774880402.25,'turn_end','1','r1','{"kind":"turn_end","at":1774880402.25,"issue_id":"1","run_id":"r1","turn":1}');
INSERT INTO "events" VALUES(19,1774880402.25,'turn','1','r1','{"kind":"turn","at":1774880402.25,"issue_id":"1","run_id":"r1","turn":2,"day":"2026-03-30"}');
INSERT INTO "events" VALUES(20,1774880404.25,'charge','1','r1','{"kind":"charge","at":1774880404.25,"issue_id":"1","run_id":"r1","usage":{"input":100,"output":20,"cache_read":7,"cost_usd":0.25},"day":"2026-03-30"}');
INSERT INTO "events" VALUES(21,1774880400.25,'claim','2','r2','{"kind":"claim","at":1774880400.25,"issue_id":"2","run_id":"r2","identifier":"DEMO-2","attempt":1,"agent":"codex","day":"2026-03-30"}');
INSERT INTO "events" VALUES(22,1774880400.25,'workspace','2','r2','{"kind":"workspace","at":1774880400.25,"issue_id":"2","run_id":"r2","identifier":"DEMO-2","key":"DEMO-2","path":"/w/DEMO-2","inode":21}');
INSERT INTO "events" VALUES(23,1774880401.25,'turn','2','r2','{"kind":"turn","at":1774880401.25,"issue_id":"2","run_id":"r2","turn":1,"day":"2026-03-30"}');
INSERT INTO "events" VALUES(24,1774880460.25,'end','2','r2','{"kind":"end","at":1774880460.25,"issue_id":"2","run_id":"r2","status":"failed","turns":1,"error":"exit 1"}');
INSERT INTO "events" VALUES(25,1774880461.25,'settle','2','r2','{"kind":"settle","at":1774880461.25,"issue_id":"2","run_id":"r2","identifier":"DEMO-2","why":"w","retry":{"kind":"error","attempt":2,"due_at":1774880480.25,"failures":1,"error":"exit 1","session_id":"s2"}}');
INSERT INTO "events" VALUES(26,1774880400.25,'claim','2','r2b','{"kind":"claim","at":1774880400.25,"issue_id":"2","run_id":"r2b","identifier":"DEMO-2","attempt":2,"agent":"codex","day":"2026-03-30"}');
INSERT INTO "events" VALUES(27,1774880400.25,'workspace','2','r2b','{"kind":"workspace","at":1774880400.25,"issue_id":"2","run_id":"r2b","identifier":"DEMO-2","key":"DEMO-2","path":"/w/DEMO-2","inode":22}');
INSERT INTO "events" VALUES(28,1774880460.25,'end','2','r2b','{"kind":"end","at":1774880460.25,"issue_id":"2","run_id":"r2b","status":"failed","turns":1,"error":"exit 1"}');
INSERT INTO "events" VALUES(29,1774880461.25,'settle','2','r2b','{"kind":"settle","at":1774880461.25,"issue_id":"2","run_id":"r2b","identifier":"DEMO-2","why":"w","retry":{"kind":"error","attempt":2,"due_at":1774880480.25,"failures":1,"error":"exit 1","session_id":"s2"},"refund":"2026-03-30"}');
INSERT INTO "events" VALUES(30,1774880400.25,'claim','3','r3','{"kind":"claim","at":1774880400.25,"issue_id":"3","run_id":"r3","identifier":"DEMO-3","attempt":1,"agent":"codex","day":"2026-03-30"}');
INSERT INTO "events" VALUES(31,1774880400.25,'workspace','3','r3','{"kind":"workspace","at":1774880400.25,"issue_id":"3","run_id":"r3","identifier":"DEMO-3","key":"DEMO-3","path":"/w/DEMO-3","inode":31}');
INSERT INTO "events" VALUES(32,1774880401.25,'turn','3','r3','{"kind":"turn","at":1774880401.25,"issue_id":"3","run_id":"r3","turn":1,"day":"2026-03-30"}');
INSERT INTO "events" VALUES(33,1774880402.25,'turn_end','3','r3','{"kind":"turn_end","at":1774880402.25,"issue_id":"3","run_id":"r3","turn":1}');
INSERT INTO "events" VALUES(34,1774880460.25,'end','3','r3','{"kind":"end","at":1774880460.25,"issue_id":"3","run_id":"r3","status":"succeeded","turns":1,"soft_stop":"blocked","reason":"needs a key"}');
INSERT INTO "events" VALUES(35,1774880461.25,'settle','3','r3','{"kind":"settle","at":1774880461.25,"issue_id":"3","run_id":"r3","identifier":"DEMO-3","why":"w","park":{"kind":"signal","reason":"needs a key","fingerprint":"f00d","attempt":1,"session_id":"s3"}}');
INSERT INTO "events" VALUES(36,1774880400.25,'claim','4','r4','{"kind":"claim","at":1774880400.25,"issue_id":"4","run_id":"r4","identifier":"DEMO-4","attempt":1,"agent":"codex","day":"2026-03-30"}');
INSERT INTO "events" VALUES(37,1774880400.25,'workspace','4','r4','{"kind":"workspace","at":1774880400.25,"issue_id":"4","run_id":"r4","identifier":"DEMO-4","key":"DEMO-4","path":"/w/DEMO-4","inode":41}');
INSERT INTO "events" VALUES(38,1774880400.25,'process','4','r4','{"kind":"process","at":1774880400.25,"issue_id":"4","run_id":"r4","pid":4712,"start_ticks":99,"boot_id":"b"}');
INSERT INTO "events" VALUES(39,1774880401.25,'turn','4','r4','{"kind":"turn","at":1774880401.25,"issue_id":"4","run_id":"r4","turn":1,"day":"2026-03-30"}');
INSERT INTO "events" VALUES(40,1774880402.25,'turn_end','4','r4','{"kind":"turn_end","at":1774880402.25,"issue_id":"4","run_id":"r4","turn":1}');
INSERT INTO "events" VALUES(41,1774880409.25,'stop','4','r4','{"kind":"stop","at":1774880409.25,"issue_id":"4","run_id":"r4","cause":"shutdown","detail":"asked"}');
INSERT INTO "events" VALUES(42,1774880460.25,'end','4','r4','{"kind":"end","at":1774880460.25,"issue_id":"4","run_id":"r4","status":"succeeded","turns":1,"session_id":"s4","usage":{"input":1,"output":2,"cache_read":0,"cost_usd":0.0},"handoff_planned":true}');
INSERT INTO "events" VALUES(43,1774880460.25,'effect','4','r4','{"kind":"effect","at":1774880460.25,"issue_id":"4","run_id":"r4","effect_id":"r4.handoff","verb":"transition","argument":"review"}');
INSERT INTO "events" VALUES(44,1774880400.25,'claim','5','r5','{"kind":"claim","at":1774880400.25,"issue_id":"5","run_id":"r5","identifier":"DEMO-5","attempt":1,"agent":"codex","day":"2026-03-30"}');
INSERT INTO "events" VALUES(45,1774880400.25,'workspace','5','r5','{"kind":"workspace","at":1774880400.25,"issue_id":"5","run_id":"r5","identifier":"DEMO-5","key":"DEMO-5","path":"/w/DEMO-5"}');
INSERT INTO "events" VALUES(46,1774880401.25,'turn','5','r5','{"kind":"turn","at":1774880401.25,"issue_id":"5","run_id":"r5","turn":1,"day":"2026-03-30"}');
INSERT INTO "events" VALUES(47,1774880460.25,'end','5','r5','{"kind":"end","at":1774880460.25,"issue_id":"5","run_id":"r5","status":"succeeded","turns":1}');
INSERT INTO "events" VALUES(48,1774880461.25,'settle','5','r5','{"kind":"settle","at":1774880461.25,"issue_id":"5","run_id":"r5","identifier":"DEMO-5","why":"w"}');
INSERT INTO "events" VALUES(49,1774880400.25,'claim','6','r6','{"kind":"claim","at":1774880400.25,"issue_id":"6","run_id":"r6","identifier":"DEMO-6","attempt":1,"agent":"codex","day":"2026-03-30"}');
INSERT INTO "events" VALUES(50,1774880400.25,'workspace','6','r6','{"kind":"workspace","at":1774880400.25,"issue_id":"6","run_id":"r6","identifier":"DEMO-6","key":"DEMO-6","path":"/w/DEMO-6","inode":61}');
INSERT INTO "events" VALUES(51,1774880460.25,'end','6','r6','{"kind":"end","at":1774880460.25,"issue_id":"6","run_id":"r6","status":"failed","turns":1,"error":"Log in.","error_kind":"agent_auth"}');
INSERT INTO "events" VALUES(52,1774880460.25,'pause','6','r6','{"kind":"pause","at":1774880460.25,"issue_id":"6","run_id":"r6","provider":"codex","until":1774880470.25,"detail":"Log in.","error_kind":"agent_auth","tries":1}');
INSERT INTO "events" VALUES(53,1774880461.25,'settle','6','r6','{"kind":"settle","at":1774880461.25,"issue_id":"6","run_id":"r6","identifier":"DEMO-6","why":"w"}');
INSERT INTO "events" VALUES(54,1774880400.25,'pause',NULL,NULL,'{"kind":"pause","at":1774880400.25,"provider":"claude-code","until":1774881000.25,"detail":"usage limit"}');
INSERT INTO "events" VALUES(55,1774880400.25,'claim','7','r7','{"kind":"claim","at":1774880400.25,"issue_id":"7","run_id":"r7","identifier":"DEMO-7","attempt":1,"agent":"codex","day":"2026-03-30"}');
INSERT INTO "events" VALUES(56,1774880400.25,'workspace','7','r7','{"kind":"workspace","at":1774880400.25,"issue_id":"7","run_id":"r7","identifier":"DEMO-7","key":"DEMO-7","path":"/w/DEMO-7","inode":71}');
INSERT INTO "events" VALUES(57,1774880401.25,'turn','7','r7','{"kind":"turn","at":1774880401.25,"issue_id":"7","run_id":"r7","turn":1,"day":"2026-03-30"}');
INSERT INTO "events" VALUES(58,1774880460.25,'end','7','r7','{"kind":"end","at":1774880460.25,"issue_id":"7","run_id":"r7","status":"succeeded","turns":1}');
INSERT INTO "events" VALUES(59,1774880461.25,'settle','7','r7','{"kind":"settle","at":1774880461.25,"issue_id":"7","run_id":"r7","identifier":"DEMO-7","why":"w"}');
INSERT INTO "events" VALUES(60,1774880470.25,'workspace_gone','7',NULL,'{"kind":"workspace_gone","at":1774880470.25,"issue_id":"7","key":"DEMO-7"}');
INSERT INTO "events" VALUES(61,1774880400.25,'tool','1','r1','{"kind":"tool","at":1774880400.25,"issue_id":"1","run_id":"r1","tool":"tracker_api","result":"success","ms":2.0}');
INSERT INTO "events" VALUES(62,1774880400.25,'unpark','9',NULL,'{"kind":"unpark","at":1774880400.25,"issue_id":"9","identifier":"DEMO-9","why":"by hand","retry":{"kind":"unparked","attempt":2,"due_at":1774880400.25,"failures":0,"error":"","session_id":""}}');
CREATE TABLE issues (
    issue_id TEXT PRIMARY KEY,
    identifier TEXT NOT NULL,
    data TEXT NOT NULL,
    skip_rule TEXT NOT NULL DEFAULT '',
    skip_detail TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO "issues" VALUES('1','DEMO-1','{"id":"1","identifier":"DEMO-1","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}','','');
INSERT INTO "issues" VALUES('2','DEMO-2','{"id":"2","identifier":"DEMO-2","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}','','');
INSERT INTO "issues" VALUES('3','DEMO-3','{"id":"3","identifier":"DEMO-3","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}','','');
INSERT INTO "issues" VALUES('4','DEMO-4','{"id":"4","identifier":"DEMO-4","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}','','');
INSERT INTO "issues" VALUES('5','DEMO-5','{"id":"5","identifier":"DEMO-5","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}','','');
INSERT INTO "issues" VALUES('6','DEMO-6','{"id":"6","identifier":"DEMO-6","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}','','');
INSERT INTO "issues" VALUES('7','DEMO-7','{"id":"7","identifier":"DEMO-7","title":"Mend it","state":"todo","priority":null,"created_at":"","blocked_by":[],"fingerprint":""}','','');
INSERT INTO "issues" VALUES('8','DEMO-8','{"id":"8","identifier":"DEMO-8","title":"Mend it","state":"todo","priority":2,"created_at":"","blocked_by":["DEMO-1"],"fingerprint":""}','blocked-by','DEMO-1');
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
INSERT INTO "meta" VALUES('store_id','55555555555555555555555555555555');
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
INSERT INTO "parked" VALUES('3','DEMO-3','signal','needs a key','f00d',1,'s3',1774880461.25);
CREATE TABLE pauses (
    provider TEXT PRIMARY KEY,
    until REAL NOT NULL,
    detail TEXT NOT NULL
, error_kind TEXT NOT NULL DEFAULT 'rate_limited', tries INTEGER NOT NULL DEFAULT 0, issue_id TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO "pauses" VALUES('codex',1774880470.25,'Log in.','agent_auth',1,'6');
INSERT INTO "pauses" VALUES('claude-code',1774881000.25,'usage limit','rate_limited',0,'');
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
INSERT INTO "retries" VALUES('2','DEMO-2','error',2,1,1774880480.25,'exit 1','s2');
INSERT INTO "retries" VALUES('9','DEMO-9','unparked',2,0,1774880400.25,'','');
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
INSERT INTO "run_history" VALUES(1,'r2','2','DEMO-2',1,'codex','/w/DEMO-2','2026-03-30T14:20:00Z','2026-03-30T14:21:00Z','failed','exit 1',1,'','','',0,0,0,0,0.0);
INSERT INTO "run_history" VALUES(2,'r2b','2','DEMO-2',2,'codex','/w/DEMO-2','2026-03-30T14:20:00Z','2026-03-30T14:21:00Z','failed','exit 1',1,'','','',0,0,0,0,0.0);
INSERT INTO "run_history" VALUES(3,'r3','3','DEMO-3',1,'codex','/w/DEMO-3','2026-03-30T14:20:00Z','2026-03-30T14:21:00Z','succeeded',NULL,1,'blocked','needs a key','',0,0,0,0,0.0);
INSERT INTO "run_history" VALUES(4,'r4','4','DEMO-4',1,'codex','/w/DEMO-4','2026-03-30T14:20:00Z','2026-03-30T14:21:00Z','succeeded',NULL,1,'','','s4',1,2,0,3,0.0);
INSERT INTO "run_history" VALUES(5,'r5','5','DEMO-5',1,'codex','/w/DEMO-5','2026-03-30T14:20:00Z','2026-03-30T14:21:00Z','succeeded',NULL,1,'','','',0,0,0,0,0.0);
INSERT INTO "run_history" VALUES(6,'r6','6','DEMO-6',1,'codex','/w/DEMO-6','2026-03-30T14:20:00Z','2026-03-30T14:21:00Z','failed','Log in.',1,'','','',0,0,0,0,0.0);
INSERT INTO "run_history" VALUES(7,'r7','7','DEMO-7',1,'codex','/w/DEMO-7','2026-03-30T14:20:00Z','2026-03-30T14:21:00Z','succeeded',NULL,1,'','','',0,0,0,0,0.0);
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
INSERT INTO "run_totals" VALUES('failed',3,3,1.80000109970569610595e+02,0,0,0,0,0.0);
INSERT INTO "run_totals" VALUES('succeeded',4,4,2.4000014662742614746e+02,1,2,0,3,0.0);
CREATE TABLE schema_migrations (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL
) STRICT;
INSERT INTO "schema_migrations" VALUES(1,'2026-03-30T14:20:00Z');
INSERT INTO "schema_migrations" VALUES(2,'2026-03-30T14:20:00Z');
INSERT INTO "schema_migrations" VALUES(3,'2026-03-30T14:20:00Z');
INSERT INTO "schema_migrations" VALUES(4,'2026-03-30T14:20:00Z');
INSERT INTO "schema_migrations" VALUES(5,'2026-03-30T14:20:00Z');
CREATE TABLE tool_calls (
    tool TEXT NOT NULL,
    result TEXT NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (tool, result)
) STRICT;
INSERT INTO "tool_calls" VALUES('tracker_api','success',1);
CREATE TABLE workspaces (
    key TEXT PRIMARY KEY,
    issue_id TEXT NOT NULL,
    identifier TEXT NOT NULL,
    path TEXT NOT NULL,
    created_at REAL NOT NULL
) STRICT;
INSERT INTO "workspaces" VALUES('DEMO-1','1','DEMO-1','/w/DEMO-1',1774880400.25);
INSERT INTO "workspaces" VALUES('DEMO-2','2','DEMO-2','/w/DEMO-2',1774880400.25);
INSERT INTO "workspaces" VALUES('DEMO-3','3','DEMO-3','/w/DEMO-3',1774880400.25);
INSERT INTO "workspaces" VALUES('DEMO-4','4','DEMO-4','/w/DEMO-4',1774880400.25);
INSERT INTO "workspaces" VALUES('DEMO-5','5','DEMO-5','/w/DEMO-5',1774880400.25);
INSERT INTO "workspaces" VALUES('DEMO-6','6','DEMO-6','/w/DEMO-6',1774880400.25);
CREATE INDEX events_of_issue ON events (issue_id, seq) WHERE issue_id IS NOT NULL;
CREATE INDEX events_of_run ON events (run_id, seq) WHERE run_id IS NOT NULL;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_are_never_removed BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE INDEX run_history_of_issue ON run_history (issue_id, id);
CREATE INDEX run_history_of_identifier ON run_history (identifier, id);
CREATE INDEX commands_waiting ON commands (id) WHERE done_at IS NULL;
CREATE INDEX events_of_acted_on ON events (json_extract(data, '$.identifier')) WHERE kind = 'acted';
CREATE INDEX issues_by_identifier ON issues (identifier);
CREATE INDEX claims_by_identifier ON claims (identifier);
CREATE INDEX retries_by_identifier ON retries (identifier);
CREATE INDEX parked_by_identifier ON parked (identifier);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('run_history',7);
INSERT INTO "sqlite_sequence" VALUES('commands',1);
COMMIT;
