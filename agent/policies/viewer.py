"""The web page of `agent.play`: several robots walk in circles; sliders and keys steer the first of them."""

from __future__ import annotations

import contextlib
import time
from typing import Literal

import numpy as np
import viser
from mjviser import ViserMujocoScene

from agent.policies.loading import Trained
from agent.policies.scene import Troop

SPACING = 1.6  # m between the robots' starting places
MAX_LATE = 0.2  # s behind real time from which we no longer try to catch up
PICTURE_INTERVAL = 1 / 30  # s between two pictures sent to the browser
TEXT_INTERVAL = 0.25  # s between two readings of the measured velocity
START = (0.5, 0.0, 0.4)  # of the sliders
KEY_STEP = 0.1  # m/s and rad/s that one stroke of a key adds
Key = Literal["I", "K", "J", "L", "U", "O", "space"]  # viser keeps WASD, QE and the arrows for its camera
KEYS: tuple[tuple[Key, str, int, int], ...] = (  # key, what it does, slider, sign
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
    """Commands [robots, 3] that lead the robots round small circles: vx m/s, vy m/s, yaw rate rad/s."""
    rng = np.random.default_rng(seed)
    commands = np.zeros((robots, 3), np.float32)
    commands[:, 0] = rng.uniform(0.4, 0.9, robots)
    commands[:, 2] = rng.uniform(0.5, 0.9, robots) * rng.choice([-1.0, 1.0], robots)
    return commands


class Page:
    """The server, its sliders and the robots."""

    def __init__(
        self,
        policy: Trained,
        robots: int,
        physics: str,
        seed: int,
        host: str,
        port: int,
        meshes: bool = True,
    ) -> None:
        """Starts the server; the page is there when this returns."""
        self.server = viser.ViserServer(host=host, port=port, verbose=False)
        self.server.gui.configure_theme(show_logo=False)
        self.commands = circles(robots, seed)
        self._new_troop = lambda: Troop(policy, robots, physics, seed, SPACING, meshes)
        self.troop = self._new_troop()
        self.reset_wanted = False
        self._add_controls(policy)
        self.scene = ViserMujocoScene(self.server, self.troop.model, num_envs=1)
        with self.server.gui.add_folder("View", expand_by_default=False):
            self.scene.create_scene_gui(camera_distance=2.5, camera_azimuth=215.0, camera_elevation=25.0)

    @property
    def address(self) -> str:
        return f"http://{self.server.get_host()}:{self.server.get_port()}"

    def _add_controls(self, policy: Trained) -> None:
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
        """Commands the steered robot to stand."""
        for slider in self.sliders:
            slider.value = 0.0  # type: ignore[misc]

    def nudge(self, slider: int, sign: int) -> None:
        """Moves a slider by one key stroke, at most to its end; sign 0 puts all to 0."""
        if sign == 0:
            self.stand()
            return
        handle = self.sliders[slider]
        value = round(handle.value + sign * KEY_STEP, 2)
        handle.value = min(max(value, handle.min), handle.max)  # type: ignore[misc]

    def step(self) -> None:
        """One policy step of every robot."""
        if self.reset_wanted:
            self.reset_wanted = False
            self.troop.close()
            self.troop = self._new_troop()
        steered = np.array([slider.value for slider in self.sliders], np.float32)
        commands = np.tile(steered, (len(self.commands), 1)) if self.together.value else self.commands.copy()
        commands[0] = steered
        self.troop.step(commands)

    def show(self) -> None:
        """Sends the robots' poses to the browsers."""
        self.scene.update_from_mjdata(self.troop.data)

    def tell(self) -> None:
        """Sends what the steered robot really does."""
        vx, vy, yaw_rate = self.troop.velocity[0]
        self.measured.content = f"measured: {vx:+.2f} m/s, {vy:+.2f} m/s, {yaw_rate:+.2f} rad/s"

    def close(self) -> None:
        self.troop.close()
        self.server.stop()


def serve(
    policy: Trained, robots: int, physics: str, seed: int, host: str, port: int, meshes: bool = True
) -> None:
    """Serves the page in real time until Ctrl-C."""
    page = Page(policy, robots, physics, seed, host, port, meshes)
    print(f"steer a robot in a browser at {page.address}; Ctrl-C ends it", flush=True)
    due = pictured = told = time.perf_counter()
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            page.step()
            now = time.perf_counter()
            if now - pictured >= PICTURE_INTERVAL:
                page.show()
                pictured = now
            if now - told >= TEXT_INTERVAL:
                page.tell()
                told = now
            due = max(due + page.troop.dt, now - MAX_LATE)
            time.sleep(max(0.0, due - time.perf_counter()))
    page.close()
