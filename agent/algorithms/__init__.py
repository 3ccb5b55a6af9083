"""The learning algorithms: rollouts, returns, the objective of PPO and V-trace, and the optimizer."""
