"""Control of a forwarder: its faces, routes, strategies and Content Store, by NFD's management protocol.

>>> control = namewire.Client().control
>>> control.add_route("/site", "udp://router.example")
>>> [face.remote_uri for face in control.faces()]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ._calls import Awaitable, Call, Known, Then
from ._errors import NotFoundError
from ._namewire import NativeControl

__all__ = [
    "ContentStore",
    "Control",
    "Face",
    "FaceCounters",
    "FibEntry",
    "ForwarderCounters",
    "ForwarderStatus",
    "NextHop",
    "Route",
    "StrategyChoice",
]

_STRATEGIES = "/localhost/nfd/strategy/"


@dataclass(frozen=True)
class FaceCounters:
    """Packets of a face, and bytes on its link."""

    in_interests: int
    in_data: int
    in_nacks: int
    out_interests: int
    out_data: int
    out_nacks: int
    in_bytes: int
    out_bytes: int


@dataclass(frozen=True)
class Face:
    """A face: ``persistency`` is on-demand, persistent or permanent, ``scope`` local or non-local."""

    face_id: int
    remote_uri: str
    local_uri: str
    scope: str
    persistency: str
    link_type: str
    local_fields: bool
    reliability: bool
    congestion_marking: bool
    expiration_period_ms: int | None
    base_congestion_marking_interval_ns: int | None
    default_congestion_threshold: int | None
    mtu: int | None
    counters: FaceCounters

    @classmethod
    def _of(cls, item: Mapping[str, Any]) -> Face:
        rest = {key: value for key, value in item.items() if key not in ("properties", "counters")}
        return cls(**item["properties"], **rest, counters=FaceCounters(**item["counters"]))


@dataclass(frozen=True)
class Route:
    """A route of the RIB. ``child_inherit``: longer prefixes inherit it; ``capture``: it hides the routes of shorter ones."""

    prefix: str
    face_id: int
    origin: str
    cost: int
    child_inherit: bool
    capture: bool
    expiration_period_ms: int | None


@dataclass(frozen=True)
class NextHop:
    """A next hop of a FIB entry."""

    face_id: int
    cost: int


@dataclass(frozen=True)
class FibEntry:
    """An entry of the FIB; the next hop of the lowest cost comes first."""

    prefix: str
    next_hops: tuple[NextHop, ...]


@dataclass(frozen=True)
class StrategyChoice:
    """The strategy of a namespace, with version and parameters."""

    prefix: str
    strategy: str


@dataclass(frozen=True)
class ForwarderCounters:
    """Packets of all faces since the start, and PIT entries that were satisfied or expired."""

    in_interests: int
    in_data: int
    in_nacks: int
    out_interests: int
    out_data: int
    out_nacks: int
    satisfied_interests: int
    unsatisfied_interests: int


@dataclass(frozen=True)
class ForwarderStatus:
    """Version, times and tables of a forwarder."""

    version: str
    start_timestamp_ms: int
    current_timestamp_ms: int
    name_tree_entries: int
    fib_entries: int
    pit_entries: int
    measurements_entries: int
    cs_entries: int
    counters: ForwarderCounters

    @classmethod
    def _of(cls, items: list[dict[str, Any]]) -> ForwarderStatus:
        (item,) = items
        return cls(**{**item, "counters": ForwarderCounters(**item["counters"])})


@dataclass(frozen=True)
class ContentStore:
    """The Content Store: capacity and entries in packets; whether it admits Data, and serves it."""

    capacity: int
    entries: int
    hits: int
    misses: int
    admit: bool
    serve: bool


def _is_below(name: str, prefix: str | None) -> bool:
    return prefix is None or name == prefix or name.startswith(prefix.rstrip("/") + "/")


def _routes(entries: list[dict[str, Any]], prefix: str | None) -> list[Route]:
    found = [Route(prefix=entry["name"], **route) for entry in entries for route in entry["routes"]]
    return sorted((route for route in found if _is_below(route.prefix, prefix)), key=lambda route: route.prefix)


def _fib(entries: list[dict[str, Any]], prefix: str | None) -> list[FibEntry]:
    found = [FibEntry(entry["name"], tuple(NextHop(**hop) for hop in entry["next_hops"])) for entry in entries]
    return sorted((entry for entry in found if _is_below(entry.prefix, prefix)), key=lambda entry: entry.prefix)


class Calls:
    """The operations, which :class:`Control` waits for, and ``namewire.aio.Control`` awaits."""

    def __init__(self, native: Callable[[], NativeControl]) -> None:
        self._native = native

    def _dataset(self, dataset: str) -> Call[list[dict[str, Any]]]:
        return Call(lambda done: self._native().start_dataset(dataset, done), list)

    def _command(self, command: str, **parameters: Any) -> Call[dict[str, Any]]:
        return Call(lambda done: self._native().start_command(command, parameters, done), lambda result: dict(result[0]))

    def _done(self, command: str, **parameters: Any) -> Awaitable[None]:
        return self._command(command, **parameters).then(lambda _: Known(None))

    def status(self) -> Awaitable[ForwarderStatus]:
        return self._dataset("status").then(lambda items: Known(ForwarderStatus._of(items)))

    def faces(self) -> Awaitable[list[Face]]:
        return self._dataset("faces").then(lambda items: Known([Face._of(item) for item in items]))

    def listeners(self) -> Awaitable[list[str]]:
        return self._dataset("channels").then(lambda items: Known([item["local_uri"] for item in items]))

    def _find(self, face: int | str) -> Call[list[Face]]:
        return Call(
            lambda done: self._native().start_find_faces(face, done),
            lambda items: [Face._of(item) for item in items],
        )

    def face(self, face: int | str) -> Awaitable[Face]:
        def only(found: list[Face]) -> Awaitable[Face]:
            if not found:
                raise NotFoundError(f"there is no face {face}")
            if len(found) > 1:
                raise ValueError(f"{len(found)} faces have the URI {face}: use a FaceId")
            return Known(found[0])

        return self._find(face).then(only)

    def create_face(self, uri: str, **parameters: Any) -> Awaitable[Face]:
        given = {"uri": uri, **parameters}
        made: Call[int] = Call(lambda done: self._native().start_create_face(given, done), lambda result: int(result[0]))
        return made.then(self.face)

    def update_face(self, face: int | str, **parameters: Any) -> Awaitable[Face]:
        if all(value is None for value in parameters.values()):
            raise ValueError("nothing to change")
        return Then(
            self.face(face),
            lambda found: self._command("faces/update", face_id=found.face_id, **parameters).then(
                lambda _: self.face(found.face_id)
            ),
        )

    def destroy_face(self, face: int | str) -> Awaitable[None]:
        return Then(self.face(face), lambda found: self._done("faces/destroy", face_id=found.face_id))

    def routes(self, prefix: str | None) -> Awaitable[list[Route]]:
        return self._dataset("routes").then(lambda entries: Known(_routes(entries, prefix)))

    def fib(self, prefix: str | None) -> Awaitable[list[FibEntry]]:
        return self._dataset("fib").then(lambda entries: Known(_fib(entries, prefix)))

    def add_route(
        self,
        prefix: str,
        face: int | str,
        cost: int,
        origin: str,
        child_inherit: bool,
        capture: bool,
        expires: float | None,
    ) -> Awaitable[None]:
        period = None if expires is None else round(expires * 1000)

        def register(found: Face) -> Awaitable[None]:
            return self._done(
                "rib/register",
                name=prefix,
                face_id=found.face_id,
                cost=cost,
                origin=origin,
                child_inherit=child_inherit,
                capture=capture,
                expiration_period_ms=period,
            )

        # A route to a face that does not exist would be accepted and ignored.
        is_peer = isinstance(face, str) and face.split(":")[0].rstrip("46") in ("udp", "tcp")
        wanted = self.create_face(face) if is_peer and isinstance(face, str) else self.face(face)
        return Then(wanted, register)

    def remove_route(self, prefix: str, face: int | str, origin: str) -> Awaitable[None]:
        return Then(
            self.face(face),
            lambda found: self._done("rib/unregister", name=prefix, face_id=found.face_id, origin=origin),
        )

    def strategies(self) -> Awaitable[list[StrategyChoice]]:
        def choices(items: list[dict[str, Any]]) -> Awaitable[list[StrategyChoice]]:
            found = [StrategyChoice(item["name"], item["strategy"]) for item in items]
            return Known(sorted(found, key=lambda choice: choice.prefix))

        return self._dataset("strategies").then(choices)

    def strategy(self, name: str) -> Awaitable[StrategyChoice]:
        def applying(choices: list[StrategyChoice]) -> Awaitable[StrategyChoice]:
            return Known(max((one for one in choices if _is_below(name, one.prefix)), key=lambda one: len(one.prefix)))

        return Then(self.strategies(), applying)

    def set_strategy(self, prefix: str, strategy: str) -> Awaitable[None]:
        full = strategy if strategy.startswith("/") else _STRATEGIES + strategy
        return self._done("strategy-choice/set", name=prefix, strategy=full)

    def unset_strategy(self, prefix: str) -> Awaitable[None]:
        return self._done("strategy-choice/unset", name=prefix)

    def content_store(self) -> Awaitable[ContentStore]:
        return self._dataset("cs").then(lambda items: Known(ContentStore(**items[0])))

    def configure_content_store(self, **parameters: Any) -> Awaitable[ContentStore]:
        if all(value is None for value in parameters.values()):
            raise ValueError("nothing to change")
        return self._command("cs/config", **parameters).then(lambda _: self.content_store())

    def erase(self, prefix: str, count: int | None) -> Awaitable[int]:
        return Call(lambda done: self._native().start_erase(prefix, done, count=count), int)


class Control:
    """Management of the forwarder that a client is connected to.

    Commands are signed by the key ``sign_commands`` of the client; a forwarder accepts the default, a digest, from local
    applications. One that it refuses raises :class:`namewire.RefusedError`.
    """

    def __init__(self, native: Callable[[], NativeControl]) -> None:
        self._calls = Calls(native)

    def status(self) -> ForwarderStatus:
        """Version, times, tables and counters."""
        return self._calls.status().wait()

    def faces(self) -> list[Face]:
        """All faces."""
        return self._calls.faces().wait()

    def listeners(self) -> list[str]:
        """The URIs that the forwarder listens at."""
        return self._calls.listeners().wait()

    def face(self, face: int | str) -> Face:
        """The face with a FaceId, or to the peer of a URI such as ``udp4://192.0.2.1:6363``."""
        return self._calls.face(face).wait()

    def create_face(
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
        """Create a face to the peer ``uri``, such as ``udp://router.example`` or ``tcp4://192.0.2.1:6363``, or return the one
        that exists, as it is.

        ``local_uri`` is the network interface of an Ethernet face (``dev://eth1``); ``persistency`` is ``"persistent"``
        (destroyed on an error) or ``"permanent"``. Lengths are in bytes.
        """
        return self._calls.create_face(
            uri,
            local_uri=local_uri,
            persistency=persistency,
            mtu=mtu,
            reliability=reliability,
            congestion_marking=congestion_marking,
            default_congestion_threshold=congestion_threshold,
            local_fields=local_fields,
        ).wait()

    def update_face(
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
        """Change a face, given by its FaceId or the URI of its peer."""
        return self._calls.update_face(
            face,
            persistency=persistency,
            mtu=mtu,
            reliability=reliability,
            congestion_marking=congestion_marking,
            default_congestion_threshold=congestion_threshold,
            local_fields=local_fields,
        ).wait()

    def destroy_face(self, face: int | str) -> None:
        """Destroy a face, given by its FaceId or the URI of its peer."""
        self._calls.destroy_face(face).wait()

    def routes(self, prefix: str | None = None) -> list[Route]:
        """The routes, of ``prefix`` and longer ones."""
        return self._calls.routes(prefix).wait()

    def fib(self, prefix: str | None = None) -> list[FibEntry]:
        """The forwarding entries, of ``prefix`` and longer ones."""
        return self._calls.fib(prefix).wait()

    def add_route(
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
        """Add or change a route to a face, given by its FaceId or the URI of its peer, to which a UDP or TCP face is created if
        there is none.

        Routes of lower ``cost`` are preferred. ``child_inherit`` lets longer prefixes inherit the route, ``capture`` hides the
        routes of shorter ones; it ends ``expires`` seconds later.
        """
        self._calls.add_route(prefix, face, cost, origin, child_inherit, capture, expires).wait()

    def remove_route(self, prefix: str, face: int | str, *, origin: str = "static") -> None:
        """Remove a route."""
        self._calls.remove_route(prefix, face, origin).wait()

    def strategies(self) -> list[StrategyChoice]:
        """The namespaces that have a strategy."""
        return self._calls.strategies().wait()

    def strategy(self, name: str) -> StrategyChoice:
        """The strategy that applies to a name."""
        return self._calls.strategy(name).wait()

    def set_strategy(self, prefix: str, strategy: str) -> None:
        """Set the strategy of a namespace: a short name such as ``best-route``, ``multicast`` or ``asf``, or the full name of a
        strategy of the forwarder, with version and parameters."""
        self._calls.set_strategy(prefix, strategy).wait()

    def unset_strategy(self, prefix: str) -> None:
        """Remove the strategy of a namespace, so that it inherits one."""
        self._calls.unset_strategy(prefix).wait()

    def content_store(self) -> ContentStore:
        """State and settings of the Content Store. Its counters may be a second old."""
        return self._calls.content_store().wait()

    def configure_content_store(
        self, *, capacity: int | None = None, admit: bool | None = None, serve: bool | None = None
    ) -> ContentStore:
        """Change the capacity in packets, and whether Data is admitted and served."""
        return self._calls.configure_content_store(capacity=capacity, admit=admit, serve=serve).wait()

    def erase(self, prefix: str, count: int | None = None) -> int:
        """Erase the Data under a prefix from the Content Store, at most ``count`` packets; returns how many."""
        return self._calls.erase(prefix, count).wait()
