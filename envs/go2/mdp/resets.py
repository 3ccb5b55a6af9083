"""Start states of episodes: the standing pose with noise, on the ground."""

from envs.arrays import Array, Random, constant, namespace, zeros
from envs.config import ResetConfig
from envs.go2.robot.constants import DEFAULT_JOINTS, FOOT_RADIUS, FOOT_X, LINK, THIGH_Y


def draw(rng: Random[Array], n: int, config: ResetConfig) -> tuple[Array, Array]:
    """Draw ``n`` start states.

    Returns:
        Positions [n, 19] and velocities [n, 18], laid out as in ``envs.go2.robot.constants``.
    """
    joints = rng.uniform(*config.joint_scale, (n, 12))
    joints *= constant(DEFAULT_JOINTS, joints)
    joints += rng.uniform(-config.joint_noise, config.joint_noise, (n, 12))
    qpos, qvel = zeros((n, 19), joints), zeros((n, 18), joints)
    qpos[:, 2] = standing_height(joints) if config.height is None else config.height
    qpos[:, 3] = 1.0
    qpos[:, 7:] = joints
    qvel[:, :6] = rng.uniform(-config.base_velocity, config.base_velocity, (n, 6))
    return qpos, qvel


def standing_height(joint_pos: Array) -> Array:
    """Return the height of a level base whose lowest foot touches the floor.

    Args:
        joint_pos: Joint angles [B, 12], rad.

    Returns:
        Height of the base frame's origin [B], m.
    """
    xp, legs = namespace(joint_pos), joint_pos.reshape(-1, 4, 3)
    hip, thigh, calf = legs[:, :, 0], legs[:, :, 1], legs[:, :, 2]
    shank = thigh + calf
    down = LINK * xp.cos(thigh) + LINK * xp.cos(shank) + FOOT_X * xp.sin(shank)  # along the leg's plane
    sideways = THIGH_Y * constant((1.0, -1.0, 1.0, -1.0), joint_pos)
    return xp.amax(down * xp.cos(hip) - sideways * xp.sin(hip), 1) + FOOT_RADIUS
