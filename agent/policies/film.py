"""Films of robots that walk, written frame by frame as video (.mp4) or animation (.gif)."""

from __future__ import annotations

from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from agent.errors import ConfigError
from agent.policies.rendering import Camera, Pixels
from agent.policies.scene import Scene
from envs.go2.robot import visual

FRAMES_PER_SECOND = {".mp4": 25.0, ".gif": 50 / 3}  # at a policy rate of 50 Hz every second or third step
SPACING = 0.9  # m between robots at the start
TOUR = (  # s, and the command from then on: vx m/s, vy m/s, yaw rate rad/s
    (0.0, (0.0, 0.0, 0.0)),
    (0.6, (0.5, 0.0, 0.0)),
    (2.0, (1.0, 0.0, 0.0)),
    (4.5, (0.6, 0.0, 0.8)),
    (7.0, (0.0, 0.4, 0.0)),
    (9.0, (0.5, 0.0, -0.8)),
    (11.2, (0.0, 0.0, 0.0)),
)


def on_tour(seconds: float) -> tuple[float, float, float]:
    """Return the tour's command at a time."""
    return [command for begin, command in TOUR if seconds >= begin][-1]


def film(
    scene: Scene,
    path: Path,
    seconds: float,
    size: tuple[int, int],
    command: tuple[float, float, float] | None = None,
) -> None:
    """Film the robots of a scene.

    Args:
        scene: The robots; they walk on from where they stand.
        path: File to write, .mp4 or .gif.
        seconds: Length, s.
        size: Width and height, pixels; even numbers.
        command: vx (m/s), vy (m/s) and yaw rate (rad/s) for all robots; None leads them on the tour.

    Raises:
        ConfigError: a wrong file name, an odd size, or a missing package.
        RenderError: no picture can be made on this machine.
    """
    for key, pixels in zip(("width", "height"), size, strict=True):
        if pixels % 2:
            raise ConfigError(f"{key}={pixels}: must be even")
    steps_per_frame = max(1, round(1 / (FRAMES_PER_SECOND.get(path.suffix, 25.0) * scene.dt)))
    writer = FilmWriter(path, 1 / (steps_per_frame * scene.dt))
    camera = Camera(scene.model, *size)
    view = camera.view
    view.azimuth, view.elevation = 215, -22  # degrees: from the front, and their left
    view.distance = 1.6 + 0.4 * np.sqrt(scene.robots)  # m
    frames, console = round(seconds / (steps_per_frame * scene.dt)), Console(stderr=True)
    try:
        for frame in track(range(frames), path.name, console=console):
            for step in range(frame * steps_per_frame, (frame + 1) * steps_per_frame):
                scene.step(np.array(command or on_tour(step * scene.dt), np.float32))
            view.lookat[:] = scene.middle()
            scene.data.light_xpos[0] = scene.middle() + visual.LAMP  # so that the shadows follow
            writer.add(camera.picture(scene.data))
    finally:
        writer.close()
        camera.close()


class FilmWriter:
    """A video or an animation in the making."""

    def __init__(self, path: Path, frames_per_second: float) -> None:
        """Check that the file can be written.

        Raises:
            ConfigError: the suffix is neither .mp4 nor .gif, or a package is missing.
            FileNotFoundError: there is no such directory.
        """
        if path.suffix not in FRAMES_PER_SECOND:
            raise ConfigError(f"{path}: must end in .mp4 or .gif")
        if find_spec("imageio_ffmpeg") is None:
            raise ConfigError(f"{path}: needs the package imageio-ffmpeg: pip install 'herd[play]'")
        if not path.absolute().parent.is_dir():
            raise FileNotFoundError(f"{path}: there is no such directory")
        self._path, self._rate = path, frames_per_second
        self._frames: Generator[None, Pixels | None, None] | None = None

    def add(self, picture: Pixels) -> None:
        """Append a picture `[height, width, 3]`; all have the same size, with even numbers."""
        if self._frames is None:
            self._frames = self._open(picture.shape[1], picture.shape[0])
            self._frames.send(None)
        self._frames.send(np.ascontiguousarray(picture))

    def _open(self, width: int, height: int) -> Generator[None, Pixels | None, None]:
        import imageio_ffmpeg

        path, size = str(self._path), (width, height)
        if self._path.suffix == ".gif":  # one palette for all frames, without dithering: small files
            palette = "split[a][b];[a]palettegen=max_colors=128[p];[b][p]paletteuse=dither=none"
            frames: Generator[None, Pixels | None, None] = imageio_ffmpeg.write_frames(
                path,
                size,
                fps=self._rate,
                codec="gif",
                pix_fmt_out="pal8",
                output_params=["-filter_complex", palette, "-loop", "0"],
                macro_block_size=1,
                ffmpeg_log_level="error",
            )
        else:
            frames = imageio_ffmpeg.write_frames(
                path, size, fps=self._rate, codec="libx264", quality=8, macro_block_size=2
            )
        return frames

    def close(self) -> None:
        """Complete the file."""
        if self._frames is not None:
            self._frames.close()
