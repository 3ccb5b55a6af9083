"""The learning loop that ties the robots of `envs` to the peers of `moolib`."""
