from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from rich.console import Console

import sortie
from sortie.workflow.config import WorkflowSettings
from sortie.workflow.fields import leaves
from sortie.workflow.loader import check, load
from sortie.workflow.variables import override_name

from .sample import KINDS, SETTINGS, load_text, problems_of, write

SOURCE = Path(sortie.__file__).parent

OVERRIDES = {
    "SORTIE_TRACKER_KIND": ("github", lambda config: config.tracker.kind, "github"),
    "SORTIE_TRACKER_ENDPOINT": ("https://$X", lambda config: config.tracker.endpoint, "https://$X"),
    "SORTIE_TRACKER_API_KEY": ("k$X", lambda config: config.tracker.api_key, "k$X"),
    "SORTIE_TRACKER_PROJECT": ("p", lambda config: config.tracker.project, "p"),
    "SORTIE_TRACKER_ACTIVE_STATES": (" a, b ,,", lambda config: config.tracker.active_states, ("a", "b")),
    "SORTIE_TRACKER_TERMINAL_STATES": ("z", lambda config: config.tracker.terminal_states, ("z",)),
    "SORTIE_TRACKER_FAILED_STATES": ("Done", lambda config: config.tracker.failed_states, ("Done",)),
    "SORTIE_TRACKER_QUERY_FILTER": ("q", lambda config: config.tracker.query_filter, "q"),
    "SORTIE_TRACKER_HANDOFF_STATE": ("Review", lambda config: config.tracker.handoff_state, "Review"),
    "SORTIE_TRACKER_IN_PROGRESS_STATE": ("to do", lambda config: config.tracker.in_progress_state, "to do"),
    "SORTIE_TRACKER_TRUSTED_AUTHORS": ("ann,@MEMBER", lambda c: c.tracker.trusted_authors, ("ann", "@MEMBER")),
    "SORTIE_TRACKER_EXCLUDED_AUTHORS": ("eve", lambda config: config.tracker.excluded_authors, ("eve",)),
    "SORTIE_TRACKER_CALLS_PER_MINUTE": ("30", lambda config: config.tracker.calls_per_minute, 30),
    "SORTIE_TRACKER_COMMENTS_ON_DISPATCH": ("TRUE", lambda config: config.tracker.comments.on_dispatch, True),
    "SORTIE_TRACKER_COMMENTS_ON_COMPLETION": ("1", lambda config: config.tracker.comments.on_completion, True),
    "SORTIE_TRACKER_COMMENTS_ON_FAILURE": ("0", lambda config: config.tracker.comments.on_failure, False),
    "SORTIE_POLLING_INTERVAL_MS": ("1500", lambda config: config.polling.interval, 1.5),
    "SORTIE_WORKSPACE_ROOT": ("~/ws", lambda config: config.workspace.root, Path("/home/me/ws")),
    "SORTIE_AGENT_KIND": ("mock", lambda config: config.agent.kind, "mock"),
    "SORTIE_AGENT_COMMAND": ("run", lambda config: config.agent.command, "run"),
    "SORTIE_AGENT_TURN_TIMEOUT_MS": ("1000", lambda config: config.agent.turn_timeout, 1.0),
    "SORTIE_AGENT_READ_TIMEOUT_MS": ("1000", lambda config: config.agent.read_timeout, 1.0),
    "SORTIE_AGENT_STALL_TIMEOUT_MS": ("0", lambda config: config.agent.stall_timeout, 0.0),
    "SORTIE_AGENT_MAX_CONCURRENT_AGENTS": ("2", lambda config: config.agent.max_concurrent_agents, 2),
    "SORTIE_AGENT_MAX_TURNS": (" 7 ", lambda config: config.agent.max_turns, 7),
    "SORTIE_AGENT_MAX_RETRY_BACKOFF_MS": ("1000", lambda config: config.agent.max_retry_backoff, 1.0),
    "SORTIE_AGENT_MAX_SESSIONS": ("4", lambda config: config.budget.per_issue.sessions, 4),
    "SORTIE_WORKLOG": ("/log.md", lambda config: config.worklog, Path("/log.md")),
    "SORTIE_SERVER_PORT": ("0", lambda config: config.server.port, 0),
    "SORTIE_SERVER_HOST": ("::1", lambda config: config.server.host, "::1"),
    "SORTIE_SERVER_PUBLIC_URL": ("https://a.a", lambda config: config.server.public_url, "https://a.a/"),
    "SORTIE_SERVER_WEBHOOK_SECRET": ("s" * 16, lambda config: config.server.webhook_secret, "s" * 16),
    "SORTIE_SERVER_TOKENS_READ": ("r" * 16, lambda config: config.server.tokens.read, "r" * 16),
    "SORTIE_SERVER_TOKENS_OPERATE": ("o" * 16, lambda config: config.server.tokens.operate, "o" * 16),
    "SORTIE_SERVER_TOKENS_METRICS": ("m" * 16, lambda config: config.server.tokens.metrics, "m" * 16),
    "SORTIE_DB_PATH": ("/var/x.db", lambda config: config.db_path, Path("/var/x.db")),
}


