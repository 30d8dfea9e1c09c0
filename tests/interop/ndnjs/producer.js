// Publishes a file as a versioned, segmented object on ndn-js. Registers its prefix with a command
// of the old form, signed by an RSA key made for the purpose; answers RDR discovery; prints READY
// once the forwarder has accepted the prefix; serves until it is terminated.
"use strict";

const { createHash } = require("crypto");
const { readFileSync } = require("fs");
const { ndn, openFace, register, METADATA, segment, version, isSegment, usage } = require("./common.js");

const SEGMENT_BYTES = 7000;

const [prefixUri, path] = usage("usage: producer.js NAME-PREFIX FILE");
const content = readFileSync(path);
const last = Math.max(0, Math.ceil(content.length / SEGMENT_BYTES) - 1);
const prefix = new ndn.Name(prefixUri);
const versioned = new ndn.Name(prefix).append(version(Date.now() * 1000));
const face = openFace();

function makeData(name, payload, finalSegment, freshnessMs) {
  const data = new ndn.Data(name);
  data.setContent(payload);
  data.getMetaInfo().setFreshnessPeriod(freshnessMs);
  data.getMetaInfo().setFinalBlockId(finalSegment);
  // The library's own call for this fails on a circular import.
  data.setSignature(new ndn.DigestSha256Signature());
  const digest = createHash("sha256").update(data.wireEncode().signedBuf()).digest();
  data.getSignature().setSignature(new ndn.Blob(digest, false));
  return data;
}

function makeSegment(index) {
  const payload = content.subarray(index * SEGMENT_BYTES, (index + 1) * SEGMENT_BYTES);
  return makeData(new ndn.Name(versioned).append(segment(index)), payload, segment(last), 10000);
}

function makeMetadata() {
  const name = new ndn.Name(prefix).append(METADATA).append(version(Date.now() * 1000)).append(segment(0));
  return makeData(name, versioned.wireEncode().buf(), segment(0), 10);
}

function onInterest(_prefix, interest) {
  const name = interest.getName();
  if (name.size() > prefix.size() && name.get(prefix.size()).equals(METADATA)) {
    face.putData(makeMetadata());
  } else if (versioned.isPrefixOf(name) && name.size() === versioned.size() + 1 && isSegment(name.get(-1))) {
    const index = Number(`0x${name.get(-1).getValue().toHex()}`);
    if (index <= last) {
      face.putData(makeSegment(index));
    }
  }
}

register(face, prefix, onInterest);
