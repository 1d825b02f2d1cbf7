"""Checks of request headers: the host that the request was sent to, and the site that sent it.

A browser sends requests for any page, from this machine and with our cookies; but its Host and Origin headers are
true. So DNS rebinding and forms of other sites (CSRF) are recognised. Programs that are not browsers do not send
these headers, and have no cookies of ours either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from ipaddress import ip_address

Headers = Sequence[tuple[bytes, bytes]]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9A-Za-z._-]{1,253}))(?::([0-9]{1,5}))?")
_USUAL_PORT = {"http": 80, "https": 443}
# A path of ours and nothing that a browser would take for another host.
_LOCAL_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")
_LONGEST_PATH = 2000
# What stands between us and a browser says so.
_RELAYED = (b"forwarded", b"x-real-ip", b"via")
_RELAYED_AS = b"x-forwarded-"


def header(headers: Headers, name: bytes) -> str:
    """Its value, empty where it is not there; of several, none is to be believed."""
    values = [value for key, value in headers if key == name]
    return values[0].decode("latin-1").strip() if len(values) == 1 else ""


def authority(text: str, scheme: str = "http") -> tuple[str, int] | None:
    """Name and port of `name:port` in one spelling; None where it is nothing of the kind."""
    found = _AUTHORITY.fullmatch(text)
    if not found:
        return None
    address, name, port = found.groups()
    try:
        host = str(ip_address(address)) if address else name.lower()
    except ValueError:
        return None
    return host, int(port) if port else _USUAL_PORT[scheme]


def has_two_ends(headers: Headers) -> bool:
    """Whether a proxy may have taken another part of what was sent for the request than we do."""
    return {b"content-length", b"transfer-encoding"} <= {key for key, _ in headers}


def is_for_us(headers: Headers, names: Collection[str], port: int) -> bool | None:
    """Whether the request was sent to one of these names; None where it does not say to which."""
    said = authority(header(headers, b"host"))
    return None if said is None else said[0] in names and said[1] == port


def is_sent_to(headers: Headers, address: str) -> bool:
    """Whether the request was sent to the site at this address, whatever port we listen on."""
    return _leads_to(address.rstrip("/"), header(headers, b"host"))


def is_of_another_site(method: str, headers: Headers) -> bool:
    """Whether a page of another site, or of another port here, sent it. To follow a link to us is no offence."""
    origin = [value for key, value in headers if key == b"origin"]
    if origin and not _is_own(origin, header(headers, b"host")):
        return True
    site = header(headers, b"sec-fetch-site")
    if site in ("", "same-origin", "none"):
        return False
    follows_link = header(headers, b"sec-fetch-mode") == "navigate" and method in ("GET", "HEAD")
    return not follows_link or header(headers, b"sec-fetch-dest") in ("object", "embed", "iframe", "frame")


def names_its_site(headers: Headers) -> bool:
    """Whether a browser said for which site it sends this; `is_of_another_site` has judged that."""
    return bool(header(headers, b"origin")) or header(headers, b"sec-fetch-site") == "same-origin"


def may_lack_our_cookie(headers: Headers) -> bool:
    """Whether a browser may have kept our cookie back because a link of another site led here. Where a link was
    it says to loopback, and elsewhere only where it encrypts."""
    return header(headers, b"sec-fetch-site") in ("", "cross-site")


def _is_own(origin: Sequence[bytes], host: str) -> bool:
    return len(origin) == 1 and _leads_to(origin[0].decode("latin-1"), host)


def _leads_to(site: str, host: str) -> bool:
    """Whether this site, a scheme and an authority, is the one that a browser calls so."""
    scheme, separator, rest = site.partition("://")
    if not separator or scheme not in _USUAL_PORT:
        return False
    return authority(rest, scheme) == authority(host, scheme) is not None


def is_relayed(headers: Headers) -> bool:
    """Whether it came through a proxy, behind which anybody may be."""
    return any(key in _RELAYED or key.startswith(_RELAYED_AS) for key, _ in headers)


def local_path(text: str) -> str:
    """The address on this site to go on to; the first page for whatever leads elsewhere."""
    return text if len(text) <= _LONGEST_PATH and _LOCAL_PATH.fullmatch(text) else "/"
