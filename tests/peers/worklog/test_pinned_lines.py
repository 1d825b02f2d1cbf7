"""The lines of the status block that belong to the maintainer."""

from __future__ import annotations

import pytest

from sortie.errors import SortieError
from sortie.peers.author import Author, AuthorityError
from sortie.peers.worklog.parse import parse
from sortie.peers.worklog.pinned_lines import FOCUS, set_pinned, with_pinned

from .logs import AT


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "Now Working (A): x\nMaintainer Focus: old\n\n## S\n",
            "Now Working (A): x\nMaintainer Focus: new\n\n## S\n",
        ),
        (
            "Now Working (A): x\r\n**Maintainer focus:** old\r\n",
            "Now Working (A): x\r\n**Maintainer focus:** new\r\n",
        ),
        ("Now Working (A): x\r\n\r\n## S\r\n", "Now Working (A): x\r\nMaintainer Focus: new\r\n\r\n## S\r\n"),
        ("# W\n\nNow Working (A): x", "# W\n\nNow Working (A): x\nMaintainer Focus: new"),
    ],
)
def test_the_line_is_set_and_every_other_byte_stays(before, after):
    """LOG-01: in place, in the manner of the file."""
    changed = with_pinned(before.encode(), FOCUS, "new")
    assert changed == after.encode()
    assert with_pinned(changed, FOCUS, "new") == changed
    assert "new" in parse(changed).pinned().values()


def test_no_agent_sets_it_and_no_log_without_a_block_has_it(tmp_path):
    """LOG-05: maintainer only."""
    path = tmp_path / "WORKLOG.md"
    path.write_text("# WORKLOG\n")
    with pytest.raises(AuthorityError, match="maintainer's"):
        set_pinned(path, FOCUS, "mine", Author(name="Alice", role="agent"), AT)
    with pytest.raises(SortieError, match="no status block"):
        set_pinned(path, FOCUS, "mine", Author(name="Mira", role="maintainer"), AT)
    assert path.read_text() == "# WORKLOG\n"
