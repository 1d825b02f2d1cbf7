"""Scripts without a server: any list is one or is refused in words, and the talk alone says which step is next."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .script import next_step, place_of
from .steps import Call, Script, ScriptError, Shell, Step, is_passed, parse, tool_call
from .wire import Prompt, Result, Tool

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)
names = st.sampled_from(
    [
        *("text", "shell", "mcp", "tool", "http", "hang", "stall", "drop"),
        *("stop", "args", "times", "headers", "message", "body", "id", "sleep", "usage", "input"),
    ]
)
numbers = st.sampled_from(
    [0, 1, 429, 500, True, [1, 2], {"input": 1, "output": 2, "cached": 1}, {"a": "b"}, "refusal"]
)
almost_steps = st.dictionaries(names, numbers | anything, max_size=4)
steps = st.sampled_from(
    [
        {"text": "t"},
        {"text": "t", "times": 1},
        {"shell": "s"},
        {"http": 500, "times": 1},
        {"hang": 1},
        {"drop": True},
    ]
)


@given(st.lists(anything | almost_steps, max_size=4))
def test_any_list_is_a_script_or_is_refused_in_words(source):
    try:
        script = parse(source)
    except ScriptError as error:
        assert str(error).startswith("step ")
    else:
        assert len(script.steps) == len(source)


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        ({"text": "a", "shell": "b"}, "exactly one of"),
        ({"sleep": 1}, "exactly one of"),
        ({"text": 1}, "'text' must be a string"),
        ({"text": "a", "stop": "max_tokens"}, "'stop' must be"),
        ({"shell": "a", "times": 1}, "'shell' takes no 'times'"),
        ({"shell": "a", "take": "("}, "'take' must be a pattern"),
        ({"http": 429, "time": 1}, "'http' takes no 'time'"),
        ({"http": 200}, "from 400 to 599"),
        ({"http": 500, "headers": {"a": "b\r\nc: d"}}, "'headers' must be"),
        ({"http": 500, "times": True}, "'times' must be"),
        ({"mcp": "x", "args": []}, "'args' must be an object"),
        ({"hang": float("nan")}, "'hang' must be"),
        ({"hang": 1e9}, "'hang' must be"),
        ({"drop": False}, "'drop' must be true"),
        ({"text": "a", "usage": [1, 2, 3]}, "'usage' must be"),
        ({"text": "a", "usage": {"input": 1, "output": 1, "cached": 2}}, "cannot be more"),
        ("text", "must be an object"),
    ],
)
def test_a_mistake_is_named_with_its_step(step, complaint):
    with pytest.raises(ScriptError, match="step 2 of the script: ") as refused:
        parse([{"text": "fine"}, step])
    assert complaint in str(refused.value)


@given(st.lists(steps, max_size=6), st.integers(0, 7))
def test_as_many_plain_steps_are_passed_as_there_are_results(source, results):
    script = parse(source)
    plain = [index for index, step in enumerate(script.steps) if not is_passed(step)]
    expected = plain[results] if results < len(plain) else None
    assert next_step(script, results, lambda index: False) == expected


@given(st.lists(steps, max_size=6), st.integers(0, 7))
def test_only_the_faults_right_before_the_step_take_place(source, results):
    script = parse(source)
    asked: list[int] = []

    def refuse(index: int) -> bool:
        asked.append(index)
        return False

    due = next_step(script, results, refuse)
    end = len(script.steps) if due is None else due
    assert asked == [index for index in asked if is_passed(script.steps[index])]
    assert asked == sorted(asked)
    assert all(is_passed(script.steps[index]) for index in range(asked[0] if asked else end, end))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<script>",
        "</script><script>",
        "<script>alert(1)</script>",
        "<script>{}</script>",
        "<script>[]</script>",
    ],
)
def test_what_is_not_a_list_of_steps_is_no_script(text):
    assert place_of([Prompt(text)]).source is None


def test_the_last_script_of_a_prompt_counts_and_extra_quoting_is_undone():
    one, two = json.dumps([{"text": "1"}]), json.dumps([{"text": "2"}])
    assert place_of([Prompt(f"<script>{one}</script> <script>{two}</script>")]).source == [{"text": "2"}]
    quoted = one.replace('"', '\\"')
    assert place_of([Prompt(f"<script>{quoted}</script>")]).source == [{"text": "1"}]


def test_a_mistake_in_a_script_of_the_past_is_past():
    bad, good = "<script>[1]</script>", '<script>[{"text": "x"}]</script>'
    place = place_of([Prompt(bad), Result("old"), Prompt(good)])
    assert place.script(Script("", ())).steps[0].kind == "text"
    assert (place.prompts, place.results, place.last_result) == (2, 0, None)


@pytest.mark.parametrize(
    ("offered", "arguments"),
    [
        ("Bash", {"command": "ls", "description": "Run a command"}),
        ("exec_command", {"cmd": "ls"}),
        ("shell", {"command": ["bash", "-lc", "ls"]}),
        ("run_shell_command", {"command": "ls", "description": "Run a command"}),
    ],
)
def test_the_shell_of_each_agent_is_known(offered, arguments):
    call = tool_call(Shell("ls"), [Tool("read"), Tool(offered)])
    assert (call.tool.name, call.arguments) == (offered, arguments)


@pytest.mark.parametrize(
    "name", ["echo", "mcp__probe__echo", "probe_echo", "probe-echo", "probe.echo", "probe/echo"]
)
def test_an_mcp_tool_is_found_behind_any_prefix(name):
    tools = [Tool("gecho"), Tool("echo_not"), Tool(name)]
    assert tool_call(Call("echo", {}, loosely=True), tools).tool.name == name


def test_a_tool_by_exact_name_is_no_other():
    assert tool_call(Call("echo", {}, loosely=False), [Tool("a_echo")]).tool == Tool("echo")
    assert tool_call(Call("echo", {}, loosely=False), [Tool("echo", "space")]).tool == Tool("echo", "space")


def test_what_was_found_in_the_last_result_stands_in_the_command():
    deed = Shell("echo @TAKEN@ > x", "token-[0-9]+")
    assert tool_call(deed, [], "read: token-17\n").arguments["command"] == "echo token-17 > x"
    assert tool_call(deed, [], "nothing").arguments["command"] == "echo  > x"


def test_a_text_that_was_said_so_often_is_passed():
    """A script over two turns: the text ends the first, what comes after it is the second."""
    script = parse([{"shell": "a"}, {"text": "one", "times": 1}, {"shell": "b"}, {"text": "two"}])
    said: list[int] = []

    def takes_place(index: int) -> bool:
        said.append(index)
        return said == [1]

    assert [next_step(script, results, takes_place) for results in (0, 1, 1, 2)] == [0, 1, 2, 3]


def test_a_tool_nobody_offered_is_called_all_the_same():
    assert tool_call(Call("echo", {}, loosely=True), []).tool == Tool("echo")
    assert tool_call(Shell("ls"), []).tool == Tool("bash")


def test_a_step_has_its_options():
    [step] = parse([{"http": 500, "times": 3, "sleep": 1, "usage": [1, 2]}]).steps
    assert isinstance(step, Step)
    assert (step.kind, step.times, step.sleep, step.usage and step.usage.output) == ("http", 3, 1.0, 2)
