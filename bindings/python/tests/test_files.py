"""Files by name."""

import concurrent.futures
import io
import multiprocessing
import os
import pathlib
import pickle
import random
import signal
import socket
import threading
import time

import pytest

import namewire


def content(length: int) -> bytes:
    return random.Random(length).randbytes(length)


def has(client, name: str, expected: bytes) -> bool:
    """Whether the file has this content; the server may still state a version that was replaced."""
    try:
        return client.open(name).read() == expected
    except namewire.ChangedError:
        return False


def replace(path: pathlib.Path, new: bytes) -> None:
    part = path.with_name("." + path.name)
    part.write_bytes(new)
    part.rename(path)


def test_file_objects_read_and_seek(served, client):
    expected = content(300_000)
    (served / "objects").write_bytes(expected)
    with client.open("/files/objects") as file:
        assert file.read(10) == expected[:10]
        assert file.seek(-100, io.SEEK_END) == 299_900
        assert file.read() == expected[-100:]
        assert file.read() == b""
        assert file.seek(1000) == 1000 and file.tell() == 1000
        buffer = bytearray(50)
        assert file.readinto(buffer) == 50 and buffer == expected[1000:1050]
        assert not file.writable()
    raw = client.open("/files/objects", buffering=0)
    assert raw.size == 300_000
    assert raw.name.startswith("/files/objects/v=") and raw.stat()["version"] == int(raw.name.rsplit("=")[-1])
    assert raw.pread(100, 299_950) == expected[299_950:]
    assert raw.pread(100, 300_000) == b"" and raw.pread(5, 10**15) == b""
    ranges = [(5000, 5010), (0, 3), (299_990, 400_000), (7, 7)]
    assert raw.read_ranges(ranges) == [expected[first:last] for first, last in ranges]
    raw.seek(400_000)
    assert raw.read() == b""
    raw.close()
    for use in (raw.read, raw.tell, lambda: raw.pread(1, 0), lambda: raw.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_text_is_read_line_by_line(served, client):
    (served / "lines").write_text("one\ntwo\nthree\n")
    with client.open("/files/lines") as file:
        assert [line.decode() for line in file] == ["one\n", "two\n", "three\n"]
    with io.TextIOWrapper(client.open("/files/lines")) as file:
        assert file.read() == "one\ntwo\nthree\n"


def test_open_file_keeps_its_version(served, client, wait_until):
    old, new = content(50_000), content(40_000)
    replace(served / "versions", old)
    file = client.open("/files/versions", buffering=0)
    assert file.pread(50_000, 0) == old
    replace(served / "versions", new)
    wait_until(lambda: has(client, "/files/versions", new))
    assert file.pread(50_000, 0) == old, "from the cache"


def test_version_that_is_gone_is_an_error(served, client, wait_until):
    replace(served / "gone", content(300_000))
    file = client.open("/files/gone", buffering=0)
    assert file.pread(10, 0) == content(300_000)[:10]
    replace(served / "gone", b"short")
    wait_until(lambda: has(client, "/files/gone", b"short"))
    with pytest.raises(namewire.ChangedError, match="/files/gone/v="):
        file.pread(10, 200_000)


def test_later_client_reads_a_version_without_a_forwarder(tmp_path):
    expected = content(300_000)
    cache = tmp_path / "cache"
    with namewire.Forwarder() as forwarder, forwarder.client().publish("/kept", expected):
        client = namewire.Client(forwarder.address, cache_dir=cache, cache_dir_size="1GiB")
        file = client.open("/kept", buffering=0)
        assert file.read() == expected
        name = file.name
        assert client.disk_cache["misses"] > 0 and client.disk_cache["warning"] is None
        del file, client
    with pytest.warns(RuntimeWarning, match="only what is cached on disk can be read"):
        client = namewire.Client(f"unix://{tmp_path}/none", cache_dir=cache, timeout=5)
    with client.open(name) as file:
        assert file.read() == expected
    counters = client.disk_cache
    assert counters["hits"] > 0 and counters["misses"] == 0 and counters["damaged"] == 0


@pytest.mark.parametrize("size", [10, "1MiB", "much"])
def test_size_of_the_cache_is_a_size(tmp_path, size):
    with pytest.raises(ValueError, match="cache_dir_size"):
        namewire.Client(cache_dir=tmp_path / "cache", cache_dir_size=size)


def test_directory_of_the_cache_that_cannot_be_used_is_a_warning(served, tmp_path):
    (served / "plain of cache").write_bytes(b"12345")
    (tmp_path / "file").write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="no content is cached on disk"):
        client = namewire.Client(cache_dir=tmp_path / "file", cache_dir_size=1 << 30)
    assert client.fetch("/files/plain%20of%20cache") == b"12345"


