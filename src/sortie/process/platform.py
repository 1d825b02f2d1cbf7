"""What a long-running orchestrator asks of the operating system once, before its first child."""

from __future__ import annotations

import asyncio
import ctypes
import resource
import signal
import sys
from threading import current_thread, main_thread

_PR_SET_CHILD_SUBREAPER = 36


def prepare() -> None:
    """Make this process fit to own many children. Each step is best effort: without it we run, less well.

    Without the subreaper step, a daemon that an agent left behind becomes a child of
    init, and is found only by the sweep at the next start.
    """
    _watch_children_by_pidfd()
    _raise_open_file_limit()
    _keep_exit_statuses()
    _adopt_orphans()


def _watch_children_by_pidfd() -> None:
    if sys.version_info < (3, 12):
        # The default of 3.11 takes a thread for each child; later versions use pidfds by themselves.
        asyncio.get_event_loop_policy().set_child_watcher(asyncio.PidfdChildWatcher())


def _raise_open_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            pass  # an unlimited hard limit can be above what the kernel grants


def _keep_exit_statuses() -> None:
    # Inherited from a careless parent, an ignored SIGCHLD would throw away how every agent ended.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN and current_thread() is main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _adopt_orphans() -> None:
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # a C library without prctl
