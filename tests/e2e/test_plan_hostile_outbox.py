"""BOX-05, TBX-06 and TBX-08: whatever an agent leaves in its outbox, only regular files of its own are taken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from .hostile_plan import DELIVER, HostilePlan

CROWD = 50_000


class Odd(NamedTuple):
    """What the agent does beside all that it owes, and what comes of it; `taken` is there all the same."""

    script: str
    state: str = "incomplete"
    reason: str = ""
    taken: str = ""
    skip_unsafe: bool = False


ODD = {
    "a-link": Odd(
        'ln -s "$ROOT/outside/secret.txt" outbox/more', reason="outbox/more is refused: It is a symbolic link"
    ),
    "a-link-as-output": Odd(
        'ln -sf "$ROOT/outside/secret.txt" outbox/data.txt',
        reason="outbox/data.txt is refused: It is a symbolic link",
    ),
    "a-link-as-summary": Odd(
        "ln -sf /etc/passwd outbox/summary.md", reason="outbox/summary.md is refused: It is a symbolic link"
    ),
    "a-link-to-a-directory": Odd('ln -s "$ROOT/outside" outbox/more', reason="outbox/more is refused"),
    "a-link-that-is-left-out": Odd('ln -s "$ROOT/outside/secret.txt" outbox/more', "completed", skip_unsafe=True),
    "a-hard-link": Odd(
        'ln "$ROOT/outside/secret.txt" outbox/more', reason="outbox/more is refused: It is a hard link"
    ),
    "a-fifo": Odd("mkfifo outbox/more", reason="outbox/more is refused: It is a FIFO"),
    "a-fifo-as-output": Odd("rm outbox/data.txt; mkfifo outbox/data.txt", reason="outbox/data.txt is refused"),
    "a-socket": Odd(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"outbox/more\")'",
        reason="outbox/more is refused: It is a socket",
    ),
    "ten-gigabytes": Odd("truncate -s 10G outbox/more", reason="outbox holds more than 1073741824 bytes"),
    "ten-gigabytes-as-output": Odd("truncate -s 10G outbox/data.txt", reason="outbox holds more than"),
    "a-crowd": Odd(f"cd outbox; seq {CROWD} | xargs touch", reason="outbox holds more than 10000 files"),
    "a-crowd-of-directories": Odd(
        "cd outbox; seq 12000 | xargs mkdir", reason="outbox holds more than 10000 directories"
    ),
    "a-deep-one": Odd(
        "cd outbox; for n in $(seq 100); do mkdir d; cd d; done", reason="outbox is nested more than 64 deep"
    ),
    "a-directory-as-output": Odd(
        "rm outbox/data.txt; mkdir outbox/data.txt; touch outbox/data.txt/x", reason="outbox/data.txt is missing"
    ),
    "an-empty-output": Odd("> outbox/data.txt", reason="outbox/data.txt is empty"),
    "only-partial": Odd(
        "mkdir outbox/partial; mv outbox/data.txt outbox/partial", reason="outbox/data.txt is missing"
    ),
    "a-name-of-two-lines": Odd(
        'printf x > "outbox/a\nb"', reason="a\\nb is refused: Its name has characters that no name may have"
    ),
    "a-name-with-escapes": Odd("printf x > \"outbox/$(printf 'a\\033[31m')\"", reason="is refused: Its name has"),
    "a-name-that-is-no-text": Odd("printf x > \"outbox/$(printf 'a\\377')\"", reason="is refused: Its name has"),
    "a-name-with-percent": Odd(
        'printf x > "outbox/%s%n 100% {x} $(x)"', "completed", taken="outbox/%s%n 100% {x} "
    ),
    "a-name-with-dots": Odd('printf x > "outbox/..%2f..x"', "completed", taken="outbox/..%2f..x"),
    "the-outbox-a-link": Odd('rm -r outbox; ln -s "$ROOT/outside" outbox', reason="outbox cannot be read"),
    "the-outbox-a-file": Odd("rm -r outbox; echo x > outbox", reason="outbox cannot be read"),
    "the-outbox-a-fifo": Odd("rm -r outbox; mkfifo outbox", reason="outbox cannot be read"),
    "no-outbox": Odd("rm -r outbox", reason="outbox cannot be read"),
}


@pytest.fixture(scope="module")
def plan_of_all(tmp_path_factory) -> Iterator[HostilePlan]:
    """One plan with a task for each, one beside them, and one behind each that would get what it delivers."""
    plan = HostilePlan(tmp_path_factory.mktemp("hostile") / "plan")
    plan.task("good")
    for name, odd in ODD.items():
        plan.task(name, f"{DELIVER}\n{odd.script}", skip_unsafe=odd.skip_unsafe)
        plan.task(f"after-{name}", depends_on=[name])
    assert plan.run() == 3
    yield plan
    plan.clean_up()


@pytest.mark.parametrize("name", ODD)
def test_an_odd_outbox_has_a_defined_end(plan_of_all, name):
    """BOX-05, TBX-06, TBX-08"""
    odd = ODD[name]
    standing, after = plan_of_all.standing(name), plan_of_all.standing(f"after-{name}")
    assert standing.state == odd.state, standing
    assert odd.reason in standing.note
    assert standing.note.isprintable()
    assert after.state == ("completed" if odd.state == "completed" else "blocked"), after
    if odd.state == "completed":
        delivered = plan_of_all.delivered(name)
        assert {"outbox/data.txt", "outbox/summary.md"} <= set(delivered)
        assert "outbox/more" not in delivered
        assert any(path.startswith(odd.taken) for path in delivered)


def test_the_others_are_as_if_nothing_had_been(plan_of_all):
    assert plan_of_all.standing("good").state == "completed"
    assert plan_of_all.findings("good") == ""


def test_nothing_outside_was_read_or_changed(plan_of_all):
    assert [path.name for path in plan_of_all.outside.iterdir()] == ["secret.txt"]
    assert plan_of_all.secret.read_text() == "nobody is to read this"
    assert b"nobody is to read this" not in plan_of_all.everything_we_wrote()
    assert b"root:" not in plan_of_all.everything_we_wrote()


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: devices are made by root alone")
def test_a_device_is_refused_and_never_opened(hostile):
    hostile.task("odd", f"{DELIVER}; mknod outbox/more c 1 5 || touch $ROOT/forbidden; mknod outbox/tape c 9 0")
    hostile.run()
    if (hostile.root / "forbidden").exists():
        pytest.skip("NOT TESTED: devices cannot be made here")
    assert "outbox/more is refused: It is a device" in hostile.standing("odd").note


def test_who_made_a_mess_of_its_outbox_gets_a_clean_one_for_the_next_attempt(hostile):
    """TBX-13: what stands in the place of the outbox goes to the earlier attempts, and nothing outside with it."""
    messes = {
        "link": 'rm -r outbox; ln -s "$ROOT/outside" outbox',
        "file": "rm -r outbox; echo x > outbox",
        "fifo": "rm -r outbox; mkfifo outbox",
        "nothing": "rm -r outbox",
        "crowd": "cd outbox; seq 20000 | xargs touch",
        "closed": "touch outbox/x; chmod 0 outbox",
        "workspace": 'rm -r workspace; ln -s "$ROOT/outside" workspace',
        "inbox": 'chmod -R u+w inbox; rm -r inbox; ln -s "$ROOT/outside" inbox',
        "inbox-file": "chmod -R u+w inbox; rm -r inbox; echo x > inbox",
        "skill": 'rm SKILL.md; ln -s "$ROOT/outside/secret.txt" SKILL.md',
        "skill-directory": "rm SKILL.md; mkdir -p SKILL.md/x",
        "status": 'ln -sf "$ROOT/outside/secret.txt" status.json',
        "status-directory": "rm status.json; mkdir -p status.json/x",
        "attempts": 'ln -s "$ROOT/outside" attempts',
        "attempts-file": "echo x > attempts",
        "attempts-next": "mkdir attempts; echo x > attempts/.next",
        "attempts-next-link": 'mkdir attempts; ln -s "$ROOT/outside" attempts/.next',
        "attempts-taken": "mkdir -p attempts/001; echo x > attempts/002",
        "attempts-number": "mkdir -p attempts/999999999 attempts/1000000000",
        "inbox-new": 'ln -s "$ROOT/outside" .inbox.new',
        "inbox-new-closed": "mkdir -p .inbox.new/x/y; chmod 0 .inbox.new",
        "session": 'rm -rf .sortie; ln -s "$ROOT/outside" .sortie',
        "session-file": "rm -rf .sortie; echo x > .sortie",
        "folder": 'cd ..; mv "$SORTIE_ISSUE_ID" "moved-$SORTIE_ISSUE_ID"; ln -s "$ROOT/outside" "$SORTIE_ISSUE_ID"',
        "folder-file": 'cd ..; rm -rf "$SORTIE_ISSUE_ID"; echo x > "$SORTIE_ISSUE_ID"',
        "folder-gone": 'rm -rf "$PWD"',
        "folder-other": 'rm -rf "$PWD"; mkdir "$PWD"; echo x > "$PWD/x"',
    }
    for name, mess in messes.items():
        once = f'[ -e "$ROOT/{name}.done" ] || {{ touch "$ROOT/{name}.done"; {mess}; exit 1; }}'
        hostile.task(name, f"{once}\n{DELIVER}", retries=1)
    hostile.run()
    ends = {name: hostile.standing(name) for name in messes}
    assert {name: end.note for name, end in ends.items() if end.state != "completed"} == {}
    assert [path.name for path in hostile.outside.iterdir()] == ["secret.txt"]
    assert hostile.secret.read_text() == "nobody is to read this"
    for name in messes:
        assert sorted(hostile.delivered(name)) == ["outbox/data.txt", "outbox/summary.md"]
