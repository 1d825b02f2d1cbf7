"""What state an issue of GitHub is in, and how it gets into another one: pure, and safe at every step.

GitHub knows open and closed; every other state is a label. At each point of a move the issue reads as being in the
state it came from or in the one it goes to, and to begin the move again completes it: nothing is lost in a crash.
Every step names the one thing it changes, so none undoes what people do meanwhile, and each may be made twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from ...core.policy import Policy
from ..tracker import TrackerSettings

OPEN, CLOSED = "open", "closed"
NOT_DONE = frozenset({"not_planned", "duplicate"})


class Standing(Struct, frozen=True):
    """What GitHub shows of an issue as far as its state follows from it; labels as they are spelled there."""

    is_closed: bool
    reason: str = ""
    labels: tuple[str, ...] = ()


class Switch(Struct, frozen=True):
    """Open or closed, and why."""

    is_closed: bool
    reason: str


class Add(Struct, frozen=True):
    label: str


class Remove(Struct, frozen=True):
    label: str


Step = Switch | Add | Remove


class States:
    """The states of a workflow. Names are compared without regard to case and told as the workflow spells them."""

    def __init__(self, settings: TrackerSettings) -> None:
        active, terminal = _named(settings.active_states), _named(settings.terminal_states)
        failed = {name for name in _named(settings.failed_states) if name in terminal}
        others = _named((settings.in_progress_state, settings.handoff_state))
        in_progress = settings.in_progress_state.lower()
        self._spelled = {OPEN: OPEN, CLOSED: CLOSED} | others | terminal | active
        # Closed is over, whether or not the workflow has it as a state.
        policy = Policy(active_states=tuple(active), terminal_states=(*terminal, CLOSED))
        self.is_active, self.is_terminal = policy.is_active, policy.is_terminal
        self._active = frozenset(active)
        self._terminal = tuple(terminal)
        self._failed = tuple(name for name in terminal if name in failed)
        # A move to the state of work in progress that was cut short must read as not begun: it is announced again.
        first = [name for name in active if name != in_progress]
        ranked = dict.fromkeys((*first, in_progress, *terminal, settings.handoff_state.lower()))
        self._ranked = tuple(name for name in ranked if name not in ("", OPEN, CLOSED))
        self._is_label = frozenset(self._ranked)

    @property
    def names(self) -> tuple[str, ...]:
        """Those an issue may be moved to."""
        return tuple(self._spelled.values())

    @property
    def labels(self) -> tuple[str, ...]:
        """Those that are labels."""
        return tuple(self._spelled[name] for name in self._ranked)

    @property
    def active_labels(self) -> tuple[str, ...]:
        """By which all active issues are found; empty where that takes all open issues."""
        if not self._active or OPEN in self._active:
            return ()
        return tuple(self._spelled[name] for name in self._ranked if name in self._active)

    def spelled(self, state: str) -> str | None:
        """As the workflow has it; None for a state that it does not have."""
        return self._spelled.get(state.strip().lower())

    def others(self, standing: Standing) -> tuple[str, ...]:
        """The labels of people, in lower case: those of states are told as the state, which we change ourselves."""
        return tuple(name for label in standing.labels if (name := label.lower()) not in self._is_label)

    def state_of(self, standing: Standing) -> str:
        present = {label.lower() for label in standing.labels}
        if standing.is_closed:
            return self._spelled[self._of_closed(present, standing.reason)]
        return self._spelled[next((name for name in self._ranked if name in present), OPEN)]

    def _of_closed(self, present: set[str], reason: str) -> str:
        """Never an active one, whatever its labels say: closed is closed."""
        for name in self._terminal:
            if name in present and name in self._is_label:
                return name
        if reason in NOT_DONE and self._failed:
            return self._failed[0]
        if CLOSED in self._terminal:
            return CLOSED
        return next((name for name in self._terminal if name not in self._failed), CLOSED)

    def steps(self, standing: Standing, state: str) -> tuple[Step, ...]:
        """From here to that state, which is one of `names`; nothing where the issue is there already, or where no
        step leads there (`is_out_of_reach`)."""
        if self._has_other_reason(standing, state):
            return ()
        name, now = state.lower(), self.state_of(standing).lower()
        label = self._spelled[name] if name in self._is_label else ""
        rivals = [given for given in standing.labels if given.lower() in self._is_label - {name}]
        bare = _without(standing, rivals)
        is_closed = self.is_terminal(state)
        reason = ("not_planned" if name in self._failed and label else "completed") if is_closed else "reopened"
        switch = [Switch(is_closed, reason)] if is_closed != standing.is_closed else []
        has_it = any(one.lower() == name for one in bare.labels)
        is_needed = label and not has_it and (switch or self.state_of(bare) != label)
        # What does not count now might count once the issue is opened or closed, so it goes before that. The label
        # of the present state goes last: until then the issue reads as it did, or as it will.
        others = [given for given in rivals if given.lower() != now]
        present = [given for given in rivals if given.lower() == now]
        added = [Add(label)] if is_needed else []
        return (*added, *map(Remove, others), *switch, *map(Remove, present))

    def is_out_of_reach(self, standing: Standing, state: str) -> bool:
        """Whether the issue would have to be open on its way to this state."""
        return self._has_other_reason(standing, state) and self.state_of(standing) != self._goal(state)

    def _has_other_reason(self, standing: Standing, state: str) -> bool:
        """GitHub keeps why an issue was closed, and without any label that may read as another state than this one,
        which has none."""
        if state.lower() in self._is_label or not (standing.is_closed and self.is_terminal(state)):
            return False
        return self.state_of(Standing(True, standing.reason)) != self._goal(state)

    def _goal(self, state: str) -> str:
        """What the issue reads as in the end: a bare `closed` is told as the usual terminal state."""
        if state.lower() != CLOSED:
            return self._spelled[state.lower()]
        return self._spelled[self._of_closed(set(), "completed")]


def _without(standing: Standing, labels: Collection[str]) -> Standing:
    kept = tuple(label for label in standing.labels if label not in labels)
    return Standing(standing.is_closed, standing.reason, kept)


def _named(states: Iterable[str]) -> dict[str, str]:
    """Each state by its name in lower case, in the order of the workflow; the first spelling counts."""
    found: dict[str, str] = {}
    for state in states:
        if state:
            found.setdefault(state.lower(), state)
    return found
