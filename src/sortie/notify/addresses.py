"""`python -m sortie.notify.addresses`: checks addresses with apprise, in a process of its own because it is slow to
load.

Reads a JSON list of addresses, and prints a list with the problem of each, empty if it can be used. Contacts
nothing.
"""

from __future__ import annotations

import json
import logging
import sys

# What shows a message on the screen, and what it lacks where it cannot be used: apprise names a library of C.
_DBUS = "it needs the Python package dbus-python (Debian: python3-dbus)"
_GI = "it needs the Python package PyGObject (Debian: python3-gi"
DESKTOPS = {
    "dbus": _DBUS,
    "kde": _DBUS,
    "qt": _DBUS,
    "glib": f"{_GI})",
    "gnome": f"{_GI} and gir1.2-notify-0.7)",
}


def unusable(address: str) -> str:
    """Why nothing can be sent there, in words that do not show it; empty where something can."""
    import apprise
    from apprise.manager_plugins import NotificationManager

    if apprise.Apprise.instantiate(address) is not None:
        return ""
    scheme = address.partition("://")[0].lower()
    try:
        service = NotificationManager()[scheme]  # type: ignore[no-untyped-call]
    except KeyError:
        return f'apprise knows no service "{scheme}"'
    if not service.enabled:
        needs = service.requirements
        needed = DESKTOPS.get(scheme) or needs.get("packages_required") or needs.get("details") or ""
        packages = ", ".join(needed) if isinstance(needed, list | tuple) else str(needed)
        return f'apprise cannot use "{scheme}" on this machine: {packages or "something it needs is missing"}'
    return f'is not complete for "{scheme}"; see how apprise writes such an address'


def main() -> int:
    logging.getLogger("apprise").propagate = False  # there are addresses in what it says
    print(json.dumps([unusable(address) for address in json.load(sys.stdin)]))  # noqa: T201 - the answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
