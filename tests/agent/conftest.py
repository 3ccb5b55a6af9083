"""What tests of pictures and films share."""

import pytest

from agent.errors import RenderError
from agent.policies.rendering import Camera
from envs.go2.robot import visual


@pytest.fixture(scope="session")
def opengl():
    """Skip a test where no picture can be made."""
    try:
        Camera(visual.stage(1), 64, 64).close()
    except RenderError as error:
        pytest.skip(str(error))
