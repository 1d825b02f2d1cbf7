"""`sortie validate`: all problems at once, those of a local issue file too; nothing is contacted or created."""

from __future__ import annotations

from pathlib import Path

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
    scene.workflow.write_text(scene.workflow.read_text().replace("kind: file", "kind: linear"))
    said = ask(capsys, "validate", str(scene.directory))
    assert said.code == 2
    assert 'tracker.kind: there is no tracker "linear" here; use one of: file, github, jira\n' in said.out


def warnings_of(said):
    return [(warning["file"], warning["message"]) for warning in said.json()["warnings"]]


def test_what_is_wrong_with_the_issue_file_is_a_warning(scene, capsys):
    scene.workflow.write_text(scene.workflow.read_text().replace("[To Do, In Progress]", "[Todo, In Progress]"))
    scene.issue(1, "")
    scene.issue(2, "", title=3)
    before = sorted(scene.directory.rglob("*"))
    said = ask(capsys, "validate", str(scene.workflow), "--json")
    assert (said.code, said.json()["valid"]) == (0, True)
    file = str(scene.directory / "issues.json")
    assert warnings_of(said) == [
        (file, "record 2 (T-2) cannot be used: `title` must be text in quotes, not 3."),
        (
            file,
            "no issue is in an active state (Todo, In Progress): the tracker has To Do (1). "
            "Correct tracker.active_states, or the states of the issues.",
        ),
    ]
    assert f"warning: {file}: record 2" in ask(capsys, "validate", str(scene.workflow)).out
    assert sorted(scene.directory.rglob("*")) == before


def test_an_issue_file_that_cannot_be_read_is_a_warning(scene, capsys):
    (scene.directory / "issues.json").write_text("[{")
    said = ask(capsys, "validate", str(scene.workflow), "--json")
    assert said.code == 0
    ((file, message),) = warnings_of(said)
    assert "not valid JSON" in message
    assert ask(capsys, "validate", str(scene.workflow)).out.count(file) == 1
    Path(file).unlink()
    shown = ask(capsys, "validate", str(scene.workflow)).out
    assert f"warning: {file}: The issue file does not exist. Create it with `[]` in it" in shown


def test_a_prompt_that_fails_and_a_misspelt_variable_are_found(scene, capsys, monkeypatch):
    monkeypatch.setenv("SORTIE_TRACKER_API_KY", "secret")
    scene.workflow.write_text(scene.workflow.read_text().replace("issue.title", "attempt.foo"))
    said = ask(capsys, "validate", str(scene.workflow), "--json")
    assert said.code == 2
    (error,) = said.json()["errors"]
    assert (error["line"], error["message"]) == (13, 'attempt is a number and has no "foo"')
    assert "secret" not in said.out
    assert any('did you mean "SORTIE_TRACKER_API_KEY"?' in message for _, message in warnings_of(said))
