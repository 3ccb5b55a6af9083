"""Pictures of a MuJoCo model without a window, and films of them.

OpenGL needs a backend, `MUJOCO_GL=glfw|egl|osmesa`. Without a display we choose OSMesa (on the CPU) where it
is installed and otherwise EGL (needs a graphics card's driver). `mujoco.Renderer` would fix the choice when
MuJoCo is imported; here it is made when the first picture is taken.
"""

from __future__ import annotations

import ctypes.util
import importlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from agent.errors import ConfigError, RenderError

BACKENDS = ("glfw", "egl", "osmesa")
HINT = "OSMesa renders without display and driver; on Debian or Ubuntu: apt-get install libosmesa6"


def backend() -> str:
    """The OpenGL backend to use.

    Raises:
        RenderError: there is none; says what to install.
    """
    chosen = os.environ.get("MUJOCO_GL", "").lower()
    if chosen:
        if chosen not in BACKENDS:
            raise RenderError(f"MUJOCO_GL={chosen}: must be one of {', '.join(BACKENDS)}")
        return chosen
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return "glfw"
    for name, library in (("osmesa", "OSMesa"), ("egl", "EGL")):
        if ctypes.util.find_library(library):
            return name
    raise RenderError(f"there is no display to render on. {HINT}")


class Camera:
    """Takes pictures of one model.

    Attributes:
        view: Where it looks from; a `mujoco.MjvCamera`.
    """

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        """Prepares pictures of `width` by `height` pixels.

        Raises:
            RenderError: no picture can be made on this machine.
        """
        name = backend()
        try:
            self._context = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
            self._context.make_current()
            self._renderer = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except Exception as error:  # whatever a driver or PyOpenGL raises
            reason = " ".join(str(error).split())
            raise RenderError(f"MUJOCO_GL={name} does not work here ({reason}). {HINT}") from None
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._renderer)
        self._model = model
        self._scene = mujoco.MjvScene(model, maxgeom=2 * model.ngeom)
        self._options, self.view = mujoco.MjvOption(), mujoco.MjvCamera()
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)

    def picture(self, data: mujoco.MjData) -> np.ndarray:
        """The model as it stands [height, width, 3] uint8, red, green and blue."""
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self._model, data, self._options, None, self.view, everything, self._scene)
        mujoco.mjr_render(self._rectangle, self._scene, self._renderer)
        mujoco.mjr_readPixels(self._pixels, None, self._rectangle, self._renderer)
        return self._pixels[::-1].copy()  # OpenGL begins at the bottom

    def close(self) -> None:
        """Frees the graphics memory."""
        self._renderer.free()
        self._context.free()


class Film:
    """A video (.mp4) or an animation (.gif), written frame by frame."""

    def __init__(self, path: Path, frames_per_second: float) -> None:
        """Opens the file.

        Raises:
            ConfigError: the suffix is neither .mp4 nor .gif, or a package is missing.
            FileNotFoundError: there is no such directory.
        """
        if path.suffix not in (".mp4", ".gif"):
            raise ConfigError(f"{path}: must end in .mp4 or .gif")
        if find_spec("imageio_ffmpeg") is None:
            raise ConfigError(f"{path}: needs the package imageio-ffmpeg: pip install 'herd[play]'")
        if not path.absolute().parent.is_dir():
            raise FileNotFoundError(f"{path}: there is no such directory")
        self._path, self._rate = path, frames_per_second
        self._writer: Any = None

    def add(self, picture: np.ndarray) -> None:
        """Appends a picture [height, width, 3] uint8; all must have the same size, with even numbers."""
        if self._writer is None:
            self._writer = self._open(picture.shape[1], picture.shape[0])
            self._writer.send(None)
        self._writer.send(np.ascontiguousarray(picture))

    def _open(self, width: int, height: int) -> Any:
        import imageio_ffmpeg

        if self._path.suffix == ".gif":  # one palette for all frames, without dithering: small files
            palette = "split[a][b];[a]palettegen=max_colors=128[p];[b][p]paletteuse=dither=none"
            parameters, codec = ["-filter_complex", palette, "-loop", "0"], "gif"
            return imageio_ffmpeg.write_frames(
                str(self._path),
                (width, height),
                fps=self._rate,
                codec=codec,
                pix_fmt_out="pal8",
                output_params=parameters,
                macro_block_size=1,
                ffmpeg_log_level="error",
            )
        return imageio_ffmpeg.write_frames(
            str(self._path), (width, height), fps=self._rate, codec="libx264", quality=8, macro_block_size=2
        )

    def close(self) -> None:
        """Completes the file."""
        if self._writer is not None:
            self._writer.close()
