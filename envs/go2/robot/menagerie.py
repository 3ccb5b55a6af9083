"""Meshes of the real Go2: those of MuJoCo Menagerie's `unitree_go2`, if they are on this machine.

The package `mujoco-menagerie` (30 MB, BSD-3-Clause) finds them, once they are downloaded:

    pip install mujoco-menagerie && python -m mujoco_menagerie prefetch unitree_go2

or in a checkout of Menagerie at `MENAGERIE_ROOT=DIRECTORY`. This module never downloads anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mujoco

NAME, ENTRY = "unitree_go2", "go2"
MESH = mujoco.mjtGeom.mjGEOM_MESH


@dataclass(frozen=True)
class Part:
    """One mesh on one body: its place in the body's frame (m, unit quaternion) and its colour (RGBA)."""

    body: str
    mesh: str
    pos: tuple[float, ...]
    quat: tuple[float, ...]
    rgba: tuple[float, ...]


@dataclass(frozen=True)
class Meshes:
    """The visible parts of one robot."""

    files: dict[str, str]
    parts: Sequence[Part]

    def add_to(self, scene: mujoco.MjSpec) -> None:
        """Add the meshes to a scene, once for all its robots."""
        for name, file in self.files.items():
            scene.add_mesh(name=name, file=file)

    def dress(self, scene: mujoco.MjSpec, prefix: str, group: int) -> None:
        """Add the parts to the robot whose body names start with `prefix`; its physics does not change."""
        for part in self.parts:
            scene.body(prefix + part.body).add_geom(
                type=MESH,
                meshname=part.mesh,
                pos=part.pos,
                quat=part.quat,
                rgba=part.rgba,
                group=group,
                contype=0,
                conaffinity=0,
                mass=0,
            )


def directory() -> Path | None:
    """Return the directory of Menagerie's Go2; None without the package or the files."""
    try:
        import mujoco_menagerie
    except ImportError:
        return None
    here, robot = mujoco_menagerie.Cache(), mujoco_menagerie.get(NAME)
    if here.root is None and not here.is_cached(robot):
        return None
    try:
        return Path(robot.path(here))
    except mujoco_menagerie.MenagerieError:  # MENAGERIE_ROOT without this robot
        return None


def load() -> Meshes | None:
    """Return the meshes; None if they are not on this machine."""
    found = directory()
    return None if found is None else _read(found)


@cache
def _read(found: Path) -> Meshes:
    spec = mujoco.MjSpec.from_file(str(found / f"{ENTRY}.xml"))
    folder = found / spec.meshdir
    colors = {material.name: tuple(material.rgba) for material in spec.materials}
    parts = [
        Part(
            body.name,
            geom.meshname,
            tuple(geom.pos),
            tuple(geom.quat),
            colors.get(geom.material, (1, 1, 1, 1)),
        )
        for body in spec.bodies
        for geom in body.geoms
        if geom.type == MESH
    ]
    used = {part.mesh for part in parts}
    files = {
        mesh.name or Path(mesh.file).stem: str(folder / mesh.file)
        for mesh in spec.meshes
        if (mesh.name or Path(mesh.file).stem) in used
    }
    return Meshes(files, parts)
