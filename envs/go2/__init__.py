"""The Unitree Go2: the robot, the terms of its task, and its batches of robots on two backends."""
