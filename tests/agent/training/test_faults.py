"""What a run suffers beside the loss of peers: full disks, lost updates, gradients that are not finite."""

import resource
import signal

from agent.storage import checkpoint
from agent.training.learner import MAX_DROPPED_IN_A_ROW
from rigs.experiments import TINY, experiments
from rigs.processes import wait_until

COUNTERS = ("time", "step", "updates", "model_version", "transitions")
WITH_NAN = """
import agent.training.peer, agent.experiment
make_loss, calls = agent.training.peer.make_loss, [0]
def make_bad_loss(*arguments):
    loss = make_loss(*arguments)
    def bad(minibatch):
        calls[0] += 1
        value, metrics = loss(minibatch)
        return value * (float("nan") if calls[0] > 10 else 1.0), metrics
    return bad
agent.training.peer.make_loss = make_bad_loss
agent.experiment.main()
"""


def test_a_run_of_gradients_that_are_not_finite_stops_all_peers_alike(tmp_path):
    with experiments(tmp_path) as group:
        settings = (f"connect={group.broker()}", "total_steps=1e9", "group=g", "virtual_batch_size=16")
        peers = {"good": group.peer("good", *settings)}
        wait_until(lambda: len(group.rows("good", "g")) > 2, "the good one trains")
        peers["bad"] = group.run("-c", WITH_NAN, *TINY, *settings, "local_name=bad")
        for name, peer in peers.items():
            output = peer.finish(60)
            assert peer.returncode == 1 and "Traceback" not in output, output
            last = output.splitlines()[-1]
            path = tmp_path / "outputs" / "herd" / "g" / "peers" / name / "last-batch.safetensors"
            assert f"the gradients of the last {MAX_DROPPED_IN_A_ROW} updates were not finite" in last
            assert last.endswith(f"training stops; the last batch is in {path}")
            dump = checkpoint.load(path)
            assert dump["progress"]["dropped_in_a_row"] == MAX_DROPPED_IN_A_ROW
            assert dump["batch"]["obs"].shape[:2] == (6, 8)
            peers[name] = dump["progress"]["updates"]
        assert peers["good"] == peers["bad"]


def test_training_goes_on_where_files_cannot_be_written(tmp_path):
    def small_files_only():
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, 16_000))  # bytes: no checkpoint

    with experiments(tmp_path) as group:
        witness = (
            f"connect={group.broker()}",
            "total_steps=1e9",
            "checkpoint_interval=1e-3",
            "log_interval=0.1",
        )
        first = group.peer("witness", *witness)
        wait_until(lambda: len(group.rows("witness")) > 2, "the witness trains")
        peer = group.run(
            "-m", "agent.experiment", *TINY, *witness, "local_name=zzz", preexec_fn=small_files_only
        )
        wait_until(lambda: len(group.rows("zzz")) > 2, "the other one trains")
        first.kill()  # so that the other one has to write the checkpoints
        rows = len(group.rows("zzz"))
        wait_until(lambda: len(group.rows("zzz")) >= rows + 2, "it goes on alone")
        peer.signal(signal.SIGTERM)
        output = peer.finish(30)
    assert peer.returncode == 1 and "Traceback" not in output, output
    assert "checkpoint.safetensors: cannot write the checkpoint: File too large; training goes on" in output
    assert output.splitlines()[-1].endswith("cannot write the checkpoint: File too large")


def test_killed_all_at_once_and_resumed_by_more_and_by_fewer(tmp_path):
    with experiments(tmp_path) as group:
        settings = (f"connect={group.broker()}", "total_steps=1e9", "checkpoint_interval=0.5")
        saved = tmp_path / "outputs" / "herd" / "default" / "checkpoint.safetensors"

        def train(names: str) -> str:
            """Until all have learned together more than is saved; then they are killed. What they said."""
            before = {name: len(group.rows(name)) for name in names}
            peers = [group.peer(name, *settings) for name in names]

            def together(name: str) -> bool:
                new = group.rows(name)[before[name] :]
                return len(new) > 10 and new[-1]["peers"] == str(len(names))

            wait_until(lambda: all(map(together, names)) and saved.exists(), f"{names} train")
            kept = checkpoint.load(saved)["learner"]["progress"]["updates"]
            wait_until(lambda: int(group.rows(names[-1])[-1]["updates"]) > kept + 5, "more is learned")
            for peer in peers:
                peer.kill()
            return "".join(peer.output for peer in peers)

        assert "resuming" not in train("a")
        assert "resuming" in train("ab")
        said = train("b")
        assert "resuming" in said and "took back" in said
        for name in "ab":
            for counter in COUNTERS:
                values = [float(row[counter]) for row in group.rows(name)]
                assert values == sorted(values), f"{counter} of {name} went backwards"
