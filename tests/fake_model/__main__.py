"""The fake model as a program: serves until it is told to end, by SIGTERM or from the keyboard."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from .script import __doc__ as script_help
from .server import FakeModel
from .steps import ScriptError


def main() -> int:
    options = _options()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        with FakeModel(port=options.port, key=options.key, log=options.log, **_script(options.script)) as model:
            if options.port_file:
                _write_at_once(options.port_file, str(model.port))
            print(model.url, flush=True)
            ended.wait()
    except (OSError, OverflowError, ScriptError) as error:
        print(f"fake model: {error}", file=sys.stderr)
        return 2
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fake_model",
        description=f"{__doc__}\n\n{script_help}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0, the default, takes a free one")
    parser.add_argument("--port-file", type=Path, help="file to write the port to, once there is one")
    parser.add_argument("--log", type=Path, help="file to append a JSON line to for each request")
    parser.add_argument("--key", help="the only key that is accepted; without it any will do")
    parser.add_argument("--script", help="JSON list of steps for prompts without a script; or one for each wire")
    return parser.parse_args()


def _script(source: str | None) -> dict[str, Any]:
    if source is None:
        return {}
    try:
        steps = json.loads(source)
    except ValueError as error:
        raise ScriptError(f"--script must be JSON: {error}") from None
    if isinstance(steps, dict) and steps and all(isinstance(one, list) for one in steps.values()):
        return {"script_of": steps}
    if not isinstance(steps, list):
        raise ScriptError("--script must be a JSON list of steps, or a map of such lists by wire")
    return {"script": steps}


def _write_at_once(path: Path, text: str) -> None:
    """Whoever waits for the file never sees it empty."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
