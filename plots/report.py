"""A page about one run: one HTML file that needs no network, with light and dark colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from agent.errors import LogError, ScenarioError
from agent.logs import run_summary
from agent.logs.run_model import from_settings
from agent.storage.files import write_atomic
from plots.charts import Chart, Line, number
from plots.run import Run, compare_checksums, last, load_run, mean
from plots.table import PlotError

TEMPLATE = Path(__file__).with_name("report.html.j2")
SHARES = {"acting": 0, "waiting": 1, "learning": 2, "reducing": 3}  # of wall time, and their colours
REST = 5  # colour of the remaining time
TIME_UNITS = ((3 * 3600.0, 3600.0, "h"), (600.0, 60.0, "min"), (0.0, 1.0, "s"))  # least s, s of the unit


@dataclass
class Walk:
    """The policy's evaluation and pictures, and in `missing` the reasons for those that there are not."""

    heads: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    velocity_error: float = float("nan")  # m/s
    yaw_rate_error: float = float("nan")  # rad/s
    falls: float = float("nan")
    robots: int = 0
    animation: str = ""
    stills: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def write(path: Path, out: Path) -> str:
    """Write the report of the run at `path`; return a line for the user.

    Raises:
        PlotError: There is no run, or the page cannot be written.
    """
    run = load_run(path)
    page = render(run, look(run))
    try:
        write_atomic(out, page.encode())
    except OSError as error:
        raise PlotError(f"{out}: {error.strerror}") from None
    return f"wrote {out}: {len(page) / 1e6:.1f} MB"


