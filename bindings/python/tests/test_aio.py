"""Packets and objects for asyncio."""

import asyncio
import os
import pathlib
import random
import time

import pytest

import namewire
import namewire.aio


def run(test) -> None:
    """Run a test with two clients: a forwarder does not send an Interest back to the connection that it came by."""

    async def within_a_minute():
        await asyncio.wait_for(test(namewire.aio.Client(timeout=20), namewire.aio.Client()), 60)

    asyncio.run(within_a_minute())


def test_interests_are_answered_by_functions_and_coroutines():
    async def test(client, producer):
        async def slow(interest):
            await asyncio.sleep(0.01)
            return (interest.parameters or b"none") + interest.name.split("/")[2].encode()

        async with await producer.serve("/function", lambda interest: b"content", freshness=5) as served:
            assert served.name == "/function"
            data = await client.express("/function/a", lifetime=5)
            assert (data.name, data.content, data.freshness, data.content_type) == ("/function/a", b"content", 5, 0)
            assert data.wire[0] == 6
        async with await producer.serve("/coroutine", slow):
            answers = await asyncio.gather(*(client.express(f"/coroutine/{number}") for number in range(50)))
            assert [data.content for data in answers] == [f"none{number}".encode() for number in range(50)]
            data = await client.express("/coroutine/x", parameters=b"parameters")
            assert data.content == b"parametersx"
            assert data.name.startswith("/coroutine/x/params-sha256=")

    run(test)


def test_handlers_answer_themselves():
    async def test(client, producer):
        def handler(interest):
            if interest.name.endswith("/nack"):
                interest.nack()
            elif interest.can_be_prefix and interest.must_be_fresh:
                interest.answer(b"longer", name=interest.name + "/v=1", content_type=3, final_segment=7)

        async with await producer.serve("/handler", handler):
            data = await client.express("/handler/a", can_be_prefix=True, must_be_fresh=True)
            assert (data.name, data.content, data.content_type) == ("/handler/a/v=1", b"longer", 3)
            with pytest.raises(namewire.UnreachableError, match="/handler/nack"):
                await client.express("/handler/nack")
            with pytest.raises(TimeoutError, match="/handler/b"):
                await client.express("/handler/b", lifetime=0.1)

    run(test)


def test_failures_of_handlers_are_reported():
    async def test(client, producer):
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

        def function(interest):
            raise ValueError("function")

        async def coroutine(interest):
            raise ValueError("coroutine")

        for handler in (function, coroutine, lambda interest: 1.5):
            async with await producer.serve("/failing", handler):
                with pytest.raises(TimeoutError):
                    await client.express("/failing/x", lifetime=0.2)
        messages = [context["message"] for context in reported]
        assert messages == ["the handler of /failing failed for /failing/x"] * 3
        assert str(reported[1]["exception"]) == "coroutine"

    run(test)


def test_prefix_is_free_after_close():
    async def test(client, producer):
        served = await producer.serve("/closing", lambda interest: b"one")
        with pytest.raises(ValueError, match="/closing"):
            await producer.serve("/closing", lambda interest: b"other")
        await served.close()
        await served.close()
        with pytest.raises(namewire.UnreachableError):
            await client.express("/closing/a")
        async with await producer.serve("/closing", lambda interest: b"two"):
            assert (await client.express("/closing/a")).content == b"two"
        # What is dropped is closed, too.
        await producer.serve("/closing", lambda interest: b"three")
        for attempt in range(500):
            try:
                await client.express(f"/closing/{attempt}", lifetime=0.1)
            except namewire.UnreachableError:
                break
            except TimeoutError:
                pass
            await asyncio.sleep(0.02)
        else:
            pytest.fail("the prefix is still served")

    run(test)


def test_objects_are_published_and_fetched():
    async def test(client, producer):
        content = random.Random(1).randbytes(300_000)
        async with await producer.publish("/object", content, version=7) as published:
            assert published.name == "/object/v=7"
            assert await client.fetch("/object") == content
            # By file objects, too.
            opened = await asyncio.to_thread(namewire.Client().open, "/object")
            assert opened.read() == content
        async with await producer.publish("/object/empty", b"") as published:
            assert await client.fetch("/object/empty") == b""
        async with await producer.publish("/object/segments", content, version=8, sign_segments=True) as published:
            assert published.name == "/object/segments/v=8"
            assert await client.fetch("/object/segments") == content
        with pytest.raises(ValueError, match="segments of 9000 bytes"):
            await producer.publish("/object/large", content, segment_size=9000, sign_segments=True)

    run(test)


