"""Sends commands of every verb, right and wrong ones, and prints the answers, one JSON object a line.

Usage: commands.py

The forwarder is that of NDN_CLIENT_TRANSPORT. Numbers of faces that were made are left out.
"""

import asyncio
import json

from ndn.app import NDNApp
from ndn.app_support import nfd_mgmt as mgmt
from ndn.client_conf import default_face, read_client_conf
from ndn.encoding import BytesField, Component, ModelField, Name, TlvModel, UintField
from ndn.security import DigestSha256Signer, KeychainDigest


def number(value):
    length = next(length for length in (1, 2, 4, 8) if value < 1 << (8 * length))
    return value.to_bytes(length, "big")


def element(kind, value):
    assert len(value) < 253
    return bytes([kind, len(value)]) + value


def text(kind):
    """Of a string in which a surrogate stands for a byte that is no UTF-8."""
    return lambda value: element(kind, value.encode(errors="surrogateescape"))


def uint(kind):
    return lambda value: element(kind, number(value))


# In the order in which ndn-cxx writes them.
FIELDS = {
    "Name": lambda value: bytes(Name.to_bytes(value)),
    "FaceId": uint(105),
    "Uri": text(114),
    "LocalUri": text(129),
    "Origin": uint(111),
    "Cost": uint(106),
    "Capacity": uint(131),
    "Count": uint(132),
    "Flags": uint(108),
    "Mask": uint(112),
    "Strategy": lambda value: element(107, bytes(Name.to_bytes(value))),
    "ExpirationPeriod": uint(109),
    "FacePersistency": uint(133),
    "BaseCongestionMarkingInterval": uint(135),
    "DefaultCongestionThreshold": uint(136),
    "Mtu": uint(137),
}
STRATEGY = "/localhost/nfd/strategy"
USUAL = {
    "Name": "/m/x", "FaceId": 9999, "Uri": "udp4://127.0.0.1:9", "LocalUri": "udp4://127.0.0.1:1",
    "Origin": 5, "Cost": 3, "Capacity": 100, "Count": 5, "Flags": 1, "Mask": 1,
    "Strategy": f"{STRATEGY}/multicast", "ExpirationPeriod": 100000, "FacePersistency": 0,
    "BaseCongestionMarkingInterval": 1000000, "DefaultCongestionThreshold": 1000, "Mtu": 1400,
}
REQUIRED = {
    "faces/create": ["Uri"], "faces/update": [], "faces/destroy": ["FaceId"],
    "fib/add-nexthop": ["Name"], "fib/remove-nexthop": ["Name"], "cs/config": [],
    "cs/erase": ["Name"], "strategy-choice/set": ["Name", "Strategy"],
    "strategy-choice/unset": ["Name"], "rib/register": ["Name"], "rib/unregister": ["Name"],
}
LONG = "/x" * 33


