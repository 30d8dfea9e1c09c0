"""Operations of the native module, which threads and coroutines wait for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

from ._namewire import Running, Signer, Verifier

# Called with a result and an exception, one of which is None, on another thread.
Done = Callable[[Any, BaseException | None], None]

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R", covariant=True)

# A key that signs: ``"digest"``, ``"hmac:FILE"``, the path of a private key (PEM), or a Signer.
Sign = str | os.PathLike[str] | Signer
# Requirements for signatures of Data: ``"digest"``, ``"none"``, ``"hmac:FILE"``, ``"rules:FILE"``, the path of a public key or
# certificate, or a Verifier.
Verify = str | os.PathLike[str] | Verifier


def key(argument: Sign) -> str | Signer:
    """The argument ``sign``, as the native module takes it."""
    return argument if isinstance(argument, Signer) else os.fspath(argument)


def trust(argument: Verify) -> str | Verifier:
    """The argument ``verify``, as the native module takes it."""
    return argument if isinstance(argument, Verifier) else os.fspath(argument)


class Awaitable(Protocol[R]):
    """A result that :meth:`wait` blocks for, and ``await`` does not."""

    def wait(self) -> R:
        """The result, for which this thread waits."""

    def __await__(self) -> Generator[Any, None, R]:
        """The result, for which this coroutine waits."""


class Call(Generic[T]):
    """A native task: ``start`` gets a function that is called with its result, on any thread."""

    def __init__(self, start: Callable[[Done], Running], convert: Callable[[Any], T]) -> None:
        self._start = start
        self._convert = convert

    def wait(self) -> T:
        """The result, for which this thread waits; an exception of a signal handler cancels the task."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def finish(result: Any, error: BaseException | None) -> None:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        running = self._start(finish)
        try:
            result = future.result()
        except BaseException:
            running.cancel()
            raise
        return self._convert(result)

    def __await__(self) -> Generator[Any, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def finish(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def pass_on(result: Any, error: BaseException | None) -> None:
            loop.call_soon_threadsafe(finish, result, error)

        running = self._start(pass_on)
        try:
            result = await future
        except asyncio.CancelledError:
            running.cancel()
            raise
        return self._convert(result)

    def then(self, following: Callable[[T], Awaitable[U]]) -> Then[T, U]:
        """The call that ``following`` returns for the result of this one."""
        return Then(self, following)


class Then(Generic[T, U]):
    """A call that needs the result of another one."""

    def __init__(self, first: Awaitable[T], following: Callable[[T], Awaitable[U]]) -> None:
        self._first = first
        self._following = following

    def wait(self) -> U:
        """The result, for which this thread waits."""
        return self._following(self._first.wait()).wait()

    def __await__(self) -> Generator[Any, None, U]:
        return self._awaited().__await__()

    async def _awaited(self) -> U:
        return await self._following(await self._first)


class Known(Generic[T]):
    """A result that needs no waiting."""

    def __init__(self, result: T) -> None:
        self._result = result

    def wait(self) -> T:
        """The result."""
        return self._result

    def __await__(self) -> Generator[Any, None, T]:
        yield from ()
        return self._result
