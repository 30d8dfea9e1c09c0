"""Named Data Networking for asyncio: packets, objects and files.

>>> import namewire.aio
>>> client = namewire.aio.Client()
>>> data = await client.express("/site/status", must_be_fresh=True)
>>> async with await client.serve("/me/time", lambda interest: b"now"):
...     ...
"""

from __future__ import annotations

import asyncio as _asyncio
import inspect as _inspect

from . import Client as _Client
from ._namewire import Data, Interest

__all__ = ["Client", "Data", "Interest", "Served"]

# Handlers that run at a time for one prefix; further Interests are dropped.
_HANDLERS_MAX = 4096


async def _run(start):
    """The result of a native task: ``start`` gets a function to be called with it, on any thread."""
    loop = _asyncio.get_running_loop()
    future = loop.create_future()

    def finish(result, error):
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    running = start(lambda result, error: loop.call_soon_threadsafe(finish, result, error))
    try:
        return await future
    except _asyncio.CancelledError:
        running.cancel()
        raise


class Served:
    """A prefix that is served, or an object that is published, until it is closed.

    It closes itself at the end of ``async with``.
    """

    def __init__(self, client: Client, native):
        self._client = client
        self._native = native

    @property
    def name(self) -> str:
        """The prefix, or the name of the object with its version."""
        return self._native.name

    async def close(self) -> None:
        """Stop serving, and wait until the forwarder has removed the route."""
        await _run(lambda done: self._client._native.start_end(self._native, done))

    async def __aenter__(self) -> Served:
        return self

    async def __aexit__(self, *_) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<namewire.aio.Served {self.name}>"


class Client:
    """A connection to a forwarder, for one event loop or several. It has the options of :class:`namewire.Client`."""

    def __init__(self, transport: str | None = None, **options):
        self._client = _Client(transport, **options)

    @property
    def _native(self):
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
    ) -> Data:
        """Send an Interest, and return the Data that answers it, verified as the option ``verify`` demands.

        ``retransmissions`` is how many times it is sent again after its ``lifetime`` (seconds).
        """
        return await _run(
            lambda done: self._native.start_express(
                name,
                done,
                can_be_prefix=can_be_prefix,
                must_be_fresh=must_be_fresh,
                lifetime=lifetime,
                retransmissions=retransmissions,
                parameters=None if parameters is None else bytes(parameters),
            )
        )

    async def fetch(self, name: str) -> bytes:
        """The content of the current version of a file or another object with metadata, at most 1 GiB."""
        return await _run(lambda done: self._native.start_fetch(name, done))

    async def serve(self, prefix: str, handler, *, sign: str = "digest", freshness: float = 0.0) -> Served:
        """Answer the Interests below ``prefix``, which is registered with the forwarder.

        ``handler`` is a function or coroutine function that gets an :class:`Interest` and returns the content of the Data that
        answers it, or None; it may also call ``interest.answer`` or ``interest.nack``. ``sign`` is ``"digest"``, ``"hmac:FILE"``
        or the path of a private key (PEM); ``freshness`` is the FreshnessPeriod in seconds.
        """
        loop = _asyncio.get_running_loop()
        running: set[_asyncio.Task] = set()

        def failed(interest, error):
            context = {"message": f"the handler of {prefix} failed for {interest.name}", "exception": error}
            loop.call_exception_handler(context)

        async def finish(interest, result):
            try:
                answer(interest, await result)
            except Exception as error:
                failed(interest, error)

        def answer(interest, content):
            if content is not None:
                interest.answer(bytes(content), freshness=freshness)

        def dispatch(interests):
            for interest in interests:
                try:
                    result = handler(interest)
                    if not _inspect.isawaitable(result):
                        answer(interest, result)
                    elif len(running) < _HANDLERS_MAX:
                        task = loop.create_task(finish(interest, result))
                        running.add(task)
                        task.add_done_callback(running.discard)
                    elif _inspect.iscoroutine(result):
                        result.close()
                except Exception as error:
                    failed(interest, error)

        def receive(interests):
            loop.call_soon_threadsafe(dispatch, interests)

        native = await _run(lambda done: self._native.start_serve(prefix, receive, done, sign=sign))
        return Served(self, native)

    async def publish(
        self,
        name: str,
        content: bytes,
        *,
        version: int | None = None,
        segment_size: int = 8000,
        freshness: float = 10.0,
        sign: str = "digest",
    ) -> Served:
        """Publish a version of an object in segments, with metadata, until the result is closed.

        ``version`` is the time in milliseconds by default, ``segment_size`` the content bytes of a segment. For ``sign``, see
        :meth:`serve`; every segment is signed.
        """
        native = await _run(
            lambda done: self._native.start_publish(
                name,
                bytes(content),
                done,
                version=version,
                segment_size=segment_size,
                freshness=freshness,
                sign=sign,
            )
        )
        return Served(self, native)

    def __repr__(self) -> str:
        return repr(self._client).replace("namewire.Client", "namewire.aio.Client")
