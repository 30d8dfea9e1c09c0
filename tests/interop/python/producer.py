"""Publishes a file as a versioned, segmented object on python-ndn's classic application class.

Usage: producer.py NAME-PREFIX FILE

Answers RDR discovery under <prefix>/32=metadata. Prints READY once the forwarder has accepted the
prefix, and serves until it is terminated.
"""

import sys
import time

from ndn.app import NDNApp
from ndn.client_conf import default_face, read_client_conf
from ndn.encoding import Component, Name
from ndn.security import KeychainDigest

SEGMENT_BYTES = 7500
METADATA = Component.from_str("32=metadata")


def main(prefix_uri, path):
    with open(path, "rb") as file:
        content = file.read()
    face = default_face(read_client_conf()["transport"])
    app = NDNApp(face, KeychainDigest())

    prefix = Name.from_str(prefix_uri)
    versioned = prefix + [Component.from_version(time.time_ns() // 1000)]
    last = max(0, (len(content) - 1) // SEGMENT_BYTES)
    final_block_id = Component.from_segment(last)
    packets = {}

    def segment(index):
        if index not in packets:
            chunk = content[index * SEGMENT_BYTES : (index + 1) * SEGMENT_BYTES]
            name = versioned + [Component.from_segment(index)]
            packets[index] = app.prepare_data(
                name, chunk, freshness_period=10000, final_block_id=final_block_id
            )
        return packets[index]

    def metadata():
        segment_zero = Component.from_segment(0)
        name = prefix + [METADATA, Component.from_version(time.time_ns() // 1000), segment_zero]
        return app.prepare_data(
            name, Name.to_bytes(versioned), freshness_period=10, final_block_id=segment_zero
        )

    def on_interest(name, _param, _application_parameters):
        if len(name) > len(prefix) and bytes(name[len(prefix)]) == bytes(METADATA):
            app.put_raw_packet(metadata())
        elif len(name) == len(versioned) + 1 and Component.get_type(name[-1]) == Component.TYPE_SEGMENT:
            index = Component.to_number(name[-1])
            if Name.is_prefix(versioned, name) and index <= last:
                app.put_raw_packet(segment(index))

    async def start():
        if await app.register(prefix, on_interest):
            print("READY", flush=True)
        else:
            print("the forwarder refused the prefix", file=sys.stderr)
            app.shutdown()

    app.run_forever(after_start=start())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
