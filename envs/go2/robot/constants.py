"""Facts about the Unitree Go2 that the task reads: names, joints, dimensions.

The numbers are those of MuJoCo Menagerie's ``unitree_go2`` (BSD-3-Clause): lengths in m, angles in rad. Legs
are ordered FL FR RL RR and joints hip, thigh, calf, so that ``qpos = [position 3, quaternion 4, joints 12]``
(19 numbers) and ``qvel = [world linear velocity 3, base-frame angular velocity 3, joint speeds 12]`` (18).
"""

import numpy as np

LEGS = ("FL", "FR", "RL", "RR")
JOINTS = ("hip", "thigh", "calf")
JOINT_NAMES = tuple(f"{leg}_{joint}_joint" for leg in LEGS for joint in JOINTS)

# rad, held by the PD controller at action 0: hips L +0.1 R -0.1, thighs front 0.8 rear 1.0, calves -1.5
DEFAULT_JOINTS = (0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5)
DEFAULT_JOINT_POS = np.array(DEFAULT_JOINTS)
FRONT_RANGE = ((-1.0472, 1.0472), (-1.5708, 3.4907), (-2.7227, -0.83776))  # rad: hip, thigh, calf
REAR_RANGE = ((-1.0472, 1.0472), (-0.5236, 4.5379), (-2.7227, -0.83776))
JOINT_RANGE = np.array(FRONT_RANGE + FRONT_RANGE + REAR_RANGE + REAR_RANGE)  # [12, 2] rad

KEYFRAME_HEIGHT = 0.27  # m, of the base frame's origin in Menagerie's standing keyframe
HIP_X, HIP_Y = 0.1934, 0.0465  # m, hip joint in the base
THIGH_Y = 0.0955  # m, thigh joint beside the hip joint
LINK = 0.213  # m, length of the thigh, and of the calf down to the foot's centre
FOOT_X, FOOT_RADIUS = -0.002, 0.022  # m, the foot sphere's centre along the calf's x axis, and its radius
