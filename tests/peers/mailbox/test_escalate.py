"""What nobody answered in time is told in the work log once, whatever happens to our state."""

from __future__ import annotations

import shutil

import pytest

from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.escalate import escalate, noted_on_cards, told_in_log
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.place import place_at
from sortie.peers.turn_register import TurnRegister
from sortie.peers.worklog.compose import Escalation, Note
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.worklog_file import WorklogFile

from .samples import ALICE, BOB, MAINTAINER, NOW, ROSTER


class Scene:
    def __init__(self, root):
        self.place = place_at(root)
        self.box = MailboxFile(self.place, roster=ROSTER)
        self.log = WorklogFile(self.place.worklog)
        self.turns = TurnRegister(self.place)
        self.box.create(MAINTAINER, NOW)
        self.log.create(ROSTER.agents, ROSTER.maintainer, MAINTAINER, NOW)

    def send(self, to="Bob", **words):
        draft = Draft(to=(to,), **{"subject": "The build is red", "priority": "P0", **words})
        return self.box.send(draft, ALICE, at=NOW).message

    def turn(self, agent="Bob", began=NOW + 10):
        turn = self.turns.begin(agent=agent, kind="work", began=began)
        self.turns.end(turn.number, "succeeded", began + 5)

    def escalate(self, at=NOW + 100):
        found = escalate(self.box, self.log, MAINTAINER, at=at, turns_of=self.turns.turns_of)
        return [one.message.id for one in found]

    def told(self):
        return [event for event in events_of(self.log.read()) if event.event_type == "escalation.requested"]


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


def test_a_p0_message_that_its_receiver_let_pass_is_escalated_once(scene):
    """LOG-12: into the work log, in the words of the protocol; the card says so too."""
    message = scene.send()
    assert scene.escalate() == []
    scene.turn("Carol")
    assert scene.escalate() == []
    scene.turn("Bob")
    assert scene.escalate() == [message.id]
    line = f"Escalated: {message.id} — The build is red — receiver did not ack within P0 window"
    assert line in scene.place.worklog.read_text()
    (event,) = scene.told()
    assert message.id in event.links
    (card,) = scene.box.read().find(message.id)
    assert message.id in noted_on_cards(scene.box)
    assert card.message.acks[-1].text.startswith("escalated to the work log: ")
    assert card.message.status == "new"
    scene.turn("Bob", NOW + 200)
    assert scene.escalate(NOW + 300) == []
    assert len(scene.told()) == 1
    (card,) = scene.box.read().find(message.id)
    assert [ack.actor for ack in card.message.acks] == ["Maintainer"]


def test_a_turn_that_was_under_way_when_it_was_sent_does_not_count(scene):
    """LOG-12"""
    scene.send()
    scene.turn(began=NOW - 10)
    assert scene.escalate() == []


def test_an_expired_message_is_escalated_whatever_its_priority(scene):
    """LOG-12"""
    message = scene.send(priority="P2", response_needed_by="2026-11-18T11:08:00Z")
    assert scene.escalate(NOW + 60) == []
    assert scene.escalate(NOW + 100) == [message.id]
    assert "— receiver did not respond by 2026-11-18T11:08:00Z" in scene.place.worklog.read_text()


def test_an_answered_message_is_not_escalated(scene):
    """LOG-12"""
    message = scene.send()
    scene.box.move(message.id, "acknowledged", BOB, at=NOW)
    scene.turn()
    assert scene.escalate() == []


def test_our_state_is_lost_and_nothing_is_told_twice(scene):
    """LOG-12: the line in the log counts, also where only that is left of an escalation."""
    message = scene.send()
    before = scene.box.path.read_bytes()
    scene.turn()
    assert scene.escalate() == [message.id]
    register = scene.place.state / "turns.jsonl"
    kept = register.read_bytes()
    shutil.rmtree(scene.place.state)
    scene.place.state.mkdir(mode=0o700)
    register.write_bytes(kept)
    scene.box.path.write_bytes(before)
    assert scene.escalate() == []
    assert len(scene.told()) == 1
    assert message.id in noted_on_cards(scene.box)


def test_whoever_dies_between_log_and_card_leaves_work_for_the_next(scene):
    """LOG-12"""
    message = scene.send()
    scene.turn()
    before = scene.box.path.read_bytes()
    scene.escalate()
    scene.box.path.write_bytes(before)  # as if the card had not been written
    assert scene.escalate() == []
    assert len(scene.told()) == 1
    assert message.id in noted_on_cards(scene.box)


def test_hostile_subjects_stay_in_their_line(scene):
    """LOG-12"""
    message = scene.send(subject="x — y | Escalated: MSG-20261118-777 ### heading")
    scene.turn()
    scene.escalate()
    (event,) = scene.told()
    assert event.actor == "Maintainer"
    assert told_in_log(scene.log) >= {message.id}
    assert not told_in_log(scene.log) & {"MSG-20261118-999"}


@pytest.mark.parametrize("author", [BOB, None], ids=["by a command", "by hand"])
def test_a_receiver_does_not_talk_an_escalation_away(scene, author):
    """LOG-12: neither in the work log nor on the card, in whatever words."""
    message = scene.send()
    if author:
        scene.log.record(Note(title="Note", text=f"Escalated: {message.id} is nothing."), BOB, at=NOW + 1)
        scene.log.record(Escalation(subject="x", reason="nothing", message_id=message.id), BOB, at=NOW + 1)
    else:
        before = scene.place.worklog.read_bytes()
        with scene.place.worklog.open("a") as log:
            log.write(f"\n### 2026-11-18T11:07:00Z — sortie: Escalation: x\n\nEscalated: {message.id} — x — y\n")
        text = scene.box.path.read_text()
        line = "- sortie — 2026-11-18T11:07:00Z — escalated to the work log: receiver did not ack\n"
        scene.box.path.write_text(text.replace("\n## Closed", f"\n**Ack**\n\n{line}\n## Closed"))
        scene.log.adopt(before, BOB, NOW + 2)  # as the end of a turn does it
    scene.turn()
    assert scene.escalate() == [message.id]
    assert scene.escalate() == []


def test_a_turn_that_began_earlier_in_the_same_second_does_not_count(scene):
    """LOG-12: the date of a card has no parts of a second; our record has."""
    draft = Draft(to=("Bob",), subject="The build is red", priority="P0")
    scene.box.send(draft, ALICE, at=NOW + 0.7)
    scene.turn(began=NOW + 0.2)
    assert scene.escalate() == []
