"""A directory that a file server serves as ``/files``: tests/tests/python.rs starts it, and the forwarder."""

import os
import pathlib
import time

import pytest

import namewire


@pytest.fixture
def served() -> pathlib.Path:
    """The directory that is served."""
    return pathlib.Path(os.environ["NAMEWIRE_SERVED"])


@pytest.fixture
def wait_until():
    """Waits for a condition: what was published before is in the caches of forwarders for a moment."""

    def wait(condition) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    return wait


@pytest.fixture
def client() -> namewire.Client:
    return namewire.Client(metadata_lifetime=0, timeout=20)
