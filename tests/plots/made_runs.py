"""Logs and metadata of made-up runs, and the text of their pages, for the tests of this folder."""

import json
import re

from agent.logs.columns import columns
from plots.table import read_table

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


def write(path, rows, names=("step", "mean_episode_return", "entropy"), end=""):
    lines = ["\t".join(names), *("\t".join(map(str, row)) for row in rows)]
    path.write_text("".join(f"{line}\n" for line in lines) + end)
    return path


def logs_of(tmp_path, **runs):
    """Write a log with values at steps 0, 1, … and a meta.json for each run; return the tables."""
    for name, (seed, values) in runs.items():
        directory = tmp_path / name
        directory.mkdir()
        write(directory / "logs.tsv", [(step, value, 0) for step, value in enumerate(values)])
        meta = {"config": {"seed": seed, "algorithm": {"name": "ppo" if seed < 3 else "vtrace"}}}
        (directory / "meta.json").write_text(json.dumps(meta))
    return [read_table(tmp_path / name / "logs.tsv") for name in runs]


def write_peer(directory, rows, **meta):
    """Write a peer's directory with a log of these rows (dictionaries) and a half-written one."""
    directory.mkdir(parents=True)
    cells = [NAMES, *([str(row.get(name, "")) for name in NAMES] for row in rows)]
    lines = ["\t".join(row) for row in cells]
    (directory / "logs.tsv").write_text("\n".join(lines) + "\n3\t99")
    (directory / "meta.json").write_text(json.dumps({"peer": directory.name, "config": CONFIG, **meta}))


def text_of(page):
    """Return the text of a page without its style and script."""
    page = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())
