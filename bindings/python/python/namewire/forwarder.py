"""A forwarder within the process, for tests and notebooks.

>>> with namewire.Forwarder() as forwarder:
...     producer, consumer = forwarder.client(), forwarder.client()
...     with producer.publish("/example", b"content"):
...         consumer.fetch("/example")
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Unpack

from ._client import Client, ClientOptions
from ._namewire import NativeForwarder
from .control import Control

__all__ = ["Forwarder"]


def _settings(socket: str) -> dict[str, Any]:
    """No listeners but one Unix socket, and little memory."""
    off = {"enabled": False}
    return {
        "forwarder": {"workers": 1},
        "pool": {"capacity": "64 MiB", "pages": "ordinary"},
        "tables": {"pit_capacity": 16_384, "fib_capacity": 4096, "cs": {"capacity_packets": 4096}},
        "control": dict(off),
        "listeners": {
            "unix": {"path": socket},
            **{name: dict(off) for name in ("udp", "tcp", "websocket", "multicast")},
        },
    }


def _merge(into: dict[str, Any], settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _stop(native: NativeForwarder, directory: str | None, process: int) -> None:
    if os.getpid() != process:
        return
    native.stop()
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


class Forwarder:
    """A forwarder in this process, with threads of its own. There may be several.

    settings
        As in the configuration file, by table: ``{"tables": {"cs": {"capacity_packets": 100}}}``. The forwarder listens at its
        Unix socket only, has one worker, and keeps 4,096 packets, unless they say otherwise. UDP faces need the UDP listener:
        ``{"listeners": {"udp": {"enabled": True, "addresses": ["127.0.0.1"], "port": 6363}}}``.
    socket
        Path of the Unix socket; by default in a new directory, which is removed at the end.

    It ends when the ``with`` block ends, by :meth:`stop`, when nothing refers to it, and at the exit of the interpreter. A
    process that is forked has no forwarder: there, only :attr:`address` is of use, to connect to the one of the parent.
    """

    def __init__(
        self, settings: Mapping[str, Any] | None = None, *, socket: str | os.PathLike[str] | None = None
    ) -> None:
        directory = tempfile.mkdtemp(prefix="namewire-") if socket is None else None
        path = os.path.join(directory, "nfd.sock") if directory is not None else os.path.abspath(socket or "")
        try:
            all_settings = _settings(path)
            _merge(all_settings, settings or {})
            self._native = NativeForwarder(json.dumps(all_settings))
        except BaseException:
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)
            raise
        self._address = "unix://" + str(all_settings["listeners"]["unix"]["path"])
        self._client: Client | None = None
        self._finalizer = weakref.finalize(self, _stop, self._native, directory, os.getpid())

    @property
    def address(self) -> str:
        """The address for the option ``transport`` of clients, and for ``NDN_CLIENT_TRANSPORT``."""
        return self._address

    @property
    def is_running(self) -> bool:
        """Whether it runs, and in this process."""
        return self._native.is_running

    def client(self, **options: Unpack[ClientOptions]) -> Client:
        """A new connection to this forwarder, with the options of :class:`namewire.Client`."""
        return Client(self.address, **options)

    @property
    def control(self) -> Control:
        """Management of this forwarder."""
        if self._client is None:
            self._client = self.client()
        return self._client.control

    def connect(self, other: Forwarder, *, mtu: int = 8800) -> tuple[int, int]:
        """Connect this forwarder to another one of this process by a link in memory; returns the FaceIds of its ends, of this
        forwarder first."""
        here, there = self._native.connect(other._native, mtu)
        return here, there

    def stop(self) -> None:
        """Stop the forwarder, and wait until its threads have ended. May be called again."""
        self._client = None
        self._finalizer()

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<namewire.Forwarder at {self.address}>"
