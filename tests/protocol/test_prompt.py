"""The first prompt of a run."""

from sortie.protocol.status_file import STATUS_INSTRUCTIONS, compose_first_prompt


def test_template_then_tools_then_status_instructions():
    """A2O-23: in this order, separated by blank lines, the status text last."""
    prompt = compose_first_prompt("  Fix it.\n", "## Tools\nask\n")
    assert prompt == f"  Fix it.\n\n## Tools\nask\n\n{STATUS_INSTRUCTIONS}"


def test_without_tools_there_is_no_gap():
    assert compose_first_prompt("Fix it.") == f"Fix it.\n\n{STATUS_INSTRUCTIONS}"


def test_an_empty_template_leaves_the_instructions():
    assert compose_first_prompt(" \n") == STATUS_INSTRUCTIONS


def test_the_instructions_name_both_tokens_and_the_command():
    assert '    mkdir -p .sortie && echo "blocked" > .sortie/status\n' in STATUS_INSTRUCTIONS
    assert '"needs-human-review"' in STATUS_INSTRUCTIONS
