"""What every page and answer is made from: one store, its workflow, and the service's last report.

Nothing here changes the store: people's commands go through `store.commands`, as those of the command line do.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..core.policy import Policy, day_of
from ..core.redact import Redactor
from ..errors import SortieError
from ..plans.plan import Plan
from ..plugins import kinds
from ..reports.health import Health, health_report
from ..reports.plan import load_to_look
from ..reports.rules import rules_in_force
from ..reports.status import Status, status_report
from ..reports.timeline import Timeline, timeline
from ..reports.transcript import MOST_TEXT, Transcript, transcript
from ..reports.usage import UsageReport, usage_report
from ..runs.prompt_log import Prompt, kept_prompts, prompts_path
from ..runs.run_log import log_path
from ..sources.adapters import secrets as agent_secrets
from ..sources.plan_rules import secrets_of_plan
from ..store.connect import connect_readonly
from ..store.lock import holder_of
from ..workflow.config import Config, ServerConfig
from ..workflow.loader import examine
from ..workflow.variables import env_file_of
from .bodies import BodyLimits
from .changed_files import ChangedFiles
from .replies import Replies
from .threads import Threads

if TYPE_CHECKING:
    from ..engine.report import LiveReport

# For so long the last word of a service stands for the present.
LIVE_FOR = 5.0
SETTINGS_FOR = 2.0
# Each waits for a few seconds for what the service replies.
DECISIONS_AT_ONCE = 16
LAGS_KEPT = 600
# What goes on for long asks again and again what its token allows; an answer of so many seconds ago will do.
TOKENS_STAND_FOR = 0.5

Files = tuple[tuple[int, ...], ...]


class Live:
    """The last report of the service that started us; `heard_at` is when it came, by the wall clock, which somebody
    may set: it is only shown. `believed_until` is by the clock that goes on alone. `lags` are how late its loop was
    in the last minutes, each with its time."""

    def __init__(self) -> None:
        self.report: LiveReport | None = None
        self.heard_at = 0.0
        self.believed_until = 0.0
        self.lags: deque[tuple[float, float]] = deque(maxlen=LAGS_KEPT)

    def hear(self, report: LiveReport) -> None:
        self.report, self.heard_at = report, time.time()
        self.believed_until = time.monotonic() + LIVE_FOR
        self.lags.append((self.heard_at, report.loop_lag))

    def now(self) -> LiveReport | None:
        """None where there is no service, or it has been silent for too long to be believed."""
        return self.report if time.monotonic() <= self.believed_until else None


class Site:
    """`place` is what was named when it was started: a workflow, a plan or a store. `is_plan` says that the store
    is that of a plan; `host` is where we listen; a `read_only` site changes nothing; `server` are the settings that
    we were started with, those of the workflow if left out; `bodies` is what a request may send; what is known
    of a token for streams is `tokens_stand_for` so many seconds old at most; `decisions` are threads for people's
    commands, `replies` what became of them. Safe to use from several threads."""

    def __init__(
        self,
        database: Path,
        place: Path,
        *,
        is_plan: bool = False,
        live: Live | None = None,
        host: str = "127.0.0.1",
        read_only: bool = False,
        server: ServerConfig | None = None,
        bodies: BodyLimits | None = None,
        tokens_stand_for: float = TOKENS_STAND_FOR,
    ) -> None:
        self.database = database.resolve()
        self.place = place.resolve()
        self.is_plan = is_plan
        self.live = live or Live()
        self.host = host
        self.read_only = read_only
        self.started_at = time.time()
        self.young_until = time.monotonic() + LIVE_FOR
        self.bodies = bodies or BodyLimits()
        self.tokens_stand_for = tokens_stand_for
        self.decisions = Threads(DECISIONS_AT_ONCE)
        self.replies = Replies()
        self.changed_files = ChangedFiles(self.hide)
        self._settings: _Settings | None = None
        self._reading = threading.Lock()
        self._server_secrets = server.secrets if server else ()
        self.server = server or self.config.server

    @contextmanager
    def looking(self) -> Iterator[sqlite3.Connection]:
        """The store, read only. One of an earlier version is refused: for each page all of it would be copied."""
        with closing(connect_readonly(self.database, may_copy=False)) as db:
            yield db

    @property
    def is_young(self) -> bool:
        """Whether the service that started us may not have come to its first word yet."""
        return time.monotonic() <= self.young_until

    @property
    def is_served(self) -> bool:
        """Whether a service owns the store now."""
        return holder_of(self.database) is not None

    @property
    def config(self) -> Config:
        """The settings as they are now, as far as they can be read."""
        return self._examined().config

    @property
    def workflow(self) -> Config | None:
        """The settings of the workflow that the store belongs to; None where it belongs to none."""
        return None if self.is_plan or self.place == self.database else self.config

    @property
    def start_command(self) -> str:
        """What a person types to have the store worked for."""
        return "sortie plan run" if self.is_plan else "sortie run"

    @property
    def token_command(self) -> str:
        """What makes a token for it: without a name, those of a workflow are meant."""
        return f"sortie token new -w {quote(self.place.name)}" if self.is_plan else "sortie token new"

    @property
    def is_broken(self) -> bool:
        """Whether what the store belongs to cannot be used as it is, so that nobody knows the rules."""
        return self._examined().is_broken

    def status(self, db: sqlite3.Connection) -> Status:
        """What runs, waits and is parked, with what only the service knows."""
        return status_report(
            db,
            config=self.workflow,
            broken=self.is_broken,
            service=holder_of(self.database),
            now=time.time(),
            hide=self.hide,
            live=self.live.now(),
            plan=self._examined().plan,
        )

    def health(self, db: sqlite3.Connection) -> Health:
        """What the service stands on, with what only that knows."""
        # Where a service listens is settled when it starts; of one that did not start us we know the file alone.
        config = self.workflow
        if config and not self.read_only:
            config = replace(config, server=self.server)
        return health_report(
            db,
            database=self.database,
            config=config,
            broken=self.is_broken,
            service=holder_of(self.database),
            now=time.time(),
            hide=self.hide,
            live=self.live.now(),
        )

    def story(
        self,
        db: sqlite3.Connection,
        issue_id: str,
        *,
        limit: int,
        before: int | None = None,
        everything: bool = False,
    ) -> Timeline:
        """Where an issue stands, and what happened to it."""
        return timeline(
            db,
            issue_id,
            now=time.time(),
            served=self.is_served,
            hide=self.hide,
            policy=self.rules(db) or self.config.policy(),
            before=before,
            limit=limit,
            everything=everything,
        )

    def rules(self, db: sqlite3.Connection) -> Policy | None:
        """The rules in force; None if they are unknown."""
        return rules_in_force(db, self.workflow, broken=self.is_broken, served=self.is_served)

    def usage(self, db: sqlite3.Connection, days: int) -> UsageReport:
        """Of the last so many days."""
        rules = self.rules(db)
        return usage_report(db, today=day_of(time.time()), days=days, per_day=rules.per_day if rules else None)

    def transcript(
        self, run_id: str, *, limit: int, after: str = "", before: str = "", most: int = MOST_TEXT
    ) -> Transcript:
        """What was said in a run that is on record: only that names a file."""
        path = log_path(self.database, run_id)
        return transcript(path, hide=self.hide, after=after, before=before, limit=limit, most=most)

    def prompts(self, run_id: str) -> list[Prompt]:
        """What the agent of such a run was told."""
        return kept_prompts(prompts_path(self.database, run_id), self.hide)

    def hide(self, text: str) -> str:
        """Without secrets."""
        return self._examined().redactor.text(text)

    def hide_what_is_known(self, text: str) -> str:
        """Removes the secrets of the settings as they were last read; reads no file and never blocks."""
        known = self._settings
        return (known.redactor if known else Redactor(self._server_secrets)).text(text)

    def _examined(self) -> _Settings:
        """What the files say, looked at now and then, and read where they changed."""
        with self._reading:
            known = self._settings
            if known is None or time.monotonic() - known.as_of > SETTINGS_FOR:
                files = tuple(map(_identity, (self.place, env_file_of(os.environ, None))))
                known = known if known is not None and known.files == files else self._read(files)
                self._settings = replace(known, as_of=time.monotonic())
                return self._settings
            return known

    def _read(self, files: Files) -> _Settings:
        found = examine(self.place, environ=os.environ, kinds=kinds(), trial=False, keys_needed=False)
        if self.is_plan:
            plan, remark = load_to_look(self.place)
            is_broken = plan is None or bool(remark)
        else:
            plan, is_broken = None, found.workflow is None and self.place != self.database
        redactor = Redactor({*found.config.secrets, *_given_to_agents(found.config, plan), *self._server_secrets})
        return _Settings(files, found.config, plan, is_broken, redactor)


class _Settings(Struct, frozen=True):
    files: Files
    config: Config
    plan: Plan | None
    is_broken: bool
    redactor: Redactor
    as_of: float = 0.0


def _given_to_agents(config: Config, plan: Plan | None) -> Collection[str]:
    try:
        return secrets_of_plan(plan, os.environ) if plan else agent_secrets(config, os.environ)
    except SortieError:
        return ()  # of a kind that is not there, no agent was given anything


def _identity(path: Path | None) -> tuple[int, ...]:
    """What a stat shows of a file; empty where there is none."""
    try:
        status = path.stat() if path else None
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns) if status else ()
