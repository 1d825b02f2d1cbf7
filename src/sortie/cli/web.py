"""`sortie web`: a store in the browser without a service, to look at."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .format import clean
from .main import DONE
from .serving import server_options
from .store_access import PLANS, complain, examine_config, workflow_argument

if TYPE_CHECKING:
    import socket

    from ..workflow.config import Config, ServerConfig


@click.command("web")
@workflow_argument
@server_options("Serve it here; 0: on any that is free. Default: 7678.")
def web_command(workflow: Path, port: int | None, host: str | None) -> int:
    """Serve a store that nobody works on, or that somebody does, to look at; Ctrl-C ends it.

    It is named by its workflow, the directory of that, a plan.yaml, or itself. Where no port is named and the usual
    one is taken, any that is free is used. Nothing can be changed there; for that there is `sortie run`.
    """
    from ..engine.listening import as_asked, url_of
    from ..store.lock import holder_of
    from ..web.server import serve_store
    from ..web.site import Site

    config = examine_config(workflow).config
    place = _place(workflow, config)
    server = as_asked(config.server, port, host)
    asked = port if port is not None else config.server.port or None
    with closing(_listening(server, asked)) as listening:
        site = Site(
            config.db_path,
            place,
            is_plan=place.suffix in PLANS,
            host=server.host,
            read_only=True,
            server=server,
        )
        click.echo(f"dashboard: {url_of(listening)} (Ctrl-C ends it)")
        if own := (holder_of(config.db_path) or {}).get("dashboard"):
            click.echo(
                clean(f"The service that works with this store has its own, where things can be changed: {own}")
            )
        serve_store(site, listening)
    return DONE


def _place(workflow: Path, config: Config) -> Path:
    """What the store belongs to. One that is named itself knows whose it was, if that is still there."""
    from ..store.connect import connect_readonly
    from ..store.queries import last_opened_for

    # Says what is wrong with the store before anybody is served.
    with closing(connect_readonly(config.db_path, complain, may_copy=False)) as db:
        if config.db_path != workflow.absolute():
            return workflow
        owner = Path(last_opened_for(db))
        return owner if owner.is_file() else workflow


def _listening(server: ServerConfig, asked: int | None) -> socket.socket:
    from ..engine.listening import NotFree, listen
    from ..workflow.config import DEFAULT_PORT

    try:
        return listen(server, DEFAULT_PORT if asked is None else asked)
    except NotFree as error:
        if asked is not None:
            fix = "Name another one with `--port`; `--port 0` takes any that is free."
            raise NotFree(error.message, fix=fix) from error
        return listen(server, 0)
