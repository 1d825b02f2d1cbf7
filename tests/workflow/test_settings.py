from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from sortie.core.policy import Limits
from sortie.errors import ConfigurationError
from sortie.workflow.loader import check, examine, load

from .sample import KINDS, PROMPT, SETTINGS, load_text, problems_of, write


def warnings_of(folder, settings, **environ):
    return [warning.replace(f"{folder}/", "") for warning in load_text(folder, settings, **environ).warnings]


def test_everything_left_out_has_its_default(tmp_path):
    config = load_text(tmp_path).config
    assert config.base == tmp_path
    assert config.path == tmp_path / "WORKFLOW.md"
    assert config.workspace.root == tmp_path / "workspaces"
    assert config.workspace.archive_keep_days == 14
    assert config.db_path == tmp_path / ".sortie.db"
    assert config.polling.interval == 30.0
    assert config.hooks.timeout == 60.0
    assert (config.agent.turn_timeout, config.agent.read_timeout) == (3600.0, 60.0)
    assert (config.agent.stall_timeout, config.agent.max_retry_backoff) == (300.0, 300.0)
    assert (config.agent.max_concurrent_agents, config.agent.max_turns) == (10, 20)
    assert (config.logging.level, config.logging.format) == ("info", "text")
    assert config.budget.per_issue == Limits(sessions=10, turns=100, tokens=20_000_000, usd=20.0)
    assert config.budget.per_day == Limits(sessions=200, turns=2000, tokens=200_000_000, usd=200.0)
    assert config.secrets == ()
    assert load_text(tmp_path).warnings == ()


def test_the_default_agent_is_claude_code(tmp_path):
    settings = "tracker: {kind: file, active_states: [a]}\n"
    assert load_text(tmp_path, settings).config.agent.kind == "claude-code"


FULL = """\
tracker:
  kind: github
  endpoint: https://example.org
  project: o/r
  active_states: [To Do, Doing]
  terminal_states: [Done]
  query_filter: "label:x"
  handoff_state: Review
  in_progress_state: doing
  comments: {on_dispatch: true, on_failure: true}
polling: {interval_ms: 100}
workspace: {root: /srv/ws, archive_keep_days: 0}
hooks: {after_create: "git init", before_run: b, after_run: a, before_remove: r, timeout_ms: 1500}
agent:
  kind: mock
  command: ./a.sh
  turn_timeout_ms: 1
  read_timeout_ms: 2000
  stall_timeout_ms: 0
  max_concurrent_agents: 3
  max_turns: 4
  max_retry_backoff_ms: 5000
  max_concurrent_agents_by_state: {TO DO: 2}
  env: [HOME]
budget:
  per_issue: {sessions: 1, turns: 2, tokens: 3, usd: 0.5}
  per_day: {sessions: 0, turns: unlimited, tokens: 0, usd: unlimited}
db_path: state/x.db
logging: {level: debug, format: json}
token_rates: {mock: {input_per_mtok: 3, output_per_mtok: 15.5}}
mock: {events_per_turn: 1}
github: {etag_cache_size: 5}
file:
"""


def test_every_setting_reaches_the_config(tmp_path):
    config = load_text(tmp_path, FULL, HOME="/home/me").config
    assert config.tracker.comments.on_dispatch
    assert not config.tracker.comments.on_completion
    assert config.tracker.in_progress_state == "doing"
    assert config.polling.interval == 0.1
    assert str(config.workspace.root) == "/srv/ws"
    assert (config.hooks.after_create, config.hooks.timeout) == ("git init", 1.5)
    assert (config.agent.command, config.agent.turn_timeout, config.agent.stall_timeout) == ("./a.sh", 0.001, 0.0)
    assert config.agent.max_concurrent_agents_by_state == {"to do": 2}
    assert config.agent.env == ("HOME",)
    assert config.budget.per_issue == Limits(sessions=1, turns=2, tokens=3, usd=0.5)
    assert config.budget.per_day == Limits()
    assert config.db_path == tmp_path / "state/x.db"
    assert config.token_rates["mock"].output_per_mtok == 15.5
    assert config.options == {"mock": {"events_per_turn": 1}, "github": {"etag_cache_size": 5}, "file": {}}


