"""`sortie demo peers`: the session of the examples, played in one go; the demo is the maintainer."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from ..engine.turn_taking import TurnTaking
from ..peers.author import Author
from ..peers.charter.charter import parse_charter
from ..peers.charter.charter_file import CharterFile
from ..peers.mailbox.mailbox_file import MailboxFile
from ..peers.place import Place, place_at
from ..peers.roster import MAINTAINER, roster_of
from ..peers.shared_document import SharedDocument
from ..peers.turn_register import INTERRUPTED, Turn, TurnRegister
from ..peers.turns.begin import TurnOrder
from ..peers.turns.conclude import TurnReport
from ..peers.turns.exclude import exclude, to_exclude
from ..peers.turns.git import git
from ..peers.turns.prompt import TurnKind
from ..peers.turns.review import LANE_OF_ANOTHER
from ..peers.worklog.compose import Decision
from ..peers.worklog.event import Event
from ..peers.worklog.events import events_of
from ..peers.worklog.verify_journal import verify_journal
from ..peers.worklog.worklog_file import WorklogFile
from .demo_show import DemoCheck, Played, Show, copy_templates
from .format import clean
from .printing import Columns, print_table, styled
from .turn_look import show_next
from .turn_report import print_report

INTRODUCTION = """\
Two agents take turns in one repository, under a charter that says whose each file is.
One hands over, one objects, you decide; one goes where it has no business and leaves
urgent mail unanswered. Both are shell scripts; the demo types what you would type.
"""
PAGE = "docs/greet.md"
QUESTION = "A flag, or LANG"


class Step(Struct, frozen=True):
    """Something that a person typed: who acted then, on what, and the events that the work log has of it."""

    who: str
    what: str
    events: tuple[Event, ...]
    report: TurnReport | None = None


class Session:
    """The repository of the demo, and what was done in it so far."""

    def __init__(self, directory: Path) -> None:
        self.place: Place = place_at(directory)
        self.maintainer = Author(name=MAINTAINER, role="maintainer")
        self._session_id = parse_charter(CharterFile(self.place).read()).session_id
        self.worklog = WorklogFile(self.place.worklog, session_id=self._session_id)
        self.steps: list[Step] = []
        # What the caller's environment says about other runs is left out.
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("SORTIE_")}

    def begin(self) -> None:
        _type("peers init")
        roster, at = roster_of(self.place), time.time()
        self.worklog.create(roster.agents, roster.maintainer, self.maintainer, at)
        MailboxFile(self.place, roster=roster).create(self.maintainer, at)
        exclude(self.place, to_exclude(self.place))
        _type("charter adopt")
        CharterFile(self.place).adopt("This is what was agreed on.", self.maintainer, at=at)
        self._done(MAINTAINER, "adopts the charter")

    def turn(self, agent: str, *, kind: TurnKind = "work", task: str = "") -> None:
        _type(f"turn {agent} " + (f"--task {shlex.quote(task)}" if task else f"--kind {kind}"))
        order = TurnOrder(agent=agent, kind=kind, task=task)
        report = TurnTaking(self.place, self._environ).take(order)
        print_report(report)
        self._done(agent, f"turn {report.turn.number}: {report.turn.task}", report)
        if report.result.outcome == INTERRUPTED:
            raise click.Abort

    def decide(self, title: str, decision: str, rationale: str) -> None:
        _type(f"worklog decide {shlex.quote(title)} {shlex.quote(decision)} --rationale {shlex.quote(rationale)}")
        what = Decision(title=title, decision=decision, mode="maintainer adjudication", rationale=rationale)
        self.worklog.record(what, self.maintainer, at=time.time())
        self._done(MAINTAINER, f"decides: {decision}")

    def ask_who_is_next(self) -> None:
        _type("turn --next")
        show_next(self.place, None, as_json=False, asked=True)

    @property
    def events(self) -> list[Event]:
        return [event for step in self.steps for event in step.events]

    def _done(self, who: str, what: str, report: TurnReport | None = None) -> None:
        told = events_of(self.worklog.read(), self._session_id)[len(self.events) :]
        self.steps.append(Step(who, what, tuple(told), report))


def _type(command: str) -> None:
    click.echo(styled(f"\n$ sortie {clean(command)}", "bold"))


def _prepare(directory: Path) -> None:
    copy_templates("peers_demo", directory)
    git(directory, "init", "--quiet", ".", env={})
    _commit(directory, "Before the session")


def _commit(directory: Path, message: str) -> None:
    git(directory, "add", "--all", ".", env={})
    git(directory, "commit", "--quiet", "-m", message, env={})


def _play(directory: Path) -> Played:
    session = Session(directory)
    with redirect_stdout(sys.stderr):  # as the other demos: what happens meanwhile is not the result
        session.begin()
        session.turn("ada", task="Greet in two languages.")
        session.ask_who_is_next()
        session.turn("ben", kind="review")
        session.decide(QUESTION, "Go by LANG.", "The reasons of ben.")
        session.turn("ada", task="Do what was decided.")
        session.ask_who_is_next()
        session.turn("ada", kind="mailbox")
        session.turn("ben", task="Write the page.")
        _commit(directory, "The session")
    root = f"--root {shlex.quote(str(directory))}"
    turns = TurnRegister(session.place).turns()
    messages = [message.id for message in MailboxFile(session.place).read().messages]
    return Played(
        checks=tuple(_checks(session, turns)),
        print_table=lambda: _print_steps(session.steps),
        data={
            "root": str(directory),
            "turns": [msgspec.to_builtins(turn) for turn in turns],
            "events": [event.envelope() for event in session.events],
        },
        advice=(
            ("what is open, and who is next", f"peers status {root}"),
            ("what everybody wrote", f"worklog show --last 20 {root}"),
            ("the same for programs", f"worklog events --json {root}"),
            ("the mail that was escalated", f"mailbox show {' '.join(messages)} {root}"),
            ("what the next turn is told", f"turn ben --dry-run {root}"),
            ("was anything edited?", f"worklog verify --git {root}"),
            ("your own repository", "peers init --help"),
        ),
    )


def _print_steps(steps: Sequence[Step]) -> None:
    rows = [(step.who, step.what, _in_words(step.events)) for step in steps]
    print_table(Columns(("who", "what", "recorded in WORKLOG.md"), rows, cut=("what",)))


def _in_words(events: Sequence[Event]) -> str:
    words = Counter(event.event_type.removeprefix("task.").partition(".")[0] for event in events)
    return ", ".join(word if number == 1 else f"{word} ({number})" for word, number in words.items())


def _checks(session: Session, turns: Sequence[Turn]) -> list[DemoCheck]:
    events, authors = session.events, session.worklog.written_by()
    reverted = next((step.report for step in session.steps if step.report and step.report.reverted.ref), None)
    ref = reverted.reverted.ref if reverted else "a git ref"
    return [
        DemoCheck(
            "ada did its task and handed it over to ben, in its own words.",
            any(
                event.event_type == "handoff.posted"
                and event.payload["next_owner"] == "ben"
                and authors[event.entry_id].author == "ada"
                for event in events
            ),
        ),
        DemoCheck(
            "ben objected, with reasons and a recommendation of its own.",
            any(event.event_type == "objection.raised" and event.payload["reasoning"] for event in events),
        ),
        DemoCheck(
            "The maintainer decided, which no agent can do: the decision is in the index of the work log.",
            any(
                event.subject == QUESTION
                and event.event_type == "decision.recorded"
                and authors[event.entry_id].role == "maintainer"
                for event in events
            )
            and any(row.decision == QUESTION for row in session.worklog.read().index),
        ),
        DemoCheck(
            f"ada changed {PAGE}, which is ben's: it was put back, and is kept as {ref}.",
            reverted is not None
            and any((one.kind, one.subject) == (LANE_OF_ANOTHER, PAGE) for one in reverted.findings)
            and reverted.reverted.files == (PAGE,)
            and _was_kept(session.place, ref),
        ),
        DemoCheck(
            "ada left a P0 message unanswered: it was escalated into the work log, once.",
            [step.who for step in session.steps for _ in _escalated(step)] == ["ada"],
        ),
        DemoCheck(
            "Five turns, one at a time, and nothing in the work log was changed after it was written.",
            len(turns) == 5 and _one_at_a_time(turns) and _is_intact(session),
        ),
    ]


def _escalated(step: Step) -> list[Event]:
    """Of messages; a lane violation is escalated too."""
    return [
        event for event in step.events if event.event_type == "escalation.requested" and event.payload["message_id"]
    ]


def _was_kept(place: Place, ref: str) -> bool:
    """Whether the ref has what ada wrote, and the branch does not."""
    kept = git(place.root, "show", f"{ref}:{PAGE}", env={})
    return b"It speaks" in kept and b"It speaks" not in git(place.root, "show", f"HEAD:{PAGE}", env={})


def _one_at_a_time(turns: Sequence[Turn]) -> bool:
    return all(one.ended and one.ended <= other.began for one, other in pairwise(turns))


def _is_intact(session: Session) -> bool:
    missing = SharedDocument(session.place.worklog).missing()
    return not verify_journal(session.worklog.read(), session.worklog.written_by(), missing)


SHOW = Show(introduction=INTRODUCTION, prepare=_prepare, play=_play)
