"""Control of a forwarder."""

import asyncio
import dataclasses
import socket
import threading
import time

import pytest

import namewire
import namewire.aio


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def forwarder():
    udp = {"enabled": True, "addresses": ["127.0.0.1"], "port": free_port()}
    with namewire.Forwarder({"listeners": {"udp": udp}}) as forwarder:
        yield forwarder


def test_faces_are_created_changed_and_destroyed(forwarder):
    control = forwarder.control
    face = control.create_face("udp4://127.0.0.1:9999", mtu=1400, reliability=True)
    assert (face.remote_uri, face.persistency, face.mtu, face.reliability) == (
        "udp4://127.0.0.1:9999",
        "persistent",
        1400,
        True,
    )
    assert face.scope == "non-local" and face.link_type == "point-to-point" and face.counters.out_interests == 0
    assert control.create_face("udp4://127.0.0.1:9999").face_id == face.face_id, "it exists"
    changed = control.update_face("udp4://127.0.0.1:9999", persistency="permanent", reliability=False)
    assert dataclasses.replace(changed, counters=face.counters) == dataclasses.replace(
        face, persistency="permanent", reliability=False
    )
    assert face.face_id in {one.face_id for one in control.faces()}
    assert control.face(face.face_id).persistency == "permanent"
    control.destroy_face(face.face_id)
    with pytest.raises(namewire.NotFoundError, match=f"there is no face {face.face_id}"):
        control.face(face.face_id)
    assert forwarder.address in control.listeners()


def test_host_names_are_resolved(forwarder):
    assert forwarder.control.create_face("udp4://localhost:9998").remote_uri == "udp4://127.0.0.1:9998"
    with pytest.raises(namewire.UnreachableError, match="no such host"):
        forwarder.control.create_face("udp4://no-such-host.invalid")


def test_routes_are_added_listed_and_removed(forwarder):
    control = forwarder.control
    face = control.create_face("udp4://127.0.0.1:9999")
    control.add_route("/a/b", face.face_id, cost=7, origin="nlsr", capture=True, expires=600)
    control.add_route("/a", "udp4://127.0.0.1:9997", child_inherit=False)
    (route,) = control.routes("/a/b")
    assert (route.prefix, route.face_id, route.cost, route.origin) == ("/a/b", face.face_id, 7, "nlsr")
    assert route.capture and route.child_inherit and 0 < (route.expiration_period_ms or 0) <= 600_000
    assert [one.prefix for one in control.routes("/a")] == ["/a", "/a/b"]
    (entry,) = control.fib("/a/b")
    assert entry.next_hops == (namewire.control.NextHop(face.face_id, 7),)
    control.remove_route("/a/b", face.face_id, origin="nlsr")
    assert control.routes("/a/b") == []
    with pytest.raises(namewire.NotFoundError, match="99999"):
        control.add_route("/a", 99_999)


def test_strategies_are_chosen(forwarder):
    control = forwarder.control
    assert control.strategy("/a/b").prefix == "/"
    control.set_strategy("/a", "multicast")
    choice = control.strategy("/a/b")
    assert choice.prefix == "/a" and choice.strategy.startswith("/localhost/nfd/strategy/multicast")
    assert choice in control.strategies()
    control.unset_strategy("/a")
    assert control.strategy("/a/b").prefix == "/"
    with pytest.raises(namewire.RefusedError) as raised:
        control.set_strategy("/a", "no-such-strategy")
    assert (raised.value.code, raised.value.name) == (404, "strategy-choice/set")


def test_content_store_is_configured_and_erased(forwarder):
    producer, consumer = forwarder.client(), forwarder.client(timeout=20, metadata_lifetime=0)
    control = forwarder.control
    with producer.publish("/kept", b"x" * 100_000):
        consumer.fetch("/kept")
        deadline = time.monotonic() + 10
        while control.content_store().entries == 0:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert control.erase("/kept", count=1) == 1
        assert control.erase("/kept") > 1
        assert control.erase("/kept") == 0
    found = control.configure_content_store(capacity=10, admit=False)
    deadline = time.monotonic() + 10
    while (found.capacity, found.admit, found.serve) != (10, False, True):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
        found = control.content_store()
    with pytest.raises(ValueError, match="nothing to change"):
        control.configure_content_store()


def test_status_counts(forwarder):
    before = forwarder.control.status()
    assert before.version.startswith("namewire")
    with pytest.raises(namewire.UnreachableError):
        forwarder.client().express("/nowhere")
    assert before.start_timestamp_ms <= before.current_timestamp_ms
    assert before.counters.in_interests > 0


def test_coroutines_control_a_forwarder(forwarder):
    async def main():
        client = namewire.aio.Client(forwarder.address)
        control = client.control
        face = await control.create_face("udp4://127.0.0.1:9999")
        await asyncio.gather(*(control.add_route(f"/{number}", face.face_id) for number in range(20)))
        assert len([one for one in await control.routes() if one.face_id == face.face_id]) == 20
        await control.set_strategy("/1", "multicast")
        assert (await control.strategy("/1/2")).prefix == "/1"
        assert (await control.update_face(face.face_id, mtu=1300)).mtu == 1300
        await control.remove_route("/1", face.face_id)
        await control.destroy_face(face.face_id)
        with pytest.raises(namewire.NotFoundError):
            await control.face(face.face_id)
        assert (await control.content_store()).admit
        assert (await control.status()).version.startswith("namewire")
        assert await control.erase("/none") == 0
        assert forwarder.address in await control.listeners()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_synchronous_and_asynchronous_control_have_the_same_operations():
    def operations(cls: type) -> set[str]:
        return {name for name in vars(cls) if not name.startswith("_")}

    assert operations(namewire.Control) == operations(namewire.aio.Control)


@pytest.mark.parametrize(
    ("operation", "exception", "message"),
    [
        (lambda control: control.create_face("nonsense"), ValueError, "nonsense"),
        (lambda control: control.create_face("udp4://127.0.0.1", persistency="sometimes"), ValueError, "sometimes"),
        (lambda control: control.create_face("udp4://127.0.0.1", mtu=-1), ValueError, "mtu"),
        (lambda control: control.update_face(300), ValueError, "nothing to change"),
        (lambda control: control.add_route("/%zz", 1), ValueError, "%zz"),
        (lambda control: control.remove_route("/a", 99_999), FileNotFoundError, "99999"),
        (lambda control: control.destroy_face("udp4://127.0.0.1:1"), FileNotFoundError, "127.0.0.1"),
        (lambda control: control.erase("/%zz"), ValueError, "%zz"),
    ],
)
def test_errors_name_the_input(forwarder, operation, exception, message):
    with pytest.raises(exception, match=message):
        operation(forwarder.control)


def test_forwarder_that_goes_away_ends_waits(forwarder):
    control = forwarder.client().control
    threading.Timer(0.2, forwarder.stop).start()
    with pytest.raises(OSError):
        for _ in range(100_000):
            control.status()
