"""The report of a run: its numbers by hand, what is missing or broken, and the page in a real browser."""

import json
import math
import re

import numpy as np
import pytest

from agent.logs.columns import columns
from plots import command, report, walk
from plots.charts import Chart, Line, number
from plots.run import compare_checksums, load_run
from plots.table import PlotError
from rigs import untrained_policies as policies
from rigs.browser import opened

NAMES = [column.name for column in columns(("gait",))]
CONFIG = {
    "project": "herd",
    "group": "two <peers>",
    "seed": 7,
    "total_steps": 1e6,
    "savedir": "x",
    "env": {"name": "go2", "physics": {"timestep": 0.005, "decimation": 4}},
    "algorithm": {"name": "ppo", "epochs": 2},
    "unroll_length": 10,
    "warmup": 0,
    "model": {"name": "mlp", "hidden_sizes": [128, 64]},
    "connect": None,
}


def write_peer(directory, rows, **meta):
    """A peer's directory with a log that has these rows (dictionaries) and a half-written one."""
    directory.mkdir(parents=True)
    cells = [NAMES, *([str(row.get(name, "")) for name in NAMES] for row in rows)]
    lines = ["\t".join(row) for row in cells]
    (directory / "logs.tsv").write_text("\n".join(lines) + "\n3\t99")
    (directory / "meta.json").write_text(json.dumps({"peer": directory.name, "config": CONFIG, **meta}))


@pytest.fixture
def run(tmp_path):
    """A run of two peers; in each update 8 sequences of 10 steps were asked for and 12 were had."""
    rows = [
        {
            "time": 60 * i, "step": 3000 * i, "updates": 20 * i, "peers": 1 + (i > 1), "leader": 1,
            "mean_episode_return": i / 2, "episodes": 4, "falls": 1, "lin_vel_error": 0.5 / i,
            "virtual_batch_size": 8, "gradient_batch_size": 12, "gradient_batch_size_min": 8,
            "gradient_batch_size_max": 16, "transitions": 2400 * i, "modeled_transitions": 1600 * i,
            "modeled_throughput": 1600 / 60, "steps_per_second": 50, "share_acting": 0.5,
            "share_learning": 0.25, "checksum": f"aa{i}", "checksum_updates": 20 * i,
            "modeled_simulated_experience_days": 0.01, "local_steps": 2000 * i, "local_steps_per_second": 33,
            "dropped_gradients": 0, "num_skipped": 0, "timeouts": 3, "blowups": 0, "share_waiting": 0,
            "share_reducing": 0,
        }
        for i in range(1, 4)
    ]  # fmt: skip
    later = [{**rows[i], "leader": 0, "checksum": checksum} for i, checksum in ((1, "aa2"), (2, "bb3"))]
    versions = {"python": "3.11.7", "packages": {"torch": "2.13"}, "git_commit": "f00d", "host": "vm"}
    write_peer(tmp_path / "run" / "peers" / "first", rows, **versions)
    write_peer(tmp_path / "run" / "peers" / "second", later)
    return tmp_path / "run"


def text_of(page):
    """What the page says, without its style and script."""
    page = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_the_numbers_are_right(run):
    loaded = load_run(run)
    assert [table.path.parent.name for table in loaded.peers] == ["first", "second"]
    assert compare_checksums(loaded.peers) == (2, 1)
    table, missing = report.accounting(loaded)
    rows = {row[0]: row[1:] for row in table}
    assert missing == ""
    assert rows["robots (sequences per update)"][:3] == ["8", "12", "1.5"]
    assert rows["policy steps learned from"][:3] == ["2,400", "7,200", "3"]  # 8 x 10 x 60 updates / 2 epochs
    assert rows["simulated per second"][1] == "50"  # 9000 steps in 180 s
    assert rows["contributions left out"][:3] == ["–", "0", "–"]
    assert ("model.hidden_sizes", "[128, 64]") in report.settings(CONFIG)
    assert ("connect", "null") in report.settings(CONFIG)
    first, second = report.peers(loaded)
    assert first[0] == "first" and first[3:] == ["1:00 min – 3:00 min", "100 %", "6,000", "33/s"]
    assert second[3:5] == ["2:00 min – 3:00 min", "0 %"]


def test_the_page_has_it_all_and_needs_no_network(run, tmp_path, capsys):
    out = tmp_path / "r.html"
    assert command.main(["--report", str(run), "--out", str(out)]) == 0
    page = out.read_text()
    assert capsys.readouterr().out.startswith(f"wrote {out}: ")
    text = text_of(page)
    for expected in (
        "two &lt;peers&gt;", "go2 · ppo · mlp 128 × 64", "policy steps 9,000 of 1 M asked for", "3:00 min",
        "1 of 2 checksums", "f00d", "torch 2.13", "no evaluation and pictures: there is no checkpoint",
        "Gradient batch size", "at most 2 at once", "0.167 m/s",
    ):  # fmt: skip
        assert expected in text, expected
    assert not re.search(r"(src|href)=[\"']?(?!data:)|@import|https?://", page)


