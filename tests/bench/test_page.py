"""The page of results keeps what was not measured anew."""

from bench.page import HEAD, page

ORDER = ("drain", "turns", "web")


def test_what_is_measured_anew_replaces_its_own_section_and_all_others_stay():
    before = page("", {"web": "of Monday\n\n| a |", "drain": "of Monday"}, ORDER)
    assert before == f"{HEAD}\n## drain\n\nof Monday\n\n## web\n\nof Monday\n\n| a |\n"
    after = page(before, {"turns": "of Tuesday", "drain": "of Tuesday"}, ORDER)
    assert after == f"{HEAD}\n## drain\n\nof Tuesday\n\n## turns\n\nof Tuesday\n\n## web\n\nof Monday\n\n| a |\n"
    assert page(after, {}, ORDER) == after


def test_a_section_that_nobody_measures_any_more_goes():
    assert page("# Old\n\n## gone\n\nrows\n", {}, ORDER) == HEAD
