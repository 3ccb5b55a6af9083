"""The part of a report about the policy itself: its evaluation and pictures of its walk."""

from __future__ import annotations

import base64
import io
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from agent.errors import CheckpointError, ConfigError, RenderError
from agent.policies import evaluation, loading
from agent.policies.film import film
from agent.policies.rendering import Camera
from agent.policies.scene import Scene
from envs.go2.robot import visual
from plots.table import PlotError

ROBOTS = 8  # for each of the evaluation's commands: some seconds
SIZE = (416, 234)  # pixels of the animation
SECONDS = 5.0  # s of the animation
STILL = (280, 210)  # pixels of a still
STILLS, BETWEEN = 6, 5  # pictures, and policy steps from one to the next: at 50 Hz a gait cycle of 0.5 s
SETTLE = 1.5  # s of walking before the first still
SPEED = (0.8, 0.0, 0.0)  # m/s, m/s, rad/s


def load(checkpoint: Path) -> loading.LoadedPolicy:
    """Return the policy of a checkpoint.

    Raises:
        PlotError: The checkpoint cannot be used.
    """
    try:
        return loading.load(checkpoint)
    except (CheckpointError, ConfigError, OSError) as error:
        raise PlotError(str(error)) from None


def measure(policy: loading.LoadedPolicy) -> evaluation.Report:
    """Return the evaluation of `agent.evaluate` with few robots."""
    return evaluation.evaluate(policy.policy, policy.env, robots=ROBOTS)


def table(report: evaluation.Report) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows, the last of which is of all commands together."""
    columns = evaluation.TRACKING | evaluation.GAIT
    names = [f"{vx:g}, {vy:g}, {yaw:g}" for vx, vy, yaw in report.commands]
    summaries = [*report.per_command, report.overall]
    rows = [
        [name, *(column(summary) for column in columns.values())]
        for name, summary in zip([*names, "all"], summaries, strict=True)
    ]
    shown = [i for i in range(len(rows[0])) if any(row[i] != "-" for row in rows)]
    heads = ["command\nm/s, m/s, rad/s", *columns]
    return [heads[i] for i in shown], [[row[i].replace("-", "−") for i in shown] for row in rows]


def stills(policy: loading.LoadedPolicy) -> list[str]:
    """Return one gait cycle seen from the side, as data URLs of JPEGs.

    Raises:
        PlotError: This machine cannot render.
    """
    scene = Scene(policy, 1, "train", 0, 1.0, meshes=False)
    try:
        camera = Camera(scene.model, *STILL)
        camera.view.azimuth, camera.view.elevation, camera.view.distance = 200, -12, 1.15
        command, pictures = np.array(SPEED, np.float32), []
        for _ in range(round(SETTLE / scene.dt)):
            scene.step(command)
        for _ in range(STILLS):
            camera.view.lookat[:] = scene.middle() - (0, 0, 0.06)
            scene.data.light_xpos[0] = scene.middle() + visual.LAMP
            pictures.append(_jpeg(camera.picture(scene.data)))
            for _ in range(BETWEEN):
                scene.step(command)
        camera.close()
    except RenderError as error:
        raise PlotError(str(error)) from None
    finally:
        scene.close()
    return pictures


def animation(policy: loading.LoadedPolicy) -> str:
    """Return the robot on its tour, as the data URL of a GIF.

    Raises:
        PlotError: This machine cannot render, or a package is missing.
    """
    scene = Scene(policy, 1, "train", 0, 1.0, meshes=False)
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "walk.gif"
            film(scene, path, SECONDS, SIZE)
            return "data:image/gif;base64," + base64.b64encode(path.read_bytes()).decode()
    except (RenderError, ConfigError) as error:
        raise PlotError(str(error)) from None
    finally:
        scene.close()


def _jpeg(picture: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "jpeg", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
