"""Lanes: every pattern has the meaning that the module states, and costs no more than the path is long."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.peers.charter.lanes import Lane, LaneMap, owner_of, problem_with

# -- the meaning, once more and as plainly as possible -------------------------------------------------------------


def name_fits(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return name_fits(pattern[1:], name) or (bool(name) and name_fits(pattern, name[1:]))
    return bool(name) and pattern[0] in ("?", name[0]) and name_fits(pattern[1:], name[1:])


def names_fit(patterns: list[str], names: list[str]) -> bool:
    if not patterns:
        return not names
    if patterns == ["**"]:
        return bool(names)
    if patterns[0] == "**":
        return names_fit(patterns[1:], names) or (bool(names) and names_fit(patterns, names[1:]))
    return bool(names) and name_fits(patterns[0], names[0]) and names_fit(patterns[1:], names[1:])


def fits(glob: str, path: str) -> bool:
    names = path.split("/")
    patterns = glob.removesuffix("/").split("/")
    if glob.endswith("/"):
        return names_fit([*patterns, "**"], names)
    if "*" in patterns[-1] or "?" in patterns[-1]:
        return names_fit(patterns, names)
    return names_fit(patterns, names) or names_fit([*patterns, "**"], names)


def has(path: str, *globs: str) -> bool:
    return owner_of(path, [Lane(name="one", owner="alice", globs=globs)]) == "alice"


letters = st.text("ab.", min_size=1, max_size=5).filter(lambda name: name not in (".", ".."))
paths = st.lists(letters, min_size=1, max_size=6).map("/".join)
wild_names = st.text("ab.*?", min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))
patterns = st.builds(
    lambda names, end: "/".join(names) + end,
    st.lists(st.one_of(wild_names, st.just("**"), letters), min_size=1, max_size=6),
    st.sampled_from(["", "/"]),
)


@settings(max_examples=800)
@given(patterns, paths)
def test_a_pattern_has_the_files_that_it_is_said_to_have(pattern, path):
    """LOG-08"""
    assert has(path, pattern) == fits(pattern, path)


@settings(max_examples=300)
@given(st.lists(patterns, min_size=1, max_size=4), st.lists(patterns, max_size=3), paths)
def test_a_lane_has_what_one_pattern_has_and_none_takes_out(wanted, unwanted, path):
    """LOG-08: in whatever order they are written."""
    expected = any(fits(each, path) for each in wanted) and not any(fits(each, path) for each in unwanted)
    globs = [*wanted, *(f"!{each}" for each in unwanted)]
    assert has(path, *globs) == has(path, *reversed(globs)) == expected


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_a_pattern_or_says_why_it_is_none(pattern, path):
    found = has(path, pattern)
    if problem_with(pattern):
        assert not found


@pytest.mark.parametrize(
    ("glob", "having", "lacking"),
    [
        ("src/api/**", ["src/api/a.py", "src/api/b/c.py"], ["src/api", "src/apis/a.py", "lib/src/api/a.py"]),
        ("docs/*.md", ["docs/a.md", "docs/.md"], ["docs/a/b.md", "docs/a.mdx", "docs/a.md/inner"]),
        ("Makefile", ["Makefile", "Makefile/inner"], ["makefile", "src/Makefile", "Makefile.am"]),
        ("**/Makefile", ["Makefile", "a/Makefile", "a/b/Makefile"], ["aMakefile"]),
        ("src/ui/", ["src/ui/a", "src/ui/b/c"], ["src/ui"]),
        ("src/ui", ["src/ui", "src/ui/a"], ["src/uix"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/b/c"], ["ab", "a/xb"]),
        ("**", ["a", "a/b"], []),
        ("app/[slug]/{x}.tsx", ["app/[slug]/{x}.tsx"], ["app/s/x.tsx"]),
        ("*", ["a", ".hidden"], ["a/b"]),
        ("a\nb*", [], ["a\nb"]),
        ("a b.txt", ["a b.txt"], []),
        ("*.py", ["a.py", "line\nend.py"], ["src/a.py"]),
    ],
)
def test_examples(glob, having, lacking):
    """LOG-08"""
    assert [path for path in having if not has(path, glob)] == []
    assert [path for path in lacking if has(path, glob)] == []


@pytest.mark.parametrize(
    "glob", ["/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\\b", "", "!", "!!a", "//", "a" * 501]
)
def test_what_leads_elsewhere_is_no_pattern(glob):
    """LOG-08"""
    assert problem_with(glob)
    assert LaneMap([Lane(name="x", owner="alice", globs=(glob,))]).lanes_of("a") == ()


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "a/../b", "./a", "..", "a\0b"])
def test_nobody_owns_what_is_no_path_of_the_repository(path):
    """LOG-08"""
    assert owner_of(path, [Lane(name="all", owner="alice", globs=("**", "*"))]) is None


def test_of_two_lanes_the_first_counts_and_both_are_found():
    """LOG-08: the same answer every time; that there are two is what a check tells."""
    lanes = [
        Lane(name="API", owner="alice", globs=("src/**",)),
        Lane(name="UI", owner="bob", globs=("src/ui/**",)),
    ]
    assert owner_of("src/ui/a.ts", lanes) == "alice"
    assert [lane.owner for lane in LaneMap(lanes).lanes_of("src/ui/a.ts")] == ["alice", "bob"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*a" * 60 + "b", "a" * 4000),
        ("**/" + "a/**/" * 60 + "b", "a/" * 4000 + "c"),
        ("**/" + "*a*/" * 40 + "*b", "aaa/" * 4000 + "c"),
        ("**/*a*a*a*a*a*b*/**/x", "a" * 2000 + "/" + "a/" * 2000 + "y"),
        ("?*" * 100, "a" * 4000),
    ],
)
def test_no_pattern_makes_anybody_wait(glob, path):
    """A habit of trying everything twice would take longer here than anybody lives."""
    has(path, glob)
