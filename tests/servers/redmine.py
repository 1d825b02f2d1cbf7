"""Redmine itself as a test server: the Debian package on SQLite, installed where it is missing.

One database is the template, made once into `.cache` of the checkout. Whoever wants a server copies it and starts
one of his own on a free port of loopback; it ends with the process that started it.
`python -m tests.servers.redmine` starts one by hand.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..npm import CACHE, NotInstalled

REDMINE = Path("/usr/share/redmine")
SCRIPT = Path(__file__).with_name("redmine_template.rb")
APT = ["apt-get", "-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=120"]
PACKAGES = ["redmine", "redmine-sqlite", "puma"]
SECONDS_TO_INSTALL = 400
SECONDS_TO_START = 50

# One at a time, the others wait: a thread of Ruby that waits for SQLite's lock lets no other thread release it.
THREADS = "1:1"
DATABASE = """\
production:
  adapter: sqlite3
  database: {path}
  timeout: 5000
"""


class Account(Struct, frozen=True):
    id: int
    key: str


class Accounts(Struct, frozen=True):
    """Who there is by login, the role that some have in a project, and the one kind of issue (a `tracker`, as
    Redmine says). zoe has an account, and is in no project."""

    accounts: dict[str, Account]
    roles: dict[str, int]
    tracker: int


class RedmineServer:
    """A running server, reached as any of its users."""

    def __init__(self, url: str, known: Accounts, process: subprocess.Popen[bytes], place: Path) -> None:
        self.url = url
        self.known = known
        self.process = process
        self.log = place / "log" / "production.log"
        self._numbers = count(1)

    def key(self, login: str) -> str:
        return self.known.accounts[login].key

    @property
    def variables(self) -> dict[str, str]:
        """By which the tests of examples/redmine-tracker find it."""
        keys = {"REDMINE_KEY": "sortie", "REDMINE_PERSON_KEY": "ann", "REDMINE_STRANGER_KEY": "zoe"}
        found = {name: self.key(login) for name, login in {**keys, "REDMINE_ADMIN_KEY": "admin"}.items()}
        return {"REDMINE_URL": self.url, **found}

    def call(self, method: str, path: str, body: Any = None, *, by: str = "ann") -> Any:
        """What it answers; whatever it refuses raises `urllib.error.HTTPError`."""
        content = None if body is None else msgspec.json.encode(body)
        headers = {"X-Redmine-API-Key": self.key(by), "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = response.read()
        return msgspec.json.decode(answer) if answer.strip() else None

    def project(self, *, public: bool = False, **more: Any) -> str:
        """A new one, with `sortie` and `ann` as its members; the answer is its identifier."""
        name = f"p{next(self._numbers)}-{secrets.token_hex(3)}"
        about = {"name": name, "identifier": name, "is_public": public, "tracker_ids": [self.known.tracker]}
        modules = {"enabled_module_names": ["issue_tracking"]}
        self.call("POST", "/projects.json", {"project": {**about, **modules, **more}}, by="admin")
        for login, role in self.known.roles.items():
            member = {"user_id": self.known.accounts[login].id, "role_ids": [role]}
            self.call("POST", f"/projects/{name}/memberships.json", {"membership": member}, by="admin")
        return name

    def requests(self) -> list[str]:
        """Every request that it was sent since it began, such as `GET /issues.json?limit=100`."""
        found = []
        for line in self.log.read_text("utf-8", "replace").splitlines():
            _, started, rest = line.partition("Started ")
            if started:
                method, path = rest.split(" ", 2)[:2]
                found.append(f"{method} {path.strip(chr(34))}")
        return found

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def start(place: Path) -> RedmineServer:
    """A server with a copy of the template below `place`; raises `NotInstalled`."""
    template = made_template()
    site = _site(place / "redmine")
    shutil.copy(template / "redmine.db", site)
    known = msgspec.json.decode((template / "accounts.json").read_bytes(), type=Accounts)
    with socket.create_server(("127.0.0.1", 0)) as listening, (site / "puma.log").open("wb") as output:
        # It inherits the socket, so nobody else gets the port in between.
        port, number = listening.getsockname()[1], listening.fileno()
        os.set_inheritable(number, True)
        puma = ["puma", "--quiet", "-e", "production", "-t", THREADS, "-b", f"tcp://127.0.0.1:{port}", "config.ru"]
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *puma],
            cwd=REDMINE,
            env=_environment(site) | {"PUMA_INHERIT_0": f"{number}:tcp://127.0.0.1:{port}"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[number],
        )
    server = RedmineServer(f"http://127.0.0.1:{port}", known, process, site)
    try:
        _wait_until_it_answers(server, site)
    except BaseException:
        server.stop()
        raise
    return server


def made_template(cache: Path = CACHE) -> Path:
    """The folder with `redmine.db` and `accounts.json`, made first where it is not there yet."""
    folder = cache / "redmine" / hashlib.sha256(SCRIPT.read_bytes()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    with (cache / "redmine" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_installed():
            _install()
        complete = folder / "accounts.json"
        if not complete.exists():
            complete.write_bytes(_filled(_site(folder)))
    return folder


def _is_installed() -> bool:
    return (REDMINE / "config.ru").exists() and all(map(shutil.which, ("puma", "bundle", "setpriv")))


def _install() -> None:
    if not shutil.which(APT[0]):
        raise NotInstalled("apt-get is missing; Redmine is installed from Debian to test with it.")
    if os.geteuid() != 0:
        raise NotInstalled(f"Redmine can be installed by root only; run: apt-get install {' '.join(PACKAGES)}.")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = [*APT, "install", "-y", "--no-install-recommends", *PACKAGES]
    for command in ([*APT, "update"], install):
        _ran(command, environment, "Redmine cannot be installed; check the network", seconds=SECONDS_TO_INSTALL)


def _filled(site: Path) -> bytes:
    (site / "redmine.db").unlink(missing_ok=True)
    runner = ["bundle", "exec", "rails", "runner", str(SCRIPT)]
    said = _ran(runner, _environment(site), "Redmine cannot make its database", seconds=120)
    return said.rpartition("accounts: ")[2].strip().encode()


def _ran(command: list[str], environment: dict[str, str], problem: str, *, seconds: float) -> str:
    place = REDMINE if REDMINE.exists() else Path("/")
    try:
        done = subprocess.run(
            command,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{problem}: {command[0]} did not end within {seconds} s.") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise NotInstalled(f"{problem}: {command[0]} says: {last}")
    return done.stdout


def _site(place: Path) -> Path:
    """A folder of its own for everything that an instance keeps."""
    for name in ("config", "log", "tmp", "files"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (place / "config" / "database.yml").write_text(DATABASE.format(path=place / "redmine.db"))
    (place / "config" / "secret_key.txt").write_text(secrets.token_hex(32))
    return place


def _environment(site: Path) -> dict[str, str]:
    """Debian's Redmine looks for an instance below its own folder; enough `..` lead to any other one."""
    up = "/".join([".."] * 12)
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(site),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "RAILS_ENV": "production",
        "X_DEBIAN_SITEID": f"{up}{site.resolve()}",
    }


def _wait_until_it_answers(server: RedmineServer, site: Path) -> None:
    give_up = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            server.call("GET", "/users/current.json")
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            said = (site / "puma.log").read_text("utf-8", "replace")[-2000:]
            assert server.process.poll() is None, f"Redmine did not start:\n{said}"
            assert time.monotonic() < give_up, f"Redmine did not answer ({error}):\n{said}"
            time.sleep(0.05)
        else:
            return


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="redmine-") as place:
        try:
            server = start(Path(place))
        except NotInstalled as problem:
            print(problem, file=sys.stderr)
            return 1
        print(f"Redmine runs until you press Ctrl+C. It has a project {server.project()}.", flush=True)
        for name, value in server.variables.items():
            print(f"export {name}={value}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
