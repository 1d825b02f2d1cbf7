"""A prompt that would fail to render is found when it is loaded, and no rendering goes on for ever."""

from __future__ import annotations

import re
import sys

import pytest
from msgspec.structs import replace

from sortie.errors import PromptError

from .sample import ISSUE, load_text, problems_of


def warnings_of(folder, prompt):
    return [warning.replace(f"{folder}/", "") for warning in load_text(folder, prompt=prompt).warnings]


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("x\n{{ attempt.foo }}", '10: attempt is a number and has no "foo"'),
        ("{{ run.turn_number.x }}", '9: run.turn_number is a number and has no "x"'),
        ("{{ issue.title.foo }}", '9: issue.title is a text and has no "foo"'),
        ("{{ issue.labels.first }}", '9: issue.labels is a list and has no "first"'),
        ("{{ issue.labels[0].name }}", '9: issue.labels[…] is a text and has no "name"'),
        ("{{ issue.comments[0].autor }}", '9: issue.comments[…] has no field "autor"; did you mean "author"?'),
        (
            "{% for note in issue.comments %}{{ note.autor }}{% endfor %}x",
            '9: note has no field "autor"; did you mean "author"?',
        ),
        ("x{% if issue.state == 'Never' %}\n{{ attempt.foo }}{% endif %}", "10: attempt is a number"),
    ],
)
def test_a_field_that_nothing_has_is_an_error_in_any_branch(tmp_path, prompt, problem):
    (found,) = problems_of(tmp_path, prompt=prompt)
    assert found.startswith(f"WORKFLOW.md:{problem}")


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("x\n{{ issue.title + 1 }}", r"10: .*concatenate"),
        ("{{ 1 // 0 }}", r"9: .*division"),
        ("{{ issue.title | round }}", r"9: .*"),
        ("{{ issue.labels | join(1, 2, 3) }}", r"9: .*arguments"),
        ("x\n\n{% if attempt %}{{ 1 // 0 }}{% endif %}", r"11: .*division"),
        (
            "x{% if run.is_continuation %}\n{{ label }}{% endif %}{% for label in 'a' %}{% endfor %}",
            "10: .*'label'",
        ),
        ("{% if run.is_continuation %}More{% endif %}", r"9: .*empty on the first turn"),
        ("{% for x in range(999999999) %}{% endfor %}", r"9: .*Range too big"),
    ],
)
def test_what_fails_for_every_issue_is_an_error(tmp_path, prompt, reason):
    (found,) = problems_of(tmp_path, prompt=prompt)
    assert re.match(f"WORKFLOW.md:{reason}", found), found


@pytest.mark.parametrize(
    ("prompt", "warning"),
    [
        ("x\n{{ issue.parent.id }}", "10: the prompt cannot be rendered for an issue that has no parent: "),
        ("{{ issue.labels[3] }}", "9: the prompt cannot be rendered for an issue that has no labels: "),
        ("{{ issue.priority + 1 }}", "9: the prompt cannot be rendered for an issue that has no priority: "),
        ("{{ issue.description }}", "9: the prompt cannot be rendered for an issue that has no description: "),
        (
            "x{% if issue.state == 'In Progress' %}{{ 1 // 0 }}{% endif %}",
            "9: the prompt cannot be rendered for an issue in In Progress: ",
        ),
        (
            "{{ {'Story': 1}[issue.issue_type or 'Story'] }}",
            "9: the prompt cannot be rendered for an issue in To Do",
        ),
    ],
)
def test_what_fails_for_some_issues_is_a_warning_that_says_for_which(tmp_path, prompt, warning):
    (found,) = warnings_of(tmp_path, prompt)
    assert found.startswith(f"WORKFLOW.md:{warning}")


def test_a_prompt_that_copes_with_every_issue_gives_no_warning(tmp_path):
    prompt = (
        "{{ {'To Do': 'Begin', 'In Progress': 'Go on'}[issue.state] }} {{ issue.title.upper() }} {{ attempt + 1 }}"
        "{% if issue.parent %}{{ issue.parent.identifier }}{% endif %}{{ issue.labels | join(', ') }}"
        "{% for comment in issue.comments %}{{ comment.author }}: {{ comment.body }}{% endfor %}"
        "{% for word in issue.description.split() %}{{ word.title() }}{% endfor %}"
    )
    assert warnings_of(tmp_path, prompt) == []


LOOP = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"


def test_a_loop_without_end_is_an_error(tmp_path):
    (found,) = problems_of(tmp_path, prompt=f"x\n{LOOP}")
    assert found.startswith("WORKFLOW.md:10: the prompt cannot be rendered: it takes too long")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (LOOP, "it takes too long"),
        ("{% for a in range(90000) %}{{ issue.title }}{% endfor %}", "it is longer than"),
    ],
    ids=["time", "length"],
)
def test_no_rendering_goes_on_for_ever(tmp_path, body, reason):
    template = load_text(tmp_path, prompt=f"x{{% if issue.assignee == 'eve' %}}{body}{{% endif %}}").template
    issue = replace(ISSUE, assignee="eve", title="x" * 1000)
    before = sys.gettrace()
    with pytest.raises(PromptError, match=reason):
        template.render(issue, attempt=0, turn=1, max_turns=3)
    assert sys.gettrace() is before