def test_files_are_fetched(served):
    content = random.Random(2).randbytes(100_000)
    (served / "fetched").write_bytes(content)

    async def test(client, producer):
        assert await client.fetch("/files/fetched") == content
        with pytest.raises(FileNotFoundError, match="/files/missing"):
            await client.fetch("/files/missing")

    run(test)


def test_keys_sign_and_verify(tmp_path):
    key = os.environ["NAMEWIRE_PRIVATE_KEY"]
    shared = tmp_path / "shared"
    shared.write_text("c2VjcmV0\n")

    async def test(client, producer):
        own = namewire.aio.Client(verify=os.environ["NAMEWIRE_KEY"])
        other = namewire.aio.Client(verify=os.environ["NAMEWIRE_OTHER_KEY"])
        async with await producer.serve("/signed", lambda interest: b"content", sign=key):
            assert (await own.express("/signed/a")).content == b"content"
            with pytest.raises(namewire.VerificationError, match="/signed/a"):
                await other.express("/signed/a")
        async with await producer.serve("/shared", lambda interest: b"content", sign=f"hmac:{shared}"):
            holder = namewire.aio.Client(verify=f"hmac:{shared}")
            assert (await holder.express("/shared/a")).content == b"content"
        with pytest.raises(FileNotFoundError):
            await producer.serve("/x", lambda interest: b"", sign="/nonexistent.pem")
        with pytest.raises(ValueError):
            await producer.serve("/x", lambda interest: b"", sign=str(shared))

    run(test)


def test_rules_decide_which_keys_may_sign(served, tmp_path):
    rules = pathlib.Path(os.environ["NAMEWIRE_RULES"])
    (served / "rules").write_bytes(b"content")

    async def test(*_):
        assert await namewire.aio.Client(verify=f"rules:{rules}", timeout=20).fetch("/trusted/rules") == b"content"
        others = rules.with_name("others.rules")
        others.write_text(rules.read_text().replace("/trusted/", "/elsewhere/"))
        with pytest.raises(namewire.VerificationError):
            await namewire.aio.Client(verify=f"rules:{others}", timeout=20).fetch("/trusted/rules")

    run(test)
    empty = tmp_path / "rules"
    empty.write_text("data /a by /b\n")
    with pytest.raises(ValueError, match="no `anchor`"):
        namewire.Client(verify=f"rules:{empty}")
    with pytest.raises(FileNotFoundError):
        namewire.Client(verify="rules:/nonexistent")


def test_waits_are_cancelled():
    async def test(client, producer):
        started = time.monotonic()
        async with await producer.serve("/silent", lambda interest: None):
            for _ in range(100):
                task = asyncio.create_task(client.express("/silent/a", lifetime=100))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.express("/silent/b", lifetime=100), 0.2)
        assert time.monotonic() - started < 50

    run(test)


def test_event_loops_end_before_their_answers():
    client, producer = namewire.aio.Client(), namewire.aio.Client()

    async def leave(number):
        await producer.serve(f"/left/{number}", lambda interest: b"content")
        asyncio.create_task(client.express(f"/left/{number}/a", lifetime=0.2))

    for number in range(5):
        asyncio.run(leave(number))

    async def again():
        async with await producer.serve("/left/again", lambda interest: b"again"):
            return (await client.express("/left/again/a")).content

    assert asyncio.run(again()) == b"again"


def test_arguments_are_checked():
    async def test(client, producer):
        with pytest.raises(ValueError, match="not a name"):
            await client.express("/%zz")
        with pytest.raises(ValueError, match="lifetime"):
            await client.express("/a", lifetime=-1)
        with pytest.raises(ValueError, match="freshness"):
            await producer.publish("/a", b"", freshness=float("nan"))

    run(test)
