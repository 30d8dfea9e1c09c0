"""Native part of the package; use what ``namewire`` has."""

from collections.abc import Callable
from typing import Any

# Called with a result and an exception, one of which is None, on another thread.
Done = Callable[[Any, BaseException | None], None]

__version__: str

class VerificationError(OSError):
    """Data that does not verify."""

class UnreachableError(OSError):
    """No route, or congestion."""

class ChangedError(OSError):
    """The version that is open no longer exists."""

class NativeFile:
    """An open version of a file: reads at offsets."""

    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str: ...
    def stat(self) -> dict[str, Any]: ...
    def read_at(self, offset: int, length: int) -> bytes: ...
    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]: ...

class Data:
    """A Data packet that was received and verified."""

    @property
    def name(self) -> str: ...
    @property
    def content(self) -> bytes: ...
    @property
    def content_type(self) -> int: ...
    @property
    def freshness(self) -> float: ...
    @property
    def wire(self) -> bytes: ...

class Interest:
    """An Interest that waits for an answer."""

    @property
    def name(self) -> str: ...
    @property
    def can_be_prefix(self) -> bool: ...
    @property
    def must_be_fresh(self) -> bool: ...
    @property
    def lifetime(self) -> float: ...
    @property
    def parameters(self) -> bytes | None: ...
    def answer(
        self,
        content: bytes,
        *,
        name: str | None = None,
        freshness: float = 0.0,
        content_type: int = 0,
        final_segment: int | None = None,
    ) -> None: ...
    def nack(self) -> None: ...

class Served:
    """A service: a prefix that is answered, or a published object."""

    @property
    def name(self) -> str: ...

class Running:
    """Something that runs, and can be cancelled."""

    def cancel(self) -> None: ...

class Client:
    """A connection to a forwarder."""

    def __init__(
        self,
        transport: str | None = None,
        *,
        verify: str = "digest",
        timeout: float = 60.0,
        lifetime: float = 4.0,
        metadata_lifetime: float = 2.0,
        cache_bytes: int = 268435456,
        read_ahead_bytes: int = 16777216,
        allow_older: bool = False,
    ) -> None: ...
    @property
    def cached_bytes(self) -> int: ...
    def open_file(self, name: str) -> NativeFile: ...
    def stat(self, name: str) -> dict[str, Any]: ...
    def entries(self, name: str) -> list[tuple[bytes, bool]]: ...
    def start_express(
        self,
        name: str,
        done: Done,
        *,
        can_be_prefix: bool,
        must_be_fresh: bool,
        lifetime: float,
        retransmissions: int,
        parameters: bytes | None,
    ) -> Running: ...
    def start_fetch(self, name: str, done: Done) -> Running: ...
    def start_serve(self, prefix: str, receive: Callable[[list[Interest]], None], done: Done, *, sign: str) -> Running: ...
    def start_publish(
        self,
        name: str,
        content: bytes,
        done: Done,
        *,
        version: int | None,
        segment_size: int,
        freshness: float,
        sign: str,
    ) -> Running: ...
    def start_end(self, served: Served, done: Done) -> Running: ...
