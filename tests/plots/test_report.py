"""The report of a run: its numbers by hand, what is missing or broken, and the page in a real browser."""

import json
import re

import pytest

from plots import command, report
from plots.run import compare_checksums, load_run
from rigs.browser import opened
from tests.plots.made_runs import CONFIG, text_of


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


def test_columns_that_are_missing_leave_gaps_only(tmp_path):
    directory = tmp_path / "run" / "peers" / "old"
    directory.mkdir(parents=True)
    (directory / "logs.tsv").write_text("time\tstep\n1\t10\n2\tnan\n3\t30\n4")
    (directory / "meta.json").write_text(json.dumps({"config": {}}))
    loaded = load_run(tmp_path / "run")
    page = text_of(report.render(loaded, report.look(loaded)))
    assert "no log of a training: it has no column" in page or "damaged" in page
    assert "no values in the log" in page and "nan" not in page


def test_cards_and_tables_are_of_one_read_of_a_log_that_grows(run):
    """The policy's evaluation lies between them and takes longer than the time between two rows."""
    loaded = load_run(run)
    log = loaded.log.path
    *lines, _half_written = log.read_text().split("\n")
    later = lines[-1].replace("9000", "12000").replace("180", "240")
    log.write_text("\n".join([*lines, later]) + "\n")
    tiles = {name: value for name, value, _ in report.headline(loaded, report.Walk())}
    rows = {row[0]: row[1:] for row in report.accounting(loaded)[0]}
    assert tiles["policy steps"] == rows["policy steps simulated"][1] == "9,000"
    assert tiles["training time"] == "3:00 min" and rows["training time, s"][1] == "180"
    again = {row[0]: row[1:] for row in report.accounting(load_run(run))[0]}
    assert again["policy steps simulated"][1] == "12,000"


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
