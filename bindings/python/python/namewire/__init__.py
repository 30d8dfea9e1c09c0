"""Named Data Networking in Python: verified files by name.

>>> import namewire
>>> with namewire.open("/site/data/run.csv") as file:
...     head = file.read(100)

A forwarder has to run. It is found as by all programs of NDN: by ``NDN_CLIENT_TRANSPORT``, by ``client.conf``, or at
the default socket.
"""

from __future__ import annotations

import io as _io
import os as _os
import threading as _threading

from ._namewire import (
    ChangedError,
    UnreachableError,
    VerificationError,
    __version__,
)
from ._namewire import Client as _NativeClient

__all__ = [
    "ChangedError",
    "Client",
    "File",
    "FileSystem",
    "UnreachableError",
    "VerificationError",
    "__version__",
    "open",
]


class File(_io.RawIOBase):
    """One version of a file: a binary file object that reads and seeks.

    What is published later does not change what it returns. :attr:`name` is the name with the version.
    """

    mode = "rb"

    def __init__(self, native):
        super().__init__()
        self._native = native
        self._offset = 0

    @property
    def name(self) -> str:
        """Name with version."""
        return self._native.name

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._native.size

    def stat(self) -> dict:
        """As :meth:`Client.stat`, of this version."""
        return self._native.stat()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._offset

    def seek(self, offset: int, whence: int = _io.SEEK_SET) -> int:
        self._check_open()
        bases = {_io.SEEK_SET: 0, _io.SEEK_CUR: self._offset, _io.SEEK_END: self.size}
        if whence not in bases:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        position = bases[whence] + offset
        if position < 0:
            raise ValueError(f"position {position} is before the beginning of the file")
        self._offset = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes, or all that are left. There are fewer than ``size`` at the end of the file only."""
        self._check_open()
        left = max(self.size - self._offset, 0)
        length = left if size is None or size < 0 else min(size, left)
        content = self._native.read_at(self._offset, length)
        self._offset += len(content)
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer) -> int:
        view = memoryview(buffer).cast("B")
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)

    def pread(self, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes at ``offset``, whatever the position of the file. May be called by many threads."""
        self._check_open()
        if length < 0 or offset < 0:
            raise ValueError("length and offset are not negative")
        return self._native.read_at(offset, length)

    def read_ranges(self, ranges) -> list[bytes]:
        """The bytes of several ranges ``(start, end)``, fetched together."""
        self._check_open()
        return self._native.read_ranges([(start, end) for start, end in ranges])

    def close(self) -> None:
        super().close()
        # The native file ends its fetches when nothing refers to it.
        self._native_closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def __repr__(self) -> str:
        return f"<namewire.File {self.name}>"


class Client:
    """A connection to a forwarder.

    transport
        Forwarder to connect to, such as ``unix:///run/nfd/nfd.sock`` or ``tcp://host:6363``; by default as configured by
        the environment and ``client.conf``.
    verify
        ``"digest"`` checks digests, and accepts other signatures unchecked; ``"none"`` checks nothing;
        ``"rules:FILE"`` demands what the trust rules of the file state, ``"hmac:FILE"`` a signature by the shared key
        (Base64); otherwise the path of a file with a public key or certificate, which everything has to be signed by.
    timeout
        Maximum time of one operation in seconds.
    lifetime
        InterestLifetime in seconds.
    metadata_lifetime
        Time in seconds after which a new version of a file is seen.
    cache_bytes
        Memory for verified content.
    read_ahead_bytes
        Maximum size of what is fetched ahead of a program that reads a file in order.
    allow_older
        With a key, also accept older versions than one verified before.

    May be used by many threads, and by processes that are forked: each has a connection of its own.
    """

    def __init__(self, transport: str | None = None, **options):
        self._arguments = (transport, options)
        self._lock = _threading.Lock()
        self._process = _os.getpid()
        self._native_client = _NativeClient(transport, **options)

    @property
    def _native(self):
        if self._process != _os.getpid():
            # Threads do not survive a fork, and a lock may be held by one of them.
            transport, options = self._arguments
            self._lock = _threading.Lock()
            self._native_client = _NativeClient(transport, **options)
            self._process = _os.getpid()
        return self._native_client

    def open(self, name: str, mode: str = "rb", buffering: int = -1):
        """Open the current version of the file ``name``: an NDN name, such as ``/site/data/run.csv``.

        Only reading is possible: ``mode`` is ``"rb"``. Returns a buffered file object, or with ``buffering=0`` a :class:`File`.
        """
        if mode not in ("rb", "br"):
            raise ValueError(f"mode is 'rb', not {mode!r}: files are read, as bytes")
        file = File(self._native.open_file(name))
        if buffering == 0:
            return file
        size = _io.DEFAULT_BUFFER_SIZE if buffering < 0 else buffering
        return _io.BufferedReader(file, size)

    def stat(self, name: str) -> dict:
        """Describe a file or directory: name with version, type, size, mtime_ns and mode."""
        return self._native.stat(name)

    def listdir(self, name: str) -> list[str]:
        """The names of the entries of a directory, in order."""
        return [_os.fsdecode(entry) for entry, _ in self._native.entries(name)]

    def scandir(self, name: str) -> list[tuple[str, bool]]:
        """The entries of a directory, in order: their names, and whether they are directories."""
        return [(_os.fsdecode(entry), is_directory) for entry, is_directory in self._native.entries(name)]

    @property
    def cached_bytes(self) -> int:
        """Number of bytes in the cache."""
        return self._native.cached_bytes

    def __reduce__(self):
        transport, options = self._arguments
        return (_restored, (type(self), transport, options))

    def __repr__(self) -> str:
        return f"<namewire.Client of {self._arguments[0] or 'the default forwarder'}>"


def _restored(cls, transport, options):
    return cls(transport, **options)


_default: Client | None = None
_default_lock = _threading.Lock()


def open(name: str, mode: str = "rb", buffering: int = -1):
    """Open the current version of a file by the default connection, which all calls share.

    As :meth:`Client.open`.
    """
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                _default = Client()
    return _default.open(name, mode, buffering)


def __getattr__(attribute: str):
    if attribute == "FileSystem":
        from .filesystem import FileSystem

        return FileSystem
    raise AttributeError(f"module 'namewire' has no attribute {attribute!r}")
