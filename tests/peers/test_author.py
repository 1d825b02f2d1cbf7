"""Who a process writes as."""

from __future__ import annotations

from sortie.peers.author import Author, author_of_process
from sortie.peers.place import place_at


def test_a_person_is_the_maintainer_or_who_they_say(tmp_path):
    place = place_at(tmp_path)
    assert author_of_process(place) == Author(name="Maintainer", role="maintainer")
    assert author_of_process(place, "mira", maintainer="Mira") == Author(name="Mira", role="maintainer")
    assert author_of_process(place, "Alice") == Author(name="Alice", role="agent")
