// Fetches a versioned, segmented object on ndn-js: RDR discovery, then a fixed window of Interests
// with retransmission. (The library's own segment fetcher knows only the marker bytes that came
// before typed components.)
"use strict";

const { createHash } = require("crypto");
const { writeFileSync } = require("fs");
const { ndn, openFace, METADATA, segment, isSegment, usage } = require("./common.js");

const WINDOW = 64;
const ATTEMPTS = 8;
const LIFETIME_MS = 2000;

const [prefixUri, path] = usage("usage: consumer.js NAME-PREFIX OUT-FILE");
const face = openFace();

function express(name, configure) {
  return new Promise((resolve, reject) => {
    let attempts = 0;
    const send = () => {
      attempts += 1;
      const interest = new ndn.Interest(name);
      interest.setInterestLifetimeMilliseconds(LIFETIME_MS);
      interest.setMustBeFresh(false);
      if (configure) {
        configure(interest);
      }
      const again = (reason) => () =>
        attempts < ATTEMPTS ? setTimeout(send, 10 * attempts) : reject(new Error(`${reason}: ${name.toUri()}`));
      face.expressInterest(interest, (_interest, data) => resolve(data), again("timeout"), again("Nack"));
    };
    send();
  });
}

function checkDigest(data) {
  const signature = data.getSignature();
  if (signature instanceof ndn.DigestSha256Signature) {
    const digest = createHash("sha256").update(data.wireEncode().signedBuf()).digest();
    if (!digest.equals(signature.getSignature().buf())) {
      throw new Error(`bad digest: ${data.getName().toUri()}`);
    }
  }
  return data;
}

async function fetchObject(prefix) {
  const discovery = await express(new ndn.Name(prefix).append(METADATA), (interest) => {
    interest.setCanBePrefix(true);
    interest.setMustBeFresh(true);
  });
  const versioned = new ndn.Name();
  versioned.wireDecode(checkDigest(discovery).getContent());
  const fetchSegment = async (index) => checkDigest(await express(new ndn.Name(versioned).append(segment(index))));

  const first = await fetchSegment(0);
  const finalBlockId = first.getMetaInfo().getFinalBlockId();
  if (!isSegment(finalBlockId)) {
    throw new Error("segment 0 has no FinalBlockId");
  }
  const last = Number(`0x${finalBlockId.getValue().toHex()}`);
  const parts = [first.getContent().buf()];
  let next = 1;
  const lane = async () => {
    while (next <= last) {
      const index = next;
      next += 1;
      parts[index] = (await fetchSegment(index)).getContent().buf();
    }
  };
  await Promise.all(Array.from({ length: WINDOW }, lane));
  return Buffer.concat(parts);
}

(async () => {
  try {
    const started = Date.now();
    const content = await fetchObject(new ndn.Name(prefixUri));
    writeFileSync(path, content);
    console.error(`${content.length} bytes in ${(Date.now() - started) / 1000} s`);
    process.exit(0);
  } catch (error) {
    console.error(String(error));
    process.exit(1);
  }
})();
