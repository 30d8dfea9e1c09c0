"""Forwarders within the process."""

import os
import pathlib
import random
import subprocess
import sys
import threading

import pytest

import namewire


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def failure_of(operation) -> BaseException | None:
    try:
        operation()
    except OSError as error:
        return error
    return None


def test_objects_are_published_and_fetched_through_a_forwarder_of_the_process(wait_until):
    content = random.Random(1).randbytes(300_000)
    with namewire.Forwarder() as forwarder:
        assert forwarder.is_running and forwarder.address.startswith("unix:///")
        producer, consumer = forwarder.client(), forwarder.client(timeout=20)
        with producer.publish("/example/object", content) as published:
            assert published.name.startswith("/example/object/v=")
            assert consumer.fetch("/example/object") == content
            assert consumer.open("/example/object").read() == content
        other = forwarder.client(metadata_lifetime=0, timeout=20)
        wait_until(lambda: isinstance(failure_of(lambda: other.stat("/example/object")), namewire.UnreachableError))
        assert failure_of(lambda: other.stat("/example/object")).name == "/example/object"
        assert forwarder.control.status().counters.satisfied_interests > 0
    path = pathlib.Path(forwarder.address.removeprefix("unix://"))
    assert not forwarder.is_running and not path.parent.exists()
    forwarder.stop()
    # A client shares the connection of earlier ones until they notice that it has ended.
    wait_until(lambda: isinstance(failure_of(forwarder.client), ConnectionError))


def test_client_reads_what_it_publishes():
    with namewire.Forwarder() as forwarder:
        client = forwarder.client()
        with client.publish("/own", b"content"):
            assert client.fetch("/own") == b"content"
            assert client.open("/own").read() == b"content"


def test_forwarders_of_one_process_are_connected_by_a_link():
    with namewire.Forwarder() as first, namewire.Forwarder() as second:
        assert first.address != second.address
        here, there = first.connect(second)
        assert second.control.face(there).scope == "non-local"
        first.control.add_route("/far", here)
        with second.client().publish("/far/object", b"content"):
            assert first.client(timeout=20).fetch("/far/object") == b"content"
            second.stop()
        with pytest.raises(ConnectionError, match="stopped"):
            first.connect(second)


def test_settings_are_those_of_the_configuration_file(tmp_path):
    settings = {"tables": {"cs": {"capacity_packets": 100}}, "forwarder": {"workers": 2}}
    with namewire.Forwarder(settings, socket=tmp_path / "own.sock") as forwarder:
        assert forwarder.address == f"unix://{tmp_path}/own.sock"
        assert forwarder.control.content_store().capacity == 100
    assert os.listdir(tmp_path) == []
    for settings, message in [
        ({"tables": {"no_such_table": 1}}, "no_such_table"),
        ({"forwarder": {"workers": "many"}}, "workers"),
        ({"listeners": {"unix": {"enabled": False}}}, "listen"),
    ]:
        with pytest.raises(ValueError, match=message):
            namewire.Forwarder(settings)
    with pytest.raises(ConnectionError, match="/proc/none"):
        namewire.Forwarder(socket="/proc/none/nfd.sock")


def test_forwarders_end_after_exceptions_and_without_a_reference():
    before = threads()
    with pytest.raises(ZeroDivisionError), namewire.Forwarder() as forwarder:
        assert threads() > before
        1 / 0
    assert not forwarder.is_running
    dropped = namewire.Forwarder()
    path = pathlib.Path(dropped.address.removeprefix("unix://"))
    assert path.exists()
    del dropped
    assert not path.parent.exists()


def test_forks_have_no_forwarder():
    with namewire.Forwarder() as forwarder:
        client = forwarder.client(timeout=20)
        with forwarder.client().publish("/forked", b"content") as published:
            assert client.fetch("/forked") == b"content"
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    assert not forwarder.is_running
                    with pytest.raises(ConnectionError, match="forked"):
                        forwarder.connect(forwarder)
                    # The client connects again, to the forwarder of the parent.
                    assert client.fetch("/forked") == b"content"
                    forwarder.stop()
                    del published
                    status = 0
                finally:
                    os._exit(status)
            os.close(writer)
            os.close(reader)
            assert os.waitpid(child, 0)[1] == 0
            assert forwarder.is_running
            assert forwarder.client(timeout=20).fetch("/forked") == b"content"


SCRIPT = """
import os, sys, threading, time
import namewire

forwarder = namewire.Forwarder()
path = forwarder.address.removeprefix("unix://")
producer, consumer = forwarder.client(), forwarder.client(cache_bytes=0)
published = producer.publish("/large", os.urandom(20_000_000))
print(path, flush=True)
{body}
"""


@pytest.mark.parametrize(
    "body",
    [
        "consumer.fetch('/large')",
        # Daemons fetch while the interpreter ends.
        "[threading.Thread(target=lambda: [consumer.fetch('/large') for _ in range(1000)], daemon=True).start()"
        " for _ in range(4)]; time.sleep(0.3)",
        "[threading.Thread(target=lambda: [consumer.open('/large').read() for _ in range(1000)], daemon=True).start()"
        " for _ in range(4)]; time.sleep(0.3)",
        "[threading.Thread(target=lambda: [consumer.express('/large/32=silence', lifetime=9)], daemon=True).start()"
        " for _ in range(4)]; time.sleep(0.1)",
        "import asyncio, namewire.aio; client = namewire.aio.Client(forwarder.address)\n"
        "async def main():\n    asyncio.create_task(client.fetch('/large')); await asyncio.sleep(0.01)\nasyncio.run(main())",
        "pid = os.fork()\nif pid == 0: sys.exit(0)\nassert os.waitpid(pid, 0)[1] == 0; consumer.fetch('/large')",
        "sys.exit(0)",
    ],
)
def test_the_interpreter_ends_while_there_is_work(body, tmp_path):
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT.format(body=body)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    assert ended.stdout.count("\n") == 1
    assert os.listdir(tmp_path) == [], "sockets and temporary files are removed"


def test_many_threads_start_and_stop_forwarders():
    failures = []

    def run(number: int) -> None:
        try:
            for _ in range(3):
                with namewire.Forwarder() as forwarder:
                    with forwarder.client().publish(f"/{number}", b"content"):
                        assert forwarder.client(timeout=20).fetch(f"/{number}") == b"content"
        except BaseException as error:
            failures.append(error)

    started = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(60)
    assert failures == [] and not any(thread.is_alive() for thread in started)
