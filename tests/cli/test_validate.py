"""`sortie validate`: all problems at once with their lines; nothing is contacted or created."""

from __future__ import annotations

from .scene import ask


def test_a_good_workflow_is_valid_and_nothing_is_created(scene, capsys):
    before = sorted(scene.directory.iterdir())
    said = ask(capsys, "validate", str(scene.workflow))
    assert (said.code, said.out) == (0, f"{scene.workflow} is valid.\n")
    assert sorted(scene.directory.iterdir()) == before


def test_json_of_a_good_workflow(scene, capsys):
    said = ask(capsys, "validate", str(scene.workflow), "--json")
    assert said.code == 0
    assert said.json() == {"valid": True, "errors": [], "warnings": []}


def test_all_problems_are_shown_with_file_line_and_key(scene, capsys):
    scene.workflow.write_text(
        "---\ntracker:\n  kind: file\n  active_states: [a]\n\nagent:\n  kind: comand\n  max_turns: no\n---\nx"
    )
    said = ask(capsys, "validate", str(scene.workflow), "--json")
    assert said.code == 2
    assert said.json()["valid"] is False
    problems = {(error["line"], error["key"]) for error in said.json()["errors"]}
    assert {(7, "agent.kind"), (8, "agent.max_turns")} <= problems
    assert all(error["file"] == str(scene.workflow) and error["message"] for error in said.json()["errors"])
    text = ask(capsys, "validate", str(scene.workflow))
    assert text.code == 2
    assert f"{scene.workflow}:7: agent.kind" in text.out
    assert "cannot be used" in text.out


def test_the_adapters_own_problems_are_shown_too(scene, capsys):
    scene.workflow.write_text(scene.workflow.read_text().replace("polling:", "file: {pth: x}\npolling:"))
    said = ask(capsys, "validate", str(scene.workflow), "--json")
    assert said.code == 2
    assert [error["key"] for error in said.json()["errors"]] == ["file.pth"]


def test_warnings_do_not_make_it_invalid(scene, capsys):
    scene.workflow.write_text(
        scene.workflow.read_text().replace("max_turns: 3", "max_turns: 3\n  env: [SORTIE_NO_SUCH_VARIABLE]")
    )
    said = ask(capsys, "validate", str(scene.workflow), "--json")
    assert said.code == 0
    assert said.json()["valid"] is True
    assert len(said.json()["warnings"]) == 1
    assert "warning" in ask(capsys, "validate", str(scene.workflow)).out


def test_the_env_file_counts(scene, capsys):
    env_file = scene.directory / "env"
    env_file.write_text("SORTIE_AGENT_MAX_TURNS=none\n")
    said = ask(capsys, "validate", str(scene.workflow), "--env-file", str(env_file), "--json")
    assert said.code == 2
    assert said.json()["errors"][0]["file"] == str(env_file)


def test_a_missing_file_is_a_problem_too(tmp_path, capsys):
    said = ask(capsys, "validate", str(tmp_path / "none.md"), "--json")
    assert said.code == 2
    assert said.json()["errors"][0]["message"]


def test_a_tracker_that_is_not_there_is_answered_with_trackers(scene, capsys):
    scene.workflow.write_text(scene.workflow.read_text().replace("kind: file", "kind: jira"))
    said = ask(capsys, "validate", str(scene.directory))
    assert said.code == 2
    assert 'tracker.kind: there is no tracker "jira" here; use one of: file\n' in said.out
