"""The looks of the Go2: shapes without contacts or mass, for pictures of one or several robots.

The shapes are primitives in geometry group 2, placed by eye around the links of `envs.go2.robot.mjcf`, in m,
or the meshes of `envs.go2.robot.menagerie`.
"""

from typing import Any

import mujoco
import numpy as np

from envs.go2.robot.constants import FOOT_RADIUS, FOOT_X, HIP_Y, LEGS, LINK, THIGH_Y
from envs.go2.robot.menagerie import Meshes
from envs.go2.robot.mjcf import make_spec

GROUP = 2  # MuJoCo's convention for visual geometry; collision geometry is in group 0
SHELL, TRIM, METAL, RUBBER = (
    (0.8, 0.82, 0.84, 1),
    (0.13, 0.14, 0.16, 1),
    (0.33, 0.35, 0.38, 1),
    (0.06, 0.06, 0.07, 1),
)
ACCENTS = (  # of the robots, in turn
    (0.10, 0.62, 0.85, 1),
    (0.95, 0.55, 0.15, 1),
    (0.30, 0.70, 0.35, 1),
    (0.80, 0.30, 0.45, 1),
    (0.55, 0.42, 0.80, 1),
    (0.90, 0.78, 0.20, 1),
)
LAMP = (3.5, 0.5, 6.0)  # m, from the middle of the picture: behind the camera
PICTURE_SIZE = (1920, 1080)  # pixels, the largest picture that can be rendered offscreen


def stage(robots: int, meshes: Meshes | None = None) -> mujoco.MjModel:
    """Build a floor with several robots. Pose them by writing `qpos` [robots * 19]; do not step it.

    Robot i has the bodies of the Go2 under the names `i/base`, `i/FL_hip`, ….

    Args:
        robots: Number of robots.
        meshes: Meshes of the real robot, in place of primitives.
    """
    scene = mujoco.MjSpec()
    scene.modelname = "stage"
    _add_surroundings(scene)
    if meshes is not None:
        meshes.add_to(scene)
    for i in range(robots):
        robot, accent = make_spec("fast"), ACCENTS[i % len(ACCENTS)]
        if meshes is None:
            add_visuals(robot, accent)
        else:
            _add_saddle(robot.body("base"), accent)
        for light in robot.lights:
            robot.delete(light)
        for key in robot.keys:
            robot.delete(key)
        for name in (
            "timestep",
            "iterations",
            "integrator",
            "solver",
        ):  # without effect, as it is not stepped; they must agree
            setattr(robot.option, name, getattr(scene.option, name))
        scene.worldbody.add_frame().attach_body(robot.body("base"), f"{i}/", "")
        if meshes is not None:
            meshes.dress(scene, f"{i}/", GROUP)
    return scene.compile()


def _add_surroundings(scene: mujoco.MjSpec) -> None:
    """Add a sky, a checker floor and, as light 0, a lamp that casts shadows."""
    scene.visual.global_.offwidth, scene.visual.global_.offheight = PICTURE_SIZE
    quality = scene.visual.quality
    quality.shadowsize, quality.numslices, quality.numstacks = 2048, 16, 8  # fast without a GPU
    scene.visual.headlight.ambient = [0.35, 0.35, 0.37]
    scene.visual.headlight.diffuse = [0.2, 0.2, 0.2]
    scene.visual.headlight.specular = [0.1, 0.1, 0.1]
    scene.stat.center, scene.stat.extent = [0, 0, 0.2], 4.0  # m, half the width of the shadow map
    scene.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.45, 0.62, 0.82],
        rgb2=[0.93, 0.95, 0.98],
        width=256,
        height=256,
    )
    scene.add_texture(
        name="checker",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.56, 0.61, 0.67],
        rgb2=[0.49, 0.54, 0.60],
        width=512,
        height=512,
    )
    floor = scene.add_material(name="floor", texrepeat=[1, 1], texuniform=True, specular=0)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "checker"
    scene.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.05], material="floor"
    )
    scene.worldbody.add_light(
        name="lamp",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=LAMP,
        dir=[-x for x in LAMP],
        diffuse=[0.6, 0.6, 0.58],
        specular=[0.3, 0.3, 0.3],
        castshadow=True,
    )


def add_visuals(spec: mujoco.MjSpec, accent: tuple[float, ...] = ACCENTS[0]) -> None:
    """Add shapes to the Go2 of `envs.go2.robot.mjcf.make_spec`; its physics does not change.

    Args:
        spec: The robot.
        accent: RGBA of the marks that distinguish robots.
    """
    _dress_base(spec.body("base"), accent)
    for name in LEGS:
        front, side = name[0] == "F", 1.0 if name[1] == "L" else -1.0
        _dress_leg(spec, name, 1.0 if front else -1.0, side, accent)


def _add_saddle(base: mujoco.MjsBody, accent: tuple[float, ...]) -> None:
    """Add a mark on the back that distinguishes robots with the same meshes."""
    _box(base, (-0.03, 0.0, 0.062), (0.06, 0.03, 0.005), accent)


