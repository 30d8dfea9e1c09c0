"""The file system for fsspec, and the programs that read through it."""

import os
import pathlib
import random
import time
import uuid

import fsspec
import fsspec.tests.abstract as abstract
import pytest
from fsspec.implementations.local import LocalFileSystem, make_path_posix
from fsspec.spec import AbstractBufferedFile

import namewire

OPTIONS = {"metadata_lifetime": 0, "timeout": 20}


@pytest.fixture
def fs():
    return namewire.FileSystem(**OPTIONS)


class Fixtures(abstract.AbstractFixtures):
    """Scenarios are made in the served directory, and read through the file system."""

    @pytest.fixture(scope="function")
    def fs(self):
        return namewire.FileSystem(**OPTIONS)

    @pytest.fixture
    def scenario(self, served):
        """Makes a scenario, and returns its path in the file system."""
        name = uuid.uuid4().hex
        local, base = LocalFileSystem(auto_mkdir=True), make_path_posix(str(served / name))

        def made(make, *arguments):
            (served / name).mkdir(exist_ok=True)
            path = make(local, lambda *parts: "/".join(parts), base, *arguments)
            return path.replace(str(served), "/files") if isinstance(path, str) else f"/files/{name}"

        return made

    @pytest.fixture
    def fs_path(self, served):
        name = uuid.uuid4().hex
        (served / name).mkdir()
        return f"/files/{name}"

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self, scenario):
        return scenario(self._bulk_operations_scenario_0)

    @pytest.fixture
    def fs_glob_edge_cases_files(self, scenario):
        return scenario(self._glob_edge_cases_files)

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self, scenario):
        return scenario(self._dir_and_file_with_same_name_prefix)

    @pytest.fixture
    def fs_10_files_with_hashed_names(self, scenario):
        return scenario(self._10_files_with_hashed_names)


class TestGet(abstract.AbstractGetTests, Fixtures):
    """fsspec's own tests of reading."""

    def test_get_directory_recursive(self, served, fs, local_fs, local_join, local_target):
        """The test of fsspec, which writes through the file system."""
        name = uuid.uuid4().hex
        (served / name / "src").mkdir(parents=True)
        (served / name / "src" / "file").write_bytes(b"content")
        source = f"/files/{name}/src"
        fs.get(source, local_target, recursive=True)
        assert local_fs.isfile(local_join(local_target, "file"))
        fs.get(source, local_target, recursive=True)
        assert local_fs.isfile(local_join(local_target, "src", "file"))
        fs.get(source + "/", local_target, recursive=True)
        assert local_fs.cat(local_join(local_target, "file")) == b"content"


class TestOpen(Fixtures):
    """fsspec's test of opening, with a file that is there."""

    def test_open_exclusive(self, fs):
        with pytest.raises(NotImplementedError):
            fs.open("/files/new", "xb")


def test_entry_point_is_registered_by_installation():
    assert isinstance(fsspec.filesystem("ndn", **OPTIONS), namewire.FileSystem)


def test_paths_and_patterns(served, fs):
    directory = served / "patterns"
    (directory / "a b").mkdir(parents=True)
    for name in ("one.txt", "two.txt", "three.csv", "a b/%41", "a b/v=1", "a b/x..."):
        (directory / name).write_text(name)
    assert fs.glob("ndn://files/patterns/*.txt") == ["/files/patterns/one.txt", "/files/patterns/two.txt"]
    assert fs.find("/files/patterns/a b") == [f"/files/patterns/a b/{name}" for name in ("%41", "v=1", "x...")]
    for name in ("a b/%41", "a b/v=1", "a b/x..."):
        assert fs.cat(f"/files/patterns/{name}") == name.encode()
    assert fs.isdir("/files/patterns") and fs.isfile("/files/patterns/one.txt")
    assert not fs.exists("/files/patterns/none")
    assert fs.du("/files/patterns") == sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    info = fs.info("/files/patterns/one.txt")
    assert info["size"] == 7 and fs.ukey("/files/patterns/one.txt") == info["ndn_name"]
    assert fs.modified("/files/patterns/one.txt").timestamp() == pytest.approx(
        (directory / "one.txt").stat().st_mtime, abs=1e-3
    )


def test_files_are_found_without_being_described(served, fs, monkeypatch):
    directory = served / "found"
    for name in ("a/one", "a/b/two", "three"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)
    names = [f"/files/found/{name}" for name in ("a/b/two", "a/one", "three")]
    described = fs.find("/files/found", detail=True)
    assert {name: info["size"] for name, info in described.items()} == dict(zip(names, (7, 5, 5), strict=True))
    assert fs.glob("/files/found/**/t*", detail=True)["/files/found/three"]["size"] == 5
    asked = []
    stat = namewire.Client.stat
    monkeypatch.setattr(namewire.Client, "stat", lambda client, name: asked.append(name) or stat(client, name))
    assert fs.find("/files/found") == names
    assert fs.find("/files/found", maxdepth=1) == names[2:]
    assert fs.glob("/files/found/**/t*") == [names[0], names[2]]
    assert fs.find("/files/found/three") == names[2:]
    # The beginning of the search only.
    assert set(asked) <= {"/files/found", "/files/found/three"}, asked
    assert fs.find("/files/found", withdirs=True) == sorted([*names, "/files/found", "/files/found/a", "/files/found/a/b"])


