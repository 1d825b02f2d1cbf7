"""`sortie worklog propose`, `amend`, `object`, `decide`, `escalate`: what agents think, and what is decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import SortieError
from .peers_options import as_option, root_option, text_from, writer
from .printing import json_option
from .worklog import place_with_log
from .worklog_writing import Command, record

if TYPE_CHECKING:
    from ..peers.place import Place
    from ..peers.worklog.event import Event

ADJUDICATION = "maintainer adjudication"
MODES = ("consensus", "counter-rec resolved", ADJUDICATION)


def _proposal_options(command: Command) -> Command:
    for option in reversed(
        (
            click.option("--scope", default="", help="What it concerns."),
            click.option("--risks", default="", help="What can go wrong."),
            click.option("--rollback", default="", help="How to undo it."),
            click.option("--deadline", default="", help="Until when objections are heard."),
        )
    ):
        command = option(command)
    return command


@click.command("propose")
@click.argument("title")
@click.argument("proposal")
@click.option("--id", "proposal_id", default="", metavar="PROP-001", help="Its id; the next free one if left out.")
@_proposal_options
@root_option
@as_option
@json_option
def propose_command(
    title: str,
    proposal: str,
    proposal_id: str,
    scope: str,
    risks: str,
    rollback: str,
    deadline: str,
    root: Path | None,
    as_name: str,
    as_json: bool,
) -> int:
    """Propose an approach or a design. PROPOSAL says what; `-` reads it from standard input.

    Prints the id of the entry, and below it the one by which others amend it, object to it and decide about it.
    """
    from ..peers.worklog.compose import Proposal

    place = place_with_log(root)
    if proposal_id and proposal_id in (known := _proposals(place)):
        fix = "Leave out --id for the next free one, or amend it if it is yours."
        raise SortieError(f"{proposal_id} is a proposal of {known[proposal_id].actor}.", fix=fix)
    what = Proposal(
        id=proposal_id,
        title=title,
        proposal=text_from(proposal),
        scope=text_from(scope),
        risks=text_from(risks),
        rollback=text_from(rollback),
        objection_deadline=deadline,
    )
    return record(place, what, writer(place, as_name), root=root, as_json=as_json)


@click.command("amend")
@click.argument("proposal_id", metavar="PROP-001")
@click.argument("change")
@click.option("--title", default="", help="Another title.")
@click.option("--proposal", default="", help="The proposal as it reads now; if left out, it stays as it was.")
@_proposal_options
@root_option
@as_option
@json_option
def amend_command(
    proposal_id: str,
    change: str,
    title: str,
    proposal: str,
    scope: str,
    risks: str,
    rollback: str,
    deadline: str,
    root: Path | None,
    as_name: str,
    as_json: bool,
) -> int:
    """Revise a proposal of your own. CHANGE says what is different; `-` reads it from standard input."""
    from ..peers.roster import fold
    from ..peers.worklog.compose import Amendment

    place = place_with_log(root)
    author = writer(place, as_name)
    last = _required(_proposals(place), proposal_id)
    if fold(last.actor) != fold(author.name):
        raise SortieError(
            f"{proposal_id} is a proposal of {last.actor}, who alone amends it.",
            fix=f"Say what you would do instead: `sortie worklog object {proposal_id} --counter TEXT`.",
        )

    def as_it_was(given: str, key: str) -> str:
        return text_from(given) or str(last.payload.get(key, ""))

    what = Amendment(
        id=proposal_id,
        title=title or last.subject,
        change=text_from(change),
        proposal=as_it_was(proposal, "proposal"),
        scope=as_it_was(scope, "scope"),
        risks=as_it_was(risks, "risks"),
        rollback=as_it_was(rollback, "rollback"),
        objection_deadline=deadline or str(last.payload.get("objection_deadline", "")),
    )
    return record(place, what, author, root=root, as_json=as_json)


@click.command("object")
@click.argument("about")
@click.option("--recommended-by", default="", metavar="NAME", help="Whose recommendation you disagree with.")
@click.option("--recommended", default="", metavar="TEXT", help="What they recommend.")
@click.option("--counter", required=True, metavar="TEXT", help="What you recommend; `-` reads standard input.")
@click.option("--reason", "reasons", multiple=True, metavar="TEXT", help="Why; repeat it.")
@click.option("--compromise", default="", metavar="TEXT", help="What both could live with.")
@root_option
@as_option
@json_option
def object_command(
    about: str,
    recommended_by: str,
    recommended: str,
    counter: str,
    reasons: tuple[str, ...],
    compromise: str,
    root: Path | None,
    as_name: str,
    as_json: bool,
) -> int:
    """Disagree, with a recommendation of your own.

    ABOUT is the id of a proposal, which says who recommended what, or any subject.
    """
    from ..peers.worklog.compose import Objection

    place = place_with_log(root)
    if proposal := _proposals(place).get(about):
        about = f"{about} {proposal.subject}"
        recommended_by = recommended_by or proposal.actor
        recommended = recommended or str(proposal.payload.get("proposal", ""))
    if not recommended_by or not recommended:
        raise click.UsageError(
            "Whom you disagree with, and about what: --recommended-by NAME and --recommended TEXT, or the id of a "
            "proposal in the place of ABOUT."
        )
    what = Objection(
        about=about,
        recommended_by=recommended_by,
        recommended=text_from(recommended),
        counter=text_from(counter),
        reasoning=reasons,
        compromise=text_from(compromise),
    )
    return record(place, what, writer(place, as_name), root=root, as_json=as_json)


@click.command("decide")
@click.argument("title")
@click.argument("decision", default="")
@click.option("--about", multiple=True, metavar="ID", help="What it decides: PROP-…, wl-… or MSG-…; repeat it.")
@click.option("--mode", type=click.Choice(MODES), help="How it came about; the maintainer's own: by adjudication.")
@click.option("--with", "participants", multiple=True, metavar="NAME", help="Who took part; repeat it.")
@click.option("--rationale", default="", metavar="TEXT", help="Why.")
@click.option("--outcome", default="", metavar="TEXT", help="What follows from it.")
@click.option("--follow-up", default="", metavar="TEXT", help="What is to be done now.")
@root_option
@as_option
@json_option
def decide_command(
    title: str,
    decision: str,
    about: tuple[str, ...],
    mode: str | None,
    participants: tuple[str, ...],
    rationale: str,
    outcome: str,
    follow_up: str,
    root: Path | None,
    as_name: str,
    as_json: bool,
) -> int:
    """Record a decision: an entry, and a row of the decision index.

    DECISION is the TITLE if left out; `-` reads it from standard input. A maintainer decision is one that the
    maintainer's own command records; an agent records what was agreed on, with --mode. It ends the proposals and
    objections that it names: with --about, by their title, or by an id in its text. A message that it names stays
    as it is, and whoever has it answers it; but its decision stands in the log then.
    """
    from ..peers.worklog.compose import Decision

    place = place_with_log(root)
    author = writer(place, as_name)
    if mode is None and author.role != "maintainer":
        raise SortieError(
            f"{author.name} cannot decide alone.",
            fix='Say how it was agreed on, with --mode consensus or --mode "counter-rec resolved"; or escalate it.',
        )
    what = Decision(
        title=title,
        decision=text_from(decision) or title,
        mode=mode or ADJUDICATION,  # type: ignore[arg-type]
        participants=participants or (author.name,),
        rationale=text_from(rationale),
        outcome=text_from(outcome),
        follow_up=text_from(follow_up),
        about=_known_ids(place, about),
    )
    return record(place, what, author, root=root, as_json=as_json)


@click.command("escalate")
@click.argument("subject")
@click.argument("reason")
@click.option("--message", "message_id", default="", metavar="MSG-ID", help="The message that it is about.")
@root_option
@as_option
@json_option
def escalate_command(
    subject: str, reason: str, message_id: str, root: Path | None, as_name: str, as_json: bool
) -> int:
    """Ask the maintainer to settle what agents cannot. REASON is `-` for standard input."""
    from ..peers.worklog.compose import Escalation

    place = place_with_log(root)
    what = Escalation(subject=subject, reason=text_from(reason), message_id=message_id)
    return record(place, what, writer(place, as_name), root=root, as_json=as_json)


def _known_ids(place: Place, ids: tuple[str, ...]) -> tuple[str, ...]:
    """The ids, each once; one that nothing has is refused."""
    if not ids:
        return ()
    from ..peers.mailbox.mailbox_file import MailboxFile
    from ..peers.worklog.events import events_of
    from ..peers.worklog.open_items import open_items
    from ..peers.worklog.worklog_file import WorklogFile
    from ..workflow.problems import did_you_mean

    events = events_of(WorklogFile(place.worklog).read())
    proposals = {str(event.payload.get("id")) for event in events if event.event_type.startswith("proposal.")}
    known = proposals.union(*({event.entry_id, event.event_id} for event in events))
    found: dict[str, None] = {}
    for one in ids:
        if one.upper().startswith("MSG-"):
            found[MailboxFile(place).find(one)[1].message.id] = None
        elif one in known:
            found[one] = None
        else:
            waiting = (event.event_id for event in open_items(events).objections)
            meant = did_you_mean(one, [*proposals, *waiting]) or "."
            fix = "`sortie worklog status` shows what is open, `sortie worklog events` everything."
            raise SortieError(f'There is no "{one[:80]}" in the work log{meant}', fix=fix)
    return tuple(found)


def _proposals(place: Place) -> dict[str, Event]:
    """The last version of each, by its id."""
    from ..peers.worklog.events import events_of
    from ..peers.worklog.worklog_file import WorklogFile

    events = events_of(WorklogFile(place.worklog).read())
    return {str(event.payload.get("id", "")): event for event in events if event.event_type.startswith("proposal.")}


def _required(known: dict[str, Event], proposal_id: str) -> Event:
    if found := known.get(proposal_id):
        return found
    from ..workflow.problems import did_you_mean

    meant = did_you_mean(proposal_id, known) or "."
    fix = "`sortie worklog status` shows those that are open." if known else "Propose something first."
    raise SortieError(f'There is no proposal "{proposal_id}"{meant}', fix=fix)