@pytest.mark.parametrize("name", OVERRIDES)
def test_a_variable_overrides_its_setting(tmp_path, name):
    value, read, expected = OVERRIDES[name]
    config = load_text(tmp_path, **{name: value, "HOME": "/home/me"}).config
    assert read(config) == expected


def test_exactly_these_settings_can_be_overridden():
    assert {override_name(key) for key, kind, _ in leaves(WorkflowSettings()) if kind.env} == set(OVERRIDES)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SORTIE_AGENT_MAX_TURNS", "many", 'must be a whole number of at least 1, not "many"'),
        ("SORTIE_AGENT_MAX_TURNS", "1.5", 'must be a whole number of at least 1, not "1.5"'),
        ("SORTIE_AGENT_MAX_TURNS", "9" * 5000, "must be a whole number of at least 1"),
        ("SORTIE_TRACKER_COMMENTS_ON_FAILURE", "maybe", 'must be true or false, not "maybe"'),
        ("SORTIE_DB_PATH", "~bob/x", "or one that begins with ~/"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(tmp_path, name, value, message):
    (problem,) = problems_of(tmp_path, **{name: value})
    assert problem.startswith(f"environment: {name}: ")
    assert message in problem


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SORTIE_TRACKER_API_KY", '; did you mean "SORTIE_TRACKER_API_KEY"?'),
        ("SORTIE_MAX_TURNS", '; did you mean "SORTIE_AGENT_MAX_TURNS"?'),
        ("SORTIE_DBPATH", '; did you mean "SORTIE_DB_PATH"?'),
        ("SORTIE_ENVFILE", '; did you mean "SORTIE_ENV_FILE"?'),
        ("SORTIE_AGENT_COLOUR_OF_THE_LIGHT", ""),
        ("SORTIE_BUDGET_PER_DAY_USD", "; budget.per_day.usd can only be set in the workflow"),
        ("SORTIE_LOGING_LEVEL", "; logging.level can only be set in the workflow"),
    ],
)
def test_a_variable_that_is_almost_a_setting_is_named(tmp_path, name, hint):
    expected = f"environment: {name}: is not a setting and has no effect{hint}"
    assert load_text(tmp_path, **{name: "5"}).warnings == (expected,)
    assert load_text(tmp_path, **{name: ""}).warnings == ()


def test_a_misspelt_variable_of_the_env_file_is_named_with_its_line(tmp_path):
    env_file = tmp_path / "env"
    env_file.write_text("# mine\nSORTIE_TRACKER_KINDS=file\n")
    (problem,) = check(write(tmp_path), environ={}, env_file=env_file, kinds=KINDS)
    assert str(problem).startswith(f"{env_file}:2: SORTIE_TRACKER_KINDS: is not a setting")
    assert problem.severity == "warning"


def test_variables_of_agents_of_tools_and_of_the_workflow_itself_are_no_mistakes(tmp_path):
    """Sortie may be started by an agent of another one, and a team's tools have variables of their own."""
    told = re.findall(r'"(SORTIE_[A-Z_]*[A-Z])"', "".join(path.read_text() for path in SOURCE.rglob("*.py")))
    assert {"SORTIE_ISSUE_ID", "SORTIE_BROKER_TOKEN", "SORTIE_STORE_ID"} <= set(told)
    environ = {**dict.fromkeys(told, "1"), "SORTIE_TEAM_TOKEN": "t", "SORTIE_AGENT_TOKEN": "t"}
    settings = with_tracker("api_key: $SORTIE_TRACKER_TOKEN") + "  env: [SORTIE_AGENT_TOKEN]\n"
    environ["SORTIE_ENV_FILE"] = ""
    environ["SORTIE_TRACKER_TOKEN"] = "t"
    assert load_text(tmp_path, settings, **environ).warnings == ()
    assert len(load_text(tmp_path, settings, **environ, SORTIE_TRACKER_TOKE="t").warnings) == 1