def test_a_log_or_a_peer_names_its_run_too(run):
    assert load_run(run / "peers" / "second" / "logs.tsv").directory == run.resolve()
    assert [table.path.parent.name for table in load_run(run / "peers" / "second").peers] == ["second"]


def test_columns_that_are_missing_leave_gaps_only(tmp_path):
    directory = tmp_path / "run" / "peers" / "old"
    directory.mkdir(parents=True)
    (directory / "logs.tsv").write_text("time\tstep\n1\t10\n2\tnan\n3\t30\n4")
    (directory / "meta.json").write_text(json.dumps({"config": {}}))
    loaded = load_run(tmp_path / "run")
    page = text_of(report.render(loaded, report.look(loaded)))
    assert "no log of a training: it has no column" in page or "damaged" in page
    assert "no values in the log" in page and "nan" not in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run / "nothing", "nothing: no such file or directory"),
        (
            lambda run: [path.write_text("{") for path in run.rglob("meta.json")] and run,
            "meta.json: missing or damaged",
        ),
        (lambda run: (run / "empty").mkdir() or run / "empty", "there is no logs.tsv in this directory"),
    ],
)
def test_mistakes_are_told_in_one_line(run, capsys, change, message):
    assert command.main(["--report", str(change(run))]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_several_runs_need_a_choice(run, tmp_path):
    config = {**CONFIG, "savedir": "y"}
    write_peer(tmp_path / "run" / "other" / "peers" / "p", [{"time": 1, "step": 1}], config=config)
    with pytest.raises(PlotError, match="holds 2 runs; name one"):
        load_run(run)


def points(svg, kind):
    """Corners of every polyline or polygon, in the drawing's units."""
    found = re.findall(rf'<{kind} class="[^"]*" points="([^"]*)"', svg)
    return [np.array([pair.split(",") for pair in one.split()], float) for one in found]


def test_a_line_reaches_from_corner_to_corner():
    x = np.array([0.0, 5.0, 10.0])
    (line,) = points(Chart("t", "", [Line("a", x, x * 100)], "s").svg, "polyline")
    np.testing.assert_allclose(line, [[50, 196], [289, 103], [528, 10]])
    (line,) = points(Chart("t", "", [Line("a", x, np.array([1000, np.nan, 0]))], "s").svg, "polyline")
    np.testing.assert_allclose(line, [[50, 10], [528, 196]])
    (line,) = points(Chart("t", "", [Line("a", x, np.array([1, 1, 0]), steps=True)], "s").svg, "polyline")
    np.testing.assert_allclose(line, [[50, 10], [289, 10], [289, 10], [528, 10], [528, 196]])


def test_areas_are_stacked():
    x, half = np.array([0.0, 1.0]), np.full(2, 0.5)
    lower, upper = points(
        Chart("t", "", [Line("a", x, half), Line("b", x, half)], "s", stacked=True).svg, "polygon"
    )
    assert set(lower[:, 1]) == {103, 196} and set(upper[:, 1]) == {10, 103}


def test_long_lines_are_thinned_to_means_and_extremes():
    y = np.tile([0.0, 1.0], 2000)
    (area,), (line,) = (
        points(Chart("t", "", [Line("a", np.arange(4000.0), y, y, y)], "s").svg, kind)
        for kind in ("polygon", "polyline")
    )
    assert len(line) == 400 and set(line[:, 1]) == {103} and set(area[:, 1]) == {10, 196}


def test_numbers_for_people():
    values = (0.05, 123.456, 12345.6, 3e6, math.nan)
    assert [number(value) for value in values] == ["0.05", "123.5", "12,346", "3 M", "–"]


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


def test_the_page_in_a_browser(run, tmp_path):
    out = tmp_path / "r.html"
    report.write(run, out)
    backgrounds = []
    for scheme in ("light", "dark"):
        with opened(out.as_uri(), color_scheme=scheme, viewport={"width": 400, "height": 800}) as (
            page,
            errors,
        ):
            backgrounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert page.evaluate("document.documentElement.scrollWidth") <= 400  # nothing sticks out
            assert page.locator("svg[data-chart] polyline").count() >= 8
            chart = page.locator("svg[data-chart]").first
            chart.scroll_into_view_if_needed()
            chart.hover()
            tip = page.locator(".tip")
            assert (
                "training time, s: 120" in tip.inner_text()
                and "mean of ended episodes: 1" in tip.inner_text()
            )
            page.mouse.move(0, 0)
            assert tip.count() == 0
            page.locator("summary").click()
            assert page.get_by_text("model.hidden_sizes").is_visible()
            assert errors == []
    assert backgrounds[0] != backgrounds[1]
