"""Sources without a tracker go the way of all others: on several hosts, killed, recovered, told by the log."""

from __future__ import annotations

from collections import Counter

import pytest

from sortie.core import events as ev
from sortie.core.replay import replay

from .two_hosts import TwoHosts, end_of

NAMES = [f"t{number}" for number in range(1, 8)]


@pytest.fixture
def scene(tmp_path):
    made: list[TwoHosts] = []

    def make(*arguments: str, **options: str) -> TwoHosts:
        made.append(TwoHosts(tmp_path, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def assert_each_was_done_once(scene: TwoHosts, *names: str) -> None:
    assert scene.told("twice") == {}
    assert scene.told("end") == Counter(names)
    log = scene.log()
    assert list(replay(log)) == []
    claimed = [event.run_id for event in log if isinstance(event, ev.Claimed)]
    assert sorted(claimed) == sorted(event.run_id for event in log if isinstance(event, ev.Settled))
    assert not (scene.schedule().running or scene.schedule().waiting or scene.schedule().effects)
    assert {name: scene.schedule().spent_on(name).sessions for name in names} == dict.fromkeys(names, 1)


def crashed(scene: TwoHosts) -> Counter[str]:
    return Counter(e.issue_id for e in scene.log() if isinstance(e, ev.RunEnded) and e.stop == "crash")


async def test_a_list_on_two_hosts_is_killed_and_recovered(scene):
    """Runs of this machine are ended and begun again; those of the other one go on, started once."""
    names = [*NAMES, "last"]
    items = f"[*map(item, {NAMES}), item('last', 't1')]"
    its = scene(f"ListSource({items}, home / 'work', agent)", *names)
    first = its.start()
    await its.diary("start", 6)
    first.kill()
    first.communicate()
    before = its.claims()
    assert Counter(host for hosts in before.values() for host in hosts) == {"local": 3, "worker": 3}
    here, there = ([name for name in before if before[name] == [host]] for host in ("local", "worker"))

    second = its.start()
    await its.diary("start", 9)
    assert its.told("start") == {**dict.fromkeys(here, 2), **dict.fromkeys(there, 1)}
    its.open()
    assert await end_of(second) == ""
    assert_each_was_done_once(its, *names)
    assert crashed(its) == Counter(here)
    assert {name: hosts for name, hosts in its.claims().items() if name in there} == {n: ["worker"] for n in there}
    assert {view.state for view in its.schedule().issues.values()} == {"done"}


async def test_tasks_that_end_while_nobody_is_there_are_heard_by_the_next_orchestrator(scene):
    """The worker's agents say in status.json how they ended, after one orchestrator and before the next."""
    names = [*NAMES[:6], "next"]
    items = f"[*map(item, {NAMES[:6]}), item('next', *{NAMES[:6]})]"
    then = 'test -d inbox && echo "{\\"state\\": \\"completed\\"}" > status.json\n'
    its = scene(f"TaskFolderSource({items}, home / 'work', agent)", *names, then=then)
    first = its.start()
    await its.diary("start", 6)
    first.kill()
    first.communicate()
    here, there = ([n for n, hosts in its.claims().items() if hosts == [host]] for host in ("local", "worker"))
    its.open(*there)
    await its.diary("end", 3)

    second = its.start()
    await its.diary("start", 9)
    its.open()
    assert await end_of(second) == ""
    assert_each_was_done_once(its, *names)
    assert crashed(its) == Counter(here)
    assert {name: len(hosts) for name, hosts in its.claims().items() if name in there} == dict.fromkeys(there, 1)
    assert {view.state for view in its.schedule().issues.values()} == {"done"}
