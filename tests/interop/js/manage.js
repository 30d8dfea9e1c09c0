// Drives a forwarder through every command and dataset that @ndn/nfdmgmt knows and prints what comes
// back, one JSON object a line.
//
// Usage: manage.js REMOTE-FACE-URI

import * as nfdmgmt from "@ndn/nfdmgmt";
import { AltUri } from "@ndn/naming-convention2";
import { digestSigning, Name } from "@ndn/packet";

import { connect } from "./connect.js";

const remote = process.argv[2];
if (!remote) {
  console.error("usage: manage.js REMOTE-FACE-URI");
  process.exit(2);
}

const plain = (key, value) => {
  if (typeof value === "bigint") {
    return Number(value);
  }
  return value instanceof Name ? AltUri.ofName(value) : value;
};
const show = (what, value) => console.log(JSON.stringify({ what, value }, plain));

const face = await connect();
try {
  const command = async (verb, params) => {
    const response = await nfdmgmt.invoke(verb, params);
    const body = response.body?.length
      ? nfdmgmt.ControlParameters.decodeFromResponseBody(response)
      : {};
    show(verb, { status: response.statusCode, text: response.statusText, faceId: body.faceId,
      name: body.name, capacity: body.capacity, count: body.count, strategy: body.strategy,
      origin: body.origin, cost: body.cost, flags: body.flags, uri: body.uri, mtu: body.mtu,
      facePersistency: body.facePersistency, expirationPeriod: body.expirationPeriod });
    return body;
  };

  const { faceId } = await command("faces/create", { uri: remote, mtu: 1400 });
  await command("faces/create", { uri: remote });
  await command("faces/update", { faceId, facePersistency: 2, flags: 0, mask: nfdmgmt.FaceFlags.CongestionMarking });
  await command("rib/register", { name: new Name("/ndnts/route"), faceId, origin: 255, cost: 7, flags: nfdmgmt.RouteFlags.Capture, expirationPeriod: 3600000 });
  await command("rib/register", { name: new Name("/ndnts/self") });
  await command("strategy-choice/set", { name: new Name("/ndnts"), strategy: new Name("/localhost/nfd/strategy/multicast") });
  await command("strategy-choice/set", { name: new Name("/ndnts"), strategy: new Name("/localhost/nfd/strategy/none") });
  await command("cs/config", { capacity: 1000, flags: 0, mask: nfdmgmt.CsFlags.EnableServe });
  await command("cs/erase", { name: new Name("/ndnts") });
  show("invokeCsErase", await nfdmgmt.invokeCsErase(new Name("/ndnts")));

  const announcement = await nfdmgmt.PrefixAnn.build({
    announced: "/ndnts/announced", expirationPeriod: 60000, signer: digestSigning,
  });
  const announced = await nfdmgmt.invokeGeneric("rib/announce", announcement.data, {
    formatCommand: nfdmgmt.ControlCommandOptions.formatCommandAppParams,
  });
  show("rib/announce", { status: announced.statusCode, text: announced.statusText });

  const [general] = await nfdmgmt.list(nfdmgmt.GeneralStatus);
  show("status/general", general);
  show("faces/list", await nfdmgmt.list(nfdmgmt.FaceStatus));
  show("faces/query", await nfdmgmt.list(nfdmgmt.FaceQuery({ uri: remote })));
  show("faces/channels", await nfdmgmt.list(nfdmgmt.ChannelStatus));
  show("strategy-choice/list", await nfdmgmt.list(nfdmgmt.StrategyChoice));
  show("rib/list", await nfdmgmt.list(nfdmgmt.RibEntry));
  const [cs] = await nfdmgmt.list(nfdmgmt.CsInfo);
  show("cs/info", cs);

  await command("strategy-choice/unset", { name: new Name("/ndnts") });
  await command("rib/unregister", { name: new Name("/ndnts/self") });
  show("READY", true);
  // What the forwarder holds is looked at now; then the face goes, and its routes with it.
  await new Promise((resolve) => {
    process.stdin.once("data", resolve);
    process.stdin.once("end", resolve);
  });
  await command("faces/destroy", { faceId });
  show("faces/query gone", await nfdmgmt.list(nfdmgmt.FaceQuery({ uri: remote })));
} finally {
  process.stdin.destroy();
  face.close();
}
