"""Speaks like `claude -p --output-format stream-json`, and does what `script.json` beside it says of its issue.

Started by a service as its agent, without anything of ours. The first turn plays the first list of steps, every
later one the second.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
import uuid

MODEL = "claude-opus-4-8"
HOME = pathlib.Path(__file__).parent


def tell(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    turns = json.loads((HOME / "script.json").read_text())[os.environ["SORTIE_ISSUE_IDENTIFIER"]]
    resumed = "--resume" in sys.argv
    session = sys.argv[sys.argv.index("--resume" if resumed else "--session-id") + 1]
    sys.stdin.read()
    tell(type="system", subtype="init", session_id=session, model=MODEL)
    usd, problem = 0.0, ""
    for step in turns[-1 if resumed else 0]:
        match step:
            case {"say": text}:
                block(type="text", text=text)
            case {"tool": name, "input": given}:
                call = str(uuid.uuid4())
                block(type="tool_use", id=call, name=name, input=given)
                for path, text in step.get("writes", {}).items():
                    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
                    pathlib.Path(path).write_text(text)
                result = {"type": "tool_result", "tool_use_id": call, "content": step.get("result", "")}
                tell(type="user", message={"content": [{**result, "is_error": "Exit code" in result["content"]}]})
            case {"status": status, "reason": reason}:
                pathlib.Path(".sortie").mkdir(exist_ok=True)
                pathlib.Path(".sortie/status").write_text(f"{status}\nreason: {reason}\n")
            case {"usd": amount}:
                usd = amount
            case {"fails": problem}:
                pass
            case {"waits": True}:
                while not (HOME / "go").exists():
                    time.sleep(0.05)
    used = {"input_tokens": int(usd * 9_000), "output_tokens": int(usd * 16_000)}
    used |= {"cache_read_input_tokens": int(usd * 620_000), "cache_creation_input_tokens": int(usd * 60_000)}
    about = {"session_id": session, "usage": used, "total_cost_usd": usd, "result": problem}
    tell(type="result", subtype="error_during_execution" if problem else "success", is_error=bool(problem), **about)


def block(**content: object) -> None:
    tell(type="assistant", message={"id": str(uuid.uuid4()), "model": MODEL, "content": [content]})


if __name__ == "__main__":
    main()