def test_directories_are_listed_and_described(served, client):
    directory = served / "listed"
    (directory / "sub").mkdir(parents=True)
    (directory / "ü b").write_bytes(b"12345")
    assert client.listdir("/files/listed") == ["sub", "ü b"]
    assert client.scandir("/files/listed") == [("sub", True), ("ü b", False)]
    [(_, of_directory), (entry, of_file)] = client.statdir("/files/listed")
    assert of_directory is None and entry == "ü b" and of_file == client.stat("/files/listed/%C3%BC%20b")
    found = client.stat("/files/listed/%C3%BC%20b")
    assert (found["type"], found["size"]) == ("file", 5)
    assert found["mtime_ns"] == (directory / "ü b").stat().st_mtime_ns
    assert client.stat("/files/listed")["type"] == "directory"


@pytest.mark.parametrize(
    ("operation", "exception", "message"),
    [
        (lambda client: client.open("/files/none"), FileNotFoundError, "/files/none"),
        (lambda client: client.open("/files"), IsADirectoryError, "/files is a directory"),
        (lambda client: client.listdir("/files/plain"), NotADirectoryError, "/files/plain"),
        (lambda client: client.stat("/nowhere/file"), namewire.UnreachableError, "no route to /nowhere/file"),
        (lambda client: client.open("/files/%zz"), ValueError, "%zz"),
        (lambda client: client.open("/files/plain", "w"), ValueError, "'w'"),
        (lambda client: client.open("/files/plain", buffering=0).pread(-1, 0), ValueError, "negative"),
        (lambda client: client.open("/files/plain", buffering=0).seek(-1), ValueError, "-1"),
        (lambda client: client.open("/files/plain", buffering=0).seek(0, 9), ValueError, "9"),
        (lambda client: client.open("/files/plain", buffering=0).read_ranges([(3, 1)]), ValueError, "ends at 1"),
        (lambda client: namewire.Client("nonsense://x"), ValueError, "nonsense"),
        (lambda client: namewire.Client("unix:///nonexistent"), ConnectionError, "/nonexistent"),
        (lambda client: namewire.Client(verify="/nonexistent.pem"), FileNotFoundError, "/nonexistent.pem"),
        (lambda client: namewire.Client(verify=__file__), ValueError, "test_files.py"),
        (lambda client: namewire.Client(timeout=-1), ValueError, "timeout"),
        (lambda client: namewire.Client(tiemout=1), TypeError, "tiemout"),
    ],
)
def test_errors_name_the_input(served, client, operation, exception, message):
    (served / "plain").write_bytes(b"plain")
    with pytest.raises(exception, match=message):
        operation(client)


def test_data_of_other_keys_is_refused(served):
    (served / "signed").write_bytes(b"signed")
    other = namewire.Client(verify=os.environ["NAMEWIRE_OTHER_KEY"], timeout=20, lifetime=0.3)
    with pytest.raises(namewire.VerificationError, match="does not verify"):
        other.open("/files/signed")
    own = namewire.Client(verify=os.environ["NAMEWIRE_KEY"], timeout=20)
    assert own.open("/files/signed").read() == b"signed"


def test_threads_share_a_file(served, client):
    expected = content(2_000_000)
    (served / "threads").write_bytes(expected)
    file = client.open("/files/threads", buffering=0)

    def read(seed: int) -> None:
        choose = random.Random(seed)
        for _ in range(100):
            offset, length = choose.randrange(2_000_000), choose.randrange(30_000)
            assert file.pread(length, offset) == expected[offset : offset + length]

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(read, seed) for seed in range(16)]:
            done.result(60)


def in_child(client, expected: bytes, results) -> None:
    results.put(client.open("/files/forked").read() == expected)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_use_a_client(served, client, method):
    expected = content(100_000)
    (served / "forked").write_bytes(expected)
    held = client.open("/files/forked", buffering=0)
    assert held.pread(10, 0) == expected[:10]
    context = multiprocessing.get_context(method)
    results = context.Queue()
    child = context.Process(target=in_child, args=(client, expected, results))
    child.start()
    assert results.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert held.read() == expected


def test_file_of_the_parent_is_refused_in_a_fork(served, client):
    (served / "parents").write_bytes(content(100_000))
    file = client.open("/files/parents", buffering=0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            file.pread(10, 0)
            os.write(writer, b"it was read")
        except ConnectionError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        assert b"forked" in answer.read()
    assert os.waitpid(child, 0)[1] == 0


def test_clients_are_pickled(client):
    again = pickle.loads(pickle.dumps(client))
    assert again.stat("/files")["type"] == "directory"


def test_interrupts_end_a_wait(tmp_path):
    """A forwarder that accepts, and never answers."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.listen()
    client = namewire.Client(f"unix://{tmp_path}/socket", timeout=60, lifetime=30)
    # Services start their programs with the signal ignored, and Python leaves it so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            client.open("/files/none")
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 10
    slow = namewire.Client(f"unix://{tmp_path}/socket", timeout=0.2)
    with pytest.raises(TimeoutError, match="/files/none was not answered"):
        slow.open("/files/none")


def test_other_threads_run_during_a_wait(tmp_path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.listen()
    client = namewire.Client(f"unix://{tmp_path}/socket", timeout=1)
    counted = []

    def count() -> None:
        while len(counted) < 100:
            counted.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(TimeoutError):
        client.open("/files/none")
    # Were the lock of the interpreter held, it would have waited for the second.
    assert len(counted) == 100
    thread.join()
