"""Shares a directory between two programs over NDN, signed, and reads it; here both are one, with a forwarder of their own.

Run it by ``python share.py``. Other programs use ``namewire.Client()``, for the forwarder of the host.
"""

from __future__ import annotations

import asyncio
import pathlib
import tempfile

import namewire
import namewire.aio


def prepare(directory: pathlib.Path) -> tuple[namewire.Signer, namewire.Verifier]:
    """Files to be served, and a key with the certificate that consumers are given."""
    (directory / "runs").mkdir()
    for number in range(3):
        (directory / "runs" / f"{number}.csv").write_text(f"run,energy\n{number},{number * 1.5}\n")
    chain = namewire.KeyChain(directory / ".keys")
    chain.generate("/lab")
    return chain.signer("/lab"), chain.verifier("/lab")


def read(client: namewire.Client) -> list[str]:
    """The last line of each file below ``/lab/data/runs``."""
    lines: list[str] = []
    for name in client.listdir("/lab/data/runs"):
        with client.open(f"/lab/data/runs/{name}") as file:
            lines.append(file.read().decode().splitlines()[-1])
    head = bytearray(3)
    with client.open("/lab/data/runs/0.csv", buffering=0) as raw:
        raw.readinto(head)
    return [head.decode(), *lines]


async def ask(address: str, sign: namewire.Signer, verifier: namewire.Verifier) -> bytes:
    """An Interest that a coroutine answers."""
    producer, consumer = namewire.aio.Client(address), namewire.aio.Client(address, verify=verifier)

    async def answer(interest: namewire.Interest) -> bytes:
        await asyncio.sleep(0.01)
        return f"the answer to {interest.name}".encode()

    async with await producer.serve("/lab/questions", answer, sign=sign):
        data = await consumer.express("/lab/questions/1", must_be_fresh=True)
        return data.content


def main() -> None:
    """Serves, reads, asks, and says what the forwarder did."""
    with tempfile.TemporaryDirectory() as path, namewire.Forwarder() as forwarder:
        directory = pathlib.Path(path)
        sign, verifier = prepare(directory)
        with forwarder.client().serve_directory("/lab/data", directory, sign=sign):
            print(*read(forwarder.client(verify=verifier)), sep="\n")
        print(asyncio.run(ask(forwarder.address, sign, verifier)).decode())
        try:
            forwarder.client().fetch("/lab/data/runs/0.csv")
        except namewire.Error as error:
            print(f"{type(error).__name__}: {error.name}")
        status: namewire.control.ForwarderStatus = forwarder.control.status()
        faces: list[namewire.control.Face] = forwarder.control.faces()
        print(f"{status.counters.satisfied_interests > 0} {len(faces) > 0}")


if __name__ == "__main__":
    main()
