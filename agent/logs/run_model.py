"""The model of a parallel training run: what follows from its sizes and its duration.

`ParallelSimRunScenario` has the fields and equations of mlsysim's class of that name (importing mlsysim takes
seconds; the tests hold the two against each other). It assumes updates of one size and knows nothing of
resets, of the fidelity of the simulation or of other hardware.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pint
import yaml

from agent.errors import ScenarioError
from agent.storage.paths import SCENARIOS

EXAMPLES = {"training_time": "20 min", "policy_rate": "50 Hz"}

units = pint.get_application_registry()


@dataclass(frozen=True, kw_only=True)
class ParallelSimRunScenario:
    """An on-policy run: in each update every robot takes a number of policy steps.

    Attributes:
        robots: Robots that are simulated at the same time.
        steps_per_update: Policy steps of each robot per update.
        updates: Updates of the policy.
        training_time: Wall time of the run; an upper bound makes `throughput` a lower bound.
        policy_rate: Policy steps of one robot per unit of simulated time.
    """

    robots: int
    steps_per_update: int
    updates: int
    training_time: pint.Quantity
    policy_rate: pint.Quantity

    def __post_init__(self) -> None:
        for name in ("robots", "steps_per_update", "updates"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ScenarioError(f"{name}={value}: must be a whole number greater than 0")
        _check_quantity("training_time", self.training_time, "[time]", "a time")
        _check_quantity("policy_rate", self.policy_rate, "1/[time]", "a rate")

    @property
    def batch(self) -> int:
        """Policy steps of all robots in one update."""
        return self.robots * self.steps_per_update

    @property
    def samples(self) -> int:
        """Policy steps of all robots in the whole run."""
        return self.batch * self.updates

    @property
    def throughput(self) -> pint.Quantity:
        """Policy steps of all robots per unit of wall time, 1/s."""
        rate: pint.Quantity = self.samples / self.training_time
        return rate.to("1/s")

    @property
    def simulated_experience(self) -> pint.Quantity:
        """The simulated time of all robots together, in days."""
        experience: pint.Quantity = self.samples / self.policy_rate
        return experience.to("day")

    def time_for(self, steps: float) -> pint.Quantity:
        """Return the wall time of `steps` policy steps at this throughput, in minutes."""
        duration: pint.Quantity = steps / self.throughput
        return duration.to("minute")


def _check_quantity(name: str, value: Any, dimension: str, kind: str) -> None:
    """Raise ScenarioError unless `value` is a positive, finite quantity of this dimension."""
    if not isinstance(value, pint.Quantity) or not value.check(dimension):
        text = f"{value:D}" if isinstance(value, pint.Quantity) else value
        raise ScenarioError(f"{name}={text}: must be {kind} with its unit, such as '{EXAMPLES[name]}'")
    if not (value.magnitude > 0 and math.isfinite(value.magnitude)):
        raise ScenarioError(f"{name}={value:D}: must be greater than 0 and finite")


def from_settings(settings: Mapping[str, Any]) -> ParallelSimRunScenario:
    """Build a scenario from numbers and text, as configuration files and command lines have them.

    Args:
        settings: `robots`, `steps_per_update`, `updates` (whole numbers or their text), `training_time` and
            `policy_rate` (text such as `"20 min"`). None counts as missing.

    Raises:
        ScenarioError: a key is missing or unknown, or a value has a wrong unit, sign or form.
    """
    names = [field.name for field in fields(ParallelSimRunScenario)]
    unknown = [name for name in settings if name not in names]
    if unknown:
        raise ScenarioError(f"{unknown[0]}: unknown; known are {', '.join(names)}")
    missing = [name for name in names if settings.get(name) is None]
    if missing:
        raise ScenarioError(f"{missing[0]} is missing; a scenario needs {', '.join(names)}")
    return ParallelSimRunScenario(
        robots=_whole_number("robots", settings["robots"]),
        steps_per_update=_whole_number("steps_per_update", settings["steps_per_update"]),
        updates=_whole_number("updates", settings["updates"]),
        training_time=_quantity("training_time", settings["training_time"]),
        policy_rate=_quantity("policy_rate", settings["policy_rate"]),
    )


def _whole_number(name: str, value: Any) -> int:
    try:
        return int(value) if isinstance(value, str) else value
    except ValueError:
        raise ScenarioError(f"{name}={value}: must be a whole number greater than 0") from None


def _quantity(name: str, text: Any) -> pint.Quantity:
    try:
        quantity: pint.Quantity = units.Quantity(text)
    except Exception:  # pint raises errors of its own, of tokenize and of the arithmetic in the text
        raise ScenarioError(f"{name}={text}: no quantity; write it as '{EXAMPLES[name]}'") from None
    return quantity


def preset(name: str) -> dict[str, Any]:
    """Return the settings of a published run in `conf/scenario/`, for `from_settings`.

    Raises:
        ScenarioError: there is no such preset.
    """
    names = sorted(path.stem for path in SCENARIOS.glob("*.yaml") if path.stem != "none")
    if name not in names:
        raise ScenarioError(f"{name}: no published run; there are {', '.join(names)}")
    settings: dict[str, Any] = yaml.safe_load((SCENARIOS / f"{name}.yaml").read_text())
    del settings["name"]
    return settings


def describe(scenario: ParallelSimRunScenario, steps: float | None = None) -> str:
    """Return the scenario's inputs and what follows from them, one per line.

    Args:
        scenario: The run.
        steps: If given, add the time that this many policy steps take.
    """
    lines = {
        "robots": f"{scenario.robots:,}",
        "steps per update": f"{scenario.steps_per_update:,}",
        "updates": f"{scenario.updates:,}",
        "training time": f"{scenario.training_time:~D}",
        "policy rate": f"{scenario.policy_rate:~D}",
        "batch": f"{scenario.batch:,} policy steps per update",
        "samples": f"{scenario.samples:,} policy steps",
        "throughput": f"{significant(scenario.throughput.magnitude)} policy steps/s "
        "(a lower bound if the training time is an upper bound)",
        "simulated experience": f"{significant(scenario.simulated_experience.magnitude)} days",
    }
    if steps is not None:
        lines[f"time for {significant(steps)} steps"] = (
            f"{significant(scenario.time_for(steps).magnitude)} min"
        )
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


def significant(value: float) -> str:
    """Return a number with four significant digits, and all digits of its whole part."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
