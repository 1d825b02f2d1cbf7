"""A file that a person asked for: there whole or not at all, and never half of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..errors import SortieError


def write_whole(path: Path, content: bytes, fix: str, *, replace: bool = True) -> None:
    """Raises FileExistsError where something is there that is not to be replaced."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.write_bytes(content)
        if replace:
            new.replace(path)
        else:
            path.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError as error:
        raise SortieError(f"{path} cannot be written: {error.strerror}.", fix=fix) from error
    finally:
        with suppress(OSError):  # where nothing can be written, there is nothing
            new.unlink()
