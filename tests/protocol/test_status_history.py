"""What is believed of a status file over time, whatever an agent, or an earlier one, writes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.protocol.status_history import StatusHistory
from sortie.protocol.task_status import Progress, Reading, TaskStatus

BEGAN = 1_000_000.7
NOW = 1_000_100.0
RANK = {"pending": 0, "running": 1, "completed": 2, "failed": 2}


def status(state: str, **fields: object) -> Reading:
    return Reading(status=TaskStatus(state=state, **fields))  # type: ignore[arg-type]


def after(*readings: Reading, attempt: int = 2) -> tuple[TaskStatus, list[str]]:
    """What is believed in the end, and what the last reading brought up."""
    history = StatusHistory()
    found: list[str] = []
    for reading in readings:
        found = history.take(reading, NOW, attempt, BEGAN)
    return history.believed, found


def test_the_way_of_the_document_is_believed_without_a_finding():
    """BOX-02"""
    history = StatusHistory()
    for state in ("pending", "running", "running", "completed"):
        assert history.take(status(state), NOW, 1, BEGAN) == []
        assert history.believed.state == state


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("running", "pending"),
        ("completed", "pending"),
        ("completed", "running"),
        ("completed", "failed"),
        ("failed", "pending"),
        ("failed", "running"),
        ("failed", "completed"),
    ],
)
def test_a_way_back_leaves_the_last_good_one_standing(first, then):
    """BOX-02, TBX-01"""
    believed, found = after(status("running"), status(first), status(then))
    assert believed.state == first
    assert found == [f"status.json went back from {first} to {then}; {first} stands"]


@pytest.mark.parametrize("then", ["completed", "failed"])
def test_an_agent_that_skips_running_is_believed_with_a_finding(then):
    believed, found = after(status("pending"), status(then))
    assert believed.state == then
    assert found == [f"status.json went from pending to {then} without running"]


def test_a_look_that_came_too_late_for_running_finds_nothing_odd():
    assert after(status("pending"), status("completed", started=BEGAN + 1))[1] == []


def test_a_file_that_cannot_be_read_changes_nothing_and_is_told_once():
    """BOX-02, TBX-02: never failed."""
    broken = Reading(problem="status.json cannot be read: It is empty")
    history = StatusHistory()
    history.take(status("running"), NOW, 1, BEGAN)
    assert history.take(broken, NOW, 1, BEGAN) == ["status.json cannot be read: It is empty"]
    assert history.take(broken, NOW, 1, BEGAN) == []
    assert history.believed.state == "running"
    assert history.take(status("running"), NOW, 1, BEGAN) == []
    assert history.take(broken, NOW, 1, BEGAN) != []


def test_a_file_that_is_gone_changes_nothing():
    believed, found = after(status("running"), Reading(absent=True))
    assert (believed.state, found) == ("running", ["status.json is gone"])
    assert after(Reading(absent=True)) == (TaskStatus(state="pending", attempt=2), [])


@pytest.mark.parametrize("attempt", [1, 3])
def test_a_result_of_another_attempt_is_told_and_not_applied(attempt):
    """TBX-03"""
    believed, found = after(status("running"), status("completed", attempt=attempt))
    assert believed.state == "running"
    assert found == [f"status.json is of attempt {attempt}, this is attempt 2; running stands"]


@pytest.mark.parametrize("key", ["started", "completed"])
def test_times_from_before_the_attempt_are_those_of_a_late_writer(key):
    """TBX-03"""
    believed, found = after(status("running"), status("completed", **{key: BEGAN - 5}))
    assert believed.state == "running"
    assert "before this attempt began" in found[0]


def test_a_time_of_the_second_in_which_the_attempt_began_is_no_late_writer():
    """Agents write times to the second."""
    assert after(status("running", started=float(int(BEGAN)))) == (
        TaskStatus(state="running", started=float(int(BEGAN)), attempt=2),
        [],
    )


def test_who_names_the_attempt_is_believed_whatever_its_clock_says():
    """TBX-03: late writers are told by the attempt; agents tell the time badly."""
    assert after(status("completed", started=5.0, attempt=2))[0].state == "completed"


def test_a_lower_number_is_a_late_writer():
    """TBX-01"""
    believed, found = after(status("running", seq=5), status("completed", seq=4))
    assert believed.state == "running"
    assert found == ["status.json went back from seq 5 to 4; running stands"]
    assert after(status("running", seq=5), status("running"), status("completed", seq=4))[0].state == "running"


def test_times_in_the_future_are_flagged():
    """TBX-17"""
    believed, found = after(status("running", started=NOW + 3600, heartbeat=NOW + 7200))
    assert believed.state == "running"
    assert found == ["`started` is in the future", "`heartbeat` is in the future"]
    assert after(status("running", heartbeat=NOW + 5))[1] == []


def test_the_findings_of_the_file_itself_come_along():
    assert after(status("running", findings=("`seq` is odd",)))[1] == ["`seq` is odd"]


def test_what_an_agent_leaves_out_later_stays_known():
    """TBX-01: never drop `started`."""
    first = status("running", started=BEGAN + 1, progress=Progress("one", 1, 2), metrics={"rows": 3}, seq=2)
    believed, _ = after(first, status("completed"))
    assert first.status is not None
    assert believed == replace(first.status, state="completed", attempt=2)


def test_the_next_attempt_begins_anew():
    """TBX-13"""
    history = StatusHistory()
    history.take(status("failed", attempt=1), NOW, 1, BEGAN)
    assert history.take(status("pending", attempt=2, seq=1), NOW, 2, NOW) == []
    assert history.believed.state == "pending"


whole = st.none() | st.integers(0, 4)
moments = st.none() | st.floats(BEGAN - 10, BEGAN + 300)
readings = st.one_of(
    st.just(Reading(absent=True)),
    st.sampled_from(["It is empty", "It is not JSON"]).map(lambda why: Reading(problem=why)),
    st.builds(
        TaskStatus,
        state=st.sampled_from(["pending", "running", "completed", "failed"]),
        started=moments,
        completed=moments,
        attempt=whole,
        seq=whole,
    ).map(lambda found: Reading(status=found)),
)


@given(st.lists(readings, max_size=12))
def test_what_is_believed_only_moves_forward_and_every_refusal_is_told(sequence):
    """BOX-02, TBX-01, TBX-02, TBX-03"""
    history = StatusHistory()
    history.take(Reading(absent=True), NOW, 2, BEGAN)
    told: list[str] = []
    for reading in sequence:
        before = history.believed
        found = history.take(reading, NOW, 2, BEGAN)
        now = history.believed
        assert RANK[now.state] >= RANK[before.state]
        if before.is_final:
            assert now.state == before.state
        assert (now.seq or 0) >= (before.seq or 0)
        assert now.attempt == 2
        assert before.started is None or now.started is not None
        if reading.status is None:
            assert now is before
        elif reading.status.state != now.state:
            assert now is before
            assert found or told, "a refusal was not told"
        told = found or told