def test_an_empty_variable_counts_as_not_set(tmp_path):
    assert load_text(tmp_path, SORTIE_TRACKER_KIND="").config.tracker.kind == "file"


def test_a_variable_repairs_a_wrong_setting(tmp_path):
    settings = SETTINGS + "  max_turns: many\n"
    assert load_text(tmp_path, settings, SORTIE_AGENT_MAX_TURNS="2").config.agent.max_turns == 2


def with_tracker(line):
    return SETTINGS.replace("  kind: file\n", f"  kind: file\n  {line}\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("api_key: $TOKEN", "t0ken"),
        ("api_key: me:${TOKEN}!", "me:t0ken!"),
        ("api_key: cost $5 $ ${", "cost $5 $ ${"),
        ("api_key: $INDIRECT", "$TOKEN"),
    ],
)
def test_variables_in_the_key_of_the_tracker_are_replaced_anywhere_and_once(tmp_path, line, expected):
    config = load_text(tmp_path, with_tracker(line), TOKEN="t0ken", INDIRECT="$TOKEN").config
    assert config.tracker.api_key == expected


def test_other_values_are_replaced_only_where_they_begin_with_a_variable(tmp_path):
    settings = with_tracker('project: " ${ORG}/r "') + "db_path: data/$ORG.db\n"
    config = load_text(tmp_path, settings, ORG="acme").config
    assert config.tracker.project == "acme/r"
    assert config.db_path == tmp_path / "data/acme.db"
    assert (
        load_text(tmp_path, with_tracker("query_filter: cost $ORG"), ORG="x").config.tracker.query_filter
        == "cost $ORG"
    )
    assert load_text(tmp_path, SETTINGS + "  command: run $ORG\n", ORG="x").config.agent.command == "run $ORG"


@pytest.mark.parametrize("key", ["api_key", "project", "endpoint", "query_filter", "handoff_state"])
@pytest.mark.parametrize("environ", [{}, {"MISSING": ""}])
def test_a_variable_that_is_not_set_is_named(tmp_path, key, environ):
    assert problems_of(tmp_path, with_tracker(f"{key}: $MISSING"), **environ) == [
        f"WORKFLOW.md:4: tracker.{key}: uses $MISSING, which is not set; set it, or write the value here"
    ]


def test_home_is_replaced_in_paths(tmp_path):
    settings = SETTINGS + "workspace: {root: ~/ws}\ndb_path: '~'\n"
    config = load_text(tmp_path, settings, HOME="/home/me").config
    assert [str(path) for path in (config.workspace.root, config.db_path)] == [
        "/home/me/ws",
        "/home/me",
    ]


def test_the_env_file_overrides_yaml_and_the_environment_overrides_both(tmp_path):
    env_file = tmp_path / "my.env"
    env_file.write_text(
        "# comment\n\nSORTIE_AGENT_MAX_TURNS='5'\nSORTIE_AGENT_COMMAND = \"a b\"\r\nSORTIE_AGENT_KIND=\nOTHER=1\n"
        "SORTIE_MY_TOKEN=a=b#c\nSORTIE_POLLING_INTERVAL_MS=200\n"
    )
    path = write(tmp_path, with_tracker("api_key: $SORTIE_MY_TOKEN") + "  max_turns: 1\n")
    environ = {"SORTIE_POLLING_INTERVAL_MS": "300", "SORTIE_AGENT_MAX_TURNS": ""}
    config = load(path, environ=environ, env_file=env_file).config
    assert (config.agent.max_turns, config.agent.command, config.agent.kind) == (5, "a b", "command")
    assert config.polling.interval == 0.3
    assert config.tracker.api_key == "a=b#c"
    assert load(path, environ={"SORTIE_ENV_FILE": str(env_file)}).config.agent.max_turns == 5


def test_the_env_file_speaks_only_of_sortie(tmp_path):
    env_file = tmp_path / "my.env"
    env_file.write_text("OTHER=1\n")
    (problem,) = check(write(tmp_path, with_tracker("api_key: $OTHER")), environ={}, env_file=env_file)
    assert "uses $OTHER, which is not set" in problem.message


