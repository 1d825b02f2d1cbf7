"""What a work log tells, as the document's envelope: eight types of event, and `note` for everything else."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

EventType = Literal[
    "task.claimed",
    "task.completed",
    "handoff.posted",
    "proposal.created",
    "proposal.amended",
    "objection.raised",
    "decision.recorded",
    "escalation.requested",
    "note",
]


class Event(Struct, frozen=True, kw_only=True):
    """A projection: the markdown stays canonical. `timestamp` is ISO-8601, or empty where the log does not say."""

    event_id: str
    event_type: EventType
    session_id: str
    actor: str
    timestamp: str
    subject: str
    payload: dict[str, Any]
    links: tuple[str, ...]

    @property
    def entry_id(self) -> str:
        """Of the entry that tells it: one that tells two things numbers its events behind a point."""
        return entry_id_of(self.event_id)

    def envelope(self) -> dict[str, Any]:
        return {
            "event_id": self.event_id,
            "event_type": self.event_type,
            "session_id": self.session_id,
            "actor": self.actor,
            "timestamp": self.timestamp,
            "subject": self.subject,
            "payload": self.payload,
            "links": list(self.links),
        }


def entry_id_of(event_id: str) -> str:
    return event_id.partition(".")[0]
