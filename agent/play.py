"""See a trained policy walk: in a browser, or in a film.

    python -m agent.play                    # the run that was started last; steer with sliders or I K J L U O
    python -m agent.play checkpoint=PATH --video out.mp4
    python -m agent.play checkpoint=PATH --gif out.gif robots=5 seconds=8

The viewer needs the packages viser and mjviser, films need imageio-ffmpeg (`pip install 'herd[play]'`) and
OpenGL: with a display, with OSMesa (`apt-get install libosmesa6`), or with EGL and a GPU's driver. The robots
look like MuJoCo Menagerie's Go2 where its files are installed, and OSMesa then draws them 8 times slower:
`python -m mujoco_menagerie prefetch unitree_go2`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from agent.cli.arguments import command, option
from agent.errors import ConfigError
from agent.policies.film import SPACING, film
from agent.policies.loading import load
from agent.policies.scene import Scene
from agent.storage.paths import LATEST
from envs.schema import Bounds, Positive


@dataclass(frozen=True)
class Options:
    checkpoint: str = option(LATEST, "file with the policy, or the directory of its run")
    physics: Literal["train", "menagerie"] = option("train", "train or menagerie, as in agent.evaluate")
    robots: Annotated[int, Bounds(low=1, high=100)] = option(5, "how many to show")
    seed: Annotated[int, Bounds(low=0)] = option(0, "of the robots")
    video: str | None = option(None, "film to write, .mp4, instead of opening the viewer; needs no display")
    gif: str | None = option(None, "animation to write, .gif")
    seconds: Positive = option(12.0, "length of the film, s")
    width: Annotated[int, Bounds(low=64, high=1920)] = option(640, "of the film, pixels; an even number")
    height: Annotated[int, Bounds(low=64, high=1080)] = option(360, "of the film, pixels; an even number")
    command: tuple[float, float, float] | None = option(
        None, "[vx,vy,yaw_rate] in m/s and rad/s for all robots of the film; without it they go on a tour"
    )
    meshes: bool = option(True, "false: primitive shapes even where Menagerie's meshes are installed; faster")
    host: str = option("127.0.0.1", "address at which the viewer is served")
    port: Annotated[int, Bounds(low=0, high=65535)] = option(8080, "and its port")


def run(options: Options) -> None:
    """Open the viewer, or write the films."""
    policy = load(options.checkpoint)
    paths = [Path(path) for path in (options.video, options.gif) if path is not None]
    for path in paths:
        scene = Scene(policy, options.robots, options.physics, options.seed, SPACING, options.meshes)
        film(scene, path, options.seconds, (options.width, options.height), options.command)
        scene.close()
        print(f"{path}: {options.seconds:g} s, {path.stat().st_size / 1e6:.1f} MB")
    if not paths:
        missing = [name for name in ("viser", "mjviser") if find_spec(name) is None]
        if missing:
            raise ConfigError(f"the viewer needs the packages {', '.join(missing)}: pip install 'herd[play]'")
        from agent.policies import viewer

        viewer.serve(
            policy,
            options.robots,
            options.physics,
            options.seed,
            options.host,
            options.port,
            options.meshes,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    return command("agent.play", Options, run, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
