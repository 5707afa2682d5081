"""Errors that a user can fix. Every message names what was found, what was expected and the next step."""


class SightUnseenError(Exception):
    """Base class of all errors of this package; the command line prints the message and exits with code 2."""


class DataError(SightUnseenError, ValueError):
    """Features, labels, splits or class vectors are unusable."""


class SettingsError(SightUnseenError, ValueError):
    """A hyperparameter, preset or option has a value that is not allowed."""


class ModelError(SightUnseenError):
    """A model folder or checkpoint is missing, damaged or of another kind."""


class StorageError(SightUnseenError):
    """A file could not be written; no partial file is left."""


class MissingDependencyError(SightUnseenError, ImportError):
    """An optional package is not installed, and this file format or option needs it."""


class PhotoError(DataError):
    """A photo cannot be used.

    Parameters
    ----------
    reason : str
        Short reason; kept as the attribute ``reason``.
    path : path-like, default=None
        The photo; the message then begins with it.
    """

    def __init__(self, reason: str, path: object = None) -> None:
        super().__init__(reason if path is None else f"{path}: {reason}")
        self.reason = reason
