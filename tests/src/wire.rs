//! Packets for tests that speak to the forwarder's sockets themselves.

use std::io::Read;
use std::os::unix::net::UnixStream;

use ndn_packet::{DataBuilder, InterestBuilder, LpPacket, Name};
use ndn_security::{DigestSigner, sign_data};

/// A name.
///
/// # Panics
/// `uri` is none.
#[must_use]
pub fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

/// An encoded Interest.
///
/// # Panics
/// It cannot be encoded.
#[must_use]
pub fn interest(uri: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(&name(uri)).nonce(nonce).lifetime_ms(4000).to_vec().expect("an Interest")
}

/// An encoded Data, signed by its digest.
///
/// # Panics
/// It cannot be encoded.
#[must_use]
pub fn data(uri: &str, content: &[u8]) -> Vec<u8> {
    data_with_freshness(uri, content, Some(1000))
}

/// An encoded Data with this FreshnessPeriod, signed by its digest.
///
/// # Panics
/// It cannot be encoded.
#[must_use]
pub fn data_with_freshness(uri: &str, content: &[u8], freshness_ms: Option<u64>) -> Vec<u8> {
    let name = name(uri);
    let mut builder = DataBuilder::new(&name).content(content);
    if let Some(freshness_ms) = freshness_ms {
        builder = builder.freshness_ms(freshness_ms);
    }
    sign_data(&builder, &DigestSigner).expect("a Data")
}

/// Reads packets off a stream.
#[derive(Debug)]
pub struct PacketReader {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl PacketReader {
    /// Over a stream, whose read time-out bounds every wait.
    ///
    /// # Panics
    /// The stream cannot be duplicated.
    #[must_use]
    pub fn new(stream: &UnixStream) -> Self {
        Self { stream: stream.try_clone().expect("a second handle"), buffer: Vec::new() }
    }

    /// The next packet, without its link header; none at the end of the stream or after the time-out.
    ///
    /// # Panics
    /// The received bytes are not a packet.
    pub fn next_packet(&mut self) -> Option<Vec<u8>> {
        loop {
            let frame = self.next_frame()?;
            let packet = LpPacket::parse(&frame).expect("the forwarder sends proper packets");
            // A frame may hold nothing.
            if let Some(packet) = packet.fragment() {
                return Some(packet.to_vec());
            }
        }
    }

    /// The next frame; none at the end of the stream or after the time-out.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(length) = element_len(&self.buffer)
                && self.buffer.len() >= length
            {
                let rest = self.buffer.split_off(length);
                return Some(std::mem::replace(&mut self.buffer, rest));
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

/// Length of the element at the front of `bytes`, header included, once the header is complete.
fn element_len(bytes: &[u8]) -> Option<usize> {
    let (_, type_len) = var_number(bytes)?;
    let (value_len, length_len) = var_number(bytes.get(type_len..)?)?;
    Some(type_len + length_len + usize::try_from(value_len).ok()?)
}

fn var_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let (extra, first) = match *bytes.first()? {
        253 => (2, 0),
        254 => (4, 0),
        255 => (8, 0),
        small => (0, u64::from(small)),
    };
    let number =
        bytes.get(1..=extra)?.iter().fold(first, |number, byte| number << 8 | u64::from(*byte));
    Some((number, 1 + extra))
}
