"""Meshes of the robot's looks, from a small imitation of Menagerie's files; without them, primitives."""

import mujoco
import numpy as np
import pytest

from envs.go2.robot import menagerie, mjcf, visual

TETRAHEDRON = "v 0 0 0\nv 0.1 0 0\nv 0 0.1 0\nv 0 0 0.1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
XML = """
<mujoco><compiler meshdir="assets"/>
  <default><default class="visual"><geom type="mesh" group="2"/></default></default>
  <asset>
    <material name="gray" rgba="0.5 0.5 0.5 1"/>
    <mesh file="base_0.obj"/> <mesh name="shin" file="calf.obj"/> <mesh file="unused.obj"/>
  </asset>
  <worldbody><body name="base"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
    <geom class="visual" mesh="base_0" material="gray"/> <geom type="sphere" size="0.1"/>
    <body name="FL_calf"><geom class="visual" mesh="shin" pos="0 0 -0.2" quat="0 1 0 0"/></body>
  </body></worldbody>
</mujoco>"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    pytest.importorskip("mujoco_menagerie", reason="needs the package mujoco-menagerie")
    assets = tmp_path / "unitree_go2" / "assets"
    assets.mkdir(parents=True)
    for name in ("base_0", "calf", "unused"):
        (assets / f"{name}.obj").write_text(TETRAHEDRON)
    (tmp_path / "unitree_go2" / "go2.xml").write_text(XML)
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    return tmp_path


def test_every_robot_wears_the_meshes_and_its_physics_stays(root):
    meshes = menagerie.load()
    assert sorted(meshes.files) == ["base_0", "shin"]
    assert [(part.body, part.mesh) for part in meshes.parts] == [("base", "base_0"), ("FL_calf", "shin")]
    assert meshes.parts[0].rgba == (0.5, 0.5, 0.5, 1.0) and meshes.parts[1].pos == (0.0, 0.0, -0.2)
    stage = visual.stage(2, meshes)
    worn = np.flatnonzero(stage.geom_type == mujoco.mjtGeom.mjGEOM_MESH)
    assert [stage.body(stage.geom_bodyid[i]).name for i in worn] == [
        "0/base", "0/FL_calf", "1/base", "1/FL_calf",
    ]  # fmt: skip
    assert stage.nmesh == 2  # shared by the robots
    assert set(stage.geom_contype[worn]) == {0} and set(stage.geom_group[worn]) == {visual.GROUP}
    np.testing.assert_allclose(stage.body_mass.sum(), 2 * mjcf.build_model("fast").body_mass.sum())
    assert stage.nq == 2 * 19


def test_nothing_is_downloaded_when_the_files_are_not_there(tmp_path, monkeypatch):
    pytest.importorskip("mujoco_menagerie", reason="needs the package mujoco-menagerie")
    monkeypatch.delenv("MENAGERIE_ROOT", raising=False)
    monkeypatch.setenv("MENAGERIE_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("asked the network"))
    assert menagerie.load() is None
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))  # a directory without this robot
    assert menagerie.load() is None


def test_without_the_package_there_are_none(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mujoco_menagerie", None)
    assert menagerie.load() is None
