"""Native part of the package; use what ``namewire`` has."""

import pathlib
from collections.abc import Callable
from typing import Any, final

__all__ = [
    "Data",
    "Interest",
    "NativeClient",
    "NativeControl",
    "NativeFile",
    "NativeForwarder",
    "NativeKeyChain",
    "NativeServed",
    "Running",
    "Signer",
    "Verifier",
    "__version__",
]

# Called with a result and an exception, one of which is None, on another thread.
_Done = Callable[[Any, BaseException | None], None]

__version__: str

@final
class NativeFile:
    """An open version of a file: reads at offsets."""

    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str: ...
    def stat(self) -> dict[str, Any]: ...
    def read_at(self, offset: int, length: int) -> bytes: ...
    def read_into(self, offset: int, buffer: memoryview) -> int: ...
    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]: ...

@final
class Data:
    """A Data packet that was received and verified."""

    @property
    def name(self) -> str:
        """Name of the packet."""
    @property
    def content(self) -> bytes:
        """Content."""
    @property
    def content_type(self) -> int:
        """ContentType; 0 is a blob, 3 an application Nack."""
    @property
    def freshness(self) -> float:
        """FreshnessPeriod in seconds."""
    @property
    def wire(self) -> bytes:
        """The whole packet."""

@final
class Interest:
    """An Interest that waits for an answer."""

    @property
    def name(self) -> str:
        """Name of the Interest."""
    @property
    def can_be_prefix(self) -> bool:
        """Whether Data with a longer name is accepted."""
    @property
    def must_be_fresh(self) -> bool:
        """Whether only fresh Data is accepted."""
    @property
    def lifetime(self) -> float:
        """InterestLifetime in seconds."""
    @property
    def parameters(self) -> bytes | None:
        """ApplicationParameters, if there are any."""
    def answer(
        self,
        content: bytes,
        *,
        name: str | None = None,
        freshness: float = 0.0,
        content_type: int = 0,
        final_segment: int | None = None,
    ) -> None:
        """Answer with Data, signed by the key of the prefix. ``name`` is that of the Interest by default."""
    def nack(self) -> None:
        """Answer with a Nack of reason NoRoute."""

@final
class Signer:
    """A key that signs, read once: a word as in the argument ``sign``, or a key of a key chain."""

    def __new__(cls, word: str) -> Signer: ...

@final
class Verifier:
    """Requirements for the signatures of Data, read once: a word as in the argument ``verify``, or the text of a public key (PEM)
    or certificate."""

    def __new__(cls, word: str | None = None, text: str | None = None) -> Verifier: ...

@final
class NativeServed:
    """A service: a prefix that is answered, a published object, or served files."""

    @property
    def name(self) -> str: ...
    def release(self) -> None: ...

@final
class Running:
    """Something that runs, and can be cancelled."""

    def cancel(self) -> None: ...

@final
class NativeControl:
    """The commands and datasets of a forwarder."""

    def start_dataset(self, dataset: str, done: _Done) -> Running: ...
    def start_find_faces(self, face: int | str, done: _Done) -> Running: ...
    def start_command(self, command: str, parameters: dict[str, Any], done: _Done) -> Running: ...
    def start_create_face(self, parameters: dict[str, Any], done: _Done) -> Running: ...
    def start_erase(self, prefix: str, done: _Done, *, count: int | None) -> Running: ...

@final
class NativeForwarder:
    """A running forwarder."""

    def __new__(cls, settings: str) -> NativeForwarder: ...
    def stop(self) -> None: ...
    def connect(self, other: NativeForwarder, mtu: int) -> list[int]: ...
    @property
    def is_running(self) -> bool: ...

@final
class NativeKeyChain:
    """A key chain."""

    def __new__(cls, directory: str | None = None) -> NativeKeyChain: ...
    def identities(self) -> list[tuple[str, bool]]: ...
    def keys(self, identity: str) -> list[tuple[str, bool]]: ...
    def certificates(self, key: str) -> list[tuple[str, bool]]: ...
    def certificate(self, name: str | None) -> tuple[str, str]: ...
    def generate(self, identity: str, key_type: str, default: bool) -> str: ...
    def request(self, name: str | None) -> str: ...
    def install(self, text: str, default: bool) -> str: ...
    def export(self, name: str | None, passphrase: str) -> str: ...
    def restore(self, text: str, passphrase: str) -> str: ...
    def set_default(self, name: str) -> None: ...
    def delete(self, name: str) -> None: ...
    def signer(self, name: str | None) -> Signer: ...
    @property
    def path(self) -> pathlib.Path: ...

@final
class NativeClient:
    """A connection to a forwarder."""

    def __new__(
        cls,
        transport: str | None,
        *,
        verify: str | Verifier,
        sign_commands: str | Signer,
        timeout: float,
        lifetime: float,
        metadata_lifetime: float,
        cache_bytes: int,
        cache_dir: str | None,
        cache_dir_size: str | None,
        read_ahead_bytes: int,
        allow_older: bool,
    ) -> NativeClient: ...
    @property
    def cached_bytes(self) -> int: ...
    def control(self) -> NativeControl: ...
    def open_file(self, name: str) -> NativeFile: ...
    def stat(self, name: str) -> dict[str, Any]: ...
    def entries(self, name: str) -> list[tuple[bytes, bool]]: ...
    def described_entries(self, name: str) -> list[tuple[bytes, dict[str, Any] | None]]: ...
    def disk_cache(self) -> dict[str, Any] | None: ...
    def start_express(
        self,
        name: str,
        done: _Done,
        *,
        can_be_prefix: bool,
        must_be_fresh: bool,
        lifetime: float,
        retransmissions: int,
        parameters: bytes | None,
        verify: str | Verifier | None,
    ) -> Running: ...
    def start_fetch(self, name: str, done: _Done, *, verify: str | Verifier | None) -> Running: ...
    def start_serve(
        self, prefix: str, receive: Callable[[list[Interest]], None], done: _Done, *, sign: str | Signer
    ) -> Running: ...
    def start_publish(
        self,
        name: str,
        content: bytes,
        done: _Done,
        *,
        version: int | None,
        segment_size: int,
        freshness: float,
        sign: str | Signer,
    ) -> Running: ...
    def start_serve_files(
        self,
        prefix: str,
        path: str,
        done: _Done,
        *,
        is_file: bool,
        segment_size: int | None,
        freshness: float,
        sign: str | Signer,
        sign_segments: bool,
        hidden: bool,
        symlinks: bool,
        other_file_systems: bool,
        manifest_directory: str | None,
    ) -> Running: ...
    def start_end(self, served: NativeServed, done: _Done) -> Running: ...
