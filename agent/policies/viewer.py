"""The viewer of `agent.play` in a browser: robots walk in circles; sliders and keys steer the first one."""

from __future__ import annotations

import contextlib
import time
from typing import Literal

import numpy as np
import viser
from mjviser import ViserMujocoScene

from agent.policies.loading import LoadedPolicy
from agent.policies.scene import Scene

SPACING = 1.6  # m between the robots' starting places
MAX_LATE = 0.2  # s behind real time beyond which the simulation does not try to catch up
PICTURE_INTERVAL = 1 / 30  # s between two pictures sent to the browser
TEXT_INTERVAL = 0.25  # s between two readings of the measured velocity
START = (0.5, 0.0, 0.4)  # of the sliders
KEY_STEP = 0.1  # m/s and rad/s that one stroke of a key adds
Key = Literal["I", "K", "J", "L", "U", "O", "space"]  # viser keeps WASD, QE and the arrows for its camera
KEYS: tuple[tuple[Key, str, int, int], ...] = (  # key, label, slider, sign
    ("I", "Steer forwards", 0, 1),
    ("K", "Steer backwards", 0, -1),
    ("J", "Turn left", 2, 1),
    ("L", "Turn right", 2, -1),
    ("U", "Step left", 1, 1),
    ("O", "Step right", 1, -1),
    ("space", "Stand still", 0, 0),
)
KEY_HELP = "Keys: **I K** drive · **J L** turn · **U O** sideways · **space** stand still"
RANGES = {"vx": (-1.0, 1.0), "vy": (-0.5, 0.5), "yaw rate": (-1.0, 1.0)}  # m/s, m/s, rad/s


def circles(robots: int, seed: int) -> np.ndarray:
    """Return commands [robots, 3] that lead round small circles: vx m/s, vy m/s, yaw rate rad/s."""
    rng = np.random.default_rng(seed)
    commands = np.zeros((robots, 3), np.float32)
    commands[:, 0] = rng.uniform(0.4, 0.9, robots)
    commands[:, 2] = rng.uniform(0.5, 0.9, robots) * rng.choice([-1.0, 1.0], robots)
    return commands


class Viewer:
    """A web server that shows the robots, and the controls that steer one of them."""

    def __init__(
        self,
        policy: LoadedPolicy,
        robots: int,
        physics: str,
        seed: int,
        host: str,
        port: int,
        meshes: bool = True,
    ) -> None:
        """Start the server; the page can be opened when this returns."""
        self.server = viser.ViserServer(host=host, port=port, verbose=False)
        self.server.gui.configure_theme(show_logo=False)
        self.commands = circles(robots, seed)
        self._new_scene = lambda: Scene(policy, robots, physics, seed, SPACING, meshes)
        self.scene = self._new_scene()
        self.reset_wanted = False
        self._add_controls(policy)
        self.display = ViserMujocoScene(self.server, self.scene.model, num_envs=1)
        with self.server.gui.add_folder("View", expand_by_default=False):
            self.display.create_scene_gui(camera_distance=2.5, camera_azimuth=215.0, camera_elevation=25.0)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{self.server.get_host()}:{self.server.get_port()}"

    def _add_controls(self, policy: LoadedPolicy) -> None:
        gui = self.server.gui
        gui.add_markdown(f"**{policy.env.name}**, {policy.step:,} steps of training")
        with gui.add_folder("Steer the blue robot"):
            self.sliders = [
                gui.add_slider(name, min=low, max=high, step=0.05, initial_value=start)
                for (name, (low, high)), start in zip(RANGES.items(), START, strict=True)
            ]
            stand = gui.add_button("Stand still")
            gui.add_markdown(KEY_HELP)
            self.together = gui.add_checkbox("All robots follow", initial_value=False)
            self.measured = gui.add_markdown("")
        reset = gui.add_button("Back to the start")

        stand.on_click(lambda _: self.stand())
        for key in KEYS:
            self._add_key(*key)

        @reset.on_click
        def _(_: viser.GuiEvent) -> None:
            self.reset_wanted = True

    def _add_key(self, key: Key, label: str, slider: int, sign: int) -> None:
        @self.server.gui.add_command(label, hotkey=key).on_trigger
        async def _(_: viser.CommandEvent) -> None:  # async: in order, in the server's one loop
            self.nudge(slider, sign)

    def stand(self) -> None:
        """Command the steered robot to stand."""
        for slider in self.sliders:
            slider.value = 0.0  # type: ignore[misc]

    def nudge(self, slider: int, sign: int) -> None:
        """Move a slider by one key stroke, at most to its end; sign 0 sets all to 0."""
        if sign == 0:
            self.stand()
            return
        handle = self.sliders[slider]
        value = round(handle.value + sign * KEY_STEP, 2)
        handle.value = min(max(value, handle.min), handle.max)  # type: ignore[misc]

    def step(self) -> None:
        """Take one policy step with every robot."""
        if self.reset_wanted:
            self.reset_wanted = False
            self.scene.close()
            self.scene = self._new_scene()
        steered = np.array([slider.value for slider in self.sliders], np.float32)
        commands = np.tile(steered, (len(self.commands), 1)) if self.together.value else self.commands.copy()
        commands[0] = steered
        self.scene.step(commands)

    def show(self) -> None:
        """Send the robots' poses to the browsers."""
        self.display.update_from_mjdata(self.scene.data)

    def show_velocity(self) -> None:
        """Send the measured velocity of the steered robot to the browsers."""
        vx, vy, yaw_rate = self.scene.velocity[0]
        self.measured.content = f"measured: {vx:+.2f} m/s, {vy:+.2f} m/s, {yaw_rate:+.2f} rad/s"

    def close(self) -> None:
        """Stop the robots and the server."""
        self.scene.close()
        self.server.stop()


def serve(
    policy: LoadedPolicy, robots: int, physics: str, seed: int, host: str, port: int, meshes: bool = True
) -> None:
    """Show the robots in real time until Ctrl-C."""
    viewer = Viewer(policy, robots, physics, seed, host, port, meshes)
    print(f"steer a robot in a browser at {viewer.address}; Ctrl-C ends it", flush=True)
    due = pictured = told = time.perf_counter()
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            viewer.step()
            now = time.perf_counter()
            if now - pictured >= PICTURE_INTERVAL:
                viewer.show()
                pictured = now
            if now - told >= TEXT_INTERVAL:
                viewer.show_velocity()
                told = now
            due = max(due + viewer.scene.dt, now - MAX_LATE)
            time.sleep(max(0.0, due - time.perf_counter()))
    viewer.close()
