"""Films: the tour, and names that cannot be written."""

import pytest

from agent.errors import ConfigError
from agent.policies.film import FilmWriter, film, on_tour


def test_films_say_what_is_wrong_with_their_names(tmp_path):
    with pytest.raises(ConfigError, match=r"out\.avi: must end in \.mp4 or \.gif"):
        FilmWriter(tmp_path / "out.avi", 25.0)


def test_the_tour_begins_and_ends_standing():
    assert on_tour(0.0) == on_tour(11.9) == (0.0, 0.0, 0.0)
    assert on_tour(2.1) == (1.0, 0.0, 0.0)


def test_odd_sizes_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="height=63: must be even"):
        film(None, tmp_path / "out.mp4", 1.0, (64, 63))
