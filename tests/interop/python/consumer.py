"""Fetches a versioned, segmented object with python-ndn's second application class (appv2).

Usage: consumer.py NAME-PREFIX OUT-FILE

Finds the version by RDR discovery, keeps a fixed window of Interests outstanding, retransmits, and
checks the digest of digest-signed segments.
"""

import asyncio
import sys
import time

from ndn.appv2 import NDNApp
from ndn.encoding import Component, Name
from ndn.security import sha256_digest_checker
from ndn.types import InterestNack, InterestTimeout, ValidResult

WINDOW = 64
ATTEMPTS = 8
LIFETIME_MS = 2000
METADATA = Component.from_str("32=metadata")


async def check(name, signature, _context):
    accepted = await sha256_digest_checker(name, signature)
    return ValidResult.PASS if accepted else ValidResult.FAIL


async def express(app, name, **options):
    for attempt in range(ATTEMPTS):
        try:
            return await app.express(name, check, lifetime=LIFETIME_MS, **options)
        except (InterestTimeout, InterestNack):
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.01 * (attempt + 1))


async def fetch(app, prefix):
    discovery = prefix + [METADATA]
    _, content, _ = await express(app, discovery, can_be_prefix=True, must_be_fresh=True)
    versioned = Name.from_bytes(bytes(content))
    _, first, context = await express(app, versioned + [Component.from_segment(0)])
    last = Component.to_number(context["meta_info"].final_block_id)
    segments = [None] * (last + 1)
    segments[0] = bytes(first)
    remaining = iter(range(1, last + 1))

    async def lane():
        for index in remaining:
            _, payload, _ = await express(app, versioned + [Component.from_segment(index)])
            segments[index] = bytes(payload)

    await asyncio.gather(*(lane() for _ in range(WINDOW)))
    return b"".join(segments)


def main(prefix_uri, path):
    app = NDNApp()
    failed = []

    async def run():
        try:
            started = time.monotonic()
            content = await fetch(app, Name.from_str(prefix_uri))
            with open(path, "wb") as file:
                file.write(content)
            print(f"{len(content)} bytes in {time.monotonic() - started:.3f} s", file=sys.stderr)
        except Exception as error:  # noqa: BLE001: whatever it is, it ends the program with a status
            failed.append(error)
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            app.shutdown()

    app.run_forever(after_start=run())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
