"""Web addresses: to which ones secrets may be sent, and the paths of the dashboard's pages."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from urllib.parse import quote, urlencode, urlsplit


def address_problem(address: str, example: str, *, may_have_query: bool = False) -> str:
    """Why no secret may be sent there, or nothing can be sent at all; empty where all is well."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return f"is no address of a server, such as {example}"
    is_clean = not any(c.isspace() or not c.isprintable() for c in address)
    if parts.scheme not in ("http", "https") or not host or not is_clean:
        return f"must be the address of a server, such as {example}"
    has_query = bool(parts.query) and not may_have_query
    if parts.username or parts.password or parts.fragment or has_query:
        unwanted = "a user or a #" if may_have_query else "a user, a question mark or a #"
        return f"must be a plain address, without {unwanted}"
    if parts.scheme == "http" and not is_loopback(host):
        return "must begin with https://, because what is sent would be readable on the way"
    return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches this address; of names, that is certain of `localhost` alone."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_loopback


def issue_path(identifier: str, verb: str = "") -> str:
    """The address of an issue on the dashboard, whatever it is called, and of what can be done with it."""
    return path_of("/issues/", identifier, f"/{verb}" if verb else "")


def path_of(before: str, name: str, after: str = "") -> str:
    """Browsers take one or two dots for a way up, however they are written, and no route has a line end in it: such
    a name goes behind the `?`."""
    if name in ("", ".", "..") or "\n" in name:
        return f"{before}{after}?{urlencode({'named': name}, errors='replace')}"
    return f"{before}{quote(name, safe='', errors='replace')}{after}"
