"""Files of NDN file servers for fsspec: ``ndn://site/data/run.csv`` is the file ``/site/data/run.csv``."""

from __future__ import annotations

import datetime
import os
from urllib.parse import quote_from_bytes

from fsspec.spec import AbstractFileSystem

from . import Client

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


class FileSystem(AbstractFileSystem):
    """Read-only file system of the files that a forwarder can reach.

    Options are those of :class:`namewire.Client`. A file that is open keeps its version.
    """

    protocol = "ndn"
    root_marker = "/"

    def __init__(self, transport: str | None = None, **options):
        known = ("verify", "timeout", "lifetime", "metadata_lifetime", "cache_bytes", "read_ahead_bytes", "allow_older")
        of_client = {key: value for key, value in options.items() if key in known}
        of_fsspec = {key: value for key, value in options.items() if key not in known}
        # Listings are cached by the client, for the lifetime of metadata.
        of_fsspec.setdefault("use_listings_cache", False)
        super().__init__(**of_fsspec)
        self.client = Client(transport, **of_client)

    @classmethod
    def _strip_protocol(cls, path):
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
        return "ndn"

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        return self._described(path, self.client.stat(_name(path)))

    @staticmethod
    def _described(path, stat):
        return {
            "name": path,
            "type": stat["type"],
            "size": stat["size"],
            "mtime": None if stat["mtime_ns"] is None else stat["mtime_ns"] / 1e9,
            "version": stat["version"],
            "ndn_name": stat["name"],
            "mode": stat["mode"],
        }

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        try:
            entries = self.client.scandir(_name(path))
        except NotADirectoryError:
            info = self.info(path)
            return [info] if detail else [info["name"]]
        names = [path.rstrip("/") + "/" + entry for entry, _ in entries]
        if not detail:
            return names
        described = []
        for name, (_, is_directory) in zip(names, entries):
            if is_directory:
                described.append({"name": name, "type": "directory", "size": 0})
                continue
            try:
                described.append(self.info(name))
            except FileNotFoundError:
                # It was removed since the directory was listed.
                pass
        return described

    def exists(self, path, **kwargs):
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def created(self, path):
        return self.modified(path)

    def modified(self, path):
        mtime = self.info(path)["mtime"]
        if mtime is None:
            raise NotImplementedError(f"{path} has no time of modification")
        return datetime.datetime.fromtimestamp(mtime, tz=datetime.timezone.utc)

    def ukey(self, path):
        """The name with the version: equal only for equal content."""
        return self.info(path)["ndn_name"]

    def checksum(self, path):
        return int.from_bytes(self.ukey(path).encode()[-7:], "big")

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        if mode != "rb":
            raise NotImplementedError("files of NDN can only be read")
        return self.client.open(_name(self._strip_protocol(path)), buffering=-1 if block_size is None else 1 << 16)

    def cat_file(self, path, start=None, end=None, **kwargs):
        file = self.client.open(_name(self._strip_protocol(path)), buffering=0)
        first, last, _ = slice(start, end).indices(file.size)
        return file.pread(max(last - first, 0), first)

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        if not isinstance(starts, (list, tuple)):
            starts = [starts] * len(paths)
        if not isinstance(ends, (list, tuple)):
            ends = [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("as many starts and ends as paths are needed")
        wanted: dict[str, list[int]] = {}
        for index, path in enumerate(paths):
            wanted.setdefault(path, []).append(index)
        results: list = [None] * len(paths)
        for path, indices in wanted.items():
            try:
                file = self.client.open(_name(self._strip_protocol(path)), buffering=0)
                bounds = [slice(starts[index], ends[index]).indices(file.size)[:2] for index in indices]
                parts = file.read_ranges([(first, max(first, last)) for first, last in bounds])
            except Exception as error:
                if on_error != "return":
                    raise
                parts = [error] * len(indices)
            for index, part in zip(indices, parts):
                results[index] = part
        return results
