from __future__ import annotations

import pytest

from sortie.core.model import Blocker, Comment, Issue, IssueRef
from sortie.errors import ConfigurationError, PromptError
from sortie.workflow.template import CONTINUATION_PROMPT, PromptTemplate

from .sample import ISSUE, SETTINGS, load_text, problems_of

FULL_ISSUE = Issue(
    id="7",
    identifier="A-7",
    title="Fix it",
    state="To Do",
    description="It <breaks> & 'burns'",
    priority=2,
    labels=("bug", "ui"),
    assignee="ann",
    issue_type="task",
    url="https://example.org/7",
    branch_name="fix",
    parent=IssueRef("1", "A-1"),
    comments=(Comment("c1", "bob", "Please", "2024-01-01"),),
    blocked_by=(Blocker("2", "A-2", "Done"),),
    created_at="2024-01-01",
    updated_at="2024-01-02",
    author="cleo",
)


def render(folder, prompt, issue=ISSUE, *, attempt=0, turn=1, max_turns=5):
    return load_text(folder, prompt=prompt).template.render(issue, attempt=attempt, turn=turn, max_turns=max_turns)


def test_every_field_of_an_issue_is_there(tmp_path):
    names = [
        name
        for name in Issue.__struct_fields__
        if name not in ("parent", "comments", "blocked_by", "agent", "memo", "author_id", "association")
    ]
    prompt = "\n".join(f"{name}={{{{ issue.{name} }}}}" for name in names)
    assert render(tmp_path, prompt, FULL_ISSUE).split("\n") == [
        "id=7",
        "identifier=A-7",
        "title=Fix it",
        "state=To Do",
        "description=It <breaks> & 'burns'",
        "priority=2",
        "labels=['bug', 'ui']",
        "assignee=ann",
        "issue_type=task",
        "url=https://example.org/7",
        "branch_name=fix",
        "created_at=2024-01-01",
        "updated_at=2024-01-02",
        "author=cleo",
        "trusted=None",
    ]


def test_the_parts_of_an_issue_are_there(tmp_path):
    prompt = (
        "{% if issue.parent %}{{ issue.parent.identifier }}{% endif %};"
        "{% for comment in issue.comments %}{{ loop.index }} {{ comment.author }}: {{ comment.body }}{% endfor %};"
        "{% for blocker in issue.blocked_by %}{{ blocker.identifier }} {{ blocker.state }}{% endfor %};"
        "{{ issue.labels | join(', ') }};{{ issue['parent']['id'] }};{{ issue.parent | tojson }}"
    )
    assert render(tmp_path, prompt, FULL_ISSUE) == (
        'A-1;1 bob: Please;A-2 Done;bug, ui;1;{"id": "1", "identifier": "A-1"}'
    )


def test_comments_that_were_not_fetched_are_none(tmp_path):
    prompt = "{% if issue.comments is none %}unknown{% else %}{{ issue.comments | length }}{% endif %}"
    assert render(tmp_path, prompt) == "unknown"
    assert render(tmp_path, prompt, FULL_ISSUE) == "1"


def test_the_run_is_there(tmp_path):
    prompt = (
        "{{ attempt }} {{ run.turn_number }}/{{ run.max_turns }} {{ run.is_continuation }} "
        "{{ ci_failure is none and review_comments is none }}"
    )
    assert render(tmp_path, prompt, attempt=3, turn=2, max_turns=9) == "3 2/9 True True"


@pytest.mark.parametrize("text", ["{{ 7*7 }}", "{% raw %}", "{# x #}", "{{ issue.id", "<b>"])
def test_issue_text_is_never_taken_for_a_template(tmp_path, text):
    issue = Issue(id="1", identifier="A-1", title=text, state="x", description=text)
    assert render(tmp_path, "{{ issue.title }} {{ issue.description }}", issue) == f"{text} {text}"


def test_a_continuation_without_text_gets_the_built_in_one(tmp_path):
    prompt = "{% if not run.is_continuation %}Start{% endif %}"
    assert render(tmp_path, prompt) == "Start"
    assert render(tmp_path, prompt, turn=2) == CONTINUATION_PROMPT