def test_the_policy_says_the_same_as_the_settings(tmp_path):
    policy = load_text(tmp_path, FULL, HOME="/").config.policy()
    assert policy.active_states == ("To Do", "Doing")
    assert policy.terminal_states == ("Done",)
    assert (policy.handoff_state, policy.provider) == ("Review", "mock")
    assert (policy.max_concurrent, policy.max_concurrent_by_state, policy.max_turns) == (3, {"to do": 2}, 4)
    assert (policy.turn_timeout, policy.stall_timeout, policy.backoff_cap) == (0.001, 0.0, 5.0)
    assert policy.per_issue == Limits(sessions=1, turns=2, tokens=3, usd=0.5)
    assert policy.per_day == Limits()


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(tmp_path):
    settings = (
        "tracker:\n  kind: fil\n  active_states: [a]\nagnt: {}\n"
        "agent:\n  kind: mock\n  max_turns: many\n  max_trns: 1\nmax_concurrent_agents: 3\n"
    )
    assert problems_of(tmp_path, settings, "{{ issue.titel }}") == [
        'WORKFLOW.md:3: tracker.kind: there is no tracker "fil" here; did you mean "file"?',
        'WORKFLOW.md:5: agnt: there is no such section or key; did you mean "agent"?',
        'WORKFLOW.md:8: agent.max_turns: must be a whole number of at least 1, not "many"',
        'WORKFLOW.md:9: agent.max_trns: there is no such key in agent; did you mean "max_turns"?',
        "WORKFLOW.md:10: max_concurrent_agents: there is no such section or key; "
        'did you mean "agent.max_concurrent_agents"?',
        'WORKFLOW.md:12: issue has no field "titel"; did you mean "title"?',
    ]


def test_the_error_counts_the_problems_and_shows_the_first(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        load_text(tmp_path, SETTINGS + "x: 1\ny: 1\n")
    assert str(caught.value).endswith("WORKFLOW.md:8: x: there is no such section or key")
    assert "has 2 problems" in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("polling: {interval_ms: 99}", "polling.interval_ms: must be a whole number of at least 100, not 99"),
        ("polling: {interval_ms: -1}", "of at least 100, not -1"),
        ("polling: {interval_ms: '500'}", 'of at least 100, not "500"'),
        ("polling: {interval_ms: 500.0}", "of at least 100, not 500.0"),
        ("polling: {interval_ms: true}", "of at least 100, not true"),
        ("polling: 500", "polling: must be a map, not 500"),
        ("hooks: {timeout_ms: 0}", "hooks.timeout_ms: must be a whole number of at least 1, not 0"),
        ("hooks: {before_run: [a]}", "hooks.before_run: must be text, not a list"),
        ("hooks: {before_run: }", "hooks.before_run: must be text, not nothing"),
        ("hooks: {before_run: off}", "hooks.before_run: must be text (put it in quotes), not false"),
        ("workspace: {archive_keep_days: -1}", "of at least 0, not -1"),
        ("workspace: {root: ~bob/x}", "or one that begins with ~/"),
        ("budget: {per_day: {usd: -1}}", 'must be a number of at least 0, or "unlimited", not -1'),
        ("budget: {per_day: {usd: .inf}}", 'must be a number of at least 0, or "unlimited", not inf'),
        ("budget: {per_day: {usd: .nan}}", "not nan"),
        ("budget: {per_day: {turns: 1.5}}", 'of at least 1, or "unlimited", not 1.5'),
        ("budget: {per_day: {turns: false}}", "not false"),
        ("budget: {per_week: {}}", "budget.per_week: there is no such key in budget"),
        ("logging: {level: loud}", 'logging.level: must be debug, info, warn or error, not "loud"'),
        ("token_rates: {mock: {input_per_mtok: -1}}", "token_rates.mock.input_per_mtok: must be a number"),
        ("token_rates: {mock: {inpt: 1}}", "token_rates.mock.inpt: there is no such key"),
        ("token_rates: {mock: 1}", "token_rates.mock: must be a map, not 1"),
        ("file: 3", "file: must be a map, not 3"),
        ("self_review: {}", "self_review: is not supported by this version; remove it"),
        ("reactions: {}", "is not supported by this version"),
        ("ci_feedback: {}", "is not supported by this version"),
        ("worker: {}", "is not supported by this version"),
        ("fle: {}", 'fle: there is no such section or key; did you mean "file"?'),
        ("linear: {}", "linear: there is no such section or key"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(tmp_path, setting, message):
    (problem,) = problems_of(tmp_path, f"{SETTINGS}{setting}\n")
    assert problem.startswith("WORKFLOW.md:8: ")
    assert message in problem


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("turn_timeout_ms: 0", "of at least 1, not 0"),
        ("stall_timeout_ms: -1", "of at least 0, not -1"),
        ("max_concurrent_agents: 0", "of at least 1, not 0"),
        ("max_turns: 0", "of at least 1, not 0"),
        ("max_turns: true", "of at least 1, not true"),
        ("max_sessions: -1", "of at least 0, not -1"),
        ("max_concurrent_agents_by_state: {To Do: 0}", "by_state.To Do: must be a whole number of at least 1"),
        ("env: HOME", "must be a list of texts, not"),
        ("env: ['A=B']", "must be a list of names of environment variables"),
    ],
)
def test_agent_settings_that_are_impossible_are_refused(tmp_path, line, message):
    (problem,) = problems_of(tmp_path, f"{SETTINGS}  {line}\n")
    assert problem.startswith("WORKFLOW.md:8: agent.")
    assert message in problem


