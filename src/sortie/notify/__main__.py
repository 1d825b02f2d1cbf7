"""`python -m sortie.notify STORE PARENT`: started by a service, and told by it on standard input whom to tell."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import anyio

from ..errors import SortieError
from ..process.parent import end_with
from .notifier import run


def main() -> int:
    store, parent = Path(sys.argv[1]), int(sys.argv[2])
    end_with(parent)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        anyio.run(run, store)
    except SortieError as error:
        logging.getLogger(__name__).warning("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread in which apprise hangs must not keep us
