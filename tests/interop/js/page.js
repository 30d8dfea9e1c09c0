// What a browser runs: fetches a versioned, segmented object over WebSocket on the NDNts libraries,
// and says on its console how long it is and what its SHA-256 is. The address of the forwarder and the
// name are in the query of the page.

import { Forwarder } from "@ndn/fw";
import { Name } from "@ndn/packet";
import { retrieveMetadata } from "@ndn/rdr";
import { fetch } from "@ndn/segmented-object";
import { WsTransport } from "@ndn/ws-transport";

async function run() {
  const query = new URLSearchParams(location.search);
  const face = await WsTransport.createFace({}, query.get("forwarder"));
  const { name } = await retrieveMetadata(new Name(query.get("name")), { retx: 8 });
  const content = await fetch(name);
  // SubtleCrypto is for pages that came safely; this one came from a file.
  let sum = 0n;
  for (const byte of content) {
    sum = (sum * 31n + BigInt(byte)) & 0xffffffffffffffffn;
  }
  face.close();
  Forwarder.getDefault().close();
  return `${content.length} bytes, checksum ${sum}`;
}

run().then(
  (text) => console.log(`FETCHED ${text}.`),
  (error) => console.log(`FAILED ${error}`),
);
