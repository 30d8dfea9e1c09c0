"""Keys, trust, and what is published with them."""

import asyncio
import os
import pathlib
import pickle
import random

import pytest

import namewire
import namewire.aio


def is_there(client, name: str) -> bool:
    try:
        return client.stat(name)["type"] == "file"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def forwarder():
    with namewire.Forwarder() as forwarder:
        yield forwarder


@pytest.fixture
def chain(tmp_path):
    return namewire.KeyChain(tmp_path / "keys")


def test_key_chains_hold_identities_keys_and_certificates(chain):
    with pytest.raises(namewire.KeyChainError, match="there is no key chain yet"):
        chain.identities()
    first = chain.generate("/lab/alice")
    assert first.startswith("/lab/alice/KEY/")
    other = chain.generate("/lab/bob", key_type="ed25519", default=False)
    assert chain.identities() == [
        namewire.KeyChainEntry("/lab/alice", True),
        namewire.KeyChainEntry("/lab/bob", False),
    ]
    assert chain.keys("/lab/bob") == [namewire.KeyChainEntry(other, True)]
    (certificate,) = chain.certificates(first)
    assert certificate.name == chain.certificate_name() == chain.certificate_name("/lab/alice")
    assert chain.install(chain.request(first)).startswith(f"{first}/cert-request/v=")
    assert len(chain.certificates(first)) == 2
    chain.set_default("/lab/bob")
    assert chain.certificate_name().startswith(other)
    chain.delete("/lab/alice")
    assert [entry.name for entry in chain.identities()] == ["/lab/bob"]
    with pytest.raises(namewire.KeyChainError, match="/lab/alice"):
        chain.signer("/lab/alice")
    with pytest.raises(ValueError, match="dsa"):
        chain.generate("/x", key_type="dsa")
    assert pickle.loads(pickle.dumps(chain)).keys("/lab/bob") == chain.keys("/lab/bob")


def test_keys_are_exported_encrypted(chain, tmp_path):
    key = chain.generate("/lab/carol", key_type="ecdsa")
    bag = chain.export("/lab/carol", "secret")
    other = namewire.KeyChain(tmp_path / "other")
    with pytest.raises(namewire.KeyChainError, match="KEY"):
        other.restore(bag, "wrong")
    assert other.restore(bag, "secret") == key
    assert other.certificate(key) == chain.certificate(key)
    with pytest.raises(ValueError, match="SafeBag"):
        other.restore("nonsense", "secret")


def test_key_chain_of_the_environment_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("NDN_CLIENT_PIB", f"pib-sqlite3:{tmp_path}")
    monkeypatch.setenv("NDN_CLIENT_TPM", f"tpm-file:{tmp_path}")
    chain = namewire.KeyChain()
    chain.generate("/me")
    assert chain.path == f"{tmp_path}/pib.db" and os.path.exists(chain.path)
    monkeypatch.setenv("NDN_CLIENT_PIB", "pib-memory:")
    with pytest.raises(namewire.KeyChainError, match="pib-memory"):
        namewire.KeyChain()


def test_one_signature_covers_an_object(forwarder, chain):
    chain.generate("/lab")
    chain.generate("/other", default=False)
    content = random.Random(3).randbytes(500_000)
    own, other = chain.verifier("/lab"), chain.verifier("/other")
    producer, consumer = forwarder.client(), forwarder.client(timeout=20, metadata_lifetime=0)
    for sign_segments in (False, True):
        with producer.publish("/signed", content, sign=chain.signer("/lab"), sign_segments=sign_segments) as published:
            assert consumer.fetch("/signed", verify=own) == content
            with pytest.raises(namewire.VerificationError) as raised:
                consumer.fetch("/signed", verify=other)
            assert raised.value.name.startswith("/signed")
            segment = f"{published.name}/seg=3"
            if sign_segments:
                assert len(consumer.express(segment, verify=own).content) == 8000
            else:
                # A segment has a digest, and the manifest is signed.
                with pytest.raises(namewire.VerificationError) as raised:
                    consumer.express(segment, verify=own)
                assert raised.value.name == segment
                assert len(consumer.express(segment).content) == 8000


