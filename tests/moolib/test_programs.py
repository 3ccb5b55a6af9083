"""Complete programs: that of docs/moolib.md, and some in the style of the original."""

import asyncio
import re
import threading
from pathlib import Path

import torch

import moolib
from rigs.processes import Broker, Process, environment

DOCS = Path(__file__).parents[2] / "docs" / "moolib.md"


def test_the_program_of_the_documentation(tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    assert program.count("\n") <= 65 and len([line for line in program.splitlines() if line]) <= 60
    path = tmp_path / "cartpole.py"
    path.write_text(program)
    broker = Broker()
    peers = [Process(str(path), broker.address, env=environment(OMP_NUM_THREADS="1")) for _ in range(2)]
    for peer in peers:
        assert peer.wait() == 0, peer.errors
        assert re.fullmatch(r"6\d updates, [12] peers", peer.lines[-1])
    assert broker.end() == 0


class Count:
    """An environment with the older API that counts; episodes have 5 steps."""

    def reset(self):
        self.steps = 0
        return torch.zeros(3).numpy()

    def step(self, action):
        self.steps += 1
        return torch.full((3,), float(self.steps)).numpy(), 1.0, self.steps == 5, {}


def test_a_program_written_for_the_original():
    """The loop of its agents: keyword arguments, positional `op`, a cat batcher along dim 1, skips."""
    broker = moolib.Broker()
    broker.set_name("broker")
    address = broker.listen("127.0.0.1:0")
    broker.update()
    moolib.set_log_level("error")
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)
    state = {"optimizer": optimizer, "scheduler": scheduler}
    rpc = moolib.Rpc()
    rpc.set_name(moolib.create_uid())
    rpc.connect(address)
    group = moolib.Group(rpc, name="experiment")
    accumulator = moolib.Accumulator(
        group=group, name="model", parameters=model.parameters(), buffers=model.buffers()
    )
    accumulator.set_virtual_batch_size(8)
    batcher = moolib.Batcher(4, device="cpu", dim=1)
    envs = moolib.EnvPool(Count, num_processes=2, batch_size=2, num_batches=2)
    actions = [torch.zeros(2, dtype=torch.int64) for _ in range(2)]
    unrolls, index, steps, total = [[], []], 0, 0, None
    while steps < 5:
        group.update()
        accumulator.update()
        if accumulator.wants_state():
            accumulator.set_state({name: part.state_dict() for name, part in state.items()})
        if accumulator.has_new_state():
            for name, values in accumulator.state().items():
                state[name].load_state_dict(values)
        if not accumulator.connected():
            continue
        if accumulator.has_gradients():
            stats = accumulator.get_gradient_stats()
            assert (stats["num_gradients"], stats["batch_size"]) == (2, 8)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 40.0)
            optimizer.step()
            scheduler.step()
            accumulator.zero_gradients()
            steps += 1
        elif not batcher.empty() and accumulator.wants_gradients():
            batch = batcher.get()
            assert batch["state"].shape == (6, 4, 3) and batch["done"].sum() > 0
            optimizer.zero_grad()
            model(batch["state"]).pow(2).mean().backward()
            accumulator.reduce_gradients(4)
        else:
            if accumulator.wants_gradients():
                accumulator.skip_gradients()
            outputs = envs.step(index, actions[index]).result()
            unrolls[index].append({key: value.clone() for key, value in outputs.items()})
            if len(unrolls[index]) == 6:
                batcher.cat({key: torch.stack([s[key] for s in unrolls[index]]) for key in outputs})
                unrolls[index] = unrolls[index][-1:]
            index = (index + 1) % 2
        if total is None and group.active():
            total = group.all_reduce("stats", {"steps": 1}, lambda a, b: {"steps": a["steps"] + b["steps"]})
    assert accumulator.model_version() == 5 and accumulator.is_leader()
    assert total.result(timeout=5) == {"steps": 1}


def test_a_server_that_takes_batches_of_calls_from_a_queue():
    server = moolib.Rpc()
    server.set_name("server")
    address = server.listen("127.0.0.1:0")
    queue = server.define_queue("act", batch_size=64, dynamic_batching=True)

    async def serve():
        served = 0
        while served < 40:
            return_callback, args, kwargs = await queue
            (observation,) = args
            assert observation.shape[1:] == (3,) and kwargs["scale"] == (2,) * len(observation)
            served += len(observation)
            return_callback({"action": observation.sum(1) * 2, "index": tuple(range(len(observation)))})

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    client = moolib.Rpc()
    client.set_name("client")
    client.connect(address)

    async def act():
        calls = [client.async_("server", "act", torch.full((3,), float(i)), scale=2) for i in range(40)]
        return [await call for call in calls]

    results = asyncio.run(act())
    assert [r["action"].item() for r in results] == [6.0 * i for i in range(40)]
    thread.join(10)
    assert not thread.is_alive()
