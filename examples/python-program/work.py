"""Works off the issues beside it and reports what became of each, from Python."""

from __future__ import annotations

import sys
from pathlib import Path

import sortie
from sortie.core import events


def report(event: events.AnyEvent) -> None:
    """A listener: called with every event as it happens. It must not block and not raise."""
    if isinstance(event, events.Settled):
        print(f"{event.identifier}: {event.why}", flush=True)


def main() -> int:
    workflow = Path(__file__).with_name("WORKFLOW.md")
    try:
        summary = sortie.serve(sortie.Orchestrator.for_workflow(workflow, listeners=[report]), until_idle=True)
    except sortie.SortieError as error:
        print(error, file=sys.stderr)
        return 1
    for parked in summary.parked:
        print(f"{parked.identifier} needs a person: {parked.park.reason}")
    return 0 if summary.clean and not summary.drained else 1


if __name__ == "__main__":
    sys.exit(main())
