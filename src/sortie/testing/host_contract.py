"""What every host keeps, as tests: inherit `HostContract`, say how your host is made, and let pytest find it.

    class TestMyHost(HostContract):
        @asynccontextmanager
        async def host(self, directory):
            yield MyHost(directory)

The agents here are shell scripts; they and the workspaces are below `directory`, which the host must reach.
A host whose runs outlive its client says `remote = True` and offers what the last tests ask for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from ..hosts.host import DuplicateRun, Host, OpenRun, Removal, RemovalRefused, RunLost, RunNotFound
from ..runs import messages as say
from ..runs.channel import MOST_LINES
from ..runs.spec import HooksSpec, KnownWorkspace, RunLimits, RunSpec, ToolsSpec, WorkspaceSpec
from .run_driver import STORE, Answers, end_of, ends, follow, issue, of_kind, spec_for, until, written

DEADLINE = 45.0


class HostContract:
    """`on` is the name of a machine of this host."""

    pytestmark = pytest.mark.anyio
    remote: ClassVar[bool] = False
    on: ClassVar[str] = "local"

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    def host(self, directory: Path) -> AbstractAsyncContextManager[Host]:
        raise NotImplementedError("say how your host is made")

    # -- only for a host that is remote -----------------------------------------------------------------------

    async def another_client(self, host: Host) -> Host:
        """One that knows nothing of what this one did, and leads to the same machines."""
        raise NotImplementedError

    async def kill_machine(self, host: Host) -> None:
        raise NotImplementedError

    async def freeze_machine(self, host: Host) -> None:
        raise NotImplementedError

    async def thaw_machine(self, host: Host) -> None:
        raise NotImplementedError

    # -- what it says -----------------------------------------------------------------------------------------

    async def begin(self, host: Host, spec: RunSpec, fence: str = "fence") -> str:
        await host.start(spec.run_id, fence, spec, self.on)
        return spec.run_id

    @asynccontextmanager
    async def made(self, directory: Path) -> AsyncIterator[Host]:
        with anyio.fail_after(DEADLINE):
            async with self.host(directory) as host:
                yield host

    async def test_there_is_a_machine(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            assert self.on in [machine.name for machine in await host.hosts()]

    async def test_messages_are_numbered_without_a_gap_and_the_end_is_the_last(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, "echo one; echo two; echo three"))
            heard = await follow(host, run_id)
            assert [numbered.number for numbered in heard] == list(range(1, len(heard) + 1))
            lines = [line.text for line in of_kind(heard, say.Line) if line.source == "agent"]
            assert lines == ["one", "two", "three"]
            order = [say.WorkspaceReady, say.TurnAsked, say.ProcessSpawned, say.TurnCompleted, say.Ended]
            told = [type(numbered.message) for numbered in heard]
            assert [kind for kind in told if kind in order] == order
            end = end_of(heard)
            assert (end.outcome.status, end.outcome.turns) == ("succeeded", 1)

    async def test_what_was_not_dealt_with_is_told_again(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, "echo hello"))
            asked = await until(host, run_id, say.TurnAsked)
            again = await until(host, run_id, say.TurnAsked, after=asked.number - 1)
            assert again == asked
            async with aclosing(host.events(run_id)) as messages:
                assert await anext(messages) == asked
            heard = await follow(host, run_id, after=asked.number - 1)
            assert heard[0] == asked
            assert heard[-1].number == asked.number + len(heard) - 1
            assert end_of(heard).outcome.status == "succeeded"

    async def test_a_failed_turn_is_a_failed_run(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, "echo no luck; exit 3"))
            outcome = end_of(await follow(host, run_id)).outcome
            assert (outcome.status, outcome.turns, outcome.error_kind) == ("failed", 0, "turn_failed")
            assert "no luck" in outcome.error

    async def test_the_signal_of_the_agent_is_told_with_its_turn(self, tmp_path: Path) -> None:
        script = 'mkdir -p .sortie && printf "blocked\\nreason: no key\\n" > .sortie/status'
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, script, limits=RunLimits(max_turns=5)))
            heard = await follow(host, run_id, answers={say.TurnCompleted: lambda _: say.Stop()})
            assert [message.signal for message in of_kind(heard, say.TurnCompleted)] == ["blocked"]
            outcome = end_of(heard).outcome
            assert (outcome.status, outcome.soft_stop, outcome.reason) == ("succeeded", "blocked", "no key")

    async def test_a_chatty_agent_fills_no_memory(self, tmp_path: Path) -> None:
        """Nobody reads while it talks: so many lines wait, the others are counted, and no number is missing."""
        lines = MOST_LINES * 20
        async with self.made(tmp_path) as host:
            script = f"echo $$ > {tmp_path}/pid; seq -f %099.0f {lines}"  # long lines: few of them are in pipes
            run_id = await self.begin(host, spec_for(tmp_path, script))
            spawned = await until(host, run_id, say.ProcessSpawned)
            await host.answer(run_id, spawned.number, say.Recorded())
            (pid,) = await written(tmp_path / "pid")
            await ends(pid)
            heard = await follow(host, run_id, after=spawned.number)
            assert [numbered.number for numbered in heard][-1] == spawned.number + len(heard)
            said = [line for line in of_kind(heard, say.Line) if line.source != "note"]
            assert MOST_LINES // 2 <= len(said) <= MOST_LINES * 8  # the last of them were still in a pipe
            missing = [remark for remark in of_kind(heard, say.Remark) if "missing" in remark.message]
            assert len(missing) == 1
            of_turn = 1  # the line that says how its turn ended
            assert missing[0].message.startswith(f"{lines + of_turn - len(said)} lines")
            assert end_of(heard).outcome.status == "succeeded"

    # -- what it asks -----------------------------------------------------------------------------------------

    async def test_nothing_happens_before_a_question_is_answered(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            script = f"true > {tmp_path}/prompt; echo 1 > {tmp_path}/begun; cat > {tmp_path}/prompt"
            run_id = await self.begin(host, spec_for(tmp_path, script))
            asked = await until(host, run_id, say.TurnAsked)
            assert not (tmp_path / "begun").exists()
            await host.answer(run_id, asked.number, say.Proceed())
            spawned = await until(host, run_id, say.ProcessSpawned, after=asked.number)
            await written(tmp_path / "begun")
            assert (tmp_path / "prompt").read_bytes() == b""
            await host.answer(run_id, spawned.number, say.Recorded())
            await follow(host, run_id, after=spawned.number)
            assert (tmp_path / "prompt").read_text().startswith("Work on The title, turn 1")

    async def test_a_turn_that_may_not_begin_ends_the_run(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, f"touch {tmp_path}/begun"))
            refuse: Answers = {say.TurnAsked: lambda _: say.Stop(cause="budget", detail="all spent")}
            outcome = end_of(await follow(host, run_id, answers=refuse)).outcome
            assert (outcome.status, outcome.stop, outcome.error) == ("cancelled", "budget", "all spent")
            assert not (tmp_path / "begun").exists()

    async def test_the_next_turn_is_about_the_issue_as_it_is_now(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            script = f"cat >> {tmp_path}/prompts; echo >> {tmp_path}/prompts"
            run_id = await self.begin(host, spec_for(tmp_path, script, limits=RunLimits(max_turns=9)))

            def after_turn(message: say.TurnCompleted) -> say.AnyAnswer:
                changed = issue(title=f"What came {message.turn}")
                return say.Proceed(issue=changed) if message.turn < 3 else say.Stop()

            outcome = end_of(await follow(host, run_id, answers={say.TurnCompleted: after_turn})).outcome
            assert (outcome.status, outcome.turns) == ("succeeded", 3)
            prompts = (tmp_path / "prompts").read_text()
            assert "Work on What came 1, turn 2" in prompts
            assert "Work on What came 2, turn 3" in prompts

    async def test_an_answer_that_nobody_waits_for_is_passed_over(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, "true"))
            asked = await until(host, run_id, say.TurnAsked)
            for _ in range(2):
                await host.answer(run_id, asked.number, say.Proceed())
            await host.answer(run_id, 10**6, say.Proceed())
            assert end_of(await follow(host, run_id, after=asked.number)).outcome.status == "succeeded"
            await host.answer(run_id, asked.number, say.Stop())

    # -- who may start what -----------------------------------------------------------------------------------

    async def test_the_same_start_twice_is_one_run(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            spec = spec_for(tmp_path, f"echo $$ >> {tmp_path}/runs")
            run_id = await self.begin(host, spec)
            await self.begin(host, spec)
            await follow(host, run_id)
            await self.begin(host, spec)
            assert len((tmp_path / "runs").read_text().split()) == 1
            assert (await host.status(run_id)).state == "ended"

    async def test_a_run_that_somebody_else_started_is_refused(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            spec = spec_for(tmp_path, "true")
            run_id = await self.begin(host, spec)
            with pytest.raises(DuplicateRun):
                await self.begin(host, spec, fence="another")
            await follow(host, run_id)
            with pytest.raises(DuplicateRun):
                await self.begin(host, spec, fence="another")

    async def test_a_run_that_nobody_started_is_unknown(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            assert (await host.status("no-such-run")).state == "unknown"
            with pytest.raises(RunNotFound):
                await host.attach("no-such-run")
            with pytest.raises(RunNotFound):
                await follow(host, "no-such-run")
            await host.cancel("no-such-run")

    async def test_the_state_of_a_run(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, "true"))
            assert (await host.status(run_id)).state == "running"
            await host.attach(run_id)
            await follow(host, run_id)
            assert (await host.status(run_id)).state == "ended"

    # -- ending -----------------------------------------------------------------------------------------------

    async def test_cancelling_ends_everything_that_the_agent_has_started(self, tmp_path: Path) -> None:
        """Also what is in the background, and what has a session of its own."""
        script = (
            f"sleep 1000 & echo $! >> {tmp_path}/pids; setsid sleep 1000 & echo $! >> {tmp_path}/pids; "
            f"echo $$ >> {tmp_path}/pids; wait"
        )
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, script))
            spawned = await until(host, run_id, say.ProcessSpawned)
            await host.answer(run_id, spawned.number, say.Recorded())
            pids = await written(tmp_path / "pids", 3)
            await host.cancel(run_id)
            for pid in pids:
                await ends(pid)
            heard = await follow(host, run_id, after=spawned.number)
            assert end_of(heard).outcome.status == "cancelled"

    async def test_who_does_not_want_to_end_is_forced_to(self, tmp_path: Path) -> None:
        script = f"trap '' TERM INT; (trap '' TERM INT; echo $$ >> {tmp_path}/pids; while :; do sleep 1; done)"
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, script))
            spawned = await until(host, run_id, say.ProcessSpawned)
            await host.answer(run_id, spawned.number, say.Recorded())
            (pid,) = await written(tmp_path / "pids")
            await host.cancel(run_id, grace=0.1)
            await ends(pid)
            assert end_of(await follow(host, run_id, after=spawned.number)).outcome.status == "cancelled"

    async def test_a_run_that_waits_for_an_answer_can_be_cancelled(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, f"touch {tmp_path}/begun"))
            asked = await until(host, run_id, say.TurnAsked)
            await host.cancel(run_id)
            await host.cancel(run_id)
            outcome = end_of(await follow(host, run_id, after=asked.number)).outcome
            assert (outcome.status, outcome.turns) == ("cancelled", 0)
            assert not (tmp_path / "begun").exists()
            await host.cancel(run_id)

    async def test_the_hook_after_a_run_is_run_also_when_it_is_cancelled(self, tmp_path: Path) -> None:
        hooks = HooksSpec(after_run=f"touch {tmp_path}/after")
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, "sleep 1000", hooks=hooks))
            spawned = await until(host, run_id, say.ProcessSpawned)
            await host.answer(run_id, spawned.number, say.Recorded())
            await host.cancel(run_id)
            assert (tmp_path / "after").exists()

    # -- workspaces -------------------------------------------------------------------------------------------

    async def test_in_a_shared_checkout_is_one_run_at_a_time(self, tmp_path: Path) -> None:
        checkout = tmp_path / "checkout"
        checkout.mkdir()
        place = WorkspaceSpec(kind="shared checkout", root=str(checkout))
        script = "echo in >> log; sleep 0.1; echo out >> log"
        async with self.made(tmp_path) as host:
            specs = [spec_for(tmp_path, script, f"T-{number}", workspace=place) for number in range(3)]
            runs = [await self.begin(host, spec) for spec in specs]
            async with anyio.create_task_group() as tasks:
                for run_id in runs:
                    tasks.start_soon(follow, host, run_id)
            assert (checkout / "log").read_text().split() == ["in", "out"] * 3

    async def test_credentials_of_tools_do_not_outlast_the_run(self, tmp_path: Path) -> None:
        tools = ToolsSpec(
            workflow=str(tmp_path / "WORKFLOW.md"),
            database=str(tmp_path / "db"),
            environment={"SORTIE_TRACKER_API_KEY": "secret"},
        )
        script = f'cat "$SORTIE_MCP_CONFIG" > {tmp_path}/seen'
        async with self.made(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, script, tools=tools))
            heard = await follow(host, run_id)
            assert "secret" in (tmp_path / "seen").read_text()
            (place,) = of_kind(heard, say.WorkspaceReady)
            assert not (Path(place.path) / ".sortie" / "mcp.json").exists()

    async def left_by_run(self, host: Host, directory: Path) -> Removal:
        """A workspace with a file in it, and the order to remove it."""
        spec = spec_for(directory, "echo precious > result")
        (place,) = of_kind(await follow(host, await self.begin(host, spec)), say.WorkspaceReady)
        known = KnownWorkspace(issue_id=spec.issue.id, path=place.path, inode=place.inode, used=True)
        workspace = WorkspaceSpec(root=spec.workspace.root, key=place.key, known=known)
        return Removal(store_id=STORE, issue=spec.issue, attempt=1, workspace=workspace)

    async def test_a_workspace_is_archived_and_removed(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            removal = await self.left_by_run(host, tmp_path)
            removed = await host.remove_workspace(removal)
            assert removed.archive
            assert not (tmp_path / "workspaces" / "T-1").exists()
            assert (await host.remove_workspace(removal)).archive == ""

    async def test_a_workspace_is_kept_when_its_issue_is_not_done_any_more(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            removal = await self.left_by_run(host, tmp_path)

            async def no() -> bool:
                return False

            with pytest.raises(RemovalRefused):
                await host.remove_workspace(removal, no)
            assert (tmp_path / "workspaces" / "T-1" / "result").exists()

    async def test_a_workspace_is_kept_when_a_run_has_it(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            removal = await self.left_by_run(host, tmp_path)
            run_id = await self.begin(host, spec_for(tmp_path, "true", workspace=removal.workspace))
            asked = await until(host, run_id, say.TurnAsked)
            with pytest.raises(RemovalRefused):
                await host.remove_workspace(removal)
            await host.cancel(run_id)
            await follow(host, run_id, after=asked.number)
            assert (tmp_path / "workspaces" / "T-1" / "result").exists()

    async def test_what_remains_of_a_run(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as host:
            script = "mkdir -p .sortie && echo needs-human-review > .sortie/status"
            spec = spec_for(tmp_path, script)
            (place,) = of_kind(await follow(host, await self.begin(host, spec)), say.WorkspaceReady)
            run = OpenRun(store_id=STORE, run_id=spec.run_id, host=self.on, workspace=place.path, inode=place.inode)
            remains = await host.remains(run)
            assert (remains.in_place, remains.signal) == (True, "needs-human-review")

    # -- when the client or the machine goes away -------------------------------------------------------------

    @asynccontextmanager
    async def made_remote(self, directory: Path) -> AsyncIterator[Host]:
        if not self.remote:
            pytest.skip("its runs end with its client")
        async with self.made(directory) as host:
            yield host

    async def test_another_client_takes_up_a_run(self, tmp_path: Path) -> None:
        async with self.made_remote(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, "echo done"))
            asked = await until(host, run_id, say.TurnAsked)
            await host.aclose()
            other = await self.another_client(host)
            await other.attach(run_id)
            heard = await follow(other, run_id, after=asked.number - 1)
            assert heard[0] == asked
            assert end_of(heard).outcome.status == "succeeded"
            await other.aclose()

    async def test_a_dead_machine_is_noticed(self, tmp_path: Path) -> None:
        async with self.made_remote(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, "sleep 1000"))
            asked = await until(host, run_id, say.TurnAsked)
            await self.kill_machine(host)
            with pytest.raises(RunLost):
                await follow(host, run_id, after=asked.number - 1)
            assert (await host.status(run_id)).state == "lost"
            await host.cancel(run_id)

    async def test_a_frozen_machine_is_noticed_and_ends_its_runs_when_it_wakes_up(self, tmp_path: Path) -> None:
        async with self.made_remote(tmp_path) as host:
            run_id = await self.begin(host, spec_for(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 1000"))
            spawned = await until(host, run_id, say.ProcessSpawned)
            await host.answer(run_id, spawned.number, say.Recorded())
            (pid,) = await written(tmp_path / "pid")
            await self.freeze_machine(host)
            with pytest.raises(RunLost):
                await follow(host, run_id, after=spawned.number)
            await self.thaw_machine(host)
            await ends(pid)
            assert (await host.status(run_id)).state == "lost"
            with pytest.raises(RunLost):
                await follow(host, run_id, after=spawned.number)
