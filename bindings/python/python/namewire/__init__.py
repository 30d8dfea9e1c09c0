"""Named Data Networking in Python: verified files by name.

>>> import namewire
>>> with namewire.open("/site/data/run.csv") as file:
...     head = file.read(100)

A forwarder has to run. It is found as by all programs of NDN: by ``NDN_CLIENT_TRANSPORT``, by ``client.conf``, or at
the default socket. :class:`Forwarder` is one within the process, for tests and notebooks.
"""

from __future__ import annotations

from typing import Any

from ._client import Client, ClientOptions, File, Served, open
from ._errors import (
    BusyError,
    ChangedError,
    DeniedError,
    DirectoryError,
    DisconnectedError,
    Error,
    KeyChainError,
    NotDirectoryError,
    NotFoundError,
    RefusedError,
    UnansweredError,
    UnreachableError,
    UnusableError,
    VerificationError,
)
from ._namewire import Data, Interest, Signer, Verifier, __version__
from .control import Control
from .forwarder import Forwarder
from .keys import KeyChain, KeyChainEntry

__all__ = [
    "BusyError",
    "ChangedError",
    "Client",
    "ClientOptions",
    "Control",
    "Data",
    "DeniedError",
    "DirectoryError",
    "DisconnectedError",
    "Error",
    "File",
    "FileSystem",
    "Forwarder",
    "Interest",
    "KeyChain",
    "KeyChainEntry",
    "KeyChainError",
    "NotDirectoryError",
    "NotFoundError",
    "RefusedError",
    "Served",
    "Signer",
    "UnansweredError",
    "UnreachableError",
    "UnusableError",
    "VerificationError",
    "Verifier",
    "__version__",
    "open",
]


def __getattr__(attribute: str) -> Any:
    # fsspec is not needed for the rest.
    if attribute == "FileSystem":
        from .filesystem import FileSystem

        return FileSystem
    raise AttributeError(f"module 'namewire' has no attribute {attribute!r}")
