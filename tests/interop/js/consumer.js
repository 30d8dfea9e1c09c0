// Fetches a versioned, segmented object on the NDNts libraries: RDR discovery, then their segment
// fetcher with its own congestion control, checking the digest of every segment.

import { writeFile } from "node:fs/promises";

import { Forwarder } from "@ndn/fw";
import { digestSigning, Name } from "@ndn/packet";
import { retrieveMetadata } from "@ndn/rdr";
import { fetch, TcpCubic } from "@ndn/segmented-object";

import { connect, usage } from "./connect.js";

const RETRANSMISSIONS = 8;

/** CUBIC whose window ends at so many segments. */
class LimitedCubic extends TcpCubic {
  updateCwnd(window) {
    super.updateCwnd(Math.min(window, Number(process.env.INTEROP_WINDOW_MAX || Infinity)));
  }
}

const [prefixUri, path] = usage("usage: consumer.js NAME-PREFIX OUT-FILE");
const face = await connect();
try {
  const started = performance.now();
  // Producers of other libraries sign with what they like: the digest is checked where there is one.
  const digestIfAny = {
    async verify(packet) {
      if (packet.sigInfo?.type === 0) {
        await digestSigning.verify(packet);
      }
    },
  };
  const { name } = await retrieveMetadata(new Name(prefixUri), {
    retx: RETRANSMISSIONS,
    verifier: digestIfAny,
  });
  const content = await fetch(name, { verifier: digestIfAny, ca: new LimitedCubic() });
  await writeFile(path, content);
  const seconds = (performance.now() - started) / 1000;
  console.error(`${content.length} bytes in ${seconds.toFixed(3)} s`);
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
} finally {
  face.close();
  Forwarder.getDefault().close();
}
