"""Names of tasks are names of folders: whatever a plan may call a task, it is found there."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["a", "0", "build-0123456789", "x" * 64, "a--", "workspace", "inbox", "attempts"])
def test_a_task_has_the_folder_of_its_name_and_hands_on_what_is_in_it(plan, name):
    """BOX-01, BOX-08: a name that ends as a digest does is a name like any other."""
    plan.task(name, "deliver handed")
    plan.task("after", 'deliver "$(cat inbox/*/result.md)"', depends_on=[name])
    plan.run()
    for one in (name, "after"):
        assert (plan.folder(one) / "outbox" / "result.md").read_text() == "handed\n"
