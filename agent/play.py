"""See a trained policy walk: on a web page, or in a film.

    python -m agent.play                    # the run that was started last; steer with sliders or I K J L U O
    python -m agent.play checkpoint=PATH --video out.mp4
    python -m agent.play checkpoint=PATH --gif out.gif robots=5 seconds=8

checkpoint  file with the policy; default: latest/checkpoint.safetensors
physics     train or menagerie, as in agent.evaluate; default: train
robots      how many; default: 5
seed        of the robots; default: 0
video, gif  file to write instead of opening the page; needs no display, see below
seconds     s, length of the film; default: 12
width, height   pixels of the film, even numbers; default: 640 and 360
command     [vx,vy,yaw_rate] in m/s and rad/s, for all robots in the film; default: a tour
meshes      false: primitive shapes even where Menagerie's meshes are there; drawn faster
host, port  where the page is served; default: 127.0.0.1 and 8080

The page needs the packages viser and mjviser, films need imageio-ffmpeg (`pip install 'herd[play]'`) and
OpenGL: with a display, with OSMesa (`apt-get install libosmesa6`), or with EGL and a graphics card's driver.
The robots look like MuJoCo Menagerie's Go2 where its files are, and are then drawn 8 times slower by OSMesa:
`python -m mujoco_menagerie prefetch unitree_go2`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from rich.console import Console
from rich.progress import track

from agent.cli import arguments
from agent.errors import ConfigError
from agent.policies import loading
from agent.policies.rendering import Camera, Film
from agent.policies.scene import Troop
from envs.go2 import visual
from envs.schema import Bounds, Positive

FRAMES_PER_SECOND = {".mp4": 25.0, ".gif": 50 / 3}  # at a policy rate of 50 Hz every second or third step
SPACING = 0.9  # m between robots at the start of a film
TOUR = (  # s, and the command from then on: vx m/s, vy m/s, yaw rate rad/s
    (0.0, (0.0, 0.0, 0.0)),
    (0.6, (0.5, 0.0, 0.0)),
    (2.0, (1.0, 0.0, 0.0)),
    (4.5, (0.6, 0.0, 0.8)),
    (7.0, (0.0, 0.4, 0.0)),
    (9.0, (0.5, 0.0, -0.8)),
    (11.2, (0.0, 0.0, 0.0)),
)
Pixels = Annotated[int, Bounds(low=64, high=1920)]


@dataclass(frozen=True)
class Options:
    checkpoint: str = loading.LATEST
    physics: Literal["train", "menagerie"] = "train"
    robots: Annotated[int, Bounds(low=1, high=100)] = 5
    seed: Annotated[int, Bounds(low=0)] = 0
    video: str | None = None
    gif: str | None = None
    seconds: Positive = 12.0
    width: Pixels = 640
    height: Annotated[int, Bounds(low=64, high=1080)] = 360
    command: tuple[float, float, float] | None = None
    meshes: bool = True
    host: str = "127.0.0.1"
    port: Annotated[int, Bounds(low=0, high=65535)] = 8080


def on_tour(seconds: float) -> tuple[float, float, float]:
    """The tour's command at a time."""
    return [command for begin, command in TOUR if seconds >= begin][-1]


def film(troop: Troop, path: Path, options: Options) -> None:
    """Writes a film of the robots on their tour.

    Raises:
        ConfigError: a wrong file name, odd size, or a missing package.
        RenderError: no picture can be made on this machine.
    """
    for key in ("width", "height"):
        if getattr(options, key) % 2:
            raise ConfigError(f"{key}={getattr(options, key)}: must be even")
    steps_per_frame = max(1, round(1 / (FRAMES_PER_SECOND.get(path.suffix, 25.0) * troop.dt)))
    reel = Film(path, 1 / (steps_per_frame * troop.dt))
    camera = Camera(troop.model, options.width, options.height)
    view = camera.view
    view.azimuth, view.elevation = 215, -22  # degrees: from the front, and their left
    view.distance = 1.6 + 0.4 * np.sqrt(options.robots)  # m
    frames, console = round(options.seconds / (steps_per_frame * troop.dt)), Console(stderr=True)
    try:
        for frame in track(range(frames), path.name, console=console):
            for step in range(frame * steps_per_frame, (frame + 1) * steps_per_frame):
                troop.step(np.array(options.command or on_tour(step * troop.dt), np.float32))
            view.lookat[:] = troop.middle()
            troop.data.light_xpos[0] = troop.middle() + visual.LAMP  # so that the shadows follow
            reel.add(camera.picture(troop.data))
    finally:
        reel.close()
        camera.close()


def run(options: Options) -> None:
    """Opens the page, or writes the films."""
    policy = loading.load(options.checkpoint)
    paths = [Path(path) for path in (options.video, options.gif) if path is not None]
    for path in paths:
        troop = Troop(policy, options.robots, options.physics, options.seed, SPACING, options.meshes)
        film(troop, path, options)
        troop.close()
        print(f"{path}: {options.seconds:g} s, {path.stat().st_size / 1e6:.1f} MB")
    if not paths:
        missing = [name for name in ("viser", "mjviser") if find_spec(name) is None]
        if missing:
            raise ConfigError(f"the page needs the packages {', '.join(missing)}: pip install 'herd[play]'")
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


def main(argv: Sequence[str] | None = None) -> int:
    return arguments.command("agent.play", Options, run, __doc__, sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
