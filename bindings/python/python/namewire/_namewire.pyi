"""Native part of the package; use what ``namewire`` has."""

from typing import Any

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