def test_checksums_are_those_of_versions(served, fs):
    path = served / "checksum"
    path.write_bytes(b"one")
    # Times that differ in seconds only.
    os.utime(path, ns=(10**18, 10**18))
    one = fs.checksum("/files/checksum")
    assert one == fs.checksum("/files/checksum")
    os.utime(path, ns=(10**18 + 10**9, 10**18 + 10**9))
    deadline = time.monotonic() + 20
    while fs.checksum("/files/checksum") == one:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("cache_type", ["none", "readahead", "bytes", "blockcache", "mmap", "all", "first", "background"])
def test_caches_of_fsspec_read_the_same(served, fs, cache_type):
    content = random.Random(6).randbytes(200_000)
    (served / f"cached-{cache_type}").write_bytes(content)
    with fs.open(f"/files/cached-{cache_type}", cache_type=cache_type, block_size=16_384) as file:
        assert isinstance(file, AbstractBufferedFile)
        for offset, length in [(0, 10), (150_000, 50_000), (16_380, 10), (199_990, 100)]:
            file.seek(offset)
            assert file.read(length) == content[offset : offset + length]


@pytest.mark.parametrize("protocol", ["simplecache", "filecache", "blockcache"])
def test_copies_are_cached_on_disk(served, tmp_path, protocol):
    content = random.Random(7).randbytes(100_000)
    (served / f"copied-{protocol}").write_bytes(content)
    options = {"ndn": OPTIONS, protocol: {"cache_storage": str(tmp_path / "cache")}}
    for _ in range(2):
        with fsspec.open(f"{protocol}::ndn://files/copied-{protocol}", **options) as file:
            file.seek(50_000)
            assert file.read(100) == content[50_000:50_100]
    assert os.listdir(tmp_path / "cache")


def test_parts_of_files(served, fs):
    content = bytes(range(256)) * 1000
    (served / "parts").write_bytes(content)
    for start, end in [(0, 10), (-10, None), (5, -5), (None, 7), (300_000, 400_000), (10, 5)]:
        assert fs.cat_file("/files/parts", start, end) == content[start:end], (start, end)
    paths = ["/files/parts", "/files/none", "/files/parts"]
    parts = fs.cat_ranges(paths, [10, 0, 200_000], [20, 1, 200_100])
    assert parts[0] == content[10:20] and parts[2] == content[200_000:200_100]
    assert isinstance(parts[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(paths, 0, 1, on_error="raise")
    assert fs.head("/files/parts", 5) == content[:5] and fs.tail("/files/parts", 5) == content[-5:]


def test_pandas_reads_csv_and_parquet(served):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pandas.DataFrame({"number": range(50_000), "text": [f"row {n % 97}" for n in range(50_000)]})
    table.to_csv(served / "table.csv", index=False)
    table.to_parquet(served / "table.parquet", row_group_size=5000)
    read = pandas.read_csv("ndn://files/table.csv", storage_options=OPTIONS)
    pandas.testing.assert_frame_equal(read, table, check_dtype=False)
    read = pandas.read_parquet("ndn://files/table.parquet", columns=["text"], storage_options=OPTIONS)
    pandas.testing.assert_frame_equal(read, table[["text"]])


def test_xarray_opens_zarr(served):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    numpy = pytest.importorskip("numpy")
    values = numpy.arange(60 * 40 * 30, dtype="float64").reshape(60, 40, 30)
    made = xarray.Dataset({"field": (("time", "y", "x"), values)}, coords={"time": range(60)})
    made.to_zarr(str(served / "field.zarr"), encoding={"field": {"chunks": (10, 20, 30)}})
    found = xarray.open_zarr("ndn://files/field.zarr", storage_options=OPTIONS, chunks=None)
    xarray.testing.assert_equal(found.load(), made)


def test_dask_computes_in_four_processes(served):
    distributed = pytest.importorskip("distributed")
    import dask
    import dask.bag

    directory: pathlib.Path = served / "blocks"
    directory.mkdir(exist_ok=True)
    for index in range(16):
        (directory / f"{index}").write_bytes(bytes([index]) * 100_000)
    numbers: pathlib.Path = served / "numbers"
    numbers.mkdir(exist_ok=True)
    for index in range(16):
        lines = [f"{number}\n" for number in range(index * 10_000, (index + 1) * 10_000)]
        (numbers / f"{index}.txt").write_text("".join(lines))
    fs = namewire.FileSystem(**OPTIONS)

    @dask.delayed
    def total(path):
        return sum(fs.cat(path))

    with distributed.LocalCluster(4, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster):
            sums = dask.compute(*[total(f"/files/blocks/{index}") for index in range(16)])
            # A collection that is opened by its address.
            lines = dask.bag.read_text("ndn://files/numbers/*.txt", storage_options=OPTIONS, blocksize=10_000)
            assert lines.npartitions > 16
            assert lines.map(int).sum().compute() == sum(range(160_000))
    assert list(sums) == [index * 100_000 for index in range(16)]


def test_what_the_server_may_not_read_does_not_exist(fs, monkeypatch):
    def denied(path, **_):
        raise namewire.DeniedError("the server has no permission to read it", path)

    monkeypatch.setattr(fs, "info", denied)
    assert not fs.exists("/files/secret")
