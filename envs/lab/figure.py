"""The figure of section C: steps per second (left) and per processor second (right) over robots, log-log."""

from pathlib import Path
from typing import Any

from envs.lab.throughput import CLOCKS, LOOP

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # name the lines where there is no colour
Row = dict[str, Any]
Line = tuple[tuple[str, str, int], list[Row]]  # engine, state, threads; rows by number of robots


def lines(result: list[Row]) -> list[Line]:
    """Return one line per engine and kind of states, for the smallest and the largest number of threads."""
    threads = sorted({row["threads"] for row in result})
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(result, key=lambda row: row["robots"]):
        if row["engine"] != LOOP and row["threads"] in (threads[0], threads[-1]):
            groups.setdefault((row["engine"], row["state"], row["threads"]), []).append(row)
    return list(groups.items())


def png(result: list[Row], path: Path) -> None:
    """Draw both panels into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    drawn = lines(result)
    engines = list(dict.fromkeys(engine for (engine, _, _), _ in drawn))
    least = min(threads for (_, _, threads), _ in drawn)
    for panel, (key, clock) in zip(panels, CLOCKS.items(), strict=True):
        for (engine, state, threads), rows in drawn:
            panel.loglog(
                [row["robots"] for row in rows],
                [row[key] for row in rows],
                color=f"C{engines.index(engine)}",
                linestyle="-" if state == "training" else "--",
                marker="o" if threads == least else "s",
                markerfacecolor="white" if threads == least else None,
                label=f"{engine}, {state}, {threads} thread{'s' * (threads > 1)}",
            )
        for row in result:
            if row["engine"] == LOOP:
                style = "-" if row["state"] == "training" else "--"
                panel.axhline(
                    row[key], color="grey", linewidth=1, linestyle=style, label=f"{LOOP}, {row['state']}"
                )
        panel.set_xscale("log", base=2)
        panel.set_xticks(sorted({row["robots"] for row in result}))
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.set_xlabel("robots in one batch")
        panel.set_title(f"physics steps per {clock}")
        panel.grid(alpha=0.3, which="both")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=120, format="png")
    plt.close(figure)


def terminal(result: list[Row], width: int, color: bool) -> str:
    """Return both panels as text, one below the other, for the largest number of threads.

    Without colour, every line is drawn with a letter of its own.
    """
    import uniplot

    threads = max(row["threads"] for row in result)
    shown = [line for line in lines(result) if line[0][2] == threads]
    texts = []
    for key, clock in CLOCKS.items():
        texts.append(
            uniplot.plot_to_string(
                xs=[[row["robots"] for row in rows] for _, rows in shown],
                ys=[[row[key] for row in rows] for _, rows in shown],
                x_as_log=True,
                y_as_log=True,
                lines=True,
                color=color,
                character_set="block" if color else "ascii",
                force_ascii_characters=list(LETTERS),
                width=max(30, width - 12),
                height=12,
                title=f"physics steps per {clock} over robots, {threads} threads",
                legend_labels=[f"{engine}, {state}" for (engine, state, _), _ in shown],
            )
        )
    return "\n".join(texts)
