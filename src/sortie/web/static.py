"""Style sheets, scripts and icons: read once at the start, addressed by a hash, cached by browsers for good.

An address is a key of a table and never a path, so only files that were in the folder at the start are served.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .addresses import FAVICON, STATIC

FOLDER = Path(__file__).with_name("static")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
FOR_GOOD = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"


@cache
def files() -> dict[str, bytes]:
    """By the path below the folder."""
    return {
        path.relative_to(FOLDER).as_posix(): path.read_bytes()
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in TYPES
    }


@cache
def digest() -> str:
    """Of all of them together: another build has other addresses."""
    whole = hashlib.sha256()
    for name, content in files().items():
        whole.update(f"{name}\0{len(content)}\0".encode())
        whole.update(content)
    return whole.hexdigest()[:12]


def address(name: str) -> str:
    assert name in files(), name
    return f"{STATIC}/{digest()}/{name}"


async def _serve(request: Request) -> Response:
    return _file(request, request.path_params["name"], for_good=request.path_params["build"] == digest())


async def _sign(request: Request) -> Response:
    """Where browsers look for it when no page has told them of another address."""
    return _file(request, "sign.svg", for_good=False)


def _file(request: Request, name: str, *, for_good: bool) -> Response:
    # From memory, and so in no thread: it would wait behind reports for one.
    content = files().get(name)
    if content is None:
        return Response("There is no such file.\n", 404, media_type="text/plain")
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": FOR_GOOD if for_good else ASK_AGAIN}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers={**headers, "Content-Type": TYPES[Path(name).suffix]})


def routes() -> list[BaseRoute]:
    return [
        Route(f"{STATIC}/{{build}}/{{name:path}}", _serve, methods=["GET"]),
        Route(FAVICON, _sign, methods=["GET"]),
    ]