def test_a_first_turn_without_text_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"WORKFLOW.md:9: .* it is empty on the first turn"):
        render(tmp_path, "{% if run.is_continuation %}More{% endif %}")


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("x\n{{ issue.parent.id }}", r"WORKFLOW.md:10: .*'None' has no attribute 'id'"),
        ("{{ issue.title\n + 1 }}", r"WORKFLOW.md:(9|10): .*"),
        ("{% for label in issue.labels %}{% endfor %}\n\n{{ label }}", r"WORKFLOW.md:11: .*'label' is undefined"),
        ("{{ 1 // 0 }}", r"WORKFLOW.md:9: .*division"),
        ("{{ ''.__class__.__mro__ }}", r"WORKFLOW.md:9: .*unsafe"),
        ("{{ issue.labels.append('x') }}", r"WORKFLOW.md:9: .*"),
        ("{% for x in range(999999999) %}{% endfor %}", r"WORKFLOW.md:9: .*"),
    ],
)
def test_what_fails_while_rendering_names_its_line(tmp_path, prompt, message):
    with pytest.raises(ConfigurationError, match=message):
        render(tmp_path, prompt)


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("\n\n{{ issue.title", "11: template: unexpected end of template, expected 'end of print statement'"),
        ("x\n{% if issue %}\n", "10: template: unexpected end of template"),
        ("x\n{% fi issue %}", "10: template: encountered unknown tag 'fi'"),
        ("{{ isue.title }}", '9: the prompt has no "isue"; did you mean "issue"?'),
        (
            "{{ workspace }}",
            '9: the prompt has no "workspace"; use issue, attempt, run, ci_failure or review_comments',
        ),
        ("x\n\n{{ issue.titel }}", '11: issue has no field "titel"; did you mean "title"?'),
        ("{{ issue['titel'] }}", '9: issue has no field "titel"; did you mean "title"?'),
        ("{{ issue.parent.title }}", '9: issue.parent has no field "title"'),
        ("{{ run.turn }}", '9: run has no field "turn"'),
        ("{{ issue | toJSON }}", '9: there is no filter "toJSON"; did you mean "tojson"?'),
        ("{% if issue is blank %}x{% endif %}", '9: there is no test "blank"'),
        ("{% include 'x' %}", "9: a prompt is a single file; include, import and extends do not work here"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "9: the template is too complex to be compiled"),
        ("{{ " + "9" * 5000 + " }}", "9: the template is too complex to be compiled"),
        ("{% for a in 'b' %}" * 30 + "{% endfor %}" * 30, "9: the template is too complex to be compiled"),
    ],
)
def test_what_is_wrong_with_a_template_shows_when_it_is_loaded(tmp_path, prompt, problem):
    (found,) = problems_of(tmp_path, prompt=prompt)
    assert found.startswith(f"WORKFLOW.md:{problem}")


def test_names_that_the_template_sets_itself_are_known(tmp_path):
    prompt = (
        "{% set names = namespace(n=1) %}{% macro hi(who) %}hi {{ who }}{{ varargs | length }}{% endmacro %}"
        "{% for issue in [{'other': 1}] %}{{ issue.other }}{% endfor %}{{ hi('you') }}{{ names.n }}"
    )
    assert render(tmp_path, prompt) == "1hi you01"


def test_all_mistakes_of_a_template_are_reported_at_once(tmp_path):
    found = problems_of(tmp_path, prompt="{{ a1 }}\n{{ issue.b1 }}\n{{ attempt | c1 }}\n{{ run.d1 }}")
    assert [problem.split(": ")[0] for problem in found] == [f"WORKFLOW.md:{line}" for line in (9, 10, 11, 12)]


