"""Named Data Networking for asyncio: packets, objects and files.

>>> import namewire.aio
>>> client = namewire.aio.Client()
>>> data = await client.express("/site/status", must_be_fresh=True)
>>> async with await client.serve("/me/time", lambda interest: b"now"):
...     ...
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Unpack

from . import _client
from ._calls import Call, Sign, Verify, key
from ._client import ClientOptions
from ._namewire import Data, Interest, NativeClient, NativeControl, NativeServed
from ._served import Content, Publication, Service, publish_file, publish_segments, serve_directory
from .control import Calls, ContentStore, Face, FibEntry, ForwarderStatus, Route, StrategyChoice

__all__ = ["Client", "Control", "Data", "Handler", "Interest", "Served"]

# Returns the content of the Data that answers an Interest, or None.
Handler = Callable[[Interest], bytes | None | Awaitable[bytes | None]]

# Handlers that run at a time for one prefix; further Interests are dropped.
_HANDLERS_MAX = 4096


class Served(Service):
    """A prefix that is served, an object that is published, or a directory that is served, until it is closed.

    It closes itself at the end of ``async with``.
    """

    _client: Client

    async def close(self) -> None:
        """Stop serving, and wait until the forwarder has removed the route. May be called again."""
        await self._end(lambda: self._client._native)

    async def __aenter__(self) -> Served:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class Client:
    """A connection to a forwarder, for one event loop or several. It has the options of :class:`namewire.Client`."""

    def __init__(self, transport: str | None = None, **options: Unpack[ClientOptions]) -> None:
        self._client = _client.Client(transport, **options)

    @property
    def _native(self) -> NativeClient:
        return self._client._native

    async def express(
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
        """As :meth:`namewire.Client.express`. Cancelling the task withdraws the Interest."""
        return await _client.express(
            self._native, name, can_be_prefix, must_be_fresh, lifetime, retransmissions, parameters, verify
        )

    async def fetch(self, name: str, *, verify: Verify | None = None) -> bytes:
        """As :meth:`namewire.Client.fetch`."""
        return await _client.fetch(self._native, name, verify)

    async def serve(self, prefix: str, handler: Handler, *, sign: Sign = "digest", freshness: float = 0.0) -> Served:
        """Answer the Interests below ``prefix``, which is registered with the forwarder.

        ``handler`` is a function or coroutine function that gets an :class:`Interest` and returns the content of the Data that
        answers it, or None; it may also call ``interest.answer`` or ``interest.nack``. ``sign`` is as for :meth:`publish`;
        ``freshness`` is the FreshnessPeriod in seconds.
        """
        loop = asyncio.get_running_loop()
        running: set[asyncio.Task[None]] = set()

        def failed(interest: Interest, error: Exception) -> None:
            context = {"message": f"the handler of {prefix} failed for {interest.name}", "exception": error}
            loop.call_exception_handler(context)

        async def finish(interest: Interest, result: Awaitable[bytes | None]) -> None:
            try:
                answer(interest, await result)
            except Exception as error:
                failed(interest, error)

        def answer(interest: Interest, content: bytes | None) -> None:
            if content is not None:
                interest.answer(bytes(content), freshness=freshness)

        def dispatch(interests: list[Interest]) -> None:
            for interest in interests:
                try:
                    result = handler(interest)
                    if not inspect.isawaitable(result):
                        answer(interest, result)
                    elif len(running) < _HANDLERS_MAX:
                        task = loop.create_task(finish(interest, result))
                        running.add(task)
                        task.add_done_callback(running.discard)
                    elif inspect.iscoroutine(result):
                        result.close()
                except Exception as error:
                    failed(interest, error)

        def receive(interests: list[Interest]) -> None:
            loop.call_soon_threadsafe(dispatch, interests)

        native = self._native
        call: Call[NativeServed] = Call(
            lambda done: native.start_serve(prefix, receive, done, sign=key(sign)), lambda served: served
        )
        return self._served(Served(await call))

    async def publish(
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
        """As :meth:`namewire.Client.publish`."""
        native = self._native
        if sign_segments and not isinstance(content, os.PathLike):
            return self._served(
                Served(await publish_segments(native, name, bytes(content), version, segment_size, freshness, sign))
            )
        publication = await asyncio.to_thread(Publication.of, name, content, version)
        try:
            served = await publish_file(native, name, publication, segment_size, freshness, sign, sign_segments)
        except BaseException:
            publication.remove()
            raise
        return self._served(Served(served, publication.name, publication.directory))

    async def serve_directory(
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
        """As :meth:`namewire.Client.serve_directory`."""
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
        return self._served(Served(await call))

    def _served(self, served: Served) -> Served:
        served._client = self
        return served

    @property
    def control(self) -> Control:
        """Management of the forwarder: faces, routes, strategies, Content Store."""
        return Control(lambda: self._native.control())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (self._client._transport, self._client._options))

    def __repr__(self) -> str:
        return repr(self._client).replace("namewire.Client", "namewire.aio.Client")


def _restored(transport: str | None, options: ClientOptions) -> Client:
    return Client(transport, **options)


class Control:
    """Management of a forwarder: the operations of :class:`namewire.Control`, as coroutines."""

    def __init__(self, native: Callable[[], NativeControl]) -> None:
        self._calls = Calls(native)

    async def status(self) -> ForwarderStatus:
        """As :meth:`namewire.Control.status`."""
        return await self._calls.status()

    async def faces(self) -> list[Face]:
        """As :meth:`namewire.Control.faces`."""
        return await self._calls.faces()

    async def listeners(self) -> list[str]:
        """As :meth:`namewire.Control.listeners`."""
        return await self._calls.listeners()

    async def face(self, face: int | str) -> Face:
        """As :meth:`namewire.Control.face`."""
        return await self._calls.face(face)

    async def create_face(
        self,
        uri: str,
        *,
        local_uri: str | None = None,
        persistency: str = "persistent",
        mtu: int | None = None,
        reliability: bool | None = None,
        congestion_marking: bool | None = None,
        congestion_threshold: int | None = None,
        local_fields: bool | None = None,
    ) -> Face:
        """As :meth:`namewire.Control.create_face`."""
        return await self._calls.create_face(
            uri,
            local_uri=local_uri,
            persistency=persistency,
            mtu=mtu,
            reliability=reliability,
            congestion_marking=congestion_marking,
            default_congestion_threshold=congestion_threshold,
            local_fields=local_fields,
        )

    async def update_face(
        self,
        face: int | str,
        *,
        persistency: str | None = None,
        mtu: int | None = None,
        reliability: bool | None = None,
        congestion_marking: bool | None = None,
        congestion_threshold: int | None = None,
        local_fields: bool | None = None,
    ) -> Face:
        """As :meth:`namewire.Control.update_face`."""
        return await self._calls.update_face(
            face,
            persistency=persistency,
            mtu=mtu,
            reliability=reliability,
            congestion_marking=congestion_marking,
            default_congestion_threshold=congestion_threshold,
            local_fields=local_fields,
        )

    async def destroy_face(self, face: int | str) -> None:
        """As :meth:`namewire.Control.destroy_face`."""
        await self._calls.destroy_face(face)

    async def routes(self, prefix: str | None = None) -> list[Route]:
        """As :meth:`namewire.Control.routes`."""
        return await self._calls.routes(prefix)

    async def fib(self, prefix: str | None = None) -> list[FibEntry]:
        """As :meth:`namewire.Control.fib`."""
        return await self._calls.fib(prefix)

    async def add_route(
        self,
        prefix: str,
        face: int | str,
        *,
        cost: int = 0,
        origin: str = "static",
        child_inherit: bool = True,
        capture: bool = False,
        expires: float | None = None,
    ) -> None:
        """As :meth:`namewire.Control.add_route`."""
        await self._calls.add_route(prefix, face, cost, origin, child_inherit, capture, expires)

    async def remove_route(self, prefix: str, face: int | str, *, origin: str = "static") -> None:
        """As :meth:`namewire.Control.remove_route`."""
        await self._calls.remove_route(prefix, face, origin)

    async def strategies(self) -> list[StrategyChoice]:
        """As :meth:`namewire.Control.strategies`."""
        return await self._calls.strategies()

    async def strategy(self, name: str) -> StrategyChoice:
        """As :meth:`namewire.Control.strategy`."""
        return await self._calls.strategy(name)

    async def set_strategy(self, prefix: str, strategy: str) -> None:
        """As :meth:`namewire.Control.set_strategy`."""
        await self._calls.set_strategy(prefix, strategy)

    async def unset_strategy(self, prefix: str) -> None:
        """As :meth:`namewire.Control.unset_strategy`."""
        await self._calls.unset_strategy(prefix)

    async def content_store(self) -> ContentStore:
        """As :meth:`namewire.Control.content_store`."""
        return await self._calls.content_store()

    async def configure_content_store(
        self, *, capacity: int | None = None, admit: bool | None = None, serve: bool | None = None
    ) -> ContentStore:
        """As :meth:`namewire.Control.configure_content_store`."""
        return await self._calls.configure_content_store(capacity=capacity, admit=admit, serve=serve)

    async def erase(self, prefix: str, count: int | None = None) -> int:
        """As :meth:`namewire.Control.erase`."""
        return await self._calls.erase(prefix, count)
