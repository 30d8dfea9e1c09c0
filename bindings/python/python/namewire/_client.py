"""The connection to a forwarder, for threads."""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Literal, TypedDict, cast, overload

from ._calls import Call, Sign, Verify, key, trust
from ._namewire import Data, NativeClient, NativeFile
from ._served import Content, Publication, Service, publish_file, publish_segments, serve_directory
from .control import Control


class ClientOptions(TypedDict, total=False):
    """The options of :class:`Client`."""

    verify: Verify
    sign_commands: Sign
    timeout: float
    lifetime: float
    metadata_lifetime: float
    cache_bytes: int
    cache_dir: str | os.PathLike[str] | None
    cache_dir_size: int | str | None
    read_ahead_bytes: int
    allow_older: bool


class File(io.RawIOBase):
    """One version of a file: a binary file object that reads and seeks.

    What is published later does not change what it returns. :attr:`name` is the name with the version.
    """

    mode = "rb"

    def __init__(self, native: NativeFile) -> None:
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

    def stat(self) -> dict[str, Any]:
        """As :meth:`Client.stat`, of this version."""
        return self._native.stat()

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position."""
        self._check_open()
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, as in :meth:`io.IOBase.seek`."""
        self._check_open()
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self.size}
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
        """All bytes that are left."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Fill a writable buffer, such as a bytearray or an array of numpy; return the number of bytes, which is smaller at the
        end of the file only. They are written from the verified packets, without another copy."""
        self._check_open()
        read = self._native.read_into(self._offset, memoryview(buffer).cast("B"))
        self._offset += read
        return read

    def pread(self, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes at ``offset``, whatever the position of the file. May be called by many threads."""
        self._check_open()
        if length < 0 or offset < 0:
            raise ValueError("length and offset are not negative")
        return self._native.read_at(offset, length)

    def preadinto(self, buffer: Any, offset: int) -> int:
        """As :meth:`readinto`, from ``offset`` on, whatever the position of the file. May be called by many threads."""
        self._check_open()
        if offset < 0:
            raise ValueError("offset is not negative")
        return self._native.read_into(offset, memoryview(buffer).cast("B"))

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """The bytes of several ranges ``(start, end)``, fetched together."""
        self._check_open()
        return self._native.read_ranges([(start, end) for start, end in ranges])

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def __repr__(self) -> str:
        return f"<namewire.File {self.name}>"


class Served(Service):
    """An object that is published, or a directory that is served, until it is closed.

    It closes itself at the end of ``with``.
    """

    _client: Client

    def close(self) -> None:
        """Stop serving, and wait until the forwarder has removed the route. May be called again."""
        self._end(lambda: self._client._native).wait()

    def __enter__(self) -> Served:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Client:
    """A connection to a forwarder.

    transport
        Forwarder to connect to, such as ``unix:///run/nfd/nfd.sock`` or ``tcp://host:6363``; by default as configured by
        the environment and ``client.conf``.
    verify
        ``"digest"`` checks digests, and accepts other signatures unchecked; ``"none"`` checks nothing;
        ``"rules:FILE"`` demands what the trust rules of the file state, ``"hmac:FILE"`` a signature by the shared key
        (Base64); otherwise the path of a file with a public key or certificate, which everything has to be signed by,
        or a :class:`namewire.Verifier`.
    sign_commands
        Key that signs commands to the forwarder, as the argument ``sign`` of :meth:`publish`.
    timeout
        Maximum time of one operation in seconds.
    lifetime
        InterestLifetime in seconds.
    metadata_lifetime
        Time in seconds after which a new version of a file is seen.
    cache_bytes
        Memory for verified content.
    cache_dir
        Directory for verified content, which later programs read, too; programs may share it. One that cannot be used is a
        warning.
    cache_dir_size
        Maximum size of this directory: a text such as ``"20GiB"``, or bytes; 10 GiB by default.
    read_ahead_bytes
        Maximum number of bytes that are fetched ahead of a program that reads a file in order.
    allow_older
        With a key, also accept older versions than one verified before.

    May be used by many threads, and by processes that are forked: each has a connection of its own.
    """

    def __init__(
        self,
        transport: str | None = None,
        *,
        verify: Verify = "digest",
        sign_commands: Sign = "digest",
        timeout: float = 60.0,
        lifetime: float = 4.0,
        metadata_lifetime: float = 2.0,
        cache_bytes: int = 256 << 20,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_dir_size: int | str | None = None,
        read_ahead_bytes: int = 16 << 20,
        allow_older: bool = False,
    ) -> None:
        self._transport = transport
        self._options: ClientOptions = {
            "verify": verify,
            "sign_commands": sign_commands,
            "timeout": timeout,
            "lifetime": lifetime,
            "metadata_lifetime": metadata_lifetime,
            "cache_bytes": cache_bytes,
            "cache_dir": None if cache_dir is None else os.fspath(cache_dir),
            "cache_dir_size": cache_dir_size,
            "read_ahead_bytes": read_ahead_bytes,
            "allow_older": allow_older,
        }
        self._connect()

    def _connect(self) -> None:
        options: Any = {**self._options}
        options["verify"] = trust(options["verify"])
        options["sign_commands"] = key(options["sign_commands"])
        if isinstance(options["cache_dir_size"], int):
            options["cache_dir_size"] = f"{options['cache_dir_size']}B"
        self._native_client = NativeClient(self._transport, **options)
        self._process = os.getpid()
        cache = self._native_client.disk_cache()
        if cache is not None and cache["warning"] is not None:
            warnings.warn(cache["warning"], RuntimeWarning, stacklevel=3)

    @property
    def _native(self) -> NativeClient:
        if self._process != os.getpid():
            # Threads do not survive a fork.
            self._connect()
        return self._native_client

    @overload
    def open(  # type: ignore[overload-overlap]
        self, name: str, mode: str = "rb", *, buffering: Literal[0]
    ) -> File: ...
    @overload
    def open(self, name: str, mode: str = "rb", buffering: int = -1) -> io.BufferedReader: ...
    def open(self, name: str, mode: str = "rb", buffering: int = -1) -> File | io.BufferedReader:
        """Open the current version of the file ``name``: an NDN name, such as ``/site/data/run.csv``.

        A name that ends in a version opens this one, if it is the current one, or is in ``cache_dir``: then nothing is requested
        before something is missing there.

        Only reading is possible: ``mode`` is ``"rb"``. Returns a buffered file object, or with ``buffering=0`` a :class:`File`.
        """
        if mode not in ("rb", "br"):
            raise ValueError(f"mode is 'rb', not {mode!r}: files are read, as bytes")
        file = File(self._native.open_file(name))
        if buffering == 0:
            return file
        size = io.DEFAULT_BUFFER_SIZE if buffering < 0 else buffering
        return io.BufferedReader(file, size)

    def stat(self, name: str) -> dict[str, Any]:
        """Describe a file or directory: name with version, version, type, size, mtime_ns and mode."""
        return self._native.stat(name)

    def listdir(self, name: str) -> list[str]:
        """The names of the entries of a directory, in order."""
        return [os.fsdecode(entry) for entry, _ in self._native.entries(name)]

    def scandir(self, name: str) -> list[tuple[str, bool]]:
        """The entries of a directory, in order: their names, and whether they are directories."""
        return [(os.fsdecode(entry), is_directory) for entry, is_directory in self._native.entries(name)]

    def statdir(self, name: str) -> list[tuple[str, dict[str, Any] | None]]:
        """The entries of a directory, in order, with what :meth:`stat` returns of each file, and None for directories.

        Files are described many at a time."""
        return [(os.fsdecode(entry), found) for entry, found in self._native.described_entries(name)]

    def express(
        self,
        name: str,
        *,
        can_be_prefix: bool = False,
        must_be_fresh: bool = False,
        lifetime: float = 4.0,
        retransmissions: int = 0,
        parameters: bytes | None = None,
        verify: Verify | None = None,
    ) -> Data:
        """Send an Interest, and return the Data that answers it, verified as ``verify`` demands, by default that of the client.

        ``retransmissions`` is how many times it is sent again after its ``lifetime`` (seconds).
        """
        return express(
            self._native, name, can_be_prefix, must_be_fresh, lifetime, retransmissions, parameters, verify
        ).wait()

    def fetch(self, name: str, *, verify: Verify | None = None) -> bytes:
        """The content of the current version of a file or another object with metadata, at most 1 GiB, verified as ``verify``
        demands, by default that of the client."""
        return fetch(self._native, name, verify).wait()

    def publish(
        self,
        name: str,
        content: Content,
        *,
        version: int | None = None,
        segment_size: int = 8000,
        freshness: float = 10.0,
        sign: Sign = "digest",
        sign_segments: bool = False,
    ) -> Served:
        """Publish an object, until the result is closed: bytes, or the file of a path (``pathlib.Path``).

        A signed manifest has the digests of all segments, so that one signature covers the object, as with ``namewire serve``;
        with ``sign_segments``, every segment is signed, as with ``namewire put``. ``sign`` is ``"digest"`` (integrity only),
        ``"hmac:FILE"``, the path of a private key (PEM), or a :class:`namewire.Signer`, as of a key chain.
        ``version`` is the time by default, that of the modification for a file; ``segment_size`` the content bytes of a
        segment at most, ``freshness`` the FreshnessPeriod in seconds. Bytes are kept in a temporary file.
        """
        native = self._native
        if sign_segments and not isinstance(content, os.PathLike):
            served = publish_segments(native, name, bytes(content), version, segment_size, freshness, sign).wait()
            return self._served(Served(served))
        publication = Publication.of(name, content, version)
        try:
            served = publish_file(native, name, publication, segment_size, freshness, sign, sign_segments).wait()
        except BaseException:
            publication.remove()
            raise
        return self._served(Served(served, publication.name, publication.directory))

    def serve_directory(
        self,
        prefix: str,
        directory: str | os.PathLike[str],
        *,
        segment_size: int | None = None,
        freshness: float = 10.0,
        sign: Sign = "digest",
        sign_segments: bool = False,
        hidden: bool = False,
        symlinks: bool = False,
        other_file_systems: bool = False,
        manifest_cache: str | os.PathLike[str] | None = None,
    ) -> Served:
        """Serve the files below a directory as ``prefix``, as ``namewire serve`` does, until the result is closed.

        A signed manifest has the digests of all segments of a file; with ``sign_segments``, every segment is signed. ``sign`` is
        as for :meth:`publish`. Names that begin with a period are left out unless ``hidden``; symbolic links are not followed
        unless ``symlinks`` and they stay below the directory. ``manifest_cache`` is a directory, writable by its owner only,
        that keeps digests, so that files are not hashed again.
        """
        call = serve_directory(
            self._native,
            prefix,
            directory,
            segment_size,
            freshness,
            sign,
            sign_segments,
            hidden,
            symlinks,
            other_file_systems,
            manifest_cache,
        )
        return self._served(Served(call.wait()))

    def _served(self, served: Served) -> Served:
        served._client = self
        return served

    @property
    def control(self) -> Control:
        """Management of the forwarder: faces, routes, strategies, Content Store."""
        return Control(lambda: self._native.control())

    @property
    def cached_bytes(self) -> int:
        """Number of bytes in memory."""
        return self._native.cached_bytes

    @property
    def disk_cache(self) -> dict[str, Any] | None:
        """What the cache on disk did since the client was made; None without ``cache_dir``.

        Segments are counted in ``hits``, ``misses``, ``damaged``, ``stored`` and ``dropped`` (they arrived faster than the disk
        takes them, or could not be written); ``evicted_bytes`` were removed to keep the limit, and ``warning`` is the last reason
        why nothing could be stored."""
        return self._native.disk_cache()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (type(self), self._transport, self._options))

    def __repr__(self) -> str:
        return f"<namewire.Client of {self._transport or 'the default forwarder'}>"


def _restored(cls: type[Client], transport: str | None, options: ClientOptions) -> Client:
    return cls(transport, **options)


def express(
    client: NativeClient,
    name: str,
    can_be_prefix: bool,
    must_be_fresh: bool,
    lifetime: float,
    retransmissions: int,
    parameters: bytes | None,
    verify: Verify | None,
) -> Call[Data]:
    """The call of ``express``."""
    return Call(
        lambda done: client.start_express(
            name,
            done,
            can_be_prefix=can_be_prefix,
            must_be_fresh=must_be_fresh,
            lifetime=lifetime,
            retransmissions=retransmissions,
            parameters=None if parameters is None else bytes(parameters),
            verify=None if verify is None else trust(verify),
        ),
        lambda data: cast(Data, data),
    )


def fetch(client: NativeClient, name: str, verify: Verify | None) -> Call[bytes]:
    """The call of ``fetch``."""
    return Call(
        lambda done: client.start_fetch(name, done, verify=None if verify is None else trust(verify)),
        lambda content: cast(bytes, content),
    )


_default: Client | None = None
_default_lock = threading.Lock()


def _after_fork() -> None:
    """The lock may be held by a thread that is in the parent only."""
    global _default_lock
    _default_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def default_client() -> Client:
    """The connection that all calls of :func:`namewire.open` share."""
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                _default = Client()
    return _default


@overload
def open(  # type: ignore[overload-overlap]
    name: str, mode: str = "rb", *, buffering: Literal[0]
) -> File: ...
@overload
def open(name: str, mode: str = "rb", buffering: int = -1) -> io.BufferedReader: ...
def open(name: str, mode: str = "rb", buffering: int = -1) -> File | io.BufferedReader:
    """Open the current version of a file by the default connection, which all calls share.

    As :meth:`Client.open`.
    """
    return default_client().open(name, mode, buffering)
