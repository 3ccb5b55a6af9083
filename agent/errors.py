"""Errors whose cause the user can mend. Every command prints them as one line and ends with their status."""


class UserError(Exception):
    """A mistake or a circumstance that the user can mend; the message is one line for the user.

    Attributes:
        status: The exit status of a command that the error ends.
    """

    status = 1


class ConfigError(UserError):
    """A value that the user gave cannot be used."""

    status = 2


class CheckpointError(UserError):
    """A checkpoint cannot be read or written."""


class LogError(UserError):
    """A log cannot be opened, read or written."""


class RenderError(UserError):
    """Pictures cannot be made on this machine."""


class ScenarioError(UserError):
    """The model of a run lacks an input, or an input cannot be used."""

    status = 2


class TrainingError(UserError):
    """Training cannot go on."""
