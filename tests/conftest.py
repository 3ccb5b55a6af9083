"""Conditions for all tests."""

import signal

# A shell starts background jobs with SIGINT ignored, and their children inherit that. With a handler here,
# children start with the default action instead, so that tests of Ctrl-C mean what they say.
signal.signal(signal.SIGINT, signal.default_int_handler)
