"""Style sheet and scripts: what others wrote is as they published it, ours keeps to what the browser is told."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from sortie.web import static
from sortie.web.render import TEMPLATES

from .live_server import new_store, served

VENDORED = {
    "htmx-2.0.11.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    "htmx-LICENSE.txt": "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
    "idiomorph-ext-0.8.0.min.js": "5811b9a7eda14878b7dab4378bf60432e1bb6f11fcfb970cc26540642650181e",
    "idiomorph-LICENSE.txt": "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
    "uPlot-1.6.32.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot-LICENSE.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(new_store(tmp_path_factory.mktemp("static") / "sortie.db")) as server:
        yield server


def test_vendored_files_are_those_that_were_published():
    found = {
        name.removeprefix("vendor/"): hashlib.sha256(content).hexdigest()
        for name, content in static.files().items()
        if name.startswith("vendor/")
    }
    assert found == VENDORED


def test_every_vendored_library_has_its_licence_beside_it():
    libraries = {name.partition("-")[0] for name in VENDORED}
    assert {f"{library}-LICENSE.txt" for library in libraries} <= VENDORED.keys()


def test_a_file_is_kept_for_good_by_its_address_and_asked_for_anew_by_another(server):
    answer = server.get(static.address("sortie.css"))
    assert (answer.status, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    again = server.get(static.address("sortie.css"), if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    old = server.get("/static/000000000000/sortie.css")
    assert (old.status, old.headers["cache-control"]) == (200, "no-cache")


def test_the_sign_is_where_browsers_look_for_one_by_themselves(server):
    answer = server.get("/favicon.ico")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.body == static.files()["sign.svg"]
    assert answer.headers["cache-control"] == "no-cache"
    assert server.get("/favicon.ico", if_none_match=answer.headers["etag"]).status == 304


@pytest.mark.parametrize(
    "path",
    [
        "/static/x/../../site.py",
        "/static/x/%2e%2e/site.py",
        "/static/x//etc/passwd",
        "/static/x/vendor/",
        "/static/x/",
    ],
)
def test_no_other_file_is_reached(server, path):
    assert server.get(path).status == 404


def templates() -> list[Path]:
    found = sorted(TEMPLATES.glob("*.html"))
    assert TEMPLATES / "base.html" in found
    return found


def test_templates_have_no_script_style_or_address_of_their_own():
    for path in templates():
        text = path.read_text("utf-8")
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|javascript:|https?://(?!www\.w3\.org/2000/svg)", text), (
            path
        )
        assert not re.search(r"<script(?![^>]*\ssrc=)", text), path
        assert "|safe" not in text and "autoescape false" not in text, path


def test_every_piece_that_a_template_imports_is_used_there():
    for path in templates():
        text = path.read_text("utf-8")
        for names in re.findall(r"{% from \S+ import (.+?) with context %}", text):
            unused = [name for name in names.split(", ") if not re.search(rf"\b{name}\(", text)]
            assert unused == [], path


def test_our_own_files_name_no_other_host():
    for name in ("sortie.css", "keys.js", "live.js", "plots.js"):
        text = static.files()[name].decode()
        assert not re.search(r"https?://|@import|//[a-z]+\.[a-z]{2,}", text), name
        assert "eval(" not in text and "innerHTML" not in text, name