def _dress_base(base: mujoco.MjsBody, accent: tuple[float, ...]) -> None:
    for side in (1.0, -1.0):  # flanks, rounded
        _capsule(base, (-0.17, 0.03 * side, 0.012), (0.17, 0.03 * side, 0.012), 0.052, SHELL)
        _capsule(base, (-0.16, 0.03 * side, -0.022), (0.16, 0.03 * side, -0.022), 0.038, TRIM)
        _capsule(base, (-0.1, 0.079 * side, 0.02), (0.1, 0.079 * side, 0.02), 0.006, accent)
    _box(base, (0.0, 0.0, 0.058), (0.14, 0.035, 0.009), TRIM)  # the back's plate
    _capsule(base, (0.215, -0.03, 0.015), (0.215, 0.03, 0.015), 0.05, SHELL)  # neck
    _capsule(base, (0.285, -0.022, 0.012), (0.285, 0.022, 0.012), 0.05, SHELL)  # head
    _ellipsoid(base, (0.312, 0.0, 0.008), (0.032, 0.056, 0.036), TRIM)  # face
    _ellipsoid(base, (0.337, 0.0, 0.018), (0.009, 0.026, 0.007), accent)  # its lamp
    _ellipsoid(base, (0.293, 0.0, -0.052), (0.036, 0.036, 0.03), TRIM)  # lidar under the chin


def _dress_leg(spec: mujoco.MjSpec, name: str, x: float, y: float, accent: tuple[float, ...]) -> None:
    """Add the shapes of a leg; x is 1 for front and -1 for rear legs, y is 1 for left and -1 for right."""
    hip, thigh, calf = (spec.body(f"{name}_{link}") for link in ("hip", "thigh", "calf"))
    _cylinder(hip, (-0.035 * x, 0, 0), (0.04 * x, 0, 0), 0.044, METAL)  # the hip's motor
    _cylinder(hip, (0, (THIGH_Y - HIP_Y) * 0.3 * y, 0), (0, (THIGH_Y - 0.02) * y, 0), 0.045, TRIM)
    _cylinder(thigh, (0, -0.022 * y, 0), (0, 0.026 * y, 0), 0.05, SHELL)  # the thigh's motor
    _cylinder(thigh, (0, 0.026 * y, 0), (0, 0.03 * y, 0), 0.026, accent)
    _capsule(thigh, (-0.006, 0, -0.03), (-0.012, 0, -0.12), 0.03, SHELL)
    _capsule(thigh, (-0.01, 0, -0.11), (0, 0, -LINK), 0.021, SHELL)
    _cylinder(thigh, (0, -0.02, -LINK), (0, 0.02, -LINK), 0.024, TRIM)  # knee
    _capsule(calf, (0, 0, 0), (0.018, 0, -0.1), 0.015, TRIM)
    _capsule(calf, (0.018, 0, -0.1), (FOOT_X, 0, -LINK), 0.012, TRIM)
    _ellipsoid(calf, (FOOT_X, 0, -LINK), (FOOT_RADIUS + 0.001,) * 3, RUBBER)


def _capsule(
    body: Any, start: tuple[float, ...], end: tuple[float, ...], radius: float, rgba: tuple[float, ...]
) -> None:
    _add(body, mujoco.mjtGeom.mjGEOM_CAPSULE, rgba, size=[radius, 0, 0], fromto=[*start, *end])


def _cylinder(
    body: Any, start: tuple[float, ...], end: tuple[float, ...], radius: float, rgba: tuple[float, ...]
) -> None:
    _add(body, mujoco.mjtGeom.mjGEOM_CYLINDER, rgba, size=[radius, 0, 0], fromto=[*start, *end])


def _box(body: Any, pos: tuple[float, ...], half_sizes: tuple[float, ...], rgba: tuple[float, ...]) -> None:
    _add(body, mujoco.mjtGeom.mjGEOM_BOX, rgba, size=half_sizes, pos=pos)


def _ellipsoid(body: Any, pos: tuple[float, ...], radii: tuple[float, ...], rgba: tuple[float, ...]) -> None:
    _add(body, mujoco.mjtGeom.mjGEOM_ELLIPSOID, rgba, size=radii, pos=pos)


def _add(body: mujoco.MjsBody, kind: mujoco.mjtGeom, rgba: tuple[float, ...], **shape: Any) -> None:
    body.add_geom(type=kind, rgba=rgba, group=GROUP, contype=0, conaffinity=0, mass=0, **shape)


def grid(robots: int, spacing: float) -> np.ndarray:
    """Return places [robots, 2] on a square grid, m; the first robot is at the origin, in front."""
    side = int(np.ceil(np.sqrt(robots)))
    rows, columns = np.divmod(np.arange(robots), side)
    # 0, 1, -1, 2, -2, …: neighbours to the left and to the right in turn
    lateral = (columns + 1) // 2 * np.where(columns % 2, 1.0, -1.0)
    return spacing * np.column_stack([-rows.astype(float), lateral])
