"""Value targets and advantages of unrolls: V-trace, of which GAE is the on-policy case.

The one recursion (Espeholt et al. 2018, eq. 1, with the trace decay λ of their remark 2):

    δ_t = ρ_t (r_t + γ V'_{t+1} - V_t)
    v_t - V_t = δ_t + γ λ c_t (1 - done_t) (v_{t+1} - V_{t+1})

where ρ_t and c_t are importance weights clipped at `clip_rho` and `clip_c`. With weights 1 this is GAE(λ):
v_t - V_t is its advantage. `V'_{t+1}` (`next_values`) treats time-outs correctly: it is 0 after a fall, the
value of the *final* observation where a time-out cut the episode, and the value of the next observation
otherwise.
"""

from __future__ import annotations

import torch
from torch import Tensor


def next_values(values: Tensor, final_values: Tensor, terminated: Tensor, truncated: Tensor) -> Tensor:
    """Return the value `[T, B]` that each transition leads to.

    Args:
        values: `[T + 1, B]` values of the observations; the last row bootstraps the unroll.
        final_values: `[T, B]` values of the final observations; read only where `truncated`.
        terminated: `[T, B]` bool, the episode ended for good (a fall).
        truncated: `[T, B]` bool, a time-out cut the episode.
    """
    following = torch.where(truncated, final_values, values[1:])
    return torch.where(terminated, torch.zeros_like(following), following)


def vtrace_returns(
    rewards: Tensor,
    values: Tensor,
    following: Tensor,
    done: Tensor,
    log_rhos: Tensor | None,
    discounting: float,
    trace_decay: float,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return V-trace targets `v_t` and policy-gradient advantages.

    Args:
        rewards: `[T, B]`.
        values: `[T, B]`, the value of the observation before each action.
        following: `[T, B]`, see `next_values`.
        done: `[T, B]` bool, terminated or truncated: no trace crosses it.
        log_rhos: `[T, B]` log of target over behaviour probability, or None for on-policy data (GAE).

    Returns:
        Targets `[T, B]`, and advantages `[T, B]`: those of GAE for on-policy data, else IMPALA's
        `ρ_t (r_t + γ v_{t+1} - V_t)`, where the trace decay mixes target and value into `v_{t+1}`.
    """
    if log_rhos is None:
        rhos = cs = torch.ones_like(rewards)
    else:
        ratios = log_rhos.exp()
        rhos, cs = ratios.clamp(max=clip_rho), ratios.clamp(max=clip_c)
    deltas = rewards + discounting * following - values
    decay = discounting * trace_decay * (~done).to(rewards.dtype)
    carried = torch.zeros_like(rewards[0])
    corrections, advantages = torch.empty_like(rewards), torch.empty_like(rewards)
    for t in reversed(range(len(rewards))):
        advantages[t] = rhos[t] * (deltas[t] + decay[t] * carried)
        corrections[t] = rhos[t] * deltas[t] + decay[t] * cs[t] * carried
        carried = corrections[t]
    return values + corrections, advantages
