"""What servers say of their limits, in all forms that are seen, and how long we wait for it."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.trackers.rate_limits import (
    LONGEST,
    LONGEST_WITHOUT_A_TIME,
    MINUTE,
    WITHOUT_A_TIME,
    CallBudget,
    Refusals,
    for_a_tool,
    server_count,
)
from sortie.trackers.response_cache import ResponseCache, next_page

NOW = 1_794_970_000.0
DATE = {"date": format_datetime(datetime.fromtimestamp(NOW, UTC), usegmt=True)}


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


@pytest.mark.parametrize(
    ("status", "headers", "message", "wait"),
    [
        (429, {"retry-after": "17"}, "", 17),
        (429, {"retry-after": "0"}, "", 1),
        (429, {"retry-after": format_datetime(datetime.fromtimestamp(NOW + 90, UTC), usegmt=True)}, "", 90),
        (429, {}, "", WITHOUT_A_TIME),
        (429, {"retry-after": "soon"}, "", WITHOUT_A_TIME),
        (429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": iso(NOW + 120)}, "", 120),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 1800:.0f}"}, "", 1800),
        (403, {"x-ratelimit-remaining": "4999", "retry-after": "60"}, "", 60),
        (403, {"x-ratelimit-remaining": "4999"}, "You have exceeded a secondary rate limit.", WITHOUT_A_TIME),
        (403, {"x-ratelimit-remaining": "4999"}, "Resource not accessible by integration", None),
        (403, {}, "", None),
        (401, {"retry-after": "5"}, "", None),
        (503, {"retry-after": "5"}, "", 5),
        (503, {}, "", None),
        (200, {"x-ratelimit-remaining": "0"}, "", None),
    ],
)
def test_a_refusal_says_how_long_to_wait(status, headers, message, wait):
    until = Refusals().limited_until(status, headers | DATE, message, NOW)
    assert until == (None if wait is None else pytest.approx(NOW + wait, abs=1))


def test_a_server_with_another_clock_is_understood():
    """Its reset is a time on its own clock, three hours before ours."""
    there = NOW - 3 * 3600
    headers = {
        "date": format_datetime(datetime.fromtimestamp(there, UTC), usegmt=True),
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": f"{there + 600:.0f}",
    }
    assert Refusals().limited_until(403, headers, "", NOW) == pytest.approx(NOW + 600, abs=1)


def refused(refusals: Refusals, now: float, **headers: str) -> float:
    """For how long such a server wants no calls."""
    until = refusals.limited_until(403, headers, "You have exceeded a secondary rate limit.", now)
    assert until is not None
    return until - now


def test_a_server_that_refuses_again_and_names_no_time_is_left_alone_for_twice_as_long():
    """Up to a quarter of an hour; an answer of its own ends that."""
    refusals, now, waits = Refusals(), NOW, []
    for _ in range(6):
        waits.append(refused(refusals, now))
        now += waits[-1]
    assert waits == [60, 120, 240, 480, 900, 900]
    assert waits[-1] == LONGEST_WITHOUT_A_TIME
    refusals.heeded(now)
    assert refused(refusals, now) == WITHOUT_A_TIME


def test_calls_that_are_refused_together_count_once():
    refusals = Refusals()
    assert [refused(refusals, NOW + late) + late for late in (0, 1, 2, 59)] == [60] * 4
    assert refused(refusals, NOW + 60) == 120


def test_an_answer_to_a_call_that_was_under_way_ends_no_limit():
    refusals = Refusals()
    assert refused(refusals, NOW) == 60
    refusals.heeded(NOW + 1)
    assert refused(refusals, NOW + 60) == 120


def test_a_server_that_names_a_time_is_believed_however_often_it_refused():
    refusals = Refusals()
    assert refused(refusals, NOW) == 60
    assert refused(refusals, NOW + 60, **{"retry-after": "17"}) == 17
    assert refused(refusals, NOW + 77) == 120


@given(
    st.sampled_from([200, 403, 429, 503]),
    st.dictionaries(
        st.sampled_from(["retry-after", "date", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]),
        st.one_of(st.text(max_size=40), st.integers().map(str), st.floats().map(str)),
    ),
)
def test_whatever_a_server_says_nobody_waits_for_ever(status, headers):
    server_count(headers, NOW)
    until = Refusals().limited_until(status, headers, "rate limit", NOW)
    assert until is None or NOW < until <= NOW + LONGEST


@given(st.text(max_size=200))
def test_any_link_header_is_read_without_an_error(link):
    next_page({"link": link})


def test_answers_are_kept_within_their_bound_the_oldest_go_first():
    cache = ResponseCache(most_bytes=12)
    cache.keep("/a", {}, "1", b"12345", None)
    cache.keep("/b", {}, "2", b"12345", None)
    assert cache.find("/a", {})
    cache.keep("/c", {}, "3", b"12345", None)
    assert [bool(cache.find(path, {})) for path in ("/a", "/b", "/c")] == [True, False, True]
    cache.keep("/d", {}, "4", b"x" * 12, None)
    assert cache.find("/d", {}) is None
    cache.keep("/a", {}, "", b"", None)
    assert cache.find("/a", {}) is None, "an answer without a tag takes the place of the one that had one"


class Seconds:
    """They pass when somebody says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


