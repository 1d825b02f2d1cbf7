"""`sortie plan collect` and `archive`: what came of a plan in one folder, and everything else out of the way."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import SortieError
from .format import count
from .main import DONE, UNFINISHED, decided
from .plan import load, load_to_look, plan_argument, require_store
from .printing import json_option, print_json, print_sentence
from .store_access import complain
from .ticker import Ticker

if TYPE_CHECKING:
    from ..plans.archiving import Archived
    from ..plans.collection import Account, Collection
    from ..plans.collection_place import CollectionPlace
    from ..plans.plan import Plan

# In these states something may still come of a task, by itself or by a person.
GOING_ON = ("running", "stale", "ready", "waiting", "outdated", "escalated")
NAMED = 5


@click.command("collect")
@plan_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The folder; default: consolidated/.")
@click.option("--flat", is_flag=True, help="Merge all files into one tree; where two differ, neither is merged.")
@click.option("--skip-unsafe", is_flag=True, help="Leave out links, pipes and devices instead of refusing.")
@json_option
def collect_command(plan: Path, output: Path | None, flat: bool, skip_unsafe: bool, as_json: bool) -> int:
    """Copy what the tasks delivered into one folder, with a summary.md for people and a manifest.json with hashes.

    Every file is what it was when its task was completed; one that changed since is named, not copied. Of tasks
    that failed, error_report.md and partial/ are copied. An earlier collection is replaced; if somebody changed
    anything in it, it is kept, with the time in its name. The exit code is 0 where every task is completed and all
    it delivered is there, else 3.
    """
    from ..plans.collect import collect
    from ..plans.collection import manifest_of
    from ..plans.collection_page import summary_page
    from ..plans.collection_place import CollectionPlace, write_pages
    from ..plans.plan import CONSOLIDATED
    from ..protocol.foreign_text import json_bytes

    loaded = load_to_look(plan)
    accounts = _accounts(loaded)
    ticker = Ticker()
    place = CollectionPlace(output or loaded.root / CONSOLIDATED, ticker.check)
    with ticker, place.build() as target:
        collection = collect(
            loaded,
            accounts,
            target,
            flat=flat,
            skip_unsafe=skip_unsafe,
            check=ticker.check,
            watch=ticker.watch,
        )
        summary = summary_page(collection).encode("utf-8", "backslashreplace")
        manifest = manifest_of(collection, time.time(), summary)
        write_pages(target, summary, json_bytes(manifest))
    code = decided(DONE if collection.is_whole else UNFINISHED)
    if as_json:
        print_json(
            {"folder": str(place.folder), "kept": str(place.kept) if place.kept else None, "manifest": manifest}
        )
    else:
        _tell_collected(collection, place)
    return code


def _accounts(plan: Plan) -> dict[str, Account]:
    from ..plans.collection import Account
    from ..plans.progress import COMPLETED, Memo
    from ..reports.plan_standing import known_of, used_by_task
    from ..store.queries import Used

    require_store(plan)
    (schedule, found, _), used = known_of(plan), used_by_task(plan)
    accounts = {}
    for name, standing in found.items():
        view, taken = schedule.issues.get(name), used.get(name, Used())
        accounts[name] = Account(
            state=standing.state,
            note=standing.note,
            is_completed=view is not None and view.state == COMPLETED,
            memo=Memo.decode(view.memo) if view else Memo(),
            seconds=taken.seconds,
            tokens=taken.tokens,
            cost_usd=taken.cost_usd,
        )
    return accounts


def _tell_collected(collection: Collection, place: CollectionPlace) -> None:
    results = collection.results
    paths = {file.path for result in results for file in result.files}
    completed = sum(result.account.state == "completed" for result in results)
    criteria = [one for result in results for one in result.criteria]
    met = sum(bool(one.met) for one in criteria)
    print_sentence(
        f"{count(len(paths), 'file')} of {count(len(results), 'task')} ({completed:,} completed) in "
        f"{place.folder}; {met:,} of {len(criteria):,} success criteria are shown as met."
    )
    for result in results:
        if result.account.state != "completed":
            complain(f"{result.name} is {result.account.state}: {result.account.note}".rstrip(": "))
        for path, why in result.changed[:NAMED]:
            complain(f"{result.name}/{path} is not collected: {why}.")
        for path, why in result.refused[:NAMED]:
            complain(f"{result.name}/{path} is left out: {_lowered(why)}.")
        hidden = len(result.changed[NAMED:]) + len(result.refused[NAMED:])
        if hidden:
            complain(f"{result.name}: {hidden:,} more are not collected; manifest.json has them.")
        if result.added:
            complain(f"{result.name}: {count(len(result.added), 'file')} came after it was completed: left out.")
    for path, agents in collection.conflicts[:NAMED]:
        complain(f"{path} is not merged: it is not the same from {', '.join(agents)}.")
    if place.kept:
        print_sentence(f"The earlier collection was changed by somebody: it is kept as {place.kept}.")
    print_sentence(f"Read {place.folder / 'summary.md'}.")


# -- archive ----------------------------------------------------------------------------------------------------


@click.command("archive")
@plan_argument
@click.option("--remove", is_flag=True, help="Remove everything for good; nothing is archived.")
@click.option("--force", is_flag=True, help="Also while tasks are unfinished; never while the plan runs.")
@json_option
def archive_command(plan: Path, remove: bool, force: bool, as_json: bool) -> int:
    """Put away the folders of a plan that is over, so that the next run begins anew.

    Task folders, messages, corrected inputs, ESCALATIONS.md, logs and the store are copied to _archive/TIME-PLAN/;
    the originals go when every copy has been read again. What was collected stays. Links, pipes and devices are
    never archived: they are listed in NOT-ARCHIVED.txt there and stay where they are. An archive is never
    overwritten, nor ever deleted; one that was interrupted is finished by the next call.
    """
    from ..plans.archiving import archive_plan, remove_plan
    from ..plans.plan import ARCHIVE
    from ..store.lock import held, root_held

    loaded = load(plan)
    if not loaded.store.exists() and not (loaded.root / ARCHIVE).is_dir():
        return _tell_nothing(as_json)
    holder = {"command": "archive"}
    ticker = Ticker()
    with ExitStack() as stack:
        stack.enter_context(held(loaded.store, holder))
        stack.enter_context(root_held(loaded.root, holder))
        tasks, about = _about(loaded, force=force)
        stack.enter_context(ticker)
        if remove:
            removed = remove_plan(loaded, tasks, ticker.check, ticker.watch)
            archived = None
        else:
            archived = archive_plan(loaded, tasks, about, ticker.check, ticker.watch)
    if archived is None:
        return _tell_removed(loaded, removed, as_json=as_json)
    code = decided(UNFINISHED if archived.not_archived or archived.changed else DONE)
    if as_json:
        print_json(_plain(archived))
    else:
        _tell_archived(archived)
    return code


def _about(plan: Plan, *, force: bool) -> tuple[list[str], dict[str, Any]]:
    """The folders that the run made, and what the archive says of its tasks."""
    from ..reports.plan_standing import known_of

    if not plan.store.exists():
        return [], {}  # nothing, but what an interrupted call left
    schedule, found, _ = known_of(plan, is_locked=True)
    going_on = [name for name, standing in found.items() if standing.state in GOING_ON]
    if going_on and not force:
        more = f" and {len(going_on) - NAMED:,} more" if len(going_on) > NAMED else ""
        states = ", ".join(f"{name} ({found[name].state})" for name in going_on[:NAMED])
        raise SortieError(
            f"The plan is not over: {states}{more}.",
            fix="`sortie plan run` goes on with it; `sortie plan archive --force` puts it away as it is.",
        )
    _bring_home(plan.store)
    states_now = {name: {"state": one.state, "note": one.note} for name, one in found.items()}
    return sorted(schedule.workspaces), {"plan_file": str(plan.path), "tasks": states_now}


def _bring_home(store: Path) -> None:
    """The log of the store goes into the store, if it is in order; else it is archived as it is."""
    import sqlite3

    from ..errors import StoreError
    from ..store.connect import connect_existing

    with suppress(StoreError, sqlite3.Error), closing(connect_existing(store)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _plain(archived: Archived) -> dict[str, Any]:
    from ..protocol.foreign_text import escape

    return {
        "folder": str(archived.folder) if archived.folder else None,
        "finished": [str(path) for path in archived.finished],
        "tasks": list(archived.tasks),
        "files": archived.files,
        "bytes": archived.size,
        "not_archived": [{"path": escape(path), "why": why} for path, why in archived.not_archived],
        "changed": [escape(path) for path in archived.changed],
    }


def _tell_archived(archived: Archived) -> None:
    for folder in archived.finished:
        print_sentence(f"{folder}, whose making was interrupted, is finished now.")
    if archived.folder:
        tasks, files = count(len(archived.tasks), "task"), count(archived.files, "file")
        print_sentence(
            f"{tasks} ({files}, {archived.size:,} bytes) in {archived.folder}; the next run begins anew."
        )
    elif not archived.finished:
        print_sentence("There is nothing to archive.")
    for path, why in archived.not_archived[:NAMED]:
        complain(f"{path} is not archived and stays: {_lowered(why)}.")
    if len(archived.not_archived) > NAMED:
        complain(f"{len(archived.not_archived) - NAMED:,} more are not archived; NOT-ARCHIVED.txt has all of them.")
    for path in archived.changed[:NAMED]:
        complain(f"{path} changed while it was archived and stays: archive it again.")


def _tell_removed(plan: Plan, removed: list[str], *, as_json: bool) -> int:
    if as_json:
        print_json({"removed": removed})
    elif removed:
        print_sentence(f"Removed from {plan.root}: {', '.join(removed)}. The next run begins anew.")
    else:
        print_sentence("There is nothing to remove.")
    return DONE


def _tell_nothing(as_json: bool) -> int:
    if as_json:
        from ..plans.archiving import Archived

        print_json(_plain(Archived()))
    else:
        print_sentence("There is nothing to put away: the plan has not been run.")
    return DONE


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
