"""Checks that the issues in a store belong to the workflow's project, for trackers whose ids are only unique in
one.

Issue 1 of one repository must not be mistaken for issue 1 of another: that could free a parked issue, remove its
workspace, or write to the wrong issue.
"""

from __future__ import annotations

from ..core.schedule import Schedule
from ..errors import ConfigurationError
from ..plugins import load_tracker
from ..workflow.config import Config


def other_project(schedule: Schedule, config: Config) -> ConfigurationError | None:
    """Why this workflow cannot go on with these; None where it can."""
    tracker = config.tracker
    if not getattr(load_tracker(tracker.kind), "ids_within_project", False):
        return None
    before = str(config.options.get(tracker.kind, {}).get("renamed_from", tracker.project))
    ours = {tracker.project.casefold(), before.casefold()}
    for identifier in _known(schedule):
        place = identifier.rpartition("#")[0]
        if place.casefold() not in ours:
            what = f"The store {config.db_path} has issues of {place or 'another tracker'}, such as {identifier}"
            renamed = f"; or, if {place} was renamed, add `{tracker.kind}: {{renamed_from: {place}}}`"
            return ConfigurationError(
                f"{what}, and tracker.project is {tracker.project}, where the same numbers are other issues.",
                fix=f"Name another db_path{renamed if place else ''}.",
            )
    return None


def _known(schedule: Schedule) -> list[str]:
    held = (schedule.running, schedule.waiting, schedule.parked, schedule.workspaces, schedule.issues)
    return [one.identifier for some in held for one in some.values()]
