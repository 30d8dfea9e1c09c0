"""Reads according to a plan: readers.py WAY URL VERIFY PLAN. Prints what `namewire bench access` expects of a reader."""

import hashlib
import sys
import time


def namewire_reader(url, verify):
    import namewire

    file = namewire.Client(verify=verify).open(url, buffering=0)

    def read(parts):
        if len(parts) == 1:
            (offset, length), = parts
            return [file.pread(length, offset)]
        return file.read_ranges([(offset, offset + length) for offset, length in parts])

    return read


def fsspec_reader(url, verify):
    import fsspec

    # The package may be on PYTHONPATH without being installed.
    fsspec.register_implementation("ndn", "namewire.filesystem.FileSystem", clobber=True)
    options = {"verify": verify} if url.startswith("ndn:") else {}
    system, path = fsspec.core.url_to_fs(url, **options)
    file = system.open(path, "rb")

    def read(parts):
        if len(parts) == 1:
            (offset, length), = parts
            file.seek(offset)
            return [file.read(length)]
        starts = [offset for offset, _ in parts]
        ends = [offset + length for offset, length in parts]
        return system.cat_ranges([path] * len(parts), starts, ends)

    return read


def xrootd_reader(url, verify):
    from XRootD import client

    file = client.File()
    status, _ = file.open(url)
    assert status.ok, status

    def read(parts):
        if len(parts) == 1:
            (offset, length), = parts
            status, content = file.read(offset, length)
            assert status.ok, status
            return [content]
        status, content = file.vector_read(parts)
        assert status.ok, status
        return [chunk.buffer for chunk in content.chunks]

    return read


def main(way, url, verify, plan):
    with open(plan) as lines:
        reads = [[tuple(map(int, part.split("+"))) for part in line.split(",")] for line in lines]
    read = {"python": namewire_reader, "fsspec": fsspec_reader, "xrootd": xrootd_reader}[way](url, verify)
    contents, times = [], []
    for parts in reads:
        start = time.perf_counter_ns()
        contents.append(read(parts))
        times.append(time.perf_counter_ns() - start)
    # Between the reads, read-ahead would go on outside of their times.
    digest = hashlib.sha256()
    for content in contents:
        for part in content:
            digest.update(part)
    print(digest.hexdigest())
    print(*times, sep="\n")


main(*sys.argv[1:])
