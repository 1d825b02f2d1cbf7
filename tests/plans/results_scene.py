"""A plan that ran to its end, as a directory to copy: tasks that are completed, failed and blocked."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

DEADLINE = 60.0
# Every way in which we change something, or look at what there is.
CALLS = {"open", "rename", "mkdir", "rmdir", "unlink", "link", "write", "pwrite", "writelines", "flock", "fsync"}
CALLS |= {"ftruncate", "utime", "fchmod", "chmod", "listdir", "scandir", "stat", "fstat", "pread", "close"}

AGENT = """\
#!/bin/sh
cat > /dev/null
. "$SORTIE_WORKFLOW_DIR/does/$SORTIE_ISSUE_IDENTIFIER"
"""
PLAN = """\
name: demo
goal: Know more than before.
defaults: {agent: {kind: command, command: ./agent.sh}, retries: 0}
tasks:
- name: zeta
  objective: Gather what is known
  success_criteria: [It is short, It is nice, It rhymes]
  outputs: [facts.txt]
- {name: alpha, objective: Write it up, success_criteria: [All facts], outputs: [report.md], depends_on: [zeta]}
- {name: broken, objective: Try, success_criteria: [It works], outputs: [thing.txt]}
- {name: after, objective: Use it, success_criteria: [Used], outputs: [use.txt], depends_on: [broken]}
"""
DOES = {
    "zeta": r"""
echo 'three facts' > outbox/facts.txt
mkdir outbox/data && echo '1,2' > outbox/data/table.csv
printf '# Facts\n\n- [x] **It is SHORT.**\n- [ ] it is  nice\n\n## Tasks\n\n```\nunclosed\n' > outbox/summary.md
echo scrap > workspace/notes
""",
    "alpha": """
cat inbox/zeta/facts.txt > outbox/report.md
printf -- '- [x] All facts: three of three\n' > outbox/summary.md
""",
    "broken": """
mkdir outbox/partial && echo half > outbox/partial/half.txt && echo scrap > outbox/scrap.txt
printf '{"state": "failed", "error": {"type": "Luck", "message": "none", "recoverable": false}}' > status.json
""",
}


class PlanScene:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plan = directory / "plan.yaml"
        self.root = directory / "plan.work"

    def write(self, plan: str = PLAN, does: dict[str, str] = DOES) -> PlanScene:
        self.plan.write_text(plan)
        agent = self.directory / "agent.sh"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        (self.directory / "does").mkdir(exist_ok=True)
        for task, script in does.items():
            (self.directory / "does" / task).write_text(script)
        return self

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`sortie plan …` as a process of its own, to its end."""
        return subprocess.run(
            self.command(*arguments), cwd=self.directory, capture_output=True, text=True, timeout=DEADLINE
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sortie", "plan", *arguments]

    def copy_to(self, directory: Path) -> PlanScene:
        shutil.copytree(self.directory, directory, symlinks=True, dirs_exist_ok=True)
        return PlanScene(directory)


def contents(directory: Path) -> dict[str, bytes]:
    """Every regular file below, by its path."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that is killed before it calls the kernel for the so manieth time; the answer is
    whether it came to its end before that."""
    child = os.fork()
    if not child:
        left = step

        def watch(_frame: object, event: str, called: object) -> None:
            nonlocal left
            if event == "c_call" and getattr(called, "__name__", "") in CALLS:
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        sys.setprofile(watch)
        try:
            work()
            code = 0
        finally:
            sys.setprofile(None)
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, -signal.SIGKILL)
    return ended == 0
