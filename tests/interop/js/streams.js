// NDN over WebTransport in a page, as docs/transports/webtransport.md says: packets longer than a datagram go by a
// unidirectional stream each. A stream with an empty LpPacket tells the forwarder that the page reads them.

import { L3Face, rxFromPacketIterable, Transport } from "@ndn/l3face";

const ANNOUNCEMENT = Uint8Array.of(0x64, 0x00);

async function* values(readable) {
  const reader = readable.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return;
    }
    yield value;
  }
}

export class StreamsTransport extends Transport {
  /** Packets that came by streams. */
  static received = 0;

  static async connect(uri, options) {
    const session = new WebTransport(uri, options);
    await session.ready;
    const transport = new StreamsTransport(session, uri);
    await transport.sendStream(ANNOUNCEMENT);
    return transport;
  }

  constructor(session, uri) {
    super({ describe: `streams of ${uri}` });
    this.session = session;
    const packets = new ReadableStream({
      start: (queue) => {
        const end = () => {
          try {
            queue.close();
          } catch {
            // It is closed.
          }
        };
        this.readDatagrams(queue).then(end, end);
        this.readStreams(queue).then(end, end);
      },
    });
    this.rx = rxFromPacketIterable(values(packets));
  }

  get mtu() {
    return Number.POSITIVE_INFINITY;
  }

  async readDatagrams(queue) {
    for await (const datagram of values(this.session.datagrams.readable)) {
      queue.enqueue(datagram);
    }
  }

  async readStreams(queue) {
    for await (const stream of values(this.session.incomingUnidirectionalStreams)) {
      // They end in any order.
      void this.readStream(stream, queue).catch(() => undefined);
    }
  }

  async readStream(stream, queue) {
    const packet = new Uint8Array(await new Response(stream).arrayBuffer());
    if (packet.length === 2 && packet[0] === ANNOUNCEMENT[0]) {
      return;
    }
    StreamsTransport.received += 1;
    queue.enqueue(packet);
  }

  async sendStream(packet) {
    const writer = (await this.session.createUnidirectionalStream()).getWriter();
    await writer.write(packet);
    await writer.close();
  }

  async tx(packets) {
    const datagrams = this.session.datagrams.writable.getWriter();
    try {
      for await (const packet of packets) {
        const isLong = packet.length > this.session.datagrams.maxDatagramSize;
        await (isLong ? this.sendStream(packet) : datagrams.write(packet));
      }
    } finally {
      this.session.close();
    }
  }
}

StreamsTransport.createFace = L3Face.makeCreateFace(StreamsTransport.connect);
