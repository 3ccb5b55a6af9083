"""``EnvPool`` with its robots on a device: results are torch tensors there, steps are launched at once."""

from concurrent.futures import Future

import torch
from torch import Tensor

from envs.config import EnvConfig
from envs.go2.model import JOINT_NAMES
from envs.pool import EnvPool
from envs.results import StepResult
from envs.warp.batch import WarpBatch


class WarpPool(EnvPool):
    """As ``EnvPool``, with tensors on ``device`` in place of arrays.

    ``step`` launches and comes back with a future that is already fulfilled. Its tensors are ready for
    whatever is launched after them on torch's default stream; reading one on the host waits for it.
    """

    def _make_batch(self, config: EnvConfig, n: int, seed: tuple[int, int], num_threads: int) -> WarpBatch:
        device = torch.empty(0, device=config.device or "cpu").device  # has an index, if it is a card
        self.device = str(device)
        return WarpBatch(config, n, seed, device)

    def step(self, index: int, actions: Tensor) -> "Future[StepResult]":
        """Starts one policy step of a batch.

        Args:
            index: Which batch.
            actions: Actions [B, 12] float32, best on the device; copied at once. A robot with one that is
                not finite blows up.

        Raises:
            ValueError: If the actions have another shape or type.
        """
        batch, shape = self._batches[index], (self.batch_size, len(JOINT_NAMES))
        if not isinstance(actions, Tensor) or (tuple(actions.shape), actions.dtype) != (shape, torch.float32):
            given = (
                f"{getattr(actions, 'dtype', type(actions).__name__)}{list(getattr(actions, 'shape', []))}"
            )
            raise ValueError(f"actions={given}: must be a torch tensor float32{list(shape)}")
        future: Future[StepResult] = Future()
        future.set_result(batch.step(actions))
        return future
