"""`sortie token`: makes, lists and revokes tokens for the dashboard and the HTTP API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from ..errors import SortieError
from ..peers.author import refuse_in_a_run
from ..reports.words import start_command
from ..store.web_tokens import Scope
from .format import count, stamp
from .main import DONE
from .printing import Columns, json_option, print_json, print_sentence, print_table
from .store_access import load_config, looking_at, workflow_option

if TYPE_CHECKING:
    from ..store.web_tokens import TokenRow
    from ..workflow.config import Config


@click.group("token", invoke_without_command=True)
@click.pass_context
def token_command(ctx: click.Context) -> None:
    """Tokens for the dashboard. Reading from this machine needs none; changing things does."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    else:
        refuse_in_a_run(
            "gives out tokens", fix="A person does so in a terminal of their own, outside of any agent."
        )


@token_command.command("new", short_help="print a login link, or a bearer token")
@click.option(
    "--scope",
    type=click.Choice(get_args(Scope)),
    default="operate",
    show_default=True,
    help="operate: everything; read: read only; metrics: only /metrics.",
)
@workflow_option
@json_option
def new_command(scope: Any, workflow: Path, as_json: bool) -> int:
    """Make a token. It is shown only once; the store keeps only its digest.

    Open the link in a browser, which remembers the token. A link is printed only while a dashboard is served.
    Programs send the token with each request: `Authorization: Bearer TOKEN`.
    """
    from ..store.web_tokens import short
    from ..web.tokens import digest_of, link, new_token

    config = load_config(workflow)
    token = new_token(config.db_path, scope)
    served = None if scope == "metrics" else _dashboard_of(config)
    address = link(served, token) if served else None
    if as_json:
        print_json({"id": short(digest_of(token)), "scope": scope, "token": token, "link": address})
    else:
        click.echo(address or f"Authorization: Bearer {token}")
        if address is None and scope != "metrics":
            click.echo(
                "No dashboard is served for this store now, so there is no link: "
                f"start one with `{start_command(config.path)}` and paste the token at /login.",
                err=True,
            )
    return DONE


@token_command.command("list", short_help="list the tokens and their scopes")
@workflow_option
@json_option
def list_command(workflow: Path, as_json: bool) -> int:
    """Show the tokens in the store, oldest first. Tokens that the workflow sets are not listed."""
    from ..store.web_tokens import tokens

    with looking_at(load_config(workflow)) as db:
        found = tokens(db)
    if as_json:
        print_json([_facts(row) for row in found])
    elif found:
        cells = [tuple(_facts(row).values()) for row in found]
        print_table(Columns(("id", "scope", "created"), cells, cut=()))
    else:
        print_sentence("There are no tokens; `sortie token new` makes one.")
    return DONE


@token_command.command("revoke", short_help="revoke tokens, with immediate effect")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All tokens in the store.")
@workflow_option
@json_option
def revoke_command(ids: tuple[str, ...], everything: bool, workflow: Path, as_json: bool) -> int:
    """Revoke tokens by their ids, as `sortie token list` shows them. It takes effect at once."""
    from ..store.web_tokens import remove_tokens

    if bool(ids) == everything:
        raise click.UsageError("Name the tokens by their ids, or use --all instead.")
    gone = remove_tokens(load_config(workflow).db_path, None if everything else ids)
    if missing := sorted(set(ids) - {row.id for row in gone}):
        said = f"Revoked {', '.join(row.id for row in gone)}; " if gone else ""
        raise SortieError(
            f"{said}there is no token {', '.join(missing)}.", fix="`sortie token list` shows them all."
        )
    if as_json:
        print_json([_facts(row) for row in gone])
    else:
        print_sentence(f"Revoked {count(len(gone), 'token')}.")
    return DONE


def _facts(row: TokenRow) -> dict[str, str]:
    return {"id": row.id, "scope": row.scope, "created_at": stamp(row.created_at)}


def _dashboard_of(config: Config) -> str | None:
    """The address at which the service of this store serves it now. The address in the settings may be in use by
    another service, which must not get our token."""
    from ..store.lock import holder_of

    served = (holder_of(config.db_path) or {}).get("dashboard")
    return served if isinstance(served, str) and served.startswith(("http://", "https://")) else None