def taken(budget: CallBudget, most: int = 1000, **more) -> int:
    """How many calls it allows now."""
    return next((number for number in range(most) if budget.take(**more)), most)


def test_tools_of_agents_leave_the_rest_to_looks_and_to_the_service(clock):
    """However much they ask for; and each of the three goes on where the others took all they may."""
    budget = CallBudget(120, clock)
    with for_a_tool():
        assert taken(budget, look=False) == 30
        assert taken(budget, look=True) == 0, "also where a tool looks for issues"
    assert taken(budget, look=True) == 60
    assert taken(budget, look=False) == 30
    assert budget.made == 120
    clock.now += MINUTE
    assert taken(budget, look=True) == 90
    with for_a_tool():
        assert taken(budget, look=False) == 15
    assert taken(budget, look=False) == 15


def test_a_tool_is_told_when_its_share_has_room_again(clock):
    budget = CallBudget(8, clock)
    with for_a_tool():
        assert taken(budget, 1, look=False) == 1
        clock.now += 10
        assert taken(budget, look=False) == 1
        assert budget.take(look=False) == 50
        clock.now += 50
        assert budget.take(look=False) == 0
        assert budget.take(look=False) == 10
    assert taken(budget, 3, look=False) == 3
    clock.now += 20
    assert taken(budget, 3, look=False) == 3
    with for_a_tool():
        assert budget.take(look=False) == pytest.approx(40), "seven of eight are used"


@pytest.mark.parametrize("per_minute", [1, 2, 3, 6, 8, 120])
def test_of_the_smallest_budget_there_is_something_for_each(clock, per_minute):
    for looks in (True, False):
        assert taken(CallBudget(per_minute, clock), look=looks) >= 1
        with for_a_tool():
            assert taken(CallBudget(per_minute, clock), look=looks) >= 1


def test_a_look_that_needs_more_than_all_of_the_budget_is_told_from_a_budget_that_is_used_up(clock):
    """Nothing that it asked for was asked for before: in the next minute it comes no further."""
    budget = CallBudget(6, clock)
    for page in range(4):
        assert not budget.is_too_small(f"GET /issues {page}")
        assert budget.take(look=True, what=f"GET /issues {page}") == 0
    assert budget.take(look=True, what="GET /issues 4") > 0
    assert budget.is_too_small("GET /issues 4")
    assert not budget.is_too_small("GET /issues 3"), "the next look"
    clock.now += MINUTE
    for call in ("GET /issues 0", "GET /issues 1", "GET /issues 0", "GET /issues 1"):
        budget.take(look=True, what=call)
    assert not budget.is_too_small("GET /issues 2"), "two looks"
    clock.now += MINUTE
    budget.take(look=False, what="POST /comments")
    for page in range(3):
        budget.take(look=True, what=f"GET /issues {page}")
    assert not budget.is_too_small("GET /issues 3"), "others asked too"
