"""Exceptions. The native module makes them, by their names."""

from __future__ import annotations


class Error(OSError):
    """Base of the exceptions of this package.

    ``name`` is the name of the packet or object that could not be fetched, does not verify or is not served, or of the command
    that failed; None if the exception concerns no single one.
    """

    name: str | None

    def __init__(self, text: str = "", name: str | None = None) -> None:
        super().__init__(text)
        self.name = name


class NotFoundError(Error, FileNotFoundError):
    """The producer states that there is no such object; or there is no such face."""


class DeniedError(Error, PermissionError):
    """The producer states that it has no permission to read the object."""


class DirectoryError(Error, IsADirectoryError):
    """A directory where a file is needed."""


class NotDirectoryError(Error, NotADirectoryError):
    """A file where a directory is needed."""


class ChangedError(Error):
    """The version that is open no longer exists."""


class UnansweredError(Error, TimeoutError):
    """No answer in time."""


class UnreachableError(Error):
    """No route, or congestion."""


class DisconnectedError(Error, ConnectionError):
    """No connection to the forwarder, or one of another process."""


class BusyError(Error, BlockingIOError):
    """A limit of this process is reached; a later attempt may succeed."""


class VerificationError(Error):
    """Data that does not verify, or that is older than Data verified before."""


class UnusableError(Error):
    """An answer that cannot be used: malformed, contradictory or too long."""


class RefusedError(Error):
    """A command that the forwarder refused, with its status ``code``, such as 403 for one that is not authorized."""

    code: int

    def __init__(self, text: str = "", name: str | None = None, code: int = 0) -> None:
        super().__init__(text, name)
        self.code = code


class KeyChainError(Error):
    """The key chain cannot be opened, or has no such key."""
