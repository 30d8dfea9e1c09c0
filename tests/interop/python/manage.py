"""Drives a forwarder through the commands and datasets that python-ndn's nfd_mgmt knows.

Usage: manage.py REMOTE-FACE-URI

Prints what comes back, one JSON object a line. Commands go out in the format of 2013 and as signed
Interests in turn.
"""

import asyncio
import json
import sys

from ndn.app import NDNApp
from ndn.app_support import nfd_mgmt as mgmt
from ndn.client_conf import default_face, read_client_conf
from ndn.encoding import BytesField, Component, ModelField, Name, TlvModel, UintField
from ndn.security import DigestSha256Signer, KeychainDigest


class Response(TlvModel):
    """As python-ndn's, which wants the body and its fields in another order than NFD sends them."""

    status_code = UintField(0x66)
    status_text = BytesField(0x67, is_string=True)
    body = ModelField(0x68, mgmt.ControlParametersValue, ignore_critical=True)


class CsInfoMsg(TlvModel):
    info = ModelField(0x80, mgmt.CsInfo)


def show(what, value):
    print(json.dumps({"what": what, "value": value}, default=str), flush=True)


class Session:
    def __init__(self, app):
        self.app = app
        self.is_signed_interest = False

    async def command(self, module, verb, **parameters):
        self.is_signed_interest = not self.is_signed_interest
        if self.is_signed_interest:
            name = mgmt.make_command_v2(module, verb, **parameters)
            extra = {"app_param": b"", "signer": DigestSha256Signer(for_interest=True)}
        else:
            name = mgmt.make_command(module, verb, **parameters)
            extra = {}
        _, _, content = await self.app.express_interest(
            name, must_be_fresh=True, lifetime=4000, **extra
        )
        response = Response.parse(mgmt.parse_and_check_tl(memoryview(content), 0x65))
        known = ("face_id", "capacity", "count", "origin", "cost", "flags")
        fields = {key: getattr(response.body, key, None) for key in known}
        response = {"status_code": response.status_code, **fields}
        show(f"{module}/{verb}", response)
        return response

    async def dataset(self, what, model, *arguments):
        name = Name.from_str(f"/localhost/nfd/{what}") + list(arguments)
        data_name, meta, content = await self.app.express_interest(
            name, can_be_prefix=True, must_be_fresh=True, lifetime=4000
        )
        whole = bytes(content or b"")
        last = Component.to_number(meta.final_block_id)
        for segment in range(1, last + 1):
            _, _, content = await self.app.express_interest(
                data_name[:-1] + [Component.from_segment(segment)], lifetime=4000
            )
            whole += bytes(content)
        return model.parse(whole)


async def session(app, remote):
    forwarder = Session(app)
    created = await forwarder.command("faces", "create", uri=remote, mtu=1500)
    face_id = created["face_id"]
    await forwarder.command("faces", "update", face_id=face_id, face_persistency=mgmt.FacePersistency.PERMANENT)
    await forwarder.command("rib", "register", name="/python/route", face_id=face_id, cost=3)
    await forwarder.command("rib", "register", name="/python/self", origin=65)
    await forwarder.command("fib", "add-nexthop", name="/python/fib", face_id=face_id, cost=9)
    await forwarder.command("strategy-choice", "set", name="/python", strategy="/localhost/nfd/strategy/best-route")
    await forwarder.command("cs", "config", capacity=2000)
    await forwarder.command("cs", "erase", name="/python")
    await forwarder.command("fib", "remove-nexthop", name="/python/fib", face_id=face_id)
    await forwarder.command("strategy-choice", "unset", name="/python")

    general = await forwarder.dataset("status/general", mgmt.GeneralStatus)
    show("status/general", {"version": general.nfd_version, "fib": general.n_fib_entries})
    faces = await forwarder.dataset("faces/list", mgmt.FaceStatusMsg)
    show("faces/list", [face.face_id for face in faces.face_status])
    query = mgmt.FaceQueryFilter()
    query.face_query_filter = mgmt.FaceQueryFilterValue()
    query.face_query_filter.face_id = face_id
    found = await forwarder.dataset("faces/query", mgmt.FaceStatusMsg, Component.from_bytes(query.encode()))
    show("faces/query", [{"id": face.face_id, "uri": face.uri, "mtu": face.mtu} for face in found.face_status])
    fib = await forwarder.dataset("fib/list", mgmt.FibStatus)
    show("fib/list", {Name.to_str(entry.name): [hop.face_id for hop in entry.next_hop_records] for entry in fib.entries})
    rib = await forwarder.dataset("rib/list", mgmt.RibStatus)
    show("rib/list", {Name.to_str(entry.name): [[route.face_id, route.origin, route.cost] for route in entry.routes] for entry in rib.entries})
    strategies = await forwarder.dataset("strategy-choice/list", mgmt.StrategyChoiceMsg)
    show("strategy-choice/list", {Name.to_str(choice.name): Name.to_str(choice.strategy.name) for choice in strategies.strategy_choices})
    store = await forwarder.dataset("cs/info", CsInfoMsg)
    store = store.info
    show("cs/info", {"capacity": store.capacity, "flags": store.flags})

    # The last event: the face that this program made.
    event_name, _, content = await app.express_interest(
        Name.from_str("/localhost/nfd/faces/events"), can_be_prefix=True, must_be_fresh=False, lifetime=4000
    )
    event = mgmt.FaceEventNotification.parse(content).event
    show("faces/events", {"face_id": event.face_id, "kind": event.face_event_kind.name})
    # The next one is waited for before it happens.
    sequence = Component.to_number(event_name[-1])
    following = event_name[:-1] + [Component.from_sequence_num(sequence + 1)]
    waiting = asyncio.ensure_future(app.express_interest(following, must_be_fresh=False, lifetime=4000))
    await forwarder.command("faces", "destroy", face_id=face_id)
    _, _, content = await waiting
    event = mgmt.FaceEventNotification.parse(content).event
    show("faces/events", {"face_id": event.face_id, "kind": event.face_event_kind.name})
    show("READY", True)
    app.shutdown()


def main(remote):
    app = NDNApp(default_face(read_client_conf()["transport"]), KeychainDigest())
    app.run_forever(after_start=session(app, remote))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
