"""Calculate what the sizes and the duration of a parallel training run imply.

    python -m agent.scenario robots=4096 steps_per_update=24 updates=1500 \\
        training_time='20 min' policy_rate='50 Hz'
    python -m agent.scenario legged_gym steps=1e8
    python -m agent.scenario unitree_rl_gym training_time='2 hours'
    python -m agent.scenario --from logs.tsv

A first word without `=` names a published run of `conf/scenario/`; options that follow replace its values.
`--from` compares a run's log with the model: by default with the model of the run as it was asked for, else
with the published run or the given values. `agent/logs/run_model.py` has the equations.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agent.cli.arguments import command, option
from agent.errors import ScenarioError
from agent.logs import run_model, run_summary


@dataclass(frozen=True)
class Options:
    published: str | None = option(None, "published run, a file of conf/scenario", positional=True)
    robots: str | None = option(None, "robots that are simulated at the same time")
    steps_per_update: str | None = option(None, "policy steps of each robot per update")
    updates: str | None = option(None, "updates of the policy")
    training_time: str | None = option(None, "wall time of the run, such as '20 min'")
    policy_rate: str | None = option(
        None, "policy steps of one robot per second of its time, such as '50 Hz'"
    )
    steps: str | None = option(None, "also print the time that this many policy steps take")
    from_: str | None = option(None, "logs.tsv to compare with the model")


def run(options: Options) -> None:
    """Calculate and print."""
    values = asdict(options)
    published, log = values.pop("published"), values.pop("from_")
    steps = _steps(values.pop("steps"))
    given = {name: value for name, value in values.items() if value is not None}
    settings = run_model.preset(published) if published is not None else {}
    if log is None:
        print(run_model.describe(run_model.from_settings(settings | given), steps))
        return
    summary = run_summary.read(Path(log))
    model = run_model.from_settings((settings or summary.as_asked_for()) | given)
    print(run_summary.describe(run_summary.compare(model, summary, steps)))


def _steps(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        steps = float(text)
    except ValueError:
        steps = math.nan
    if not (steps > 0 and math.isfinite(steps)):
        raise ScenarioError(f"steps={text}: must be a number greater than 0")
    return steps


def main(arguments: Sequence[str] | None = None) -> int:
    return command("agent.scenario", Options, run, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
