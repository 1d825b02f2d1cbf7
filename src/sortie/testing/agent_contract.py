"""What every agent keeps, as tests: inherit `AgentContract`, say how your agent is set up, and let pytest find it.

    class TestMyAgent(AgentContract):
        agent = MyAgent

        def settings(self, directory, deed):
            return AgentSettings(kind="my-agent", command=f"{directory / 'stand_in.sh'} {deed}")

The program of the agent is a stand-in, which does the same in every turn, by its deed:

| `works` | says something and completes the turn; it copies what it is sent to the file `received` in `directory` |
| `fails` | ends the turn as a turn of this agent ends that failed |
| `hangs` | starts something in the background, says something, and never ends by itself |

An agent that is no process of its own says `has_process = False`. The tests are async and run by anyio's pytest
plugin.
"""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from fcntl import ioctl
from pathlib import Path
from struct import unpack
from termios import FIONREAD
from typing import ClassVar, Literal

import anyio
import pytest
from msgspec.structs import replace

from ..agents.agent import (
    Agent,
    AgentSession,
    AgentSettings,
    Reporter,
    SessionOrder,
    TurnFinished,
    is_session_id,
)
from ..errors import AgentError
from ..process.identity import RUN_MARK, STORE_MARK, ProcessIdentity, mark_of
from ..process.process_table import snapshot
from ..process.spawn import prepare
from .fakes import Recorder

DEADLINE = 45.0
PROMPT = "Count the lines of the file README."

Deed = Literal["works", "fails", "hangs"]
DEEDS: tuple[Deed, ...] = ("works", "fails", "hangs")

KINDS = frozenset(kind for name, kind in vars(AgentError).items() if name.isupper() and isinstance(kind, str))


