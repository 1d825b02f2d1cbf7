"""The end of a turn: what it changed is kept and reviewed, who wrote what is put on record, and the log tells it.

Everything here may be done again after a crash, and then finds done what was done: the state after the turn is
taken once, every entry has a key, and what is taken back is compared first. The register says last that the turn is
over. What cannot be done is told, and keeps nothing else from being done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from ...errors import SortieError
from ..author import Author
from ..finding import Finding
from ..mailbox.compare import TABLES
from ..mailbox.decisions import ONLY_IN_MAIL
from ..mailbox.escalate import escalate
from ..mailbox.mailbox_file import MailboxFile
from ..place import Place
from ..shared_document import SharedDocument
from ..turn_register import Turn, TurnRegister
from ..worklog.events import events_of
from ..worklog.worklog_file import WorklogFile
from .adopt_mail import adopt_mail
from .begin import Session, key_of
from .changes import Changes
from .documents import Document, path_of
from .look_back import LookedBack, look_back
from .outcome import SUCCEEDED, RunResult
from .recording import Recording, findings_entry, recordings
from .revert import ORCHESTRATOR, Reverted, revert
from .review import BRANCH_DELETED, MILD, NO_LANE, Review
from .snapshot import Snapshot, recall

OVER_BUDGET = "over budget"
# What no rule forbids outright, and the maintainer has to know all the same.
_WORTH_A_LOOK = (NO_LANE, ONLY_IN_MAIL, BRANCH_DELETED)
_MOST_NAMED = 5
_NEEDED: tuple[Document, ...] = ("worklog", "mailbox")


class TurnReport(Struct, frozen=True, kw_only=True):
    """What came of a turn. `findings` are what it did against the rules, `reverted` what was taken back of it;
    `recorded` are the events that we recorded, `escalated` the messages that nobody answered in time. `switched`:
    the checkout is on another branch now. `remarks` tell what a person should know, `problems` what could not be
    done at its end."""

    turn: Turn
    result: RunResult
    changes: Changes = Changes()
    findings: tuple[Finding, ...] = ()
    reverted: Reverted = Reverted()
    recorded: tuple[str, ...] = ()
    escalated: tuple[str, ...] = ()
    switched: bool = False
    remarks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def violations(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.kind not in MILD)

    @property
    def needs_maintainer(self) -> bool:
        """Whether a person has to look at it before the next turn."""
        worth_a_look = any(finding.kind in _WORTH_A_LOOK for finding in self.findings)
        is_done = self.result.outcome == SUCCEEDED
        found = bool(self.violations or worth_a_look or self.escalated or self.problems)
        return not is_done or found or self.switched


def conclude(session: Session, turn: Turn, before: Snapshot | None, result: RunResult, at: float) -> TurnReport:
    """Nothing of the turn runs any more, and nobody else takes one here. Blocks."""
    return _Conclusion(session, turn, result, at).report(before)


class _Conclusion:
    def __init__(self, session: Session, turn: Turn, result: RunResult, at: float) -> None:
        self._session = session
        self._place: Place = session.place
        self._turn = turn
        self._result = result
        self._at = at
        self._register = TurnRegister(self._place)
        self._worklog = WorklogFile(self._place.worklog, session_id=session.charter.session_id)
        self._problems: list[str] = []
        self._recorded: list[str] = []
        self._lost: list[str] = []

    def report(self, before: Snapshot | None) -> TurnReport:
        looked, reverted, told = None, Reverted(), set[str]()
        if before is not None and self._turn.run_id:
            # An agent that says by its exit code that it could not start may have worked all the same.
            looked = self._look_back(before)
            if looked.facts.changes.files or looked.findings:
                self._result = replace(self._result, started=True)
            reverted = self._taken_back(looked)
            told = self._adopt(before)
        changes = looked.facts.changes if looked else Changes()
        findings = (*self._without_tables(looked.findings if looked else ()), *self._over_budget())
        unnamed = {*reverted.files, *(looked.facts.paths.values() if looked else ())}
        files = [file.path for file in changes.files if file.path not in unnamed]
        for recording in recordings(self._turn, self._result, files, told, self._session.roster.maintainer):
            self._record(recording)
        if any(finding.kind not in MILD or finding.kind in _WORTH_A_LOOK for finding in findings):
            self._record(findings_entry(self._turn, findings, reverted.ref))
        with self._going_on():
            self._rest()
        turn = self._amended(outcome=self._result.outcome, ended=self._at)
        return TurnReport(
            turn=turn,
            result=self._result,
            changes=changes,
            findings=findings,
            reverted=reverted,
            recorded=tuple(self._recorded),
            escalated=self._escalate(),
            switched=looked is not None
            and looked.after is not None
            and looked.before.branch != looked.after.branch,
            remarks=(*(looked.remarks if looked else ()), *reverted.remarks, *self._told_of_lost()),
            problems=(*self._problems, *reverted.problems),
        )

    # -- what it changed --------------------------------------------------------------------------------------

    def _look_back(self, before: Snapshot) -> LookedBack:
        """At the state that the turn left, which is taken once: later it would show what we have written since."""
        after = None
        if self._turn.after:
            with self._going_on():
                after = recall(self._place, self._turn.number, "after")
        looked = look_back(self._place, self._turn.agent, before, after)
        if looked.after is not None:
            self._amended(after=looked.after.commit)
        return looked

    def _taken_back(self, looked: LookedBack) -> Reverted:
        """What the settings say; and always the log and the mailbox themselves, without which nobody can go on, and
        the settings, by which an agent would run others and be told secrets."""
        there, now = looked.facts.before.content, looked.facts.after
        gone = [document for document in _NEEDED if document in there and document in now.instead]
        if self._session.settings.violations != "revert":
            settings = looked.facts.paths["settings"]
            needed = {looked.facts.paths[document] for document in gone} | {settings} & {*looked.review.to_revert}
            looked = replace(looked, review=Review(to_revert=tuple(sorted(needed - {""}))))
        done = Reverted()
        if looked.review.to_revert or looked.violations:
            with self._going_on():
                done = revert(self._place, looked, at=self._at)
        for document in gone:
            with self._going_on():
                if document == "mailbox":
                    MailboxFile(self._place).restore(self._at)
                else:
                    SharedDocument(path_of(self._place, document)).restore()
        return done

    def _over_budget(self) -> Iterator[Finding]:
        """What a turn uses is known when it is over."""
        bounds, result = self._session.settings.budget.per_turn, self._result
        if bounds.tokens is not None and result.tokens > bounds.tokens:
            sentence = f"The turn used {result.tokens:,} tokens, and budget.per_turn allows {bounds.tokens:,}."
            yield Finding(kind=OVER_BUDGET, sentence=sentence)
        if bounds.usd is not None and result.usd > bounds.usd:
            sentence = f"The turn cost ${result.usd:.2f}, and budget.per_turn allows ${bounds.usd:.2f}."
            yield Finding(kind=OVER_BUDGET, sentence=sentence)

    # -- what is recorded -------------------------------------------------------------------------------------

    def _adopt(self, before: Snapshot) -> set[str]:
        """Whatever was written by hand in this turn is its agent's. The answer is which events that agent told."""
        author = Author(name=self._turn.agent, role="agent", run_id=self._turn.run_id)
        earlier = before.documents.content.get("worklog", b"")
        told = set[str]()
        with self._going_on():
            self._worklog.adopt(earlier, author, self._at)
            written = self._worklog.written_by()
            own = {
                entry_id
                for entry_id, record in written.items()
                if record.role == "agent" and record.run_id == self._turn.run_id
            }
            told = {event.event_type for event in events_of(self._worklog.read()) if event.entry_id in own}
        with self._going_on():
            if self._place.mailbox.exists():
                earlier = before.documents.content.get("mailbox", b"")
                adopt_mail(MailboxFile(self._place), earlier, author, self._at)
        return told

    def _without_tables(self, findings: Iterable[Finding]) -> list[Finding]:
        """Whoever writes mail by hand need not count: the tables are made right, and then nothing is to be said."""
        found = list(findings)
        if any(finding.kind == TABLES for finding in found):
            with self._going_on():
                MailboxFile(self._place).rederive(ORCHESTRATOR, self._at)
                return [finding for finding in found if finding.kind != TABLES]
        return found

    def _record(self, recording: Recording) -> None:
        with self._going_on():
            recorded = self._worklog.record(
                recording.what,
                ORCHESTRATOR,
                at=self._at,
                key=key_of(self._turn, recording.name),
                actor=self._turn.agent if recording.by_agent else "",
                tell_lost=True,
            )
            self._recorded += recorded.event_ids
            self._lost += [one.subject for one in recorded.lost]

    def _told_of_lost(self) -> Iterator[str]:
        """What was acknowledged and is gone: an editor, or the agent, saved an older version."""
        if self._lost:
            named = ", ".join(self._lost[:_MOST_NAMED])
            more = f" and {len(self._lost) - _MOST_NAMED} more" if len(self._lost) > _MOST_NAMED else ""
            name = self._place.worklog.name
            yield f"Gone from {name}: {named}{more}. `sortie worklog verify --restore` puts back what was recorded."

    def _rest(self) -> None:
        """Whoever has no turn works on nothing."""
        lines = self._worklog.read().now_working()
        line = next((line for name, line in lines.items() if name.casefold() == self._turn.agent.casefold()), None)
        if line is not None and line.text.strip() == self._turn.task:
            self._worklog.set_status(self._turn.agent, "idle", ORCHESTRATOR, self._at)

    def _escalate(self) -> tuple[str, ...]:
        """After the register knows of the end of this turn, which counts."""
        return escalate_mail(self._place, self._worklog, self._at, self._problems)

    # -- small things -----------------------------------------------------------------------------------------

    def _amended(self, **changes: object) -> Turn:
        """As we know the turn, whatever the agent made of the register."""
        self._turn = replace(self._turn, **changes)
        with self._going_on():
            self._register.put(self._turn)
        return self._turn

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        try:
            yield
        except SortieError as error:
            self._problems.append(str(error))


def escalate_mail(place: Place, worklog: WorklogFile, at: float, problems: list[str]) -> tuple[str, ...]:
    """Messages that were not answered in time go to the work log, each once; those that did now are named."""
    if not place.mailbox.exists():
        return ()
    turns_of = TurnRegister(place).turns_of
    try:
        late = escalate(MailboxFile(place), worklog, ORCHESTRATOR, at=at, turns_of=turns_of)
    except SortieError as error:
        problems.append(str(error))
        return ()
    return tuple(one.message.id for one in late)
