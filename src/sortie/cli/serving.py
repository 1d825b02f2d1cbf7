"""The options `--port` and `--host`, and opening the dashboard by them, the environment and the workflow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .format import typed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from ..engine.dashboard import Dashboard
    from ..workflow.config import ServerConfig
    from .run import Output

Command = TypeVar("Command", bound=Callable[..., Any])


def server_options(about_port: str) -> Callable[[Command], Command]:
    """`about_port` is the help of `--port`: what 0 and no port mean differs between commands."""
    port = click.option("--port", type=click.IntRange(0, 65535), help=about_port)
    host = click.option(
        "--host", callback=_literal, metavar="IP", help="Listen on this address. Default: 127.0.0.1."
    )
    return lambda command: port(host(command))


def _literal(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    from ..workflow.fields import Address, Unfit

    try:
        return None if value is None else Address().read(value)
    except Unfit as unfit:
        raise click.BadParameter(f"It {unfit}, not {value}.") from unfit


def settings_of_environment(environ: Mapping[str, str]) -> ServerConfig:
    """For commands without a workflow; raises `ConfigurationError` for an invalid variable."""
    from ..errors import ConfigurationError
    from ..workflow.checks import NO_KINDS
    from ..workflow.document import Tree
    from ..workflow.problems import Problems
    from ..workflow.settings import read_config
    from ..workflow.variables import gather, override_name

    problems = Problems("environment")
    variables = gather(environ, None, problems)
    server = read_config(Path("WORKFLOW.md"), Tree(), variables, NO_KINDS, problems).server
    # The problems of a missing workflow are not about the environment.
    mistakes = [str(one) for one in problems.in_order() if one.key.startswith(override_name("server"))]
    if mistakes:
        raise ConfigurationError(mistakes[0], problems=mistakes)
    return server


class Served:
    """The dashboard of a service, or a `hint` for people why there is none. `owner` is the option that names the
    plan in commands about its store, empty for a workflow."""

    def __init__(self, dashboard: Dashboard | None, hint: str = "", owner: str = "") -> None:
        self.dashboard = dashboard
        self.hint = hint
        self._owner = owner

    def announce(self, output: Output) -> None:
        """Log its address, and at the first start a login link."""
        from ..errors import StoreError
        from ..web.tokens import first_link

        assert self.dashboard
        output.log("info", f"dashboard: {self.dashboard.url}")
        try:
            link = first_link(self.dashboard.database, self.dashboard.url)
        except StoreError as error:
            advice = f"make one later with `sortie token new{self._owner}`"
            output.log("warning", f"no token could be made; {advice}: {error}")
            return
        if link:
            key = f"keep it secret; `sortie token revoke{self._owner}` revokes it"
            output.log("info", f"to change things there, open this link ({key}): {link}")

    def held(self) -> AbstractContextManager[object]:
        return closing(self.dashboard) if self.dashboard else nullcontext()


def open_dashboard(
    server: ServerConfig,
    database: Path,
    place: Path,
    environ: Mapping[str, str],
    *,
    env_file: Path | None = None,
    is_plan: bool = False,
    only_if_asked: bool = False,
) -> Served:
    """Bind the address before anything starts. Raises `SortieError` if a port was set and cannot be bound."""
    from ..engine.dashboard import Dashboard
    from ..engine.listen_socket import NotFree, listen
    from ..workflow.config import DEFAULT_PORT

    if server.port == 0 or (only_if_asked and server.port is None):
        return Served(None)
    try:
        listening = listen(server, server.port or DEFAULT_PORT)
    except NotFree as error:
        if server.port is not None:
            raise
        return Served(None, f"there is no dashboard: {error}")
    dashboard = Dashboard(listening, server, database, place, environ, env_file=env_file, is_plan=is_plan)
    return Served(dashboard, owner=f" -w {typed(place)}" if is_plan else "")
