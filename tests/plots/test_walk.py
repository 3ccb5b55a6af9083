"""The part of a report about the policy."""

from plots import report, walk
from plots.run import load_run
from rigs import untrained_policies as policies
from tests.plots.made_runs import text_of


def test_with_a_checkpoint_it_shows_how_the_policy_walks(run, monkeypatch):
    monkeypatch.setattr(walk, "ROBOTS", 1)
    monkeypatch.setattr(walk, "SECONDS", 0.4)
    monkeypatch.setattr(walk, "SETTLE", 0.1)
    policies.save(run / "checkpoint.safetensors", 0.0)
    seen = report.look(load_run(run))
    assert len(seen.rows) == 10 and seen.rows[-1][0] == "all" and seen.rows[2][0] == "−0.5, 0, 0"
    assert seen.velocity_error > 0.3 and seen.falls == 0  # it stands still
    assert (len(seen.stills) == 6 and seen.animation) or seen.missing
    page = report.render(load_run(run), seen)
    assert text_of(page).count("−0.5, 0, 0") == 1
    assert page.count("data:image/") == len(seen.stills) + bool(seen.animation)


def test_a_damaged_checkpoint_costs_the_pictures_only(run):
    (run / "checkpoint.safetensors").write_bytes(b"broken")
    (line,) = report.look(load_run(run)).missing
    assert line.startswith("no evaluation and pictures: ") and "checkpoint.safetensors" in line
