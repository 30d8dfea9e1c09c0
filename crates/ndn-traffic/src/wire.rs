//! Just enough parsing to know which Interest an answer is for, and what to answer.

use ndn_packet::tlv::Reader;

pub(crate) const INTEREST: u32 = 0x05;
pub(crate) const DATA: u32 = 0x06;
pub(crate) const NAME: u32 = 0x07;
pub(crate) const NONCE: u32 = 0x0A;
pub(crate) const LIFETIME: u32 = 0x0C;
pub(crate) const MUST_BE_FRESH: u32 = 0x12;
pub(crate) const CAN_BE_PREFIX: u32 = 0x21;
pub(crate) const HOP_LIMIT: u32 = 0x22;
pub(crate) const META_INFO: u32 = 0x14;
pub(crate) const FRESHNESS_PERIOD: u32 = 0x19;
pub(crate) const CONTENT: u32 = 0x15;
pub(crate) const LP_PACKET: u32 = 0x64;
pub(crate) const LP_FRAGMENT: u32 = 0x50;
pub(crate) const LP_PIT_TOKEN: u32 = 0x62;
pub(crate) const LP_NACK: u32 = 0x0320;
pub(crate) const LP_NACK_REASON: u32 = 0x0321;

/// A received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceivedPacket<'a> {
    /// An Interest: its PIT token and its whole TLV.
    Interest { token: &'a [u8], packet: &'a [u8] },
    /// A Data with this PIT token.
    Data { token: &'a [u8] },
    /// A Nack with this PIT token.
    Nack { token: &'a [u8], reason: u64 },
    /// Anything else.
    Other,
}

/// Reads one packet from the network; whatever it is, this does not fail.
pub(crate) fn read_frame(frame: &[u8]) -> ReceivedPacket<'_> {
    let Ok(outer) = Reader::new(frame).read() else { return ReceivedPacket::Other };
    if outer.ty() != LP_PACKET {
        return network(outer.ty(), frame, &[], None);
    }
    let (mut token, mut nack): (&[u8], Option<u64>) = (&[], None);
    let mut fields = Reader::new(outer.value());
    while let Ok(Some(field)) = fields.next_tlv() {
        match field.ty() {
            LP_PIT_TOKEN => token = field.value(),
            LP_NACK => {
                let reason = field.reader().read_if(LP_NACK_REASON).ok().flatten();
                nack = Some(reason.and_then(|reason| reason.number().ok()).unwrap_or(0));
            }
            LP_FRAGMENT => {
                let packet = field.value();
                let ty = Reader::new(packet).read().map_or(0, |inner| inner.ty());
                return network(ty, packet, token, nack);
            }
            _ => {}
        }
    }
    ReceivedPacket::Other
}

fn network<'a>(
    ty: u32,
    packet: &'a [u8],
    token: &'a [u8],
    nack: Option<u64>,
) -> ReceivedPacket<'a> {
    match (ty, nack) {
        (INTEREST, None) => ReceivedPacket::Interest { token, packet },
        (INTEREST, Some(reason)) => ReceivedPacket::Nack { token, reason },
        (DATA, None) => ReceivedPacket::Data { token },
        _ => ReceivedPacket::Other,
    }
}

/// The value of the Name of an Interest, and whether CanBePrefix follows it.
pub(crate) fn interest_name(packet: &[u8]) -> Option<(&[u8], bool)> {
    let interest = Reader::new(packet).read().ok()?;
    let mut fields = Reader::new(interest.value());
    let name = fields.read_expected(NAME).ok()?;
    let can_be_prefix = fields.read_if(CAN_BE_PREFIX).ok()?.is_some();
    Some((name.value(), can_be_prefix))
}