def test_files_and_directories_are_published(forwarder, chain, tmp_path, wait_until):
    chain.generate("/lab")
    content = random.Random(4).randbytes(200_000)
    directory = tmp_path / "served"
    (directory / "sub").mkdir(parents=True)
    (directory / "sub" / "file").write_bytes(content)
    (directory / ".hidden").write_bytes(b"hidden")
    producer = forwarder.client()
    consumer = forwarder.client(verify=chain.verifier("/lab"), timeout=20, metadata_lifetime=0)
    sign = chain.signer("/lab")
    with producer.publish("/one/file", directory / "sub" / "file", sign=sign) as published:
        assert published.name == "/one/file"
        opened = consumer.open("/one/file", buffering=0)
        assert opened.name == f"/one/file/v={(directory / 'sub' / 'file').stat().st_mtime_ns}"
        assert opened.read() == content
        with pytest.raises(FileNotFoundError):
            consumer.fetch("/one/file/other")
    manifests = tmp_path / "manifests"
    manifests.mkdir(mode=0o700)
    with producer.serve_directory("/all", directory, sign=sign, manifest_cache=manifests) as served:
        assert served.name == "/all"
        assert consumer.listdir("/all") == ["sub"]
        assert consumer.open("/all/sub/file").read() == content
        with pytest.raises(FileNotFoundError):
            consumer.fetch("/all/.hidden")
    with producer.serve_directory("/all", directory, sign=sign, hidden=True, segment_size=1000):
        wait_until(lambda: is_there(consumer, "/all/.hidden"))
        assert consumer.fetch("/all/.hidden") == b"hidden"
    assert (directory / "sub" / "file").read_bytes() == content, "closing removes nothing"
    for path, exception in [(tmp_path / "none", FileNotFoundError), (directory / "sub" / "file", NotADirectoryError)]:
        with pytest.raises(exception):
            producer.serve_directory("/x", path)
    for path, exception in [(tmp_path / "none", FileNotFoundError), (directory, ValueError)]:
        with pytest.raises(exception):
            producer.publish("/x", path)


def test_buffers_of_all_kinds_are_published(forwarder):
    numpy = pytest.importorskip("numpy")
    producer, consumer = forwarder.client(), forwarder.client(timeout=20, metadata_lifetime=0)
    array = numpy.arange(100_000, dtype="int32")
    for number, content in enumerate([b"", b"bytes", bytearray(b"array"), memoryview(b"view")[1:], array]):
        with producer.publish(f"/buffer/{number}", content, version=number + 1) as published:
            assert published.name == f"/buffer/{number}/v={number + 1}"
            assert consumer.fetch(f"/buffer/{number}") == bytes(content)
    with pytest.raises(TypeError, match="path"):
        producer.publish("/buffer", "text")
    with pytest.raises(ValueError, match="modification"):
        producer.publish("/buffer", pathlib.Path(__file__), version=1)
    with producer.publish("/buffer/same", b"one"):
        with pytest.raises(ValueError, match="/buffer/same"):
            producer.publish("/buffer/same", b"two")


def test_two_versions_differ(forwarder, wait_until):
    producer, consumer = forwarder.client(), forwarder.client(timeout=20, metadata_lifetime=0)
    names = set()
    for number in range(5):
        with producer.publish("/versions", bytes([number])) as published:
            names.add(published.name)
            wait_until(lambda: consumer.open("/versions", buffering=0).name == published.name)
            assert consumer.fetch("/versions") == bytes([number])
    assert len(names) == 5


def test_rules_apply_to_single_packets_and_objects(forwarder, chain, tmp_path):
    chain.generate("/lab")
    (tmp_path / "root.cert").write_text(chain.certificate("/lab"))
    (tmp_path / "lab.rules").write_text("anchor root.cert\ndata /trusted/** by /lab\n")
    rules = namewire.Verifier(f"rules:{tmp_path / 'lab.rules'}")

    async def main():
        producer = namewire.aio.Client(forwarder.address)
        consumer = namewire.aio.Client(forwarder.address, timeout=20, metadata_lifetime=0)
        sign = chain.signer("/lab")
        async with await producer.serve("/trusted/now", lambda interest: b"now", sign=sign):
            assert (await consumer.express("/trusted/now/1", verify=rules)).content == b"now"
        async with await producer.serve("/untrusted", lambda interest: b"now", sign=sign):
            with pytest.raises(namewire.VerificationError, match="/untrusted/1"):
                await consumer.express("/untrusted/1", verify=rules)
            assert (await consumer.express("/untrusted/1")).content == b"now"
        async with await producer.publish("/trusted/object", b"content", sign=sign):
            assert await consumer.fetch("/trusted/object", verify=rules) == b"content"
        async with await producer.serve_directory("/trusted/files", tmp_path, sign=sign):
            assert (await consumer.fetch("/trusted/files/root.cert", verify=rules)).startswith(b"Bv0")

    asyncio.run(asyncio.wait_for(main(), 60))
    assert repr(pickle.loads(pickle.dumps(rules))) == repr(rules)
    client = pickle.loads(pickle.dumps(forwarder.client(verify=chain.verifier("/lab"))))
    with pytest.raises(namewire.UnreachableError):
        client.stat("/nowhere")


def test_unusable_keys_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="/none.pem"):
        namewire.Signer("/none.pem")
    with pytest.raises(FileNotFoundError, match="/none.rules"):
        namewire.Verifier("rules:/none.rules")
    with pytest.raises(ValueError, match="text"):
        namewire.Verifier(text="nonsense")
    with pytest.raises(ValueError, match="word"):
        namewire.Verifier()


def test_exceptions_are_pickled():
    error = pickle.loads(pickle.dumps(namewire.VerificationError("no", "/a/b")))
    assert (str(error), error.name, type(error)) == ("no", "/a/b", namewire.VerificationError)
    refused = pickle.loads(pickle.dumps(namewire.RefusedError("no", "rib/register", 403)))
    assert (refused.code, refused.name) == (403, "rib/register")
    assert issubclass(namewire.NotFoundError, FileNotFoundError) and issubclass(namewire.BusyError, BlockingIOError)
