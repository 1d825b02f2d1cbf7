"""The table of all operations of `/api/v2`; routes and `openapi.json` are both made from it."""

from __future__ import annotations

from ..reports.changes import WorkspaceChanges
from ..reports.health import Health
from ..reports.peers import PeersReport
from ..reports.plan import TaskDetail
from ..reports.run_detail import RunDetail
from ..reports.runs import RunsPage
from ..reports.status import Status
from ..reports.timeline import Timeline
from ..reports.transcript import Transcript
from ..reports.usage import UsageReport
from . import api_v2_commands as commands
from . import api_v2_issues as issues
from . import api_v2_project as project
from . import api_v2_runs as runs
from .operation import Operation

NO_ISSUE = (404, "issue_not_found")
NO_RUN = (404, "run_not_found")
NO_COMMAND = (404, "command_not_found")
NO_TASK = (404, "task_not_found")
NO_PEERS = (404, "no_peers")

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="status",
        method="GET",
        path="/status",
        summary="What runs, waits, is parked, ready and held back, what was spent, and what needs a person.",
        answer=Status,
        call=issues.status,
    ),
    Operation(
        name="inbox",
        method="GET",
        path="/inbox",
        summary="What needs a person, the most pressing first.",
        answer=issues.Inbox,
        call=issues.inbox,
    ),
    Operation(
        name="issues",
        method="GET",
        path="/issues",
        summary="Issues that are active or held, with the situation of each and the reason.",
        query=issues.IssuesQuery,
        answer=issues.IssuesPage,
        call=issues.issues,
    ),
    Operation(
        name="issue",
        method="GET",
        path="/issues/{identifier}",
        summary="One issue: its situation, what it needs, what it used, its runs.",
        answer=issues.IssueAnswer,
        call=issues.issue,
        errors=(NO_ISSUE,),
    ),
    Operation(
        name="why",
        method="GET",
        path="/issues/{identifier}/why",
        summary="Everything that happened to an issue, a page at a time from the newest.",
        query=issues.WhyQuery,
        answer=Timeline,
        call=issues.why,
        errors=(NO_ISSUE,),
    ),
    Operation(
        name="changes",
        method="GET",
        path="/issues/{identifier}/changes",
        summary="What changed in the workspace of an issue, as a diff where git knows it.",
        answer=WorkspaceChanges,
        call=issues.changes,
        errors=(NO_ISSUE,),
    ),
    Operation(
        name="runs",
        method="GET",
        path="/runs",
        summary="Finished runs, filtered, sorted, in pages.",
        query=runs.RunsQuery,
        answer=RunsPage,
        call=runs.runs,
        errors=(NO_ISSUE,),
    ),
    Operation(
        name="run",
        method="GET",
        path="/runs/{run_id}",
        summary="One run: its turns, tool calls, writes to the tracker, notes and cost.",
        answer=RunDetail,
        call=runs.run,
        errors=(NO_RUN,),
    ),
    Operation(
        name="log",
        method="GET",
        path="/runs/{run_id}/log",
        summary="The transcript of a run, agent and hooks: its end, or the part after or before a position.",
        query=runs.LogQuery,
        answer=Transcript,
        call=runs.log,
        errors=(NO_RUN,),
    ),
    Operation(
        name="prompts",
        method="GET",
        path="/runs/{run_id}/prompts",
        summary="The prompts of a run, turn by turn.",
        answer=runs.PromptsAnswer,
        call=runs.prompts,
        errors=(NO_RUN,),
    ),
    Operation(
        name="usage",
        method="GET",
        path="/usage",
        summary="Tokens and money by day, issue, agent and model; what was not measured is counted as such.",
        query=project.UsageQuery,
        answer=UsageReport,
        call=project.usage,
    ),
    Operation(
        name="health",
        method="GET",
        path="/health",
        summary="The service, the tracker, the store, disks, hosts, and the settings without their secrets.",
        answer=Health,
        call=project.health,
    ),
    Operation(
        name="events",
        method="GET",
        path="/events",
        summary="The event log after a number; `/events/stream` sends events as they happen.",
        query=issues.EventsQuery,
        answer=issues.EventsAnswer,
        call=issues.events_after,
        errors=(NO_ISSUE,),
    ),
    Operation(
        name="command",
        method="POST",
        path="/commands",
        summary="Send a command to the service: answer, stop, retry, unpark, start, refresh, reopen, skip, accept.",
        query=commands.CommandQuery,
        body=commands.Command,
        answer=commands.CommandState,
        status=202,
        call=commands.command,
    ),
    Operation(
        name="command_state",
        method="GET",
        path="/commands/{id}",
        summary="The state of a command, and its reply.",
        answer=commands.CommandState,
        call=commands.command_state,
        errors=(NO_COMMAND,),
    ),
    Operation(
        name="plans",
        method="GET",
        path="/plans",
        summary="The plan of this store as a graph with the state of every task, if it is one.",
        answer=project.PlansAnswer,
        call=project.plans,
    ),
    Operation(
        name="task",
        method="GET",
        path="/plans/tasks/{task}",
        summary="One task of the plan.",
        answer=TaskDetail,
        call=project.task,
        errors=(NO_TASK,),
    ),
    Operation(
        name="peers",
        method="GET",
        path="/peers",
        summary="Work log, mailbox and turns of agents that share a checkout.",
        query=project.PeersQuery,
        answer=PeersReport,
        call=project.peers,
        errors=(NO_PEERS,),
    ),
)