def look(run: Run) -> Walk:
    """Evaluate and film the run's newest policy, as far as this machine can."""
    walk = Walk()
    if run.checkpoint is None:
        walk.missing.append(f"no evaluation and pictures: there is no checkpoint in {run.directory} yet")
        return walk
    from plots import walk as walking  # torch and MuJoCo: only now

    try:
        policy = walking.load(run.checkpoint)
    except PlotError as error:
        walk.missing.append(f"no evaluation and pictures: {error}")
        return walk
    report = walking.measure(policy)
    walk.heads, walk.rows = walking.table(report)
    walk.robots, walk.falls = report.robots, report.overall.falls
    walk.velocity_error = _or_nan(report.overall.velocity_error)
    walk.yaw_rate_error = _or_nan(report.overall.yaw_rate_error)
    try:
        walk.stills = walking.stills(policy)
        walk.animation = walking.animation(policy)
    except PlotError as error:
        walk.missing.append(f"{'no animation' if walk.stills else 'no pictures'}: {error}")
    return walk


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def render(run: Run, walk: Walk) -> str:
    """Return the page."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["number"] = number
    return environment.from_string(TEMPLATE.read_text()).render(
        title=f"{run.config.get('project', 'herd')}/{run.config.get('group', run.directory.name)}",
        subtitle=subtitle(run),
        tiles=headline(run, walk),
        walk=walk,
        charts=charts(run),
        accounting=accounting(run),
        peers=peers(run),
        checksums=compare_checksums(run.peers),
        settings=settings(run.config),
        provenance=provenance(run),
    )


def subtitle(run: Run) -> str:
    """Return task, algorithm and model in one line."""
    env, algorithm, model = (run.config.get(key, {}) for key in ("env", "algorithm", "model"))
    sizes = " × ".join(map(str, model.get("hidden_sizes", [])))
    return f"{env.get('name')} · {algorithm.get('name')} · {model.get('name')} {sizes}"


def headline(run: Run, walk: Walk) -> list[tuple[str, str, str]]:
    """Return the numbers to see first: name, value, remark."""
    log, seconds = run.log, last(run.log, "time")
    steps = last(log, "step")
    tiles = [
        (
            "policy steps",
            number(steps),
            f"of {number(float(run.config.get('total_steps', np.nan)))} asked for",
        ),
        ("training time", _duration(seconds), f"{number(last(log, 'updates'))} updates"),
        ("throughput", f"{number(steps / seconds)}/s", "policy steps of all peers over training time"),
        ("episode return", number(last(log, "mean_episode_return")), "in the last row, exploring"),
    ]
    if np.isfinite(walk.velocity_error):
        remark = f"RMS, evaluated on {walk.robots} robots per command"
        tiles += [
            ("velocity error", f"{number(walk.velocity_error, 3)} m/s", remark),
            ("yaw rate error", f"{number(walk.yaw_rate_error, 3)} rad/s", remark),
            ("falls", number(walk.falls), f"of {walk.robots * (len(walk.rows) - 1)} robots"),
        ]
    else:
        remark = "mean in the last row, exploring"
        tiles += [
            ("velocity error", f"{number(last(log, 'lin_vel_error'), 3)} m/s", remark),
            ("yaw rate error", f"{number(last(log, 'yaw_rate_error'), 3)} rad/s", remark),
        ]
    most = np.nanmax(log.column("peers"), initial=0)
    return [*tiles, ("peers", number(last(log, "peers")), f"at most {number(most)} at once")]


def charts(run: Run) -> list[Chart]:
    """Return the curves of the run over training time."""
    log = run.log
    scale, unit = next((s, u) for least, s, u in TIME_UNITS if last(log, "time") >= least)
    time, unit = log.column("time") / scale, f"training time, {unit}"

    def line(label: str, name: str, color: int = 0, **more: Any) -> Line:
        return Line(label, time, log.column(name), color=color, **more)

    shares = {name: log.column(f"share_{name}") for name in SHARES}
    shares["rest"] = np.clip(1 - sum(np.nan_to_num(share) for share in shares.values()), 0, 1)
    batch = Line(
        "real: mean, least to most",
        time,
        log.column("gradient_batch_size"),
        log.column("gradient_batch_size_min"),
        log.column("gradient_batch_size_max"),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        fallen = log.column("falls") / log.column("episodes")
    return [
        Chart("Episode return", "", [line("mean of ended episodes", "mean_episode_return")], unit),
        Chart(
            "Tracking error while training",
            "m/s, rad/s",
            [line("velocity, m/s", "lin_vel_error"), line("yaw rate, rad/s", "yaw_rate_error", 1)],
            unit,
            "With exploration noise, and with the time that it takes to reach each new command.",
        ),
        Chart("Episodes ended by a fall", "share", [Line("falls / episodes", time, fallen, color=4)], unit),
        Chart(
            "Gradient batch size",
            "sequences per update",
            [batch, line("asked for: a lower bound", "virtual_batch_size", 1, dashed=True)],
            unit,
        ),
        Chart(
            "Throughput",
            "policy steps/s",
            [
                line("measured since the last row", "steps_per_second"),
                line("modeled for the batch asked for", "modeled_throughput", 1, dashed=True),
            ],
            unit,
        ),
        Chart(
            "Where the time goes",
            "share of wall time",
            [Line(name, time, share, color=SHARES.get(name, REST)) for name, share in shares.items()],
            unit,
            f"Of peer {log.meta.get('peer', log.path.parent.name)}.",
            stacked=True,
        ),
        Chart("Members of the group", "peers", [line("peers", "peers", steps=True)], unit, whole=True),
        Chart(
            "Learning",
            "",
            [line("KL divergence, nats", "kl"), line("clip fraction", "clip_fraction", 1)],
            unit,
        ),
    ]


def accounting(run: Run) -> tuple[list[list[str]], str]:
    """Return quantity, modeled, measured, their ratio and the reason; or why there is no such table."""
    try:
        found = run_summary.summarize(run.log.path, run.log.names, run.log.rows)
        lines = run_summary.compare(from_settings(found.as_asked_for()), found)
    except (LogError, ScenarioError, ValueError) as error:  # of a log with gaps
        return [], str(error)
    rows = []
    for name, model, real, why in lines:
        modeled, ratio = ("–", "–") if model is None else (number(model), number(real / model))
        rows.append([name, modeled, number(real), ratio, why])
    return rows, ""


def peers(run: Run) -> list[list[str]]:
    """Return name, host, cores, first and last row, share of leading, own steps and rate of each peer."""
    rows = []
    for table in run.peers:
        time, meta = table.column("time"), table.meta
        rows.append(
            [
                str(meta.get("peer", table.path.parent.name)),
                str(meta.get("host", "–")),
                str(meta.get("cores", "–")),
                f"{_duration(time[0])} – {_duration(time[-1])}",
                f"{number(100 * mean(table, 'leader'))} %",
                number(last(table, "local_steps")),
                f"{number(mean(table, 'local_steps_per_second'))}/s",
            ]
        )
    return rows


def settings(config: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return every setting as on the command line."""
    rows: list[tuple[str, str]] = []
    for key, value in config.items():
        if isinstance(value, Mapping):
            rows += settings(value, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", "null" if value is None else str(value)))
    return rows


def provenance(run: Run) -> list[tuple[str, str]]:
    """Return the origin of the run: code, machine, versions, files."""
    meta = run.meta
    versions = {"python": meta.get("python", "–"), **meta.get("packages", {})}
    return [
        ("started", str(meta.get("time", "–"))),
        ("git commit", str(meta.get("git_commit") or "not from a checkout")),
        ("machine", f"{meta.get('host', '–')}, {meta.get('cores', '–')} cores, {meta.get('platform', '–')}"),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("files", str(run.directory)),
        ("seed", str(run.config.get("seed", "–"))),
    ]


def _duration(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02} h"
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"