def test_an_entry_of_a_list_is_named_by_its_own_line(tmp_path):
    settings = "tracker:\n  kind: file\n  active_states:\n    - a\n    - 404\n    - b\nagent: {kind: mock}\n"
    assert problems_of(tmp_path, settings) == [
        "WORKFLOW.md:6: tracker.active_states: must be a list of texts (put 404 in quotes)"
    ]


def test_tracker_path_points_to_the_block_of_the_file_tracker(tmp_path):
    settings = SETTINGS.replace("  kind: file\n", "  kind: file\n  path: issues.json\n")
    assert problems_of(tmp_path, settings) == [
        "WORKFLOW.md:4: tracker.path: write the path into a block of its own: file: {path: ...}"
    ]


def test_sections_without_content_are_empty_sections(tmp_path):
    assert load_text(tmp_path, SETTINGS + "hooks:\nlogging: {}\n").config.hooks.timeout == 60.0


def test_a_work_log_stands_beside_the_workflow_and_need_not_be_there(tmp_path):
    """LOG-14"""
    assert load_text(tmp_path, SETTINGS).config.worklog is None
    assert load_text(tmp_path, SETTINGS + "worklog: ''\n").config.worklog is None
    assert load_text(tmp_path, SETTINGS + "worklog: WORKLOG.md\n").config.worklog == tmp_path / "WORKLOG.md"
    assert not (tmp_path / "WORKLOG.md").exists()


def test_a_work_log_that_cannot_be_one_is_named(tmp_path):
    """LOG-14"""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.md").symlink_to("folder")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "one.md").touch()
    (tmp_path / "two.md").hardlink_to(tmp_path / "one.md")
    for name, complaint in {
        "folder": "folder is a directory; name a file in it",
        "link.md": "link.md is a link; name the file that it leads to",
        "pipe.md": "pipe.md is not a regular file with one name; name another",
        "two.md": "two.md is not a regular file with one name; name another",
        "no/log.md": "no/log.md cannot be made, because its directory does not exist; make that first",
        "one.md/log.md": "one.md/log.md cannot be used: Not a directory",
        "WORKFLOW.md": "is the workflow itself; name another file",
        "[a, b]": "must be text, not a list",
    }.items():
        settings = SETTINGS + f"worklog: {name}\n"
        assert problems_of(tmp_path, settings) == [f"WORKFLOW.md:8: worklog: {complaint}"]


def test_a_kind_that_is_not_installed_is_refused_even_as_a_default(tmp_path):
    path = write(tmp_path, "tracker: {kind: file, active_states: [a]}\n")
    (problem,) = check(path, environ={}, kinds={"tracker": ("file",), "agent": ("command",)})
    assert (problem.key, problem.line) == ("agent.kind", 1)
    assert check(path, environ={}) == []


def test_blocks_of_the_configured_kinds_are_allowed_without_a_registry(tmp_path):
    path = write(tmp_path, SETTINGS + "file: {path: x}\ncommand: {}\n")
    assert load(path, environ={}).config.options == {"file": {"path": "x"}, "command": {}}


