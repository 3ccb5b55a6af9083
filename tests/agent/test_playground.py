"""The command that writes the robot for MuJoCo Playground."""

import mujoco

from agent.playground import main


def test_the_command_writes_a_model(tmp_path, capsys):
    out = tmp_path / "robot.xml"
    assert main([f"out={out}"]) == 0
    assert mujoco.MjModel.from_xml_path(str(out)).nu == 12
    assert main(["task=go3"]) == 2 and "go2_unitree" in capsys.readouterr().err
