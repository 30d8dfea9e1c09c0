"""Objects and directories that are published."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._calls import Awaitable, Call, Known, Sign, key
from ._namewire import NativeClient, NativeServed

# Bytes, or another object with the buffer protocol; or the path of a file.
if TYPE_CHECKING:
    from typing_extensions import Buffer

    Content = Buffer | os.PathLike[str]
else:
    Content = bytes | os.PathLike


def _release(native: NativeServed, directory: str | None, process: int) -> None:
    """Ends a service that was not closed."""
    if os.getpid() != process:
        return
    native.release()
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


class Service:
    """A native service. It ends when it is closed, when nothing refers to it, and at the exit of the interpreter; in a process
    that was forked it does nothing."""

    def __init__(self, native: NativeServed, name: str | None = None, directory: str | None = None) -> None:
        self._native = native
        self._name = native.name if name is None else name
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _release, native, directory, self._process)

    @property
    def name(self) -> str:
        """The prefix, or the name of the object, with its version if that cannot change."""
        return self._name

    def _end(self, client: Callable[[], NativeClient]) -> Awaitable[None]:
        if self._process != os.getpid():
            return Known(None)

        def ended(_: object) -> None:
            self._finalizer()

        return Call(lambda done: client().start_end(self._native, done), ended)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.name}>"


@dataclass(frozen=True)
class Publication:
    """A file that is to be published, and its directory if both were made for that."""

    name: str
    path: str
    directory: str | None

    @classmethod
    def of(cls, name: str, content: Content, version: int | None) -> Publication:
        """Content in a file. Its version is the time of modification, in nanoseconds."""
        if isinstance(content, os.PathLike):
            if version is not None:
                raise ValueError("a file has its time of modification as its version, and no other")
            return cls(name, os.fspath(content), None)
        if isinstance(content, str):
            raise TypeError("content is bytes-like, or a path (pathlib.Path)")
        directory = tempfile.mkdtemp(prefix="namewire-")
        try:
            path = os.path.join(directory, "content")
            with open(path, "wb") as file:
                file.write(content)
            wanted = time.time_ns() if version is None else version
            os.utime(path, ns=(wanted, wanted))
            if os.stat(path).st_mtime_ns != wanted:
                raise ValueError(f"version {wanted} is not a time that the file system of {directory} can store")
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return cls(f"{name.rstrip('/')}/v={wanted}", path, directory)

    def remove(self) -> None:
        """Remove the directory that was made."""
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)


def publish_file(
    client: NativeClient, name: str, publication: Publication, segment_size: int, freshness: float, sign: Sign, sign_segments: bool
) -> Call[NativeServed]:
    """Serves a file as an object."""
    return Call(
        lambda done: client.start_serve_files(
            name,
            publication.path,
            done,
            is_file=True,
            segment_size=segment_size,
            freshness=freshness,
            sign=key(sign),
            sign_segments=sign_segments,
            hidden=False,
            symlinks=False,
            other_file_systems=False,
            manifest_directory=None,
        ),
        lambda native: native,
    )


def publish_segments(
    client: NativeClient, name: str, content: bytes, version: int | None, segment_size: int, freshness: float, sign: Sign
) -> Call[NativeServed]:
    """Publishes an object whose segments are all signed."""
    return Call(
        lambda done: client.start_publish(
            name, content, done, version=version, segment_size=segment_size, freshness=freshness, sign=key(sign)
        ),
        lambda native: native,
    )


def serve_directory(
    client: NativeClient,
    prefix: str,
    directory: str | os.PathLike[str],
    segment_size: int | None,
    freshness: float,
    sign: Sign,
    sign_segments: bool,
    hidden: bool,
    symlinks: bool,
    other_file_systems: bool,
    manifest_cache: str | os.PathLike[str] | None,
) -> Call[NativeServed]:
    """Serves the files of a directory."""
    return Call(
        lambda done: client.start_serve_files(
            prefix,
            os.fspath(directory),
            done,
            is_file=False,
            segment_size=segment_size,
            freshness=freshness,
            sign=key(sign),
            sign_segments=sign_segments,
            hidden=hidden,
            symlinks=symlinks,
            other_file_systems=other_file_systems,
            manifest_directory=None if manifest_cache is None else os.fspath(manifest_cache),
        ),
        lambda native: native,
    )
