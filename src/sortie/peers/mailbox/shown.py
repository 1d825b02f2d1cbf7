"""What each agent was shown of its mail: it tells new from seen, and is no answer to anything.

One small file for each agent in the state directory. Without it everything counts as not shown yet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from contextlib import suppress

from ...protocol.safefiles import open_directory, read_bounded, write_atomic
from ..place import Place, make_state_directory
from .message import folded

_LARGEST = 4 * 1024 * 1024


def shown_before(place: Place, agent: str) -> set[str]:
    with suppress(OSError, ValueError), open_directory(place.state) as directory:
        found = json.loads(read_bounded(directory, _name(agent), _LARGEST))
        return {one for one in found if isinstance(one, str)} if isinstance(found, list) else set()
    return set()


def note_shown(place: Place, agent: str, ids: Collection[str], still_there: Collection[str]) -> None:
    """These were shown now. Of those shown earlier only the ones that are still there are kept in mind."""
    known = (shown_before(place, agent) & set(still_there)) | set(ids)
    make_state_directory(place.root)
    with open_directory(place.state) as directory:
        write_atomic(directory, _name(agent), json.dumps(sorted(known)).encode())


def _name(agent: str) -> str:
    return f"mailbox-shown-{hashlib.sha256(folded(agent).encode()).hexdigest()[:16]}.json"