class AgentContract(ABC):
    """`environment` is what the agent needs beyond PATH: a key, a place for its settings."""

    pytestmark = pytest.mark.anyio
    agent: ClassVar[type[Agent]]
    has_process: ClassVar[bool] = True
    environment: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def settings(self, directory: Path, deed: Deed) -> AgentSettings:
        """Settings with which each turn of the agent does this. `directory` is the test's own."""

    def received(self, directory: Path) -> str | None:
        """What the stand-in that `works` was sent; None before it has begun to read."""
        path = directory / "received"
        return path.read_text() if path.exists() else None

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture(autouse=True)
    def prepared(self) -> None:
        """The process adopts what agents leave behind, as that of an orchestrator does."""
        prepare()

    @pytest.fixture
    def lab(self, tmp_path: Path) -> Iterator[Lab]:
        with Lab(self, tmp_path) as lab:
            yield lab

    # -- before anything runs ---------------------------------------------------------------------------------

    def test_it_says_what_it_needs(self) -> None:
        assert all(isinstance(name, str) for name in self.agent.variables)
        assert isinstance(self.agent.needs_login, bool)

    @pytest.mark.parametrize("deed", DEEDS)
    def test_good_settings_have_no_problems(self, tmp_path: Path, deed: Deed) -> None:
        assert self.agent.check(self.settings(tmp_path, deed)) == []

    def test_an_option_that_it_does_not_know_is_named_by_its_key(self, tmp_path: Path) -> None:
        settings = self.settings(tmp_path, "works")
        wrong = replace(settings, options={**settings.options, "no_such_option": 1})
        ((path, sentence),) = self.agent.check(wrong)
        assert path == f"{settings.kind}.no_such_option"
        assert sentence.endswith((".", "?"))

    def test_nothing_is_touched_when_it_is_built(self, tmp_path: Path) -> None:
        settings = self.settings(tmp_path, "works")
        before = sorted(tmp_path.rglob("*"))
        self.agent.from_settings(settings)
        self.agent.from_settings(replace(settings, command="/no/such/program", base=Path("/no/such/place")))
        assert sorted(tmp_path.rglob("*")) == before

    async def test_nothing_is_missing_where_all_is_there(self, lab: Lab) -> None:
        agent = lab.build("works")
        assert agent.missing(lab.order().environment) is None
        _well_formed(await agent.examine(lab.order().environment))
        assert lab.processes() == []

    async def test_a_program_that_is_not_there_is_told_before_it_is_started(self, lab: Lab) -> None:
        self.needs_process()
        settings = replace(self.settings(lab.directory, "works"), command=str(lab.directory / "no-such-program"))
        agent = self.agent.from_settings(settings)
        missing = agent.missing(lab.order().environment)
        assert missing is not None
        assert (missing.kind, missing.retry) == (AgentError.NOT_FOUND, False)
        assert missing.fix
        findings = await agent.examine(lab.order().environment)
        _well_formed(findings)
        assert "FAIL" in [finding.verdict for finding in findings]
        with pytest.raises(AgentError) as failure:
            async with lab.session(agent=agent) as session:
                await session.turn(PROMPT, 1)
        assert failure.value.kind == AgentError.NOT_FOUND

    # -- turns ------------------------------------------------------------------------------------------------

    async def test_each_turn_is_told_to_its_end(self, lab: Lab) -> None:
        async with lab.session("works") as session:
            for number in (1, 2, 3):
                await session.turn(PROMPT, number)
                assert lab.recorder.events[-1] == TurnFinished("completed")
                assert lab.ends_of_turns() == ["completed"] * number
        assert lab.recorder.said
        assert lab.ends_of_turns() == ["completed"] * 3

    async def test_the_conversation_is_named_and_stays_the_same(self, lab: Lab) -> None:
        async with lab.session("works") as session:
            await session.turn(PROMPT, 1)
            name = lab.recorder.sessions[-1]
            assert is_session_id(name)
            await session.turn(PROMPT, 2)
        assert lab.recorder.sessions[-1] == name

    async def test_a_conversation_is_gone_on_with_in_a_later_session(self, lab: Lab) -> None:
        async with lab.session("works") as session:
            await session.turn(PROMPT, 1)
        name = lab.recorder.sessions[-1]
        later = Recorder()
        async with lab.session("works", later, resume=name) as session:
            await session.turn(PROMPT, 1)
        assert later.sessions[-1] == name
        assert later.events[-1] == TurnFinished("completed")

    async def test_a_turn_that_fails_raises_an_error_of_a_known_kind(self, lab: Lab) -> None:
        async with lab.session("fails") as session:
            with pytest.raises(AgentError) as failure:
                await session.turn(PROMPT, 1)
            assert failure.value.kind in KINDS
            assert failure.value.message
            assert lab.recorder.events[-1] == TurnFinished(failure.value.kind)
            assert lab.ends_of_turns() == [failure.value.kind]
        assert lab.processes() == []

    async def test_sessions_beside_each_other_do_not_mix(self, lab: Lab) -> None:
        agent, recorders = lab.build("works"), [Recorder() for _ in range(3)]

        async def work(recorder: Recorder) -> None:
            async with lab.session("works", recorder, agent, run_id=uuid.uuid4().hex) as session:
                await session.turn(PROMPT, 1)

        with anyio.fail_after(DEADLINE):
            async with anyio.create_task_group() as tasks:
                for recorder in recorders:
                    tasks.start_soon(work, recorder)
        assert [recorder.events[-1] for recorder in recorders] == [TurnFinished("completed")] * 3
        pids = [identity.pid for recorder in recorders for identity in recorder.identities]
        assert len(pids) == len(set(pids))

    # -- its processes ----------------------------------------------------------------------------------------

    async def test_no_byte_is_exchanged_before_the_process_is_on_record(self, lab: Lab) -> None:
        self.needs_process()
        seen: list[tuple[str | None, int, list[str]]] = []

        async def on_record(identity: ProcessIdentity) -> None:
            if not seen:
                await _until(lambda: self.received(lab.directory) is not None)
                seen.append((self.received(lab.directory), _waiting_input(identity.pid), lab.recorder.said))

        lab.recorder.on_record = on_record
        with anyio.fail_after(DEADLINE):
            async with lab.session("works") as session:
                await session.turn(PROMPT, 1)
        assert seen == [("", 0, [])]
        assert PROMPT in (self.received(lab.directory) or "")

    async def test_a_process_is_where_and_what_it_was_ordered_to_be(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In the workspace, with the marks by which its run is recognised, and with nothing of our environment."""
        self.needs_process()
        monkeypatch.setenv("SORTIE_CONTRACT_SECRET", "not for agents")
        seen: set[tuple[str, str, str, Path]] = set()

        async def on_record(identity: ProcessIdentity) -> None:
            pid = identity.pid
            await _until(lambda: mark_of(pid, "PATH"))  # at the very start of a program it cannot be read yet
            secret = mark_of(pid, "SORTIE_CONTRACT_SECRET")
            place = Path(f"/proc/{pid}/cwd").readlink()
            seen.add((mark_of(pid, RUN_MARK), mark_of(pid, STORE_MARK), secret, place))

        lab.recorder.on_record = on_record
        with anyio.fail_after(DEADLINE):
            async with lab.session("works") as session:
                await session.turn(PROMPT, 1)
        assert seen == {(lab.run_id, lab.store_id, "", lab.workspace)}

    async def test_a_turn_that_is_cancelled_leaves_no_process_once_it_is_closed(self, lab: Lab) -> None:
        async with lab.session("hangs") as session:
            await lab.cancel_once_it_speaks(session)
            with anyio.fail_after(DEADLINE):
                await session.close()
        assert lab.processes() == []

    async def test_an_interrupt_comes_back_and_the_rest_is_left_to_the_close(self, lab: Lab) -> None:
        async with lab.session("hangs") as session:
            await session.interrupt()  # where nothing is under way
            await lab.cancel_once_it_speaks(session)
            with anyio.fail_after(DEADLINE):
                await session.interrupt()
                await session.close()
                await session.close()
        assert lab.processes() == []

    async def test_who_is_cancelled_before_the_process_is_on_record_leaves_none(self, lab: Lab) -> None:
        self.needs_process()
        waits = anyio.Event()

        async def never(_: ProcessIdentity) -> None:
            waits.set()
            await anyio.sleep_forever()

        async def work() -> None:
            async with lab.session("works") as session:
                await session.turn(PROMPT, 1)

        lab.recorder.on_record = never
        with anyio.fail_after(DEADLINE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(work)
                await waits.wait()
                tasks.cancel_scope.cancel()
        assert lab.processes() == []
        assert not self.received(lab.directory)

    async def test_a_session_without_a_turn_can_be_closed(self, lab: Lab) -> None:
        async with lab.session("works") as session:
            await session.close()
        assert lab.processes() == []
        assert lab.ends_of_turns() == []

    def needs_process(self) -> None:
        if not self.has_process:
            pytest.skip("it is no process")


class _Recorder(Recorder):
    """Waits at the beginning of each process for what a test does there."""

    def __init__(self) -> None:
        super().__init__()
        self.on_record: Callable[[ProcessIdentity], Awaitable[None]] = _nothing

    async def process_started(self, identity: ProcessIdentity) -> None:
        await super().process_started(identity)
        await self.on_record(identity)


class Lab:
    """A workspace, sessions in it, and a look for what they leave behind."""

    def __init__(self, contract: AgentContract, directory: Path) -> None:
        self._contract = contract
        self.directory = directory
        self.workspace = directory / "workspaces" / "T-1"
        self.workspace.mkdir(parents=True)
        self.store_id, self.run_id = uuid.uuid4().hex, uuid.uuid4().hex
        self.recorder = _Recorder()

    def __enter__(self) -> Lab:
        self._fd = os.open(self.workspace, os.O_RDONLY | os.O_DIRECTORY)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def build(self, deed: Deed) -> Agent:
        return self._contract.agent.from_settings(self._contract.settings(self.directory, deed))

    def order(self, run_id: str = "", resume: str = "") -> SessionOrder:
        run_id = run_id or self.run_id
        marks = {STORE_MARK: self.store_id, RUN_MARK: run_id, "SORTIE_WORKSPACE": str(self.workspace)}
        return SessionOrder(
            run_id=run_id,
            issue_id="1",
            identifier="T-1",
            attempt=1,
            workspace=self.workspace,
            workspace_fd=self._fd,
            environment={"PATH": os.environ["PATH"], **self._contract.environment, **marks},
            resume=resume,
        )

    @asynccontextmanager
    async def session(
        self,
        deed: Deed = "works",
        reporter: Reporter | None = None,
        agent: Agent | None = None,
        *,
        run_id: str = "",
        resume: str = "",
    ) -> AsyncIterator[AgentSession]:
        """Closed at the end, as a run closes it."""
        agent = agent or self.build(deed)
        session = await agent.open(self.order(run_id, resume), reporter or self.recorder)
        try:
            yield session
        finally:
            with anyio.CancelScope(shield=True):
                await session.close()

    async def cancel_once_it_speaks(self, session: AgentSession) -> None:
        events, before = self.recorder.events, len(self.recorder.events)
        with anyio.fail_after(DEADLINE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.turn, PROMPT, 1)
                await _until(lambda: len(events) > before)
                tasks.cancel_scope.cancel()

    def ends_of_turns(self) -> list[str]:
        return [event.reason for event in self.recorder.events if isinstance(event, TurnFinished)]

    def processes(self) -> list[int]:
        """Whatever still lives of the run, by the mark in its environment."""
        living = [process.pid for process in snapshot().values() if not process.ended]
        return [pid for pid in living if mark_of(pid, RUN_MARK) == self.run_id]


async def _nothing(_: ProcessIdentity) -> None:
    pass


async def _until(holds: Callable[[], object]) -> None:
    """Wait for what another process does."""
    while True:
        if holds():
            return
        await anyio.sleep(0.01)


def _well_formed(findings: object) -> None:
    assert isinstance(findings, list)
    assert findings
    for finding in findings:
        assert finding.verdict in ("PASS", "WARN", "FAIL")
        assert finding.name
        assert finding.detail
        assert finding.fix or finding.verdict != "FAIL"


def _waiting_input(pid: int) -> int:
    """How many bytes wait in the standard input of a process; 0 where that is not to be told."""
    try:
        fd = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return 0
    try:
        count: int = unpack("i", ioctl(fd, FIONREAD, b"\0\0\0\0"))[0]
    except OSError:
        return 0
    finally:
        os.close(fd)
    return count
