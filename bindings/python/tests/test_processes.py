"""Signals, threads and processes."""

import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import namewire


def interrupted_after(operation) -> float:
    """The time from a signal to its exception."""
    sent = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    # Services start their programs with the signal ignored, and Python leaves it so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, send)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            operation()
        return time.monotonic() - sent[0]
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def check_interrupts(operation) -> None:
    # Other programs may have the processors for a while.
    times = []
    while len(times) < 5 and (not times or min(times) >= 0.1):
        times.append(interrupted_after(operation))
    assert min(times) < 0.1, times


@pytest.fixture
def silent(tmp_path):
    """The address of a forwarder that accepts, and never answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen(100)
        yield f"unix://{tmp_path}/socket"


@pytest.mark.parametrize(
    "operation",
    [
        lambda client: client.open("/a"),
        lambda client: client.stat("/a"),
        lambda client: client.listdir("/a"),
        lambda client: client.fetch("/a"),
        lambda client: client.express("/a", lifetime=60),
        lambda client: client.publish("/a", b""),
        lambda client: client.publish("/a", b"", sign_segments=True),
        lambda client: client.serve_directory("/a", "."),
        lambda client: client.control.status(),
        lambda client: client.control.add_route("/a", 300),
        lambda client: namewire.FileSystem(client._transport).cat_file("/a"),
    ],
)
def test_interrupts_end_each_wait(silent, operation):
    client = namewire.Client(silent, timeout=60, lifetime=30)
    check_interrupts(lambda: operation(client))


def test_interrupts_end_reads():
    forwarder = namewire.Forwarder()
    published = forwarder.client().publish("/read", random.Random(5).randbytes(1_000_000))
    client = forwarder.client(lifetime=30, read_ahead_bytes=0, cache_bytes=0)
    file = client.open("/read", buffering=0)
    assert len(file.pread(10, 0)) == 10
    # Requests wait for the forwarder to come back.
    forwarder.stop()
    check_interrupts(lambda: file.pread(100_000, 500_000))
    check_interrupts(lambda: file.readinto(bytearray(100_000)))
    check_interrupts(lambda: file.read_ranges([(300_000, 400_000)]))
    del published


def test_interrupts_end_connecting():
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        # Its queue is full: further connections are not answered.
        for filling in (first, second):
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        time.sleep(0.1)
        address = f"tcp4://127.0.0.1:{listener.getsockname()[1]}"
        check_interrupts(lambda: namewire.Client(address))


class Dataset:
    """A data set for a loader with worker processes, as PyTorch's ``Dataset``: each item is a file."""

    def __init__(self, address: str, count: int) -> None:
        self.files = namewire.FileSystem(address, timeout=30)
        self.client = namewire.Client(address, timeout=30)
        self.count = count

    def __getitem__(self, index: int) -> tuple[bytes, bytes]:
        return self.files.cat(f"/data/{index}"), self.client.fetch(f"/data/{index}")


def work(dataset: Dataset, indices, results) -> None:
    """A worker of a loader: indices of items come by a queue until there is None."""
    try:
        while (index := indices.get()) is not None:
            results.put((index, dataset[index]))
    except BaseException as error:
        results.put((-1, repr(error)))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_of_a_loader_read(method, tmp_path):
    """As the DataLoader of PyTorch works: the data set goes to workers that are forked or spawned."""
    contents = [random.Random(index).randbytes(50_000) for index in range(24)]
    for index, content in enumerate(contents):
        (tmp_path / str(index)).write_bytes(content)
    with namewire.Forwarder() as forwarder, forwarder.client().serve_directory("/data", tmp_path):
        dataset = Dataset(forwarder.address, len(contents))
        assert dataset[0] == (contents[0], contents[0])
        context = multiprocessing.get_context(method)
        results = context.Queue()
        for _ in range(2):
            queues = [context.Queue() for _ in range(4)]
            workers = [context.Process(target=work, args=(dataset, queue, results)) for queue in queues]
            for worker in workers:
                worker.start()
            for index in range(len(contents)):
                queues[index % 4].put(index)
            for _ in contents:
                index, item = results.get(timeout=60)
                assert index >= 0 and item == (contents[index], contents[index]), item
            for queue in queues:
                queue.put(None)
            for worker in workers:
                worker.join(60)
                assert worker.exitcode == 0


def test_buffers_are_filled_in_place():
    numpy = pytest.importorskip("numpy")
    content = numpy.arange(250_000, dtype="float64")
    with namewire.Forwarder() as forwarder, forwarder.client().publish("/numbers", content):
        file = forwarder.client(timeout=20).open("/numbers", buffering=0)
        read = numpy.empty_like(content)
        assert file.readinto(read) == content.nbytes and file.tell() == content.nbytes
        numpy.testing.assert_array_equal(read, content)
        part = numpy.zeros((2, 100))
        assert file.preadinto(part, 8 * 1000) == 1600
        numpy.testing.assert_array_equal(part.ravel(), content[1000:1200])
        assert file.preadinto(bytearray(100), content.nbytes - 7) == 7
        assert file.readinto(bytearray(100)) == 0
        for buffer, exception in [(b"bytes", BufferError), ([1, 2], TypeError), (part[:, ::2], TypeError)]:
            with pytest.raises((exception, ValueError)):
                file.preadinto(buffer, 0)


WAITS_FOR_A_SIGNAL = """
import asyncio, os, signal
import namewire.aio

async def serve():
    async with await namewire.aio.Client().serve("/signals", lambda interest: b"content"):
        await namewire.aio.Client().express("/signals/a", lifetime=20)
        os.kill(os.getpid(), signal.SIGUSR1)
        print(signal.sigtimedwait([signal.SIGUSR1], 20).si_signo == signal.SIGUSR1)

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
asyncio.run(serve())
"""


def test_signals_that_a_program_blocks_wait_for_it():
    """A thread that does not block the signal would end the process."""
    ended = subprocess.run([sys.executable, "-c", WAITS_FOR_A_SIGNAL], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended
