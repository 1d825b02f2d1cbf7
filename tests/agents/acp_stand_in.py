"""A stand-in for an agent of the Agent Client Protocol that does the same in each turn.

    python acp_stand_in.py works|fails|hangs LOG

Every line that it gets goes to LOG.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SESSION = "conversation-1"


def answer(deed: str, method: str) -> dict[str, Any] | None:
    """The rest of the answer to a request; None where it never comes."""
    if method == "initialize":
        return {"result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}}
    if method != "session/prompt":
        return {"result": {"sessionId": SESSION}}
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "At work.\n"}}
    say({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})
    if deed == "hangs":
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        return None
    if deed == "fails":
        return {"error": {"code": -32603, "message": "Internal error"}}
    return {"result": {"stopReason": "end_turn"}}


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main(deed: str, log: str) -> None:
    with open(log, "w", encoding="utf-8") as file:
        for line in sys.stdin:
            print(line, end="", file=file, flush=True)
            message = json.loads(line)
            if "id" in message and "method" in message and (rest := answer(deed, message["method"])):
                say({"id": message["id"], **rest})


if __name__ == "__main__":
    main(*sys.argv[1:])