def commands():
    """Every verb with what it needs, without each of it, and with each other field."""
    for verb, required in REQUIRED.items():
        def usual(fields):
            return verb, {field: USUAL[field] for field in fields}

        yield usual([])
        yield usual(required)
        yield from (usual([field for field in required if field != left]) for left in required)
        yield from (usual(required + [extra]) for extra in FIELDS if extra not in required)
        yield usual(required + ["Flags", "Mask"])
    for verb in ("rib/register", "rib/unregister", "fib/add-nexthop"):
        yield verb, {"Name": LONG}
    yield "rib/register", {"Name": LONG[2:]}
    yield "rib/register", {"Name": "/e", "ExpirationPeriod": 0}
    yield from (("rib/register", {"Name": "/o", "Origin": origin}) for origin in (65535, 65536))
    yield "rib/unregister", {"Name": "/nothere", "FaceId": 77}
    yield "fib/remove-nexthop", {"Name": "/nothere", "FaceId": 1}
    yield "cs/erase", {"Name": "/x", "Count": 0}
    yield "cs/config", {"Capacity": 0}
    yield "cs/config", {"Flags": 7, "Mask": 7}
    yield "cs/config", {"Flags": 3, "Mask": 3, "Capacity": 65536}
    yield "faces/destroy", {"FaceId": 0}
    yield "strategy-choice/unset", {"Name": "/"}
    yield "strategy-choice/unset", {"Name": "/nothere"}
    for strategy in (
        "none", "best-route", "best-route/v=5", "best-route/v=9", "access", "random", "multicast",
        "best-route/v=5/retx-suppression-initial~20", "best-route/v=5/retx-suppression-initial~x",
        "asf", "asf/v=5/probing-interval~30000", "asf/v=5/max-timeouts~5", "multicast/%FD%05",
        "multicast/%FD%04", "asf/%FD%05/probing-interval~30000",
    ):
        yield "strategy-choice/set", {"Name": "/q", "Strategy": f"{STRATEGY}/{strategy}"}
    yield "strategy-choice/set", {"Name": LONG, "Strategy": f"{STRATEGY}/multicast"}
    for fields in (
        {"FaceId": 1, "Flags": 0, "Mask": 1}, {"FaceId": 1, "Flags": 2, "Mask": 2},
        {"FaceId": 1, "Flags": 1, "Mask": 3}, {"FaceId": 9999, "FacePersistency": 0},
        {"FacePersistency": 2}, {"FacePersistency": 7}, {"Mtu": 10}, {"Mtu": 1400},
        {"Flags": 2, "Mask": 2},
    ):
        yield "faces/update", fields
    for uri in (
        "nonsense", "udp://127.0.0.1:9", "udp4://127.0.0.1", "xyz://a", "unix:///tmp/x", "fd://5",
        "ether://[01:00:5e:00:17:aa]", "udp6://[fe80::1]:4", "udp6://[2001:db8::1%lo]:4",
        "udp4://\udcff:1", "\udcff",
    ):
        yield "faces/create", {"Uri": uri}
    yield "rib/register", {"Name": "/x", "Uri": "\udcff"}


class Response(TlvModel):
    status_code = UintField(0x66)
    status_text = BytesField(0x67, is_string=True)
    body = ModelField(0x68, mgmt.ControlParametersValue, ignore_critical=True)


def described(response):
    body = response.body
    if body is None:
        return None
    known = ("face_id", "capacity", "count", "origin", "cost", "flags", "expiration_period")
    told = {key: getattr(body, key) for key in known if getattr(body, key) is not None}
    if told.get("face_id", 0) > 255 and told["face_id"] != USUAL["FaceId"]:
        told["face_id"] = "some"
    if body.name is not None:
        told["name"] = Name.to_str(body.name)
    if body.strategy is not None:
        told["strategy"] = Name.to_str(body.strategy.name)
    return told


async def session(app):
    for verb, fields in commands():
        value = b"".join(FIELDS[field](fields[field]) for field in FIELDS if field in fields)
        name = Name.from_str(f"/localhost/nfd/{verb}") + [Component.from_bytes(element(104, value))]
        # The forwarder may want each timestamp to be later than the one before.
        await asyncio.sleep(0.002)
        try:
            _, _, content = await app.express_interest(
                name, must_be_fresh=True, lifetime=1000, app_param=b"",
                signer=DigestSha256Signer(for_interest=True),
            )
            response = Response.parse(mgmt.parse_and_check_tl(memoryview(content), 0x65))
            answer = [response.status_code, response.status_text, described(response)]
        except Exception as error:  # no answer is an answer, too
            answer = type(error).__name__
        print(json.dumps({"command": f"{verb} {json.dumps(fields)}", "answer": answer}), flush=True)
    app.shutdown()


def main():
    app = NDNApp(default_face(read_client_conf()["transport"]), KeychainDigest())
    app.run_forever(after_start=session(app))


if __name__ == "__main__":
    main()
