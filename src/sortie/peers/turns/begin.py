"""The beginning of a turn: everything is checked before anything is written, and it is on record before it starts.

In this order: the register has the turn, the work log says that the task is claimed, the state of the checkout is
kept. Whoever finds an open turn after a crash knows by these what is left to do.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...errors import ConfigurationError, SortieError
from ...protocol.foreign_text import shortened
from ...workflow.problems import did_you_mean, listed
from ..charter.charter import Charter
from ..charter.charter_file import CharterFile
from ..place import Place
from ..roster import Roster, fold
from ..settings import PeerAgent, PeerSettings, load_settings
from ..turn_register import Turn, TurnRegister
from ..worklog.compose import Claim
from ..worklog.events import events_of
from ..worklog.heading import names_in
from ..worklog.open_items import open_items
from ..worklog.worklog_file import WorklogFile
from .briefing import Heard, brief
from .checkout import Checkout, open_checkout
from .exclude import exclude, to_exclude
from .prompt import Briefing, TurnKind, compose
from .revert import ORCHESTRATOR
from .snapshot import Snapshot, refs_of, take_before

LONGEST_TASK = 16_000
_LONGEST_LABEL = 100
_LABELS: Mapping[TurnKind, str] = {
    "work": "what there is to do",
    "review": "review of the work of others",
    "mailbox": "check the mailbox",
}


class TurnOrder(Struct, frozen=True, kw_only=True):
    """What a person asks for. `command` is how the agent can start Sortie in a shell."""

    agent: str
    kind: TurnKind = "work"
    task: str = ""
    command: str = "sortie"

    @property
    def label(self) -> str:
        """What the task is called in the status line and in entries; empty where none is named."""
        return shortened(self.task.strip().partition("\n")[0].strip(), _LONGEST_LABEL)


class Session(Struct, frozen=True, kw_only=True):
    """A checkout in which turns can be taken: its people, its charter, and how each agent is run. `warnings` are
    for the person who asks for a turn."""

    place: Place
    settings: PeerSettings
    roster: Roster
    charter: Charter
    warnings: tuple[str, ...] = ()

    def agent(self, name: str) -> tuple[str, PeerAgent]:
        """The agent as the charter spells it; raises where it takes no part, or nobody says how it is run."""
        known = next((one for one in self.roster.agents if fold(one) == fold(name)), None)
        if known is None:
            if fold(name) == fold(self.roster.maintainer):
                raise SortieError(f"{self.roster.maintainer} is the maintainer, who needs no turn.")
            meant = did_you_mean(name, self.roster.agents) or "."
            raise SortieError(
                f'No agent here is called "{name[:80]}"{meant}', fix=f"Name {listed(self.roster.agents)}."
            )
        written = self.settings.find(known)
        if written is None:
            raise ConfigurationError(
                f"{self.place.settings.name} does not say how {known} is run.",
                fix=f"Add it below `agents:`, such as {known}: {{kind: claude-code}}.",
            )
        return known, self.settings.agents[written]


class Begun(Struct, frozen=True, kw_only=True):
    """A turn that is on record and may start. `since` is where its agent had read the work log to before."""

    turn: Turn
    agent: PeerAgent
    before: Snapshot
    prompt: str
    since: str
    session_id: str


def open_session(place: Place) -> Session:
    """Raises where no turn can be taken, with what to do about it; changes nothing."""
    settings = load_settings(place.settings)
    in_force = CharterFile(place).in_force()
    if in_force is None or in_force.standing.state == "draft":
        state = CharterFile(place).standing().problem
        raise SortieError(f"No turn is taken without a charter that the maintainer has adopted. {state}")
    broken = [remark for remark in in_force.charter.remarks if remark.severity == "error"]
    if broken:
        more = f" There are {len(broken) - 1} more problems." if len(broken) > 1 else ""
        where = f"{place.charter.name}:{broken[0].line}"
        raise SortieError(f"{where}: {broken[0].message}.{more}", fix="`sortie charter check` names all of them.")
    if not in_force.charter.roster.agents:
        raise SortieError("The charter names no agent.", fix="`sortie charter amend` puts a mended one into force.")
    if not place.worklog.exists():
        raise SortieError(f"There is no {place.worklog}.", fix="`sortie worklog init` makes one.")
    open_checkout(place.root)
    changed = in_force.standing.state != "adopted"
    warnings = (f"{place.charter.name}: {in_force.standing.problem} The adopted one counts.",) if changed else ()
    return Session(
        place=place,
        settings=settings,
        roster=in_force.charter.roster,
        charter=in_force.charter,
        warnings=warnings,
    )


def preview(session: Session, order: TurnOrder) -> str:
    """The prompt that a turn would have now; writes nothing."""
    turns = TurnRegister(session.place).turns()
    return _composed(_brief(session, order, turns)[0], turns[-1].number + 1 if turns else 1)


def begin(session: Session, order: TurnOrder, at: float) -> Begun:
    """Put the turn on record; nobody else takes one here meanwhile. Blocks."""
    place = session.place
    name, agent = session.agent(order.agent)
    order = replace(order, agent=name)
    if len(order.task) > LONGEST_TASK:
        raise SortieError(
            f"The task has more than {LONGEST_TASK:,} characters.", fix="Put it into a file, and name that file."
        )
    checkout = open_checkout(place.root)
    checkout.prepare()
    exclude(place, to_exclude(place))
    register = TurnRegister(place)
    turns = register.turns()
    briefing, heard = _brief(session, order, turns)
    turn = register.begin(
        agent=name,
        kind=order.kind,
        task=order.label or (_handed_over(place, name) if order.kind == "work" else "") or _LABELS[order.kind],
        began=at,
        cursor=heard.cursor,
        least=_unused(checkout),
    )
    record_claim(session, turn, at)
    before = take_before(place, turn.number)
    turn = register.amend(turn.number, before=before.commit)
    return Begun(
        turn=turn,
        agent=agent,
        before=before,
        prompt=_composed(briefing, turn.number),
        since=heard.since,
        session_id=session.charter.session_id,
    )


def record_claim(session: Session, turn: Turn, at: float) -> None:
    worklog = WorklogFile(session.place.worklog, session_id=session.charter.session_id)
    claim = Claim(task=turn.task, note=f"Turn {turn.number}, started by {session.roster.maintainer}.")
    worklog.record(claim, ORCHESTRATOR, at=at, actor=turn.agent, key=key_of(turn, "claimed"))


def key_of(turn: Turn, what: str) -> str:
    """By this a write of a turn happens once, also where the numbers of turns were begun anew."""
    return f"turn {turn.number} {turn.began:.3f} {what}"


def _brief(session: Session, order: TurnOrder, turns: Sequence[Turn]) -> tuple[Briefing, Heard]:
    briefing, heard = brief(
        session.place,
        turns,
        agent=session.agent(order.agent)[0],
        roster=session.roster,
        charter=session.charter,
        kind=order.kind,
        task=order.task.strip(),
    )
    return replace(briefing, command=order.command), heard


def _handed_over(place: Place, agent: str) -> str:
    """What was handed to the agent last, and nobody has taken up yet."""
    handoffs = open_items(events_of(WorklogFile(place.worklog).read())).handoffs
    for event in reversed(handoffs):
        if any(fold(name) == fold(agent) for name in names_in(str(event.payload.get("next_owner", "")))):
            return shortened(str(event.payload.get("next_task") or event.subject), _LONGEST_LABEL)
    return ""


def _composed(briefing: Briefing, number: int) -> str:
    return compose(replace(briefing, number=number), secrets.token_hex(8))


def _unused(checkout: Checkout) -> int:
    """A number that no turn has used of which something is kept: the register may have been lost."""
    ours = f"{checkout.refs}/"
    used = [0]
    for name in refs_of(checkout):
        parts = name.removeprefix(ours).split("/") if name.startswith(ours) else []
        used += [int(part) for part in parts[1:2] if part.isdecimal() and len(part) < 10]
    return max(used) + 1
