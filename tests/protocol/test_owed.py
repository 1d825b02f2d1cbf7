"""What a task still owes, by the stock of its outbox."""

import pytest

from sortie.protocol.outbox import Delivered, Stock, missing

EMPTY, FULL = 0, 5


def stock(sizes: dict[str, int], refused: tuple[tuple[str, str], ...] = ()) -> Stock:
    files = tuple(Delivered(f"outbox/{name}", size, "") for name, size in sizes.items())
    return Stock(files=files, refused=refused)


def test_a_summary_and_a_deliverable_are_enough():
    """BOX-05, TBX-06"""
    assert missing(stock({"summary.md": FULL, "report.md": FULL}), ["outbox/report.md", "outbox/"]) == []


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"report.md": FULL}, "outbox/summary.md is missing."),
        ({"report.md": FULL, "summary.md": EMPTY}, "outbox/summary.md is empty."),
        ({"summary.md": FULL}, "The outbox holds no deliverable"),
        ({"summary.md": FULL, "report.md": EMPTY}, "The outbox holds no deliverable"),
        ({"summary.md": FULL, "error_report.md": FULL}, "The outbox holds no deliverable"),
        ({"summary.md": FULL, "partial/report.md": FULL}, "The outbox holds no deliverable"),
    ],
)
def test_what_every_task_owes(sizes, sentence):
    """BOX-05, TBX-06"""
    (found,) = missing(stock(sizes), [])
    assert found.startswith(sentence)


@pytest.mark.parametrize(
    ("sizes", "required", "sentences"),
    [
        ({}, "outbox/data.json", ["outbox/data.json is missing."]),
        ({"data.json": EMPTY}, "outbox/data.json", ["outbox/data.json is empty."]),
        ({"data.json": FULL}, "outbox/data.json", []),
        ({"data/a": EMPTY}, "outbox/data/", ["outbox/data/ is missing, or holds no file with content."]),
        ({"data/x/a": FULL}, "outbox/data/", []),
        ({"database": FULL}, "outbox/data/", ["outbox/data/ is missing, or holds no file with content."]),
        ({}, "outbox/summary.md", []),
    ],
)
def test_what_this_task_owes(sizes, required, sentences):
    """BOX-05, TBX-06"""
    assert missing(stock({"summary.md": FULL, "other": FULL, **sizes}), [required]) == sentences


def test_what_is_owed_and_refused_is_told_with_the_reason():
    """TBX-08"""
    found = stock({"summary.md": FULL, "other": FULL}, (("outbox/data.json", "It is a symbolic link"),))
    assert missing(found, ["outbox/data.json"]) == ["outbox/data.json is refused: It is a symbolic link."]


def test_of_a_stock_with_a_problem_nothing_else_is_said():
    assert missing(Stock(problem="outbox holds more than 2 files."), ["outbox/x"]) == [
        "outbox holds more than 2 files."
    ]
