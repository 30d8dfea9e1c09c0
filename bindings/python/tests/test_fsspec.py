"""The file system for fsspec, and the programs that read through it."""

import pathlib
import uuid

import fsspec
import fsspec.tests.abstract as abstract
import pytest
from fsspec.implementations.local import LocalFileSystem, make_path_posix

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
    """The package metadata names the class; without installation it is registered here."""
    fsspec.register_implementation("ndn", namewire.FileSystem, clobber=True)
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
    fsspec.register_implementation("ndn", namewire.FileSystem, clobber=True)
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
    fsspec.register_implementation("ndn", namewire.FileSystem, clobber=True)
    values = numpy.arange(60 * 40 * 30, dtype="float64").reshape(60, 40, 30)
    made = xarray.Dataset({"field": (("time", "y", "x"), values)}, coords={"time": range(60)})
    made.to_zarr(str(served / "field.zarr"), encoding={"field": {"chunks": (10, 20, 30)}})
    found = xarray.open_zarr("ndn://files/field.zarr", storage_options=OPTIONS, chunks=None)
    xarray.testing.assert_equal(found.load(), made)


def test_dask_computes_in_four_processes(served):
    distributed = pytest.importorskip("distributed")
    import dask

    directory: pathlib.Path = served / "blocks"
    directory.mkdir(exist_ok=True)
    for index in range(16):
        (directory / f"{index}").write_bytes(bytes([index]) * 100_000)
    fs = namewire.FileSystem(**OPTIONS)

    @dask.delayed
    def total(path):
        return sum(fs.cat(path))

    with distributed.LocalCluster(4, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster):
            sums = dask.compute(*[total(f"/files/blocks/{index}") for index in range(16)])
    assert list(sums) == [index * 100_000 for index in range(16)]
