"""`sortie web`: serves the dashboard of a store read-only, without a service."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..reports.words import is_plan
from .format import clean
from .main import DONE
from .serving import server_options
from .store_access import complain, examine_config, workflow_argument

if TYPE_CHECKING:
    import socket

    from ..workflow.config import Config, ServerConfig


@click.command("web")
@workflow_argument
@server_options("Port of the dashboard; 0: any free one. Default: 7678.")
def web_command(workflow: Path, port: int | None, host: str | None) -> int:
    """Serve the dashboard of a store read-only, whether a service runs or not; Ctrl-C ends it.

    The store is given by its workflow, the workflow's directory, a plan.yaml, or its own path. If no port is given
    and the default port is taken, any free one is used. To change things, use the dashboard of `sortie run`.
    """
    from ..engine.listen_socket import as_asked, url_of
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
            is_plan=is_plan(place),
            host=server.host,
            read_only=True,
            server=server,
        )
        click.echo(f"dashboard: {url_of(listening)} (Ctrl-C ends it)")
        if own := (holder_of(config.db_path) or {}).get("dashboard"):
            click.echo(clean(f"The service on this store has its own dashboard, which can change things: {own}"))
        serve_store(site, listening)
    return DONE


def _place(workflow: Path, config: Config) -> Path:
    """The workflow or plan of the store. A store given by its own path knows its owner, if that still exists."""
    from ..store.connect import connect_readonly
    from ..store.queries import last_opened_for

    # Reports what is wrong with the store before anything is served.
    with closing(connect_readonly(config.db_path, complain, may_copy=False)) as db:
        if config.db_path != workflow.absolute():
            return workflow
        owner = Path(last_opened_for(db))
        return owner if owner.is_file() else workflow


def _listening(server: ServerConfig, asked: int | None) -> socket.socket:
    from ..engine.listen_socket import NotFree, listen
    from ..workflow.config import DEFAULT_PORT

    try:
        return listen(server, DEFAULT_PORT if asked is None else asked)
    except NotFree as error:
        if asked is not None:
            fix = "Name another one with `--port`; `--port 0` takes any that is free."
            raise NotFree(error.message, fix=fix) from error
        return listen(server, 0)
