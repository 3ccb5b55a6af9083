"""Domain randomisation: ranges, one draw per robot, and targets that arrive late."""

import numpy as np

from envs.go2.mjbatch.batch import Go2Batch
from rigs.go2_tasks import RANDOMISED, randomised, task


def test_randomisation_is_per_robot_and_in_range():
    config = task("go2", **RANDOMISED, randomization__action_delay=[0.0, 0.02])
    env = Go2Batch(config, 300, seed=0, num_threads=1)
    saved = env.state_dict()
    delay = (saved["record_delay"] * 0.005, 0.0, 0.02)
    for values, low, high in [*randomised(saved, env.mj_model), delay]:
        assert low <= values.min() and values.max() <= high
        assert values.std() > 0.2 * (high - low)
    np.testing.assert_array_equal(
        saved["model.actuator_gainprm"][:, :, 0], -saved["model.actuator_biasprm"][:, :, 1]
    )


def test_delay_holds_the_old_targets():
    """A delay of all four physics steps is the prompt robot's policy one step late, also over time-outs."""
    quiet = dict(randomization__friction=None, episode__stagger=False, episode__length=0.1)
    late = Go2Batch(task("go2", randomization__action_delay=[0.02, 0.02], **quiet), 3, seed=0, num_threads=1)
    prompt = Go2Batch(task("go2", **quiet), 3, seed=0, num_threads=1)
    start = prompt.state_dict()
    late.load_state_dict({**late.state_dict(), "rows": start["rows"], "rng": start["rng"]})
    actions = (0.3 * np.random.default_rng(0).normal(size=(12, 3, 12))).astype(np.float32)
    earlier = np.zeros((3, 12), np.float32)
    for action in actions:
        ended = late.step(action).truncated
        prompt.step(earlier)
        earlier = np.where(ended[:, None], np.float32(0), action)
        np.testing.assert_array_equal(late.state.qpos, prompt.state.qpos)
    assert late.counters.timeouts == 6
