"""Types and documentation."""

import inspect
import os
import pathlib
import subprocess
import sys

import pytest

import namewire
import namewire.aio
import namewire.control
import namewire.filesystem
import namewire.forwarder
import namewire.keys

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def run(*arguments: str, directory: pathlib.Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MYPYPATH": str(pathlib.Path(namewire.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, cwd=directory, env=environment
    )


def test_example_runs(tmp_path):
    ended = run(str(EXAMPLES / "share.py"), directory=tmp_path)
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [
        "run",
        "0,0.0",
        "1,1.5",
        "2,3.0",
        "the answer to /lab/questions/1",
        "UnreachableError: /lab/data/runs/0.csv",
        "True True",
    ]


def test_package_and_example_are_typed(tmp_path):
    cache = ["--cache-dir", str(tmp_path / "cache")]
    ended = run("-m", "mypy", "--strict", *cache, "-p", "namewire", directory=tmp_path)
    assert ended.returncode == 0, ended.stdout
    ended = run("-m", "mypy", "--strict", *cache, str(EXAMPLES / "share.py"), directory=tmp_path)
    assert ended.returncode == 0, ended.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import namewire\nnamewire.Client().fetch(7)\nnamewire.Forwarder().control.add_route('/a')\n")
    ended = run("-m", "mypy", "--strict", *cache, str(wrong), directory=tmp_path)
    assert "Found 2 errors" in ended.stdout, ended.stdout


def test_stubs_are_those_of_the_native_module(tmp_path):
    ended = run("-m", "mypy.stubtest", "namewire._namewire", directory=tmp_path)
    assert ended.returncode == 0, ended.stdout


def documented(module) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = [(module.__name__, module)]
    for name in module.__all__:
        value = getattr(module, name)
        if not inspect.isclass(value) and not inspect.isfunction(value):
            continue
        found.append((f"{module.__name__}.{name}", value))
        if inspect.isclass(value) and value.__module__.startswith("namewire"):
            members = ((key, member) for key, member in vars(value).items() if not key.startswith("_"))
            found += [
                (f"{module.__name__}.{name}.{key}", member)
                for key, member in members
                if callable(member) or isinstance(member, (property, classmethod)) or inspect.isgetsetdescriptor(member)
            ]
    return found


@pytest.mark.parametrize(
    "module",
    [namewire, namewire.aio, namewire.control, namewire.filesystem, namewire.forwarder, namewire.keys],
    ids=lambda module: module.__name__,
)
def test_everything_public_is_documented(module):
    names = [name for name, value in documented(module) if not inspect.getdoc(value)]
    assert names == []
