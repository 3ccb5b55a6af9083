"""The parent's side of the worker processes: shared memory and failures."""

import os
import signal

import numpy as np
import pytest

from moolib import RpcError
from moolib.envpool.env_memory import ACTION, Field
from moolib.envpool.env_stepper import EnvStepper
from rigs import example_envs as envs


@pytest.fixture
def stepper():
    """Make steppers of four environments in two processes that have made their first step."""
    made = []

    def make(create_env):
        made.append(EnvStepper(create_env, 2, 4, 1, timeout=20))
        made[-1].arrays = made[-1].begin(*made[-1].spec())[0]
        made[-1].step(0)
        made[-1].wait(0)
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_the_processes_report_the_form_of_observations_and_actions():
    stepper = EnvStepper(envs.Counter, 2, 4, 1, timeout=20)
    observation, action = stepper.spec()
    assert observation == {"state": Field("<i4", (2,))} and action == Field("<i8", ())
    stepper.close()


def test_actions_and_results_are_in_shared_memory(stepper):
    one = stepper(envs.Counter)
    assert one.arrays["state"].tolist() == [[0, 0]] * 4
    one.arrays[ACTION][:] = [5, 6, 7, 8]
    one.step(0)
    one.wait(0)
    assert not one.busy(0)
    assert one.arrays["state"].tolist() == [[1, 5], [1, 6], [1, 7], [1, 8]]
    assert np.array_equal(one.arrays["reward"], [5, 6, 7, 8])


def test_a_step_that_takes_too_long_is_a_failure(stepper):
    one = stepper(envs.Trouble)
    one.timeout = 0.5
    one.arrays[ACTION][:] = [0, 0, 0, 3]
    one.step(0)
    with pytest.raises(RpcError, match=r"no answer within 0.5 s from environment process .*rows 2 to 3"):
        one.wait(0)


def test_a_worker_killed_between_two_steps(stepper):
    one = stepper(envs.Counter)
    os.kill(one.pids()[0], signal.SIGTERM)
    os.waitid(os.P_PID, one.pids()[0], os.WEXITED | os.WNOWAIT)
    one.step(0)
    with pytest.raises(RpcError, match=r"rows 0 to 1.* was killed by SIGTERM"):
        one.wait(0)


def test_a_stopped_worker_is_killed_at_the_end(stepper):
    one = stepper(envs.Counter)
    pids = one.pids()
    os.kill(pids[0], signal.SIGSTOP)
    one.close()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
