// Leaves pages open for a day of messages, which a stand-in for the forwarder's WebSocket sends: node day.mjs URL TOKEN
// Prints "PASSED" at the end.
import { check, run } from "./common.mjs";

const [url, token] = process.argv.slice(2);
const HOUR = 3600;
const DAY = 24 * HOUR;
/** Messages between two pictures of the browser. */
const STEP = 4000;
/** How long unused memory is collected. */
const COLLECTIONS_MS = 20_000;

/** Replaces the WebSocket of a page, before its scripts run: `sendAll(text, data)` sends to subscriptions with this text. */
function standIn() {
  const connections = new Set();
  class Connection {
    constructor() {
      this.subscriptions = [];
      connections.add(this);
      setTimeout(() => this.onopen());
    }

    send(text) {
      const { type, id, payload } = JSON.parse(text);
      if (type === "connection_init") this.receive({ type: "connection_ack" });
      if (type === "subscribe") this.subscriptions.push([id, payload.query]);
    }

    receive(message) {
      this.onmessage({ data: JSON.stringify(message) });
    }

    close() {
      connections.delete(this);
    }
  }
  globalThis.WebSocket = Connection;
  globalThis.sendAll = (text, data) => {
    let count = 0;
    for (const connection of connections) {
      for (const [id, query] of connection.subscriptions.filter(([, query]) => query.includes(text))) {
        connection.receive({ type: "next", id, payload: { data } });
        count += 1;
      }
    }
    return count;
  };
}

/** Sends the messages of these seconds, made by the function of this source; returns the number of those that were received. */
async function live([makeSource, text, from, to, step]) {
  const make = new Function(`return ${makeSource}`)();
  let count = 0;
  for (let at = from; at < to; at += 1) {
    count += globalThis.sendAll(text, make(at));
    if (at % step === 0) await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  await new Promise((resolve) => requestAnimationFrame(resolve));
  return count;
}

const worker = (at) => {
  const names = ["inInterests", "inData", "outInterests", "outData", "csHits", "csMisses", "dropped", "packets", "bursts", "pitEntries",
    "csEntries", "waitedNs", "receivedBytes", "sentBytes", "crossingsSent", "ringFull", "packetBlocks", "packetBlocksCapacity",
    "sharedSocketDrops", "ownSocketDrops"];
  const counters = Object.fromEntries(names.map((name, number) => [name, at * 1000 + number]));
  const drops = ["no_route", "duplicate_nonce"].map((key) => ({ key, value: at }));
  return { counters: { unixMs: at * 1000, lost: 0, workers: [{ ...counters, drops }, { ...counters, drops }] } };
};
const log = (at) => ({ log: { lost: 0, messages: [{ unixMs: at * 1000, level: "info", module: "day", message: `message ${at} of a day` }] } });
const packets = (at) => ({ packets: { lost: 0, packets: [{ unixMs: at * 1000, worker: 0, faceId: 300, packet: "Interest",
  name: `/day/${at}`, decisions: ["PIT new", "sent to face 301"] }] } });
const rates = (at) => {
  const value = { inInterests: at, inData: at, outData: at, inBytes: at, outBytes: at };
  return { counters: { unixMs: at * 1000, faces: Array.from({ length: 100 }, (_, key) => ({ key: String(key + 1), value })) } };
};
const limits = (at) => {
  const table = (key) => ({ key, value: { capacity: 1000, used: at % 1000, usedByClass: [{ key: "local", value: at % 1000 }] } });
  const principal = (number) => ({ principal: `user ${number + at}`, class: "local", faces: 1, held: [{ key: "faces", value: 1 }] });
  return { counters: { principals: 300, limits: { tables: ["faces", "pit_entries"].map(table),
    principals: Array.from({ length: 100 }, (_, number) => principal(number)) } } };
};

/** Pages, texts of their subscriptions, messages, and the shortest time between two of them in seconds. */
const PAGES = [
  ["overview", "csHits", worker, 1], ["workers", "bursts", worker, 1], ["faces", "faceIds", rates, 2], ["limits", "principals", limits, 3],
  ["packets", "packets(", packets, 1], ["log", "log(", log, 1],
];

await run(async (open, errors) => {
  const page = await open({ viewport: { width: 1280, height: 900 } });
  await page.addInitScript(standIn);
  await page.goto(`${url}#token=${token}`);
  const session = await page.context().newCDPSession(page);
  /** Bytes of live objects, and elements, also those that are not shown any more. */
  const size = async () => {
    await session.send("HeapProfiler.collectGarbage");
    const [{ usedSize }, { nodes }] = [await session.send("Runtime.getHeapUsage"), await session.send("Memory.getDOMCounters")];
    return [usedSize, nodes];
  };
  for (const [place, text, make, interval] of PAGES) {
    await page.goto(`${url}#/${place}`);
    if (place === "packets") await page.getByRole("button", { name: "Start trace" }).click();
    await page.waitForFunction(([text, data]) => globalThis.sendAll(text, data) > 0, [text, make(0)]);
    const send = (from, to) => page.evaluate(live, [String(make), text, from / interval, to / interval, STEP]);
    const first = await send(interval, HOUR);
    const [bytes, nodes] = await size();
    const more = await send(HOUR, DAY);
    check(first + more >= DAY / interval - 1, `${place} has received ${first + more} messages`);
    // One collection does not free everything that is unused: repeated until the page is small again, if ever.
    const deadline = Date.now() + COLLECTIONS_MS;
    let result, isSmall;
    do {
      const [bytesNow, nodesNow] = await size();
      result = `${place}: ${bytes} bytes and ${nodes} nodes after an hour, ${bytesNow} and ${nodesNow} after a day`;
      isSmall = bytesNow < bytes + (1 << 20) && nodesNow < nodes + 200;
    } while (!isSmall && Date.now() < deadline);
    console.log(result);
    check(isSmall, result);
  }
  check(errors.length === 0, errors.join("; "));
});
