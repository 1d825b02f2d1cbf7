from __future__ import annotations

import os

import pytest

from sortie.errors import ConfigurationError
from sortie.workflow.reloader import Broken, Changed, Reloader

from .sample import ISSUE, KINDS, PROMPT, SETTINGS, write

LONG_AGO = (1_600_000_000, 1_600_000_000)


def reloader(folder, **environ):
    return Reloader(write(folder), environ=environ, kinds=KINDS)


def test_the_first_load_must_succeed(tmp_path):
    with pytest.raises(ConfigurationError):
        Reloader(tmp_path / "WORKFLOW.md", environ={})


def test_nothing_happens_while_the_content_stays_the_same(tmp_path):
    reload = reloader(tmp_path)
    first = reload.current
    write(tmp_path)
    assert reload.refresh() is None
    assert reload.current is first


def test_a_changed_workflow_takes_effect(tmp_path):
    reload = reloader(tmp_path)
    write(tmp_path, SETTINGS + "  max_turns: 3\n", "New prompt")
    result = reload.refresh()
    assert isinstance(result, Changed)
    assert result.workflow is reload.current
    assert result.needs_restart == ()
    assert reload.current.config.agent.max_turns == 3
    assert reload.current.template.render(ISSUE, attempt=0, turn=1, max_turns=3) == "New prompt"
    assert reload.refresh() is None


def test_a_broken_workflow_is_reported_once_and_the_last_good_one_stays(tmp_path):
    reload = reloader(tmp_path)
    good = reload.current
    path = write(tmp_path, SETTINGS + "  max_turns: 0\n")
    result = reload.refresh()
    assert isinstance(result, Broken)
    assert "agent.max_turns" in result.problems[0]
    assert reload.current is good
    os.utime(path, LONG_AGO)
    assert reload.refresh() is None
    write(tmp_path, SETTINGS + "  max_turns: -1\n")
    assert isinstance(reload.refresh(), Broken)


def test_a_repaired_workflow_is_reported_even_if_it_is_the_old_one(tmp_path):
    reload = reloader(tmp_path)
    write(tmp_path, "x")
    assert isinstance(reload.refresh(), Broken)
    write(tmp_path)
    assert isinstance(reload.refresh(), Changed)


def test_a_workflow_that_disappears_is_reported_once(tmp_path):
    reload = reloader(tmp_path)
    path = tmp_path / "WORKFLOW.md"
    path.unlink()
    assert reload.refresh() == Broken((f"{path}: there is no such file",))
    assert reload.refresh() is None
    path.touch()
    assert isinstance(reload.refresh(), Broken)


def test_what_needs_a_restart_is_named_until_it_is_as_it_was_at_the_start(tmp_path):
    reload = reloader(tmp_path)
    write(tmp_path, SETTINGS.replace("kind: file", "kind: github") + "db_path: other.db\n")
    result = reload.refresh()
    assert isinstance(result, Changed)
    assert result.needs_restart == ("db_path", "tracker.kind")
    write(tmp_path, SETTINGS.replace("kind: file", "kind: github") + "db_path: other.db\n", PROMPT + "anew")
    result = reload.refresh()
    assert isinstance(result, Changed)
    assert result.needs_restart == ("db_path", "tracker.kind")
    write(tmp_path, SETTINGS.replace("kind: file", "kind: file\n  project: other"))
    result = reload.refresh()
    assert isinstance(result, Changed)
    assert result.needs_restart == ("tracker.project",)
    assert result.workflow.config.tracker.project == ""
    write(tmp_path, SETTINGS + "db_path: other.db\n", PROMPT + "more")
    result = reload.refresh()
    assert isinstance(result, Changed)
    assert result.needs_restart == ("db_path",)
    write(tmp_path)
    result = reload.refresh()
    assert isinstance(result, Changed)
    assert result.needs_restart == ()


def test_what_needs_a_restart_stays_as_it_was_and_the_rest_takes_effect(tmp_path):
    reload = reloader(tmp_path)
    old = reload.current.config
    other = SETTINGS.replace("kind: file", "kind: github\n  api_key: a-secret-of-github")
    elsewhere = "db_path: other.db\nworkspace: {root: elsewhere, archive_keep_days: 3}\n"
    write(tmp_path, f"{other}  max_turns: 3\n{elsewhere}")
    result = reload.refresh()
    assert isinstance(result, Changed)
    assert result.needs_restart == ("db_path", "tracker.kind", "workspace.root")
    new = reload.current.config
    assert (new.db_path, new.tracker, new.workspace.root) == (old.db_path, old.tracker, old.workspace.root)
    assert (new.agent.max_turns, new.workspace.archive_keep_days) == (3, 3)
    assert "a-secret-of-github" in new.secrets


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_changed_env_file_takes_effect(tmp_path, by_variable):
    env_file = tmp_path / "my.env"
    env_file.write_text("SORTIE_AGENT_MAX_TURNS=3\n")
    path = write(tmp_path)
    if by_variable:
        reload = Reloader(path, environ={"SORTIE_ENV_FILE": str(env_file)})
    else:
        reload = Reloader(path, environ={}, env_file=env_file)
    env_file.write_text("SORTIE_AGENT_MAX_TURNS=4\n")
    assert isinstance(reload.refresh(), Changed)
    assert reload.current.config.agent.max_turns == 4
