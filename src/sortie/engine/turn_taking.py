"""One turn of a peer, from the wish of a person to its conclusion; what a crash left of an earlier one comes first.

Nobody else takes a turn in the checkout meanwhile. How a turn ended is read from the store, whether it ended just
now or under an orchestrator that died since: so there is one way to conclude it, and it is gone once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..core.narrate import RULES
from ..core.policy import day_of, session_refused
from ..errors import AgentError, SortieError, StoreError, StoreLocked
from ..peers.place import Place, find_place, make_state_directory, place_at
from ..peers.settings import in_words_of_the_file
from ..peers.turn_register import INTERRUPTED, Turn, TurnRegister
from ..peers.turns.begin import Begun, Session, TurnOrder, begin, open_session
from ..peers.turns.conclude import TurnReport, conclude
from ..peers.turns.outcome import FAILED, OUTCOMES, RunResult
from ..peers.turns.prompt import TurnKind
from ..peers.turns.snapshot import Snapshot, recall
from ..sources.peer_turns import STORE, AskedTurn, PeerSource, id_of, missing_program, policy_of
from ..store import lock
from ..store.connect import connect_readonly
from ..store.load import Loaded, load
from ..store.queries import HistoryRow, history
from .orchestrator import Orchestrator
from .report import Summary
from .service import serve

# Runs the source with an orchestrator until nothing is left to do.
Runner = Callable[[PeerSource], Summary]
Watch = Callable[[str], None]


class OutOfBudget(SortieError):
    """Nothing was started, because what a day may use is used up."""


def take_turn(
    root: Path | str,
    agent: str,
    *,
    kind: TurnKind = "work",
    task: str = "",
    environ: Mapping[str, str] | None = None,
) -> TurnReport:
    """Let an agent take a turn in the checkout at `root`, and say what came of it. The process is the turn's alone.

    Raises `SortieError` where none can be taken; how a turn itself ended is in the report.
    """
    place = place_at(Path(root)) if Path(root).is_dir() else find_place(Path(root))
    order = TurnOrder(agent=agent, kind=kind, task=task)
    return TurnTaking(place, os.environ if environ is None else environ).take(order)


class TurnTaking:
    """`run` carries out a source, `watch` is told what is being done where that may take a while, `tell` what came
    of an earlier turn that was interrupted."""

    def __init__(
        self,
        place: Place,
        environ: Mapping[str, str],
        *,
        run: Runner | None = None,
        watch: Watch = lambda _: None,
        tell: Callable[[TurnReport], None] = lambda _: None,
    ) -> None:
        self._place = place
        self._environ = environ
        self._run = run or self._serve
        self._watch = watch
        self._tell = tell
        self._register = TurnRegister(place)

    @property
    def store(self) -> Path:
        return self._place.state / STORE

    def take(self, order: TurnOrder) -> TurnReport:
        session = open_session(self._place)
        name, agent = session.agent(order.agent)
        with self._alone(name, order.label or order.kind):
            self.conclude_earlier(session)
            if missing := missing_program(self._place, agent, self._environ):
                raise AgentError(missing.kind, missing.message, fix=in_words_of_the_file(missing.fix, name))
            self._refuse_without_budget(session)
            self._watch("keeping the state of the checkout")
            begun = begin(session, order, time.time())
            run_id, trouble = self._carry_out(session, begun)
            # Whatever became of register and store meanwhile: that something was started is known here.
            turn = replace(begun.turn, run_id=run_id) if run_id else begun.turn
            return self._conclude(session, turn, begun.before, trouble)

    def conclude_earlier(self, session: Session) -> None:
        """Turns that a crash left open; nothing of them is done again."""
        while turn := self._register.open_turn():
            self._watch(f"ending what turn {turn.number} left behind")
            if self.store.exists():
                self._run(PeerSource(self._place, session.settings, self._environ))
            before = recall(self._place, turn.number, "before") if turn.before else None
            self._tell(self._conclude(session, turn, before))

    def _carry_out(self, session: Session, begun: Begun) -> tuple[str, str]:
        """The run that was specified, and what kept the orchestrator from its work, where something did."""
        asked = AskedTurn(
            turn=begun.turn,
            agent=begun.agent,
            prompt=begun.prompt,
            since=begun.since,
            session_id=begun.session_id,
        )
        source = PeerSource(self._place, session.settings, self._environ, asked)
        try:
            self._run(source)
        except (SortieError, BaseExceptionGroup) as error:
            return source.run_id, _sentence(error)
        return source.run_id, ""

    def _conclude(self, session: Session, turn: Turn, before: Snapshot | None, trouble: str = "") -> TurnReport:
        self._watch(f"looking at what turn {turn.number} changed")
        return conclude(session, turn, before, self._result(turn, trouble), time.time())

    # -- what the store knows ---------------------------------------------------------------------------------

    def _result(self, turn: Turn, trouble: str) -> RunResult:
        found = self._look(turn)
        if found is None:
            reason = trouble or "nothing is known of its run"
            return RunResult(outcome=FAILED if trouble else INTERRUPTED, reason=reason, started=bool(turn.run_id))
        loaded, row = found
        view = loaded.schedule.issues.get(id_of(turn))
        if row is None:
            return RunResult(
                outcome=INTERRUPTED if turn.run_id else FAILED,
                reason=trouble or _held_back(loaded, id_of(turn)),
                started=bool(turn.run_id),
            )
        outcome = view.state if view and view.state in OUTCOMES else INTERRUPTED
        return RunResult(
            outcome=outcome,
            reason=in_words_of_the_file(row.error or "", turn.agent) or row.reason,
            started=row.turns > 0 or outcome == INTERRUPTED or row.tokens.total > 0 or _had_a_turn(loaded, turn),
            tokens=row.tokens.total,
            usd=row.cost_usd,
            seconds=_seconds(row),
        )

    def _look(self, turn: Turn) -> tuple[Loaded, HistoryRow | None] | None:
        import sqlite3

        if not self.store.exists():
            return None
        try:
            with closing(connect_readonly(self.store)) as db:
                rows = history(db, id_of(turn), 1)
                return load(db), rows[0] if rows and rows[0].run_id == turn.run_id else None
        except (StoreError, sqlite3.Error):
            return None

    def _refuse_without_budget(self, session: Session) -> None:
        import sqlite3

        policy, spent = policy_of(session.settings, None), None
        if self.store.exists():
            try:
                with closing(connect_readonly(self.store)) as db:
                    spent = load(db).schedule.spent_today(day_of(time.time()))
            except (StoreError, sqlite3.Error):
                return  # whoever opens it says what is wrong with it
        if spent and (refused := session_refused(spent, policy.per_day)):
            raise OutOfBudget(
                f"The budget of the day is used up: {refused}.",
                fix=f"Wait for tomorrow (UTC), or raise budget.per_day in {self._place.settings.name}.",
            )

    def _serve(self, source: PeerSource) -> Summary:
        orchestrator = Orchestrator.on_this_machine(source, self.store, self._environ)
        return serve(orchestrator, until_idle=True)

    @contextmanager
    def _alone(self, agent: str, task: str) -> Iterator[None]:
        """Beside the state directory, which an agent may remove."""
        key = make_state_directory(self._place.root)
        try:
            with lock.held(key, {"agent": agent, "task": task}):
                yield
        except StoreLocked as error:
            holder = lock.holder_of(key)
            raise _refusal(holder, self._place.root) if holder else error from None


def _refusal(holder: Mapping[str, Any], root: Path) -> SortieError:
    who = f"{holder.get('agent', 'Another agent')} has a turn in {root} ({holder.get('task', '?')})"
    where = f"process {holder.get('pid', '?')}, since {holder.get('since', '?')}"
    return SortieError(
        f"{who}: {where}. Two turns in one checkout do not overlap.",
        fix=f"Wait until it has ended, or stop it with `kill {holder.get('pid', 'PID')}`.",
    )


def _held_back(loaded: Loaded, issue_id: str) -> str:
    rule, detail = loaded.schedule.skips.get(issue_id, ("", ""))
    why = RULES.get(rule, rule)
    return f"{why}: {detail}" if why and detail else why or "it was not started"


def _had_a_turn(loaded: Loaded, turn: Turn) -> bool:
    return loaded.schedule.spent_on(id_of(turn)).turns > 0


def _seconds(row: HistoryRow) -> float:
    from datetime import datetime

    began, ended = (datetime.fromisoformat(at.replace("Z", "+00:00")) for at in (row.started_at, row.completed_at))
    return max((ended - began).total_seconds(), 0.0)


def _sentence(error: BaseException) -> str:
    """The first word of ours among what went wrong."""
    if isinstance(error, BaseExceptionGroup):
        ours, others = error.split(SortieError)
        if ours is None or (others is not None and others.split(Exception)[1] is not None):
            raise error
        return _sentence(ours.exceptions[0])
    return str(error)
