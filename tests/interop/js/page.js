// What a browser runs: fetches a versioned, segmented object over WebSocket or WebTransport on the NDNts
// libraries, and says on its console how long it is and what its checksum is. The address of the forwarder,
// the SHA-256 of its certificate (of WebTransport) and the name are in the query of the page. With `streams` in it,
// the page reads streams beside datagrams, and says how many packets came so.

import { Forwarder } from "@ndn/fw";
import { Name } from "@ndn/packet";
import { H3Transport } from "@ndn/quic-transport";
import { retrieveMetadata } from "@ndn/rdr";
import { fetch } from "@ndn/segmented-object";
import { WsTransport } from "@ndn/ws-transport";
import { StreamsTransport } from "./streams.js";

function connect(query) {
  const forwarder = query.get("forwarder");
  if (forwarder.startsWith("ws")) {
    return WsTransport.createFace({}, forwarder);
  }
  const digits = query.get("certificate").match(/../g);
  const value = Uint8Array.from(digits, (pair) => Number.parseInt(pair, 16));
  const serverCertificateHashes = [{ algorithm: "sha-256", value }];
  const { createFace } = query.has("streams") ? StreamsTransport : H3Transport;
  return createFace({}, forwarder, { serverCertificateHashes });
}

async function run() {
  const query = new URLSearchParams(location.search);
  const face = await connect(query);
  const { name } = await retrieveMetadata(new Name(query.get("name")), { retx: 8 });
  const content = await fetch(name);
  // SubtleCrypto is for pages that came safely; this one came from a file.
  let sum = 0n;
  for (const byte of content) {
    sum = (sum * 31n + BigInt(byte)) & 0xffffffffffffffffn;
  }
  face.close();
  Forwarder.getDefault().close();
  const said = `${content.length} bytes, checksum ${sum}`;
  return query.has("streams") ? `${said}, ${StreamsTransport.received} by streams` : said;
}

run().then(
  (text) => console.log(`FETCHED ${text}.`),
  (error) => console.log(`FAILED ${error}`),
);
