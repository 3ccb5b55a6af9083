"""Pictures of a MuJoCo model without a window.

OpenGL needs a backend, `MUJOCO_GL=glfw|egl|osmesa`. Without a display this module chooses OSMesa (on the CPU)
where it is installed and otherwise EGL (needs a GPU's driver). `mujoco.Renderer` would fix the choice when
MuJoCo is imported; this module makes it when it takes the first picture.
"""

from __future__ import annotations

import ctypes.util
import importlib
import os
import sys

import mujoco
import numpy as np
from numpy.typing import NDArray

from agent.errors import RenderError

Pixels = NDArray[np.uint8]  # [height, width, 3]: red, green and blue

BACKENDS = ("glfw", "egl", "osmesa")
HINT = "OSMesa renders without display and driver; on Debian or Ubuntu: apt-get install libosmesa6"


def backend() -> str:
    """Return the OpenGL backend to use.

    Raises:
        RenderError: there is none; the message says what to install.
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
    """A camera on one model.

    Attributes:
        view: The camera's place and direction, a `mujoco.MjvCamera`.
    """

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        """Prepare pictures of `width` by `height` pixels.

        Raises:
            RenderError: no picture can be made on this machine.
        """
        name = backend()
        try:
            self._context = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
            self._context.make_current()
            self._renderer = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except Exception as error:  # drivers and PyOpenGL raise anything
            reason = " ".join(str(error).split())
            raise RenderError(f"MUJOCO_GL={name} does not work here ({reason}). {HINT}") from None
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._renderer)
        self._model = model
        self._scene = mujoco.MjvScene(model, maxgeom=2 * model.ngeom)
        self._options, self.view = mujoco.MjvOption(), mujoco.MjvCamera()
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)

    def picture(self, data: mujoco.MjData) -> Pixels:
        """Take a picture of the model as it stands."""
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self._model, data, self._options, None, self.view, everything, self._scene)
        mujoco.mjr_render(self._rectangle, self._scene, self._renderer)
        mujoco.mjr_readPixels(self._pixels, None, self._rectangle, self._renderer)
        return self._pixels[::-1].copy()  # OpenGL begins at the bottom

    def close(self) -> None:
        """Free the graphics memory."""
        self._renderer.free()
        self._context.free()
