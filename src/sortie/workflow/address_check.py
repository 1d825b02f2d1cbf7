"""Whether what is needed to use the addresses of channels is installed, and takes them; nothing is contacted.

Apprise takes a second and much memory to load, so a process of its own is asked, once for each address.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import msgspec

from .channels import Channels

EXTRA = "pip install 'sortie-orchestrator[notifications]'"
DEADLINE = 10.0

# What was found out about addresses before; a service reads its workflow many times.
_known: dict[str, str] = {}


def address_problems(channels: Channels) -> Iterator[tuple[str, str]]:
    """As key and sentence; no address is shown."""
    with_scheme = {name: channel for name, channel in channels.items() if channel.url and channel.kind}
    addresses = {f"notifications.{name}.url": channel.url for name, channel in with_scheme.items()}
    if not addresses:
        return
    if find_spec("apprise") is None:
        yield from ((key, f"needs apprise; install it with: {EXTRA}") for key in addresses)
        return
    if unknown := sorted(set(addresses.values()) - _known.keys()):
        _known.update(zip(unknown, _asked(unknown), strict=True))
    for key, address in addresses.items():
        if _known[address]:
            yield key, _known[address]


def _asked(addresses: list[str]) -> list[str]:
    unseen = [""] * len(addresses)  # nobody could look; whoever sends will say it
    # With `-P` nothing that lies in our directory is mistaken for a module.
    command = [sys.executable, "-P", "-m", "sortie.notify.addresses"]
    try:
        done = subprocess.run(
            command, input=json.dumps(addresses), capture_output=True, text=True, timeout=DEADLINE, check=True
        )
    except subprocess.CalledProcessError as error:
        if error.returncode < 0:
            return unseen
        return [f"needs apprise, which cannot be loaded; install it anew with: {EXTRA}"] * len(addresses)
    except (OSError, subprocess.TimeoutExpired):
        return unseen
    try:
        complaints = msgspec.json.decode(done.stdout, type=list[str])
    except msgspec.DecodeError:
        return unseen
    return complaints if len(complaints) == len(addresses) else unseen
