"""Log lines never hold up the service, whatever the reader does."""

from __future__ import annotations

import io
import json
import threading
from contextlib import closing

from sortie.cli.loglines import LineWriter, LogLines
from sortie.core.events import Noted


class Stuck(io.StringIO):
    """A pipe that nobody reads from until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def write(self, text):
        assert self.release.wait(30)
        return super().write(text)


class Gone(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def test_a_stuck_reader_costs_lines_and_no_waiting():
    stream = Stuck()
    writer = LineWriter(stream)
    for number in range(10_100):
        writer.write(f"line {number}")
    stream.release.set()
    writer.close()
    written = stream.getvalue().splitlines()
    assert written[0] == "line 0"
    assert 10_000 <= len(written) < 10_100


def test_lost_lines_are_announced_when_there_is_room_again():
    stream = Stuck()
    writer = LineWriter(stream)
    while not writer.lost:
        writer.write("line")
    stream.release.set()
    while writer.lost:
        writer.write("later")
    writer.close()
    assert "lines were lost" in stream.getvalue()


def test_a_reader_that_is_gone_is_no_error():
    with closing(LogLines("info", as_json=False, names={}, stream=Gone())) as log:
        for _ in range(100):
            log.log("info", "nobody hears this")


def test_trouble_is_said_once_and_its_end_too():
    stream = io.StringIO()
    with closing(LogLines("info", as_json=False, names={}, stream=stream)) as log:
        for sentence in ("the disk is full", "the disk is full", "", "the disk is full"):
            log.on_trouble(sentence)
    words = [line.split(" ", 2)[1:] for line in stream.getvalue().splitlines()]
    assert [word for word, _ in words] == ["error", "info", "error"]


def test_names_known_from_before_are_used():
    stream = io.StringIO()
    with closing(LogLines("debug", as_json=True, names={"7": "PROJ-7"}, stream=stream)) as log:
        log.on_event(Noted(at=0.0, issue_id="7", level="warning", message="hello\x1b", detail="there"))
    (line,) = stream.getvalue().splitlines()
    said = json.loads(line)
    assert line.isascii() and line.isprintable()
    assert (said["time"], said["issue"], said["level"]) == ("1970-01-01T00:00:00Z", "PROJ-7", "warning")
    assert said["message"] == "hello\x1b: there"
