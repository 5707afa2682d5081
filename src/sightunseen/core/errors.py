"""Mistakes a user can mend. Every message names what was wrong, what was found and the next step."""


class SightUnseenError(Exception):
    """The root of all errors raised on purpose; the command line prints its message and exits with 2."""


class DataError(SightUnseenError, ValueError):
    """Features, labels, splits or class vectors that cannot be used as they are."""


class SettingsError(SightUnseenError, ValueError):
    """A parameter, preset or option outside what is allowed."""


class ModelError(SightUnseenError):
    """A model folder or checkpoint that is missing, damaged or of another kind."""


class StorageError(SightUnseenError):
    """A file that could not be written; nothing is left half-written."""


class MissingDependencyError(SightUnseenError, ImportError):
    """An optional package that this file format or option needs."""


class PhotoError(DataError):
    """A photo that cannot be used; ``reason`` says why in few words, the message also which."""

    def __init__(self, reason: str, path: object = None) -> None:
        super().__init__(reason if path is None else f"{path}: {reason}")
        self.reason = reason
