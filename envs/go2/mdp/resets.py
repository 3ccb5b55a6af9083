"""Start states of episodes: the standing pose with noise, on the ground."""

from envs.config import ResetConfig
from envs.go2.arrays import Array, Random, constant, zeros
from envs.go2.model import DEFAULT_JOINTS, standing_height


def draw(rng: Random, n: int, config: ResetConfig) -> tuple[Array, Array]:
    """Draws ``n`` start states.

    Returns:
        Positions [n, 19] and velocities [n, 18], as in ``envs.go2.model``.
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
