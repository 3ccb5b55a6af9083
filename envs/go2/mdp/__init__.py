"""The task as a Markov decision process: its state, observations, rewards, terminations, commands, resets and
randomisation. The terms are pure functions, written once for NumPy arrays and torch tensors."""
