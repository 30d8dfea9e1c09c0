// What producer and consumer share: the face, and the typed name components that came into use
// after this library's own conventions.
"use strict";

const { generateKeyPairSync } = require("crypto");
const ndn = require("ndn-js");

// The library asks for a choice on every Interest otherwise.
ndn.Interest.setDefaultCanBePrefix(false);

const KEYWORD = 32;
const SEGMENT = 50;
const VERSION = 54;

/** The bytes of a NonNegativeInteger: 1, 2, 4 or 8 of them. */
function encodeNumber(number) {
  const wide = BigInt(number);
  const length = wide < 0x100n ? 1 : wide < 0x10000n ? 2 : wide < 0x100000000n ? 4 : 8;
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(wide);
  return bytes.subarray(8 - length);
}

function typed(type, bytes) {
  return new ndn.Name.Component(bytes, ndn.ComponentType.OTHER_CODE, type);
}

function isTyped(component, type) {
  return component.getType() === ndn.ComponentType.OTHER_CODE && component.getOtherTypeCode() === type;
}

function openFace() {
  const transport = new URL(process.env.NDN_CLIENT_TRANSPORT || "unix:///run/nfd/nfd.sock");
  if (transport.protocol === "unix:") {
    const address = new ndn.UnixTransport.ConnectionInfo(transport.pathname);
    return new ndn.Face(new ndn.UnixTransport(), address);
  }
  if (/^tcp[46]?:$/.test(transport.protocol)) {
    const address = new ndn.TcpTransport.ConnectionInfo(transport.hostname, Number(transport.port || 6363));
    return new ndn.Face(new ndn.TcpTransport(), address);
  }
  throw new Error(`ndn-js has no transport for ${transport}`);
}

function refused() {
  console.error("the forwarder refused the prefix");
  process.exit(1);
}

/** Registers a prefix with a command of the old form, signed by an RSA key made for the purpose. */
function register(face, prefix, onInterest) {
  // The library's own key generation wants a native package; it takes a key that Node has made.
  const { publicKey, privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "der" },
    privateKeyEncoding: { type: "pkcs8", format: "der" },
  });
  const keyChain = new ndn.KeyChain("pib-memory:", "tpm-memory:");
  const keyName = new ndn.Name("/interop/ndn-js/KEY/1");
  keyChain.importSafeBag(new ndn.SafeBag(keyName, new ndn.Blob(privateKey), new ndn.Blob(publicKey)));
  face.setCommandSigningInfo(keyChain, keyChain.getDefaultCertificateName());
  face.registerPrefix(prefix, onInterest, refused, () => console.log("READY"));
}

module.exports = {
  ndn,
  openFace,
  register,
  METADATA: typed(KEYWORD, Buffer.from("metadata")),
  segment: (number) => typed(SEGMENT, encodeNumber(number)),
  version: (number) => typed(VERSION, encodeNumber(number)),
  isSegment: (component) => isTyped(component, SEGMENT),
  usage(text) {
    if (process.argv.length !== 4) {
      console.error(text);
      process.exit(2);
    }
    return process.argv.slice(2);
  },
};
