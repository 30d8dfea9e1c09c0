// Lists and fetches a directory recursively with NDNts' client of the file service, checking the digest
// of every packet.
// Usage: files.js NAME-PREFIX OUT-DIRECTORY

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { Client } from "@ndn/fileserver";
import { Forwarder } from "@ndn/fw";
import { digestSigning, Name } from "@ndn/packet";

import { connect, usage } from "./connect.js";

const RETRANSMISSIONS = 8;

const [prefixUri, out] = usage("usage: files.js NAME-PREFIX OUT-DIRECTORY");
const face = await connect();

async function fetchDirectory(client, path, target) {
  await mkdir(target, { recursive: true });
  const directory = await client.stat(path);
  for await (const entry of client.readdir(directory)) {
    const below = path === "" ? entry.name : `${path}/${entry.name}`;
    if (entry.isDir) {
      await fetchDirectory(client, below, join(target, entry.name));
      continue;
    }
    const metadata = await client.stat(below);
    const content = await client.readFile(metadata);
    if (content.length !== metadata.size) {
      throw new Error(`${below}: ${content.length} bytes instead of ${metadata.size}`);
    }
    await writeFile(join(target, entry.name), content);
    if (metadata.size > 10) {
      const part = new Uint8Array(10);
      const position = metadata.size - 10;
      await client.readFileInto(metadata, part, 0, 10, position);
      if (Buffer.compare(part, content.subarray(position)) !== 0) {
        throw new Error(`${below}: the last bytes differ when they are fetched alone`);
      }
    }
  }
}

try {
  const client = new Client(new Name(prefixUri), {
    verifier: digestSigning,
    retx: RETRANSMISSIONS,
    retxLimit: RETRANSMISSIONS,
  });
  await fetchDirectory(client, "", out);
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
} finally {
  face.close();
  Forwarder.getDefault().close();
}