def test_a_bad_line_of_the_env_file_is_named_and_never_shown(tmp_path):
    env_file = tmp_path / "my.env"
    env_file.write_text("A=1\nhunter2\n9X=hunter2\nexport SORTIE_X=hunter2\nSORTIE_AGENT_MAX_TURNS=x\n")
    problems = check(write(tmp_path), environ={}, env_file=env_file)
    assert [(problem.file, problem.line) for problem in problems] == [
        (str(env_file), line) for line in (2, 3, 4, 5)
    ]
    assert "hunter2" not in str(problems)
    assert problems[3].key == "SORTIE_AGENT_MAX_TURNS"


def test_a_missing_env_file_is_a_warning_and_a_pipe_an_error(tmp_path):
    path = write(tmp_path)
    workflow = load(path, environ={}, env_file=tmp_path / "none.env")
    assert workflow.warnings == (f"{tmp_path}/none.env: there is no such file",)
    os.mkfifo(tmp_path / "fifo")
    (problem,) = check(path, environ={}, env_file=tmp_path / "fifo")
    assert (problem.severity, problem.message) == ("error", "this is not a regular file")


def test_an_env_file_is_never_found_by_itself(tmp_path):
    (tmp_path / ".env").write_text("SORTIE_AGENT_MAX_TURNS=5\n")
    assert load_text(tmp_path).config.agent.max_turns == 20


def test_a_variable_for_the_agent_that_is_not_set_is_a_warning(tmp_path):
    (warning,) = load_text(tmp_path, SETTINGS + "  env: [HOME, OPENAI_API_KEY]\n", HOME="/").warnings
    assert warning.endswith("agent.env: OPENAI_API_KEY is not set, so the agent will not get it")


SECRET_SETTINGS = (
    with_tracker("api_key: $TRACKER")
    + "  env: [OPENAI_API_KEY, HOME]\ngithub: {api_key: block-key, hosts: [{token: deep-key}]}\n"
)
SECRET_ENVIRON = {
    "TRACKER": "tracker-key",
    "OPENAI_API_KEY": "openai-key",
    "HOME": "/home/me",
    "SORTIE_BOT_PASSWORD": "bot-key",
    "SORTIE_AGENT_COMMAND": "run",
    "UNRELATED_TOKEN": "unrelated",
}


def test_secrets_are_the_key_and_whatever_is_named_like_one(tmp_path):
    config = load_text(tmp_path, SECRET_SETTINGS, **SECRET_ENVIRON).config
    assert set(config.secrets) == {"tracker-key", "openai-key", "bot-key", "block-key", "deep-key"}


def test_a_key_of_two_parts_is_secret_in_every_form_that_opens(tmp_path):
    """Jira's key is `email:token`; the token opens alone, and both are sent as base64."""
    config = load_text(tmp_path, with_tracker("api_key: $KEY"), KEY="me@x.org:t0ken-abc").config
    assert {"me@x.org:t0ken-abc", "t0ken-abc", "bWVAeC5vcmc6dDBrZW4tYWJj"} <= set(config.secrets)


def test_secrets_are_in_no_representation(tmp_path):
    workflow = load_text(tmp_path, SECRET_SETTINGS, **SECRET_ENVIRON)
    console = Console(width=500)
    with console.capture() as capture:
        console.print(workflow, workflow.config, workflow.config.tracker)
    shown = f"{workflow!r} {workflow} {workflow.config!r} {workflow.config.tracker!r} {capture.get()}"
    assert "tracker='file'" in shown
    assert not [secret for secret in workflow.config.secrets if secret in shown]


@pytest.mark.parametrize("value", ["12345678", "[hunter2]", "{hunter2: hunter2}", "true"])
def test_a_key_of_the_wrong_type_is_refused_without_showing_it(tmp_path, value):
    (problem,) = problems_of(tmp_path, with_tracker(f"api_key: {value}"))
    assert "tracker.api_key: must be text" in problem
    assert "12345678" not in problem
    assert "hunter2" not in problem


def test_kinds_may_come_from_the_environment(tmp_path):
    path = write(tmp_path, SETTINGS + "jira: {x: 1}\n")
    assert load(path, environ={"SORTIE_TRACKER_KIND": "jira"}).config.options == {"jira": {"x": 1}}
    assert len(check(path, environ={}, kinds=KINDS)) == 1
