"""Handles buttons and forms: writes a command for the service, waits for its reply, and redirects back.

Permission is checked before anything here runs.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from ...core.operator import Reply, problem_with_answer
from ...errors import SortieError
from ...protocol.web_address import issue_path
from ...store.commands import add_commands, reply_to
from ...store.queries import find_issue
from .. import show
from ..render import may_operate
from ..replies import Shown
from ..site import Site
from .errors import error_page

ISSUE_VERBS = ("answer", "stop", "retry", "unpark", "start")
TASK_VERBS = ("reopen", "skip", "accept", "stop")
MOST_FIELDS = 20
REPLY_WITHIN = 3.0
ASK_EVERY = 0.03
# Who clicks twice means it once: so long and so many forms that were sent are known again.
SAME_FORM = 600.0
MOST_FORMS = 1000
LONGEST_MARK = 100
# Where a button may lead back to: pages of ours that show a reply.
_BACK = re.compile(r"/(?:\?[!-~]*)?|/issues/[!-~]*|/plan(?:/[!-~]*)?|/runs/[!-~]*")


class SentForms:
    """The forms that were sent lately, by the mark that each got when its page was made: what is sent again is not
    carried out again. A mark stands for what it was sent with, so that who goes back and writes something else is
    heard. Without one, as scripts send it, everything counts."""

    def __init__(self, most: int = MOST_FORMS) -> None:
        self._most = most
        self._sent: dict[tuple[str, str, str, str], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def command(self, site: Site, once: str, verb: str, issue: str, text: str) -> int:
        """Its number; that of the first time where the form was sent before."""
        if not 0 < len(once) <= LONGEST_MARK:
            return _left(site, verb, issue, text)
        form, now = (once, verb, issue, text), time.monotonic()
        with self._lock:
            sent_at, number = self._sent.get(form, (0.0, 0))
            if not number or now - sent_at > SAME_FORM:
                number = _left(site, verb, issue, text)
                self._sent[form] = (now, number)
                while len(self._sent) > self._most:
                    self._sent.pop(next(iter(self._sent)))
        return number


def _left(site: Site, verb: str, issue: str, text: str) -> int:
    (number,) = add_commands(site.database, verb, [issue], text=text)
    return number


def routes(site: Site) -> list[BaseRoute]:
    sent = SentForms()

    async def command(request: Request) -> Response:
        return await site.decisions.run(_answer, site, sent, request, await _fields(request))

    return [Route("/issues/{identifier:path}/{verb}", command, methods=["POST"])]


def _answer(site: Site, sent: SentForms, request: Request, fields: Mapping[str, str]) -> Response:
    """Blocks, also where settings are read for a sentence."""
    verb = request.path_params["verb"]
    if verb not in (*ISSUE_VERBS, *TASK_VERBS):
        return error_page(site, request, 404, f"There is no command {show.line(verb, 40)}.")
    if site.read_only or not may_operate(request):
        return error_page(site, request, 403, "You can only read here.")
    named = request.path_params["identifier"] or request.query_params.get("named", "")
    reply = _carried_out(site, sent, verb, named, fields)
    name = site.replies.keep(Shown(reply.ok, site.hide(reply.outcome)))
    back = fields.get("back", "")
    path = back if _BACK.fullmatch(back) else issue_path(named)
    return RedirectResponse(f"{path}{'&' if '?' in path else '?'}reply={name}", 303)


def _carried_out(site: Site, sent: SentForms, verb: str, named: str, fields: Mapping[str, str]) -> Reply:
    """What the service says to it. Blocks."""
    text = fields.get("text", "") if verb == "answer" else ""
    if verb == "answer" and (problem := problem_with_answer(text)):
        return Reply(False, problem)
    try:
        with site.looking() as db:
            issue = find_issue(db, named)
            if issue is None and verb != "start":
                return Reply(False, f"{named} is not known here.")
            number = sent.command(site, fields.get("once", ""), verb, issue or named, text)
            if not site.is_served:
                start = f"`{site.start_command}` starts it"
                return Reply(True, f"The service is not running; the command is carried out when {start}.")
            deadline = time.monotonic() + REPLY_WITHIN
            while (reply := reply_to(db, number)) is None and time.monotonic() < deadline:
                time.sleep(ASK_EVERY)
    except SortieError as error:
        return Reply(False, f"{error}{f' {error.fix}' if error.fix else ''}")
    return reply or Reply(True, "The service has not answered yet; it carries out the command when it continues.")


async def _fields(request: Request) -> dict[str, str]:
    """What the form says; whatever is no form says nothing. Its size was checked before."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        found = parse_qs(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return {}
    return {name: values[-1].replace("\r\n", "\n") for name, values in found.items()}
