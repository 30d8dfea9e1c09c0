"""A directory that a file server serves as ``/files``: tests/tests/python.rs starts it, and the forwarder."""

import os
import pathlib

import pytest

import namewire


@pytest.fixture
def served() -> pathlib.Path:
    """The directory that is served."""
    return pathlib.Path(os.environ["NAMEWIRE_SERVED"])


@pytest.fixture
def client() -> namewire.Client:
    return namewire.Client(metadata_lifetime=0, timeout=20)
