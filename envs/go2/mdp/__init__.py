"""The terms of the task's Markov decision process: observations, rewards, terminations, commands, resets and
randomisation. They are pure functions, written once for NumPy arrays and torch tensors."""
