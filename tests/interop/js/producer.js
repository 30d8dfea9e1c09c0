// Publishes a file as a versioned, segmented object on the NDNts libraries.
// Answers RDR discovery, prints READY once the forwarder has accepted the prefix, and serves until
// it is terminated.

import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

import { ReadvertiseDestination } from "@ndn/fw";
import { Version } from "@ndn/naming-convention2";
import { enableNfdPrefixReg } from "@ndn/nfdmgmt";
import { digestSigning, Name } from "@ndn/packet";
import { Metadata, serveMetadata } from "@ndn/rdr";
import { BufferChunkSource, serve } from "@ndn/segmented-object";

import { connect, usage } from "./connect.js";

const SEGMENT_BYTES = 6000;
const REGISTRATION_SECONDS = 10;

const [prefixUri, path] = usage("usage: producer.js NAME-PREFIX FILE");
const prefix = new Name(prefixUri);
const content = await readFile(path);
const face = await connect();
const registration = enableNfdPrefixReg(face, { signer: digestSigning });

const versioned = prefix.append(Version.create(Date.now() * 1000));
const source = new BufferChunkSource(content, { chunkSize: SEGMENT_BYTES });
serve(versioned, source, { signer: digestSigning, pOpts: { announcement: prefix } });
serveMetadata(new Metadata(versioned), {
  prefix,
  freshnessPeriod: 10,
  signer: digestSigning,
  pOpts: { announcement: prefix },
});

const deadline = Date.now() + REGISTRATION_SECONDS * 1000;
while (registration.table.get(prefix)?.status !== ReadvertiseDestination.Status.ADVERTISED) {
  if (Date.now() > deadline) {
    console.error(`the forwarder did not accept ${prefix} within ${REGISTRATION_SECONDS} s`);
    process.exit(1);
  }
  await pause(10);
}
console.log("READY");
