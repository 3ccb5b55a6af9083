"""The learning loop that ties the robots of `envs` to the peers of `moolib`."""

import os

from agent.cli.arguments import end_quietly_while_importing

# Threads of torch that wait for each other must sleep, not spin: physics threads and other peers share the
# cores with them, and a spinning thread keeps the one that it waits for from running. To be set before
# torch starts.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

end_quietly_while_importing()
