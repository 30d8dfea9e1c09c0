// Publishes a file as ndn-js itself names objects: version and segment numbers are generic components
// that begin with a marker. Nobody is told of the version but by the segments themselves: an Interest for
// the prefix gets the first one. Prints READY once the forwarder has accepted the prefix, and serves until
// it is terminated.
"use strict";

const { createHash } = require("crypto");
const { readFileSync } = require("fs");
const { ndn, openFace, register, usage } = require("./common.js");

const SEGMENT_BYTES = 7000;

const [prefixUri, path] = usage("usage: marked-producer.js NAME-PREFIX FILE");
const content = readFileSync(path);
const last = Math.max(0, Math.ceil(content.length / SEGMENT_BYTES) - 1);
const prefix = new ndn.Name(prefixUri);
const versioned = new ndn.Name(prefix).appendVersion(Date.now());
const face = openFace();

function makeSegment(index) {
  const data = new ndn.Data(new ndn.Name(versioned).appendSegment(index));
  data.setContent(content.subarray(index * SEGMENT_BYTES, (index + 1) * SEGMENT_BYTES));
  data.getMetaInfo().setFreshnessPeriod(10000);
  data.getMetaInfo().setFinalBlockId(ndn.Name.Component.fromNumberWithMarker(last, 0x00));
  // The library's own call for this fails on a circular import.
  data.setSignature(new ndn.DigestSha256Signature());
  const digest = createHash("sha256").update(data.wireEncode().signedBuf()).digest();
  data.getSignature().setSignature(new ndn.Blob(digest, false));
  return data;
}

function onInterest(_prefix, interest) {
  const name = interest.getName();
  if (name.isPrefixOf(versioned) && interest.getCanBePrefix()) {
    face.putData(makeSegment(0));
  } else if (versioned.isPrefixOf(name) && name.size() === versioned.size() + 1) {
    const index = name.get(-1).toSegment();
    if (index <= last) {
      face.putData(makeSegment(index));
    }
  }
}

register(face, prefix, onInterest);