def test_legacy_max_sessions_bounds_the_sessions_of_an_issue(tmp_path):
    limits = load_text(tmp_path, SETTINGS + "  max_sessions: 3\n").config.budget.per_issue
    assert limits == Limits(sessions=3, turns=100, tokens=20_000_000, usd=20.0)


def test_the_budget_wins_over_legacy_max_sessions(tmp_path):
    settings = SETTINGS + "  max_sessions: 3\nbudget: {per_issue: {sessions: unlimited}}\n"
    assert load_text(tmp_path, settings).config.budget.per_issue.sessions is None
    assert "has no effect beside budget.per_issue.sessions" in warnings_of(tmp_path, settings)[0]


def test_legacy_max_sessions_of_zero_keeps_the_bound_and_says_so(tmp_path):
    settings = SETTINGS + "  max_sessions: 0\n"
    assert load_text(tmp_path, settings).config.budget.per_issue.sessions == 10
    assert "bound of 10 sessions per issue" in warnings_of(tmp_path, settings)[0]


def test_what_adapters_find_has_the_line_of_its_key_or_of_the_section_around_it(tmp_path):
    lines = {"file.path": 9, "file.unknown.deeper": 8, "mock.turns": 1}
    path = write(tmp_path, SETTINGS + "file:\n  path: a\n")
    found = check(path, environ={}, kinds=KINDS, inspect=lambda _: [(key, "is wrong") for key in lines])
    assert {problem.key: problem.line for problem in found} == lines


def test_problems_for_machines_have_their_parts(tmp_path):
    (problem,) = check(write(tmp_path, SETTINGS + "  max_turns: 0\n", PROMPT), environ={}, kinds=KINDS)
    assert (problem.line, problem.key, problem.severity) == (8, "agent.max_turns", "error")
    assert problem.file == str(tmp_path / "WORKFLOW.md")


@pytest.mark.parametrize(
    ("settings", "key", "answer"),
    [
        ("tracker: {kind: jira}", "tracker.kind", 'there is no tracker "jira" here; use one of: file, github'),
        ("tracker: {kind: mock}", "tracker.kind", 'there is no tracker "mock" here; use one of: file, github'),
        ("tracker: {kind: comand}", "tracker.kind", 'there is no tracker "comand" here; use one of: file, github'),
        ("agent: {kind: comand}", "agent.kind", 'there is no agent "comand" here; did you mean "command"?'),
        (
            "agent: {kind: file}",
            "agent.kind",
            'there is no agent "file" here; use one of: claude-code, command, mock',
        ),
    ],
)
def test_a_kind_that_is_not_there_is_answered_with_those_of_its_part(tmp_path, settings, key, answer):
    """A tracker is no agent: neither is offered for the other."""
    found = check(write(tmp_path, settings + "\n"), environ={}, kinds=KINDS)
    assert [answer in problem.message for problem in found if problem.key == key] == [True]


def test_a_root_of_workspaces_with_a_colon_is_refused(tmp_path):
    """Git in a workspace could find the repository around it: the list of its bounds is separated by colons."""
    (tmp_path / "a:b").mkdir()
    (tmp_path / "link").symlink_to("a:b")
    for root in ("a:b", "link/inner"):
        (found,) = problems_of(tmp_path, f"{SETTINGS}workspace: {{root: '{root}'}}\n")
        assert found.startswith("WORKFLOW.md:8: workspace.root: git cannot be kept below")
        assert found.endswith("choose a directory without one")
    (found,) = problems_of(tmp_path / "a:b")
    assert "workspace.root: git cannot be kept below" in found


def test_slots_that_were_refused_are_no_part_of_the_best_reading(tmp_path):
    """Commands that look at the store of a broken workflow count with its slots."""
    path = write(tmp_path, f"{SETTINGS}  max_concurrent_agents_by_state: {{To Do: many, In Progress: 1}}\n")
    found = examine(path, environ={}, kinds=KINDS)
    assert found.workflow is None
    assert found.config.policy().max_concurrent_by_state == {"in progress": 1}


def test_the_policy_is_made_once_and_follows_a_replaced_part(tmp_path):
    config = load_text(tmp_path).config
    assert config.policy() is config.policy()
    changed = replace(config, tracker=replace(config.tracker, active_states=("Other",)))
    assert changed.policy().active_states == ("Other",)
