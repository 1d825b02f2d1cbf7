"""Which transition takes an issue to a state: Jira's workflow decides, and a refusal says what it allows."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...errors import TrackerError
from ...protocol.foreign_text import readable
from .records import Named, Record

MOST_SHOWN = 20
LONGEST_NAME = 100


class ScreenField(Struct, frozen=True, rename="camel"):
    name: str = ""
    required: bool = False
    has_default_value: bool = False


class Transition(Struct, frozen=True, rename="camel"):
    id: str
    name: str = ""
    to: Named | None = None
    has_screen: bool = False
    is_available: bool = True
    fields: dict[str, ScreenField] | None = None

    @property
    def state(self) -> str:
        return (self.to.name if self.to else "") or ""

    @property
    def wanted(self) -> list[str]:
        """The fields that somebody has to fill in."""
        fields = (self.fields or {}).items()
        return [field.name or key for key, field in fields if field.required and not field.has_default_value]


class Transitions(Struct, frozen=True):
    transitions: list[Transition] = []


def chosen(record: Record, offered: Sequence[Transition], state: str) -> Transition:
    """By the state it leads to, else by its own name; of several the one that asks for the least.

    Raises `TrackerError` of kind PAYLOAD where there is none that we can make.
    """
    name = state.strip().lower()
    available = [each for each in offered if each.is_available]
    found = [each for each in available if each.state.lower() == name]
    found = found or [each for each in available if each.name.lower() == name]
    if not found:
        raise _impossible(record, available, state)
    best = min(found, key=lambda each: (len(each.wanted), each.has_screen))
    if best.wanted:
        fields = ", ".join(_shown(field) for field in best.wanted[:MOST_SHOWN])
        raise TrackerError(
            TrackerError.PAYLOAD,
            f'Jira moves {record.key} to "{_shown(state)}" only with these fields filled in: {fields}.',
            fix="Remove them from the screen of the transition, or give them a default in Jira.",
        )
    return best


def _impossible(record: Record, offered: Sequence[Transition], state: str) -> TrackerError:
    states = list(dict.fromkeys(each.state or each.name for each in offered))
    where = f'{record.key} is in "{_shown(record.state)}" and cannot move to "{_shown(state)}"'
    if not states:
        return TrackerError(
            TrackerError.PAYLOAD,
            f"{where}: Jira offers no transition at all.",
            fix='Give the account the permission "Transition issues", or allow the transition in Jira\'s workflow.',
        )
    return TrackerError(
        TrackerError.PAYLOAD,
        f"{where}; from there Jira allows: {', '.join(_shown(each) for each in states[:MOST_SHOWN])}.",
        fix="Allow the transition in Jira's workflow, or choose one of these.",
    )


def _shown(name: str) -> str:
    return readable(name, LONGEST_NAME)
