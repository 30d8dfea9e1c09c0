// Opens the face that NDN_CLIENT_TRANSPORT names: unix:///path, tcp4://host:port,
// udp4://host:port or ws://host:port.

import { TcpTransport, UdpTransport, UnixTransport } from "@ndn/node-transport";
import { WsTransport } from "@ndn/ws-transport";

const DEFAULT_TRANSPORT = "unix:///run/nfd/nfd.sock";
const NDN_PORT = 6363;

export async function connect() {
  const transport = new URL(process.env.NDN_CLIENT_TRANSPORT ?? DEFAULT_TRANSPORT);
  const port = Number(transport.port || NDN_PORT);
  switch (transport.protocol) {
    case "unix:":
      return UnixTransport.createFace({}, transport.pathname);
    case "tcp:":
    case "tcp4:":
    case "tcp6:":
      return TcpTransport.createFace({}, transport.hostname, port);
    case "ws:":
      return WsTransport.createFace({}, transport.href);
    case "udp:":
    case "udp4:":
      return UdpTransport.createFace({}, { host: transport.hostname, port });
    default:
      throw new Error(`NDN_CLIENT_TRANSPORT=${transport} is of no known kind`);
  }
}

export function usage(text) {
  if (process.argv.length !== 4) {
    console.error(text);
    process.exit(2);
  }
  return process.argv.slice(2);
}
