"""Real peers and a real broker: equal replicas, a peer that is killed, one that comes later, clear ends."""

import signal

from agent.storage import checkpoint
from rigs.experiments import experiments
from rigs.processes import wait_until


def peers_now(rows):
    return int(rows[-1]["peers"]) if rows else 0


def checksums(rows):
    """Checksum of the parameters by number of updates."""
    return {int(row["checksum_updates"]): row["checksum"] for row in rows if row["checksum"]}


def test_replicas_stay_equal_while_one_peer_is_killed_and_another_joins(tmp_path):
    with experiments(tmp_path) as group:
        address = group.broker()
        settings = (
            f"connect={address}",
            "algorithm=vtrace",
            "total_steps=1e9",
            "model.normalizer_interval=3",
        )
        peers = {name: group.peer(name, *settings) for name in ("a", "b", "c")}
        wait_until(lambda: peers_now(group.rows("c")) == 3, "three peers train together")
        wait_until(lambda: len(group.rows("c")) > 30, "the third has trained for a while")
        peers["c"].kill()
        wait_until(lambda: peers_now(group.rows("a")) == 2, "the killed peer is out")
        peers["d"] = group.peer("d", *settings)
        wait_until(lambda: peers_now(group.rows("d")) == 3, "the new peer trains with the others")
        joined = int(group.rows("d")[0]["updates"])
        assert joined > 0  # it took over the counters with the model
        wait_until(lambda: int(group.rows("d")[-1]["updates"]) > joined + 100, "training goes on")
        for name in ("a", "b", "d"):
            peers[name].signal(signal.SIGTERM)
        for name in ("a", "b", "d"):
            output = peers[name].finish(30)
            assert peers[name].returncode == 0, output
            assert "Traceback" not in output

        logs = {name: group.rows(name) for name in peers}
        models = {name: checksums(log) for name, log in logs.items()}
        for first, second in (("a", "b"), ("a", "c"), ("a", "d"), ("b", "d")):
            common = models[first].keys() & models[second].keys()
            assert len(common) >= 5, f"{first} and {second} have too few updates in common"
            assert all(models[first][u] == models[second][u] for u in common)
        assert len(set(models["a"].values())) == len(models["a"]) > 20  # the model did change
        for log in logs.values():
            for column in ("step", "updates", "model_version", "transitions"):
                values = [float(row[column]) for row in log]
                assert values == sorted(values), f"{column} went backwards"
        saved = checkpoint.load(tmp_path / "latest" / "checkpoint.safetensors")
        assert saved["learner"]["progress"]["updates"] >= max(
            int(log[-1]["updates"]) for log in logs.values()
        )


def test_two_peers_with_ppo_end_together_and_count_each_others_steps(tmp_path):
    with experiments(tmp_path) as group:
        settings = (f"connect={group.broker()}", "total_steps=6000", "group=g", "virtual_batch_size=16")
        peers = [group.peer(name, *settings) for name in ("a", "b")]
        for peer in peers:
            output = peer.finish(90)
            assert peer.returncode == 0, output
            assert "reached total_steps" in output
        logs = [group.rows(name, "g") for name in ("a", "b")]
        final = max(int(log[-1]["step"]) for log in logs)
        local = sum(int(log[-1]["local_steps"]) for log in logs)
        assert final >= 6000
        assert final <= local  # what is counted was taken; a peer's last, uncontributed steps are not
        together = [row for log in logs for row in log if float(row["gradient_batch_size_max"] or 0) > 8]
        assert together, "no update held gradients of both peers"
        for row in together:
            assert float(row["gradient_batch_size_min"]) >= 16  # the virtual batch size is a lower bound
            assert float(row["gradient_batch_size_max"]) <= 16 + 8  # at most one contribution more per peer


def test_a_peer_with_other_settings_is_refused_by_the_keys_name(tmp_path):
    with experiments(tmp_path) as group:
        address = group.broker()
        group.peer("a", f"connect={address}", "total_steps=1e9")
        wait_until(lambda: len(group.rows("a")) > 2, "the first peer trains")
        other = group.peer(
            "b", f"connect={address}", "total_steps=1e9", "algorithm.optimizer.learning_rate=1e-4"
        )
        output = other.finish(60)
        assert other.returncode == 2, output
        assert "algorithm.optimizer.learning_rate=0.0001 (there: 0.002)" in output
        shape = group.peer("c", f"connect={address}", "total_steps=1e9", "model.hidden_sizes=[8,8]")
        output = shape.finish(60)
        assert shape.returncode != 0, output
        assert output.count("Traceback") == 0
        updates = int(group.rows("a")[-1]["updates"])
        wait_until(lambda: int(group.rows("a")[-1]["updates"]) > updates + 5, "the group goes on")


def test_a_second_peer_of_a_name_is_refused_and_leaves_nothing(tmp_path):
    with experiments(tmp_path) as group:
        address = group.broker()
        group.peer("a", f"connect={address}", "total_steps=1e9")
        wait_until(lambda: len(group.rows("a")) > 2, "the first peer trains")
        second = group.peer("a", f"connect={address}", "total_steps=1e9", "savedir=elsewhere")
        output = second.finish(60)
        assert second.returncode == 2, output
        assert "we were refused: the name 'a' is the one of a live peer" in output
        assert not (tmp_path / "elsewhere").exists()


def test_without_a_broker_the_peer_says_so_in_one_line(tmp_path):
    with experiments(tmp_path) as group:
        peer = group.peer("a", "connect=127.0.0.1:9", "connect_timeout=2", "total_steps=1e9")
        output = peer.finish(60)
        assert peer.returncode == 2
        assert "connect=127.0.0.1:9: no broker answered within 2 s" in output
        assert not (tmp_path / "outputs").exists()
        assert "Traceback" not in output


def test_the_default_broker_says_where_it_listens_and_ends_quietly(tmp_path):
    with experiments(tmp_path) as group:
        group.broker()
        process = group.started[0]
        process.signal(signal.SIGINT)
        output = process.finish(60)
        assert (process.returncode, "Traceback" in output) == (0, False)