@pytest.mark.parametrize(
    ("go", "jinja"),
    [
        ("{{ .issue.title }}", "{{ issue.title }}"),
        ("{{.issue.title}}", "{{ issue.title }}"),
        ("# {{- .issue.id -}} {{ attempt }}", "# {{- issue.id -}} {{ attempt }}"),
        ("{{ if .run.is_continuation }}go on{{ end }}", "{% if run.is_continuation %}go on{% endif %}"),
        ("{{ if not .issue.parent }}a{{ else }}b{{ end }}", "{% if not issue.parent %}a{% else %}b{% endif %}"),
        (
            '{{ if eq .issue.state "x" }}a{{ else if and .attempt (gt .attempt 2) }}b{{ end }}',
            '{% if issue.state == "x" %}a{% elif attempt and (attempt > 2) %}b{% endif %}',
        ),
        ("{{ range .issue.labels }}{{ . }}{{ end }}", "{% for item in issue.labels %}{{ item }}{% endfor %}"),
        (
            "{{ range $i, $c := .issue.comments }}{{ $c.body }}{{ .author }}{{ $.attempt }}{{ end }}",
            "{% for c in issue.comments %}{{ c.body }}{{ c.author }}{{ attempt }}{% endfor %}",
        ),
        ("{{ with .issue.parent }}{{ .id }}{{ end }}", "{% if issue.parent %}{{ issue.parent.id }}{% endif %}"),
        ('{{ .issue.labels | join ", " }}', '{{ issue.labels | join(", ") }}'),
        ('{{ join ", " .issue.labels | lower }}', '{{ issue.labels | join(", ") | lower }}'),
        ("{{ toJSON .issue.parent }}", "{{ issue.parent | tojson }}"),
        ("{{ len .issue.labels }}", "{{ issue.labels | length }}"),
        (
            "{{ if .issue.labels }}{{ index .issue.labels 0 }}{{ end }}",
            "{% if issue.labels %}{{ issue.labels[0] }}{% endif %}",
        ),
        ('{{ printf "%s!" .issue.id }}', '{{ "%s!" | format(issue.id) }}'),
        ("{{ $id := .issue.id }}{{ $id }}", "{% set id = issue.id %}{{ id }}"),
        ("{{/* a note */}}{{ .attempt }}", "{# a note #}{{ attempt }}"),
    ],
)
def test_go_template_syntax_is_refused_with_the_line_in_jinja(tmp_path, go, jinja):
    assert problems_of(tmp_path, prompt=f"First\n  {go}\n") == [
        f'WORKFLOW.md:10: Go template syntax; write "{jinja}"'
    ]
    assert load_text(tmp_path, prompt=f"First\n  {jinja}\n").warnings == ()


def test_blocks_of_go_templates_are_followed_across_lines(tmp_path):
    go = "{{ if .issue.labels }}\n{{ range .issue.labels }}\n- {{ . }}\n{{ end }}\n{{ else }}\nnone\n{{ end }}\n"
    found = problems_of(tmp_path, prompt=go)
    assert [problem.partition("write ")[2].strip('"') for problem in found] == [
        "{% if issue.labels %}",
        "{% for item in issue.labels %}",
        "- {{ item }}",
        "{% endfor %}",
        "{% else %}",
        "{% endif %}",
    ]


@pytest.mark.parametrize(
    ("prompt", "rendered"),
    [
        ("{% raw %}\n{{ .Values.x }}\n{% endraw %}", "{{ .Values.x }}"),
        ("{# {{ .x }} #}y", "y"),
        ("{{ not issue.parent }} {{ '.x' }}", "True .x"),
    ],
)
def test_jinja_that_looks_a_little_like_go_is_left_alone(tmp_path, prompt, rendered):
    assert render(tmp_path, prompt) == rendered


def test_settings_of_any_length_do_not_shift_the_lines_of_the_prompt(tmp_path):
    settings = SETTINGS + "# comment\n" * 100
    assert problems_of(tmp_path, settings, "\n\n{{ nope_x }}")[0].startswith("WORKFLOW.md:111: ")


def test_a_text_that_is_no_template_is_given_as_it_is():
    text = " {{ issue.title }} {% if \n"
    template = PromptTemplate(text, is_template=False)
    assert [template.render(ISSUE, attempt=0, turn=turn, max_turns=2) for turn in (1, 2)] == [text, text]


def test_the_template_of_a_workflow_says_where_its_text_stands(tmp_path):
    template = load_text(tmp_path, prompt="Do {{ issue.title }}\n").template
    assert (template.text, template.line) == ("Do {{ issue.title }}\n", 9)
    assert template.file == str(tmp_path / "WORKFLOW.md")
    again = PromptTemplate(template.text, template.file, template.line)
    assert again.render(ISSUE, attempt=0, turn=1, max_turns=1) == "Do Paint it"


@pytest.mark.parametrize(("text", "line"), [("a\n{% if %}", 12), ("a\n{{ 1 // 0 }}", 12)])
def test_a_template_that_nobody_checked_names_its_line_too(text, line):
    with pytest.raises(PromptError) as caught:
        PromptTemplate(text, "plan.yaml", 11).render(ISSUE, attempt=0, turn=1, max_turns=1)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"plan.yaml:{line}: ")
