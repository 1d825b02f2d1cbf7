"""The workflow in force: loaded at start, exchanged when the file changes for the better, kept when it breaks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import anyio

from ..core import events as ev
from ..core.redact import Redactor
from ..errors import TrackerError
from ..tools.local import tracker_settings
from ..trackers.tracker import Tracker
from ..workflow.loader import Examination, Workflow, check, examine, load
from ..workflow.problems import Problem
from ..workflow.watch import Broken, Changed, Reloader
from . import adapters
from .services import Services

CLOSING_DEADLINE = 5.0


def load_workflow(path: Path, environ: Mapping[str, str], env_file: Path | None) -> Workflow:
    """The workflow, checked by its adapters too; raises `ConfigurationError` with every problem."""
    return load(path, environ=environ, env_file=env_file, kinds=adapters.kinds(), inspect=adapters.problems)


def examine_workflow(
    path: Path, environ: Mapping[str, str], env_file: Path | None = None, *, trial: bool = True
) -> Examination:
    """Everything about the file, also where it is broken; nothing is raised for what is wrong with it."""
    return examine(
        path, environ=environ, env_file=env_file, kinds=adapters.kinds(), inspect=adapters.problems, trial=trial
    )


def check_workflow(path: Path, environ: Mapping[str, str], env_file: Path | None) -> list[Problem]:
    """Every error and warning in the order of the file; nothing is contacted or created."""
    return check(path, environ=environ, env_file=env_file, kinds=adapters.kinds(), inspect=adapters.problems)


class WorkflowKeeper:
    """Building it loads the file for the first time: whatever is wrong then is the caller's to show."""

    def __init__(self, path: Path, environ: Mapping[str, str], env_file: Path | None) -> None:
        self._environ = environ
        self._reloader = Reloader(
            path, environ=environ, env_file=env_file, kinds=adapters.kinds(), inspect=adapters.problems
        )
        self._exchanged: list[Tracker] = []
        self._broken = False

    @property
    def current(self) -> Workflow:
        return self._reloader.current

    def refresh(self, services: Services) -> None:
        """Take over a changed file; runs in progress keep what they began with."""
        match self._reloader.refresh():
            case Changed() as reload:
                self._take_over(services, reload)
            case Broken(problems):
                self._broken = True
                detail = services.redactor.text("\n".join(problems))
                self._note(services, "warning", "the workflow is broken; the last good one stays", detail)

    async def close_exchanged(self, services: Services, in_use: Collection[Tracker] = ()) -> None:
        """Close the trackers that were exchanged and that nobody uses any more."""
        for tracker in [tracker for tracker in self._exchanged if tracker not in in_use]:
            self._exchanged.remove(tracker)
            try:
                with anyio.fail_after(CLOSING_DEADLINE):
                    await tracker.aclose()
            except (TrackerError, TimeoutError) as error:
                detail = services.redactor.text(str(error))
                self._note(services, "warning", "a tracker of an earlier workflow could not be closed", detail)

    def _take_over(self, services: Services, reload: Changed) -> None:
        old, new = services.workflow.config, reload.workflow.config
        services.workflow = reload.workflow
        secrets = adapters.secrets(old, self._environ) | adapters.secrets(new, self._environ)
        services.redactor = Redactor(secrets)
        services.agent = adapters.build_agent(new)
        if tracker_settings(old) != tracker_settings(new):
            self._exchanged.append(services.tracker)
            services.tracker = adapters.build_tracker(new)
        services.ledger.post(ev.PolicySet(at=services.clock.now(), policy=new.policy()))
        what = "can be used again" if self._broken else "changed"
        self._broken = False
        self._note(services, "info", f"the workflow {what}; new runs follow it", "")
        if reload.needs_restart:
            keys = ", ".join(reload.needs_restart)
            self._note(services, "warning", f"a change takes effect only after a restart: {keys}", "")

    def _note(self, services: Services, level: ev.Level, message: str, detail: str) -> None:
        services.ledger.post(ev.Noted(at=services.clock.now(), level=level, message=message, detail=detail))
