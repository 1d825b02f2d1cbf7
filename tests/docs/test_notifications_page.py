"""What the page about notifications shows can be written so, and comes out so."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sortie.engine.notifier_process import DRAIN_SECONDS
from sortie.notify.channel_sender import FIRST_PAUSE, GIVES_UP_AFTER, LONGEST_PAUSE
from sortie.notify.message import MOST_ITEMS, MOST_LINES, Item
from sortie.workflow.channels import EVENT_KINDS, ChannelConfig
from sortie.workflow.loader import examine

PAGE = (Path(__file__).parents[2] / "docs/notifications.md").read_text("utf-8")
ADDRESSES = {
    "SORTIE_NOTIFICATIONS_TEAM": "https://hooks.example.com/services/x",
    "SORTIE_NOTIFICATIONS_MAIL": "mailtos://ann:secret@smtp.example.com",
    "SORTIE_NOTIFICATIONS_KEY": "a-key-that-both-know",
}


def test_each_section_that_is_shown_can_be_used(tmp_path):
    shown = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.S | re.M)
    assert len(shown) == 3
    for section in shown:
        workflow = tmp_path / "WORKFLOW.md"
        workflow.write_text(f"---\ntracker: {{kind: file, active_states: [a]}}\n{section}---\nx\n")
        found = examine(workflow, environ={name: value for name, value in ADDRESSES.items() if name in section})
        assert found.problems == ()
        assert found.config.notifications


def test_the_json_that_is_shown_has_the_fields_of_a_message():
    (shown,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.S | re.M)
    assert tuple(json.loads(shown)) == Item.__struct_fields__


def test_the_page_names_every_kind_of_event():
    assert tuple(re.findall(r"^\| `(\w+)` \| (?!sent)", PAGE, re.M)) == (*EVENT_KINDS,)


def test_the_figures_of_the_page_are_those_in_force():
    assert f"`digest_seconds` ({ChannelConfig().digest_seconds})" in PAGE
    assert f"first {MOST_ITEMS} of them" in PAGE
    figures = (MOST_LINES, FIRST_PAUSE, LONGEST_PAUSE, GIVES_UP_AFTER, DRAIN_SECONDS)
    assert figures == (20, 5.0, 3600.0, 3 * 86400.0, 6.0)
    for words in ("names twenty", "after 5 s", "up to an hour", "After three days", "up to six seconds"):
        assert words in PAGE
