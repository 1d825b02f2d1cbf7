"""What shows notifications on a desktop, without a screen: run by Debian's Python, on the session bus of its own.

The first line that it prints is the address of that bus; then one for each notification, as JSON.
"""

# mypy: ignore-errors
# What it imports is there for Debian's Python alone.

import json
import os

import dbus
import dbus.service
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib

NAME = "org.freedesktop.Notifications"


def say(what):
    print(json.dumps(what), flush=True)


class Daemon(dbus.service.Object):
    @dbus.service.method(NAME, in_signature="susssasa{sv}i", out_signature="u")
    def Notify(self, program, replaces, icon, summary, body, actions, hints, expires):  # noqa: N802 - its own name
        say({"program": program, "summary": summary, "body": body, "urgency": int(hints["urgency"])})
        return 1


if __name__ == "__main__":
    bus = dbus.SessionBus(mainloop=DBusGMainLoop())
    name = dbus.service.BusName(NAME, bus)
    Daemon(bus, "/org/freedesktop/Notifications")
    say(os.environ["DBUS_SESSION_BUS_ADDRESS"])
    GLib.MainLoop().run()
