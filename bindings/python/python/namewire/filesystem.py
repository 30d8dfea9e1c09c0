"""Files of NDN file servers for fsspec: ``ndn://site/data/run.csv`` is the file ``/site/data/run.csv``."""

from __future__ import annotations

import datetime
import os
from typing import Any
from urllib.parse import quote_from_bytes

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # type: ignore[import-untyped]
from fsspec.utils import tokenize  # type: ignore[import-untyped]

from ._client import Client, ClientOptions, File

__all__ = ["BufferedFile", "FileSystem"]

_UNRESERVED = "-._~"


def _name(path: str) -> str:
    """The NDN name of a path, each of whose parts is a file name."""
    parts = []
    for part in path.split("/"):
        if not part:
            continue
        quoted = quote_from_bytes(os.fsencode(part), safe=_UNRESERVED)
        # A component of periods only is written with three more (NDN Packet Format, section 2).
        parts.append("..." + part if set(part) == {"."} else quoted)
    return "/" + "/".join(parts)


def _info(path: str, stat: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": path,
        "type": stat["type"],
        "size": stat["size"],
        "mtime": None if stat["mtime_ns"] is None else stat["mtime_ns"] / 1e9,
        "version": stat["version"],
        "ndn_name": stat["name"],
        "mode": stat["mode"],
    }


class BufferedFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file with a cache of fsspec, which the argument ``cache_type`` of ``open`` chooses."""

    def __init__(self, fs: FileSystem, path: str, file: File, block_size: int | str, **options: Any) -> None:
        self._file = file
        super().__init__(fs, path, "rb", block_size, size=file.size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._file.pread(max(end - start, 0), start)


class FileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Read-only file system of the files that a forwarder can reach.

    Options are those of :class:`namewire.Client`. A file that is open keeps its version. Verified content is cached by the
    client (``cache_bytes``, and on disk ``cache_dir``), which also reads ahead; ``open`` uses a cache of fsspec in addition if ``cache_type`` names one
    (``readahead``, ``blockcache``, ``bytes``, …), and ``simplecache::``, ``filecache::`` and ``blockcache::`` keep copies on
    disk, whose versions :meth:`ukey` tells apart.
    """

    protocol = "ndn"
    root_marker = "/"

    def __init__(self, transport: str | None = None, **options: Any) -> None:
        of_client = {key: value for key, value in options.items() if key in ClientOptions.__annotations__}
        of_fsspec = {key: value for key, value in options.items() if key not in of_client}
        # Listings are cached by the client, for the lifetime of metadata.
        of_fsspec.setdefault("use_listings_cache", False)
        super().__init__(**of_fsspec)
        self.client = Client(transport, **of_client)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        for prefix in ("ndn://", "ndn:"):
            if path.startswith(prefix):
                path = path[len(prefix) :]
                break
        parts = [part for part in path.split("/") if part]
        return "/" + "/".join(parts)

    @property
    def fsid(self) -> str:
        """Always ``ndn``: a name means the same file everywhere."""
        return "ndn"

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Name, type, size, mtime and mode of a file or directory; ``ndn_name`` is its name with the version."""
        path = self._strip_protocol(path)
        return _info(path, self.client.stat(_name(path)))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """The entries of a directory. With ``sizes=False``, files are not described, which takes an Interest each, many at
        a time."""
        path = self._strip_protocol(path)
        above = path.rstrip("/") + "/"
        try:
            if detail and kwargs.get("sizes", True):
                # Directories are not described.
                return [
                    {"name": above + entry, "type": "directory", "size": 0} if stat is None else _info(above + entry, stat)
                    for entry, stat in self.client.statdir(_name(path))
                ]
            entries = self.client.scandir(_name(path))
        except NotADirectoryError:
            info = self.info(path)
            return [info] if detail else [info["name"]]
        if not detail:
            return [above + entry for entry, _ in entries]
        return [
            {"name": above + entry, "type": "directory", "size": 0}
            if is_directory
            else {"name": above + entry, "type": "file", "size": None}
            for entry, is_directory in entries
        ]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        """All files below a path, which is listed by directory. Files are described with ``detail`` only."""
        kwargs.setdefault("sizes", detail)
        return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)

    def glob(self, path: str, maxdepth: int | None = None, **kwargs: Any) -> Any:
        """The paths that a pattern matches. Files are described with ``detail`` only."""
        kwargs.setdefault("sizes", kwargs.get("detail", False))
        return super().glob(path, maxdepth=maxdepth, **kwargs)

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is a file or directory that can be read."""
        try:
            self.info(path)
        except (FileNotFoundError, PermissionError):
            return False
        return True

    def created(self, path: str) -> datetime.datetime:
        """As :meth:`modified`."""
        return self.modified(path)

    def modified(self, path: str) -> datetime.datetime:
        """Time of modification."""
        mtime = self.info(path)["mtime"]
        if mtime is None:
            raise NotImplementedError(f"{path} has no time of modification")
        return datetime.datetime.fromtimestamp(mtime, tz=datetime.timezone.utc)

    def ukey(self, path: str) -> str:
        """The name with the version: equal only for equal content."""
        return str(self.info(path)["ndn_name"])

    def checksum(self, path: str) -> int:
        """A number that is equal only for equal content: of the name with the version."""
        return int(tokenize(self.ukey(path)), 16)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        cache_type: str | None = None,
        **kwargs: Any,
    ) -> Any:
        if mode != "rb":
            raise NotImplementedError("files of NDN can only be read")
        path = self._strip_protocol(path)
        name = _name(path)
        if cache_type is not None:
            file = self.client.open(name, buffering=0)
            options = {"cache_type": cache_type, "cache_options": cache_options}
            return BufferedFile(self, path, file, block_size or "default", **options)
        return self.client.open(name, buffering=-1 if block_size is None else block_size)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """The content of a file, or of a part of it."""
        file = self.client.open(_name(self._strip_protocol(path)), buffering=0)
        first, last, _ = slice(start, end).indices(file.size)
        return file.pread(max(last - first, 0), first)

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Parts of files; those of one file are fetched together."""
        if not isinstance(starts, (list, tuple)):
            starts = [starts] * len(paths)
        if not isinstance(ends, (list, tuple)):
            ends = [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("as many starts and ends as paths are needed")
        wanted: dict[str, list[int]] = {}
        for index, path in enumerate(paths):
            wanted.setdefault(path, []).append(index)
        results: list[Any] = [None] * len(paths)
        for path, indices in wanted.items():
            parts: list[Any]
            try:
                file = self.client.open(_name(self._strip_protocol(path)), buffering=0)
                bounds = [slice(starts[index], ends[index]).indices(file.size)[:2] for index in indices]
                parts = list(file.read_ranges([(first, max(first, last)) for first, last in bounds]))
            except Exception as error:
                if on_error != "return":
                    raise
                parts = [error] * len(indices)
            for index, part in zip(indices, parts, strict=True):
                results[index] = part
        return results
