"""The Unitree Go2: its model from a table of facts, its task terms as pure functions, its batch of robots."""
