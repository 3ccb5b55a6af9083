"""The declared columns of logs.tsv."""

from agent.logs.columns import columns, describe


def test_a_task_has_a_column_for_each_of_its_reward_terms():
    names = [column.name for column in columns(("pose", "gait"))]
    assert len(names) == len(set(names)) == len(columns(())) + 2
    assert names.index("reward_gait") == names.index("reward_pose") + 1


def test_a_column_is_described_by_its_name():
    assert describe("time") == ("s", "training time, over all restarts")
    assert describe("reward_gait") == ("per step", "group: mean of the weighted reward term gait")
    assert describe("no_such_column") == ("", "")
