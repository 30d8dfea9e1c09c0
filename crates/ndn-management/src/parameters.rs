//! `ControlParameters`: the arguments of a command, and the body of most responses
//! (NFD wiki, `ControlCommand`).

use ndn_packet::tlv::{self, Reader, Tlv};
use ndn_packet::{DecodeError, Name, NameRef, types};

use crate::block;
use crate::numbers;
use crate::route_origin;

/// The arguments of a management command. Every field is optional here; which ones a command
/// needs, takes or refuses is the business of the command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlParameters {
    /// The prefix that the command is about.
    pub name: Option<Name>,
    /// The face that the command is about; 0 is the requester's own face.
    pub face_id: Option<u64>,
    /// Remote face URI.
    pub uri: Option<String>,
    /// Local face URI.
    pub local_uri: Option<String>,
    /// Route origin ([`route_origin`]).
    pub origin: Option<u64>,
    /// Cost of a route or next hop.
    pub cost: Option<u64>,
    /// Content Store capacity, packets; in a `cs/erase` response the erase limit.
    pub capacity: Option<u64>,
    /// Number of packets.
    pub count: Option<u64>,
    /// Flag bits; which ones depends on the module.
    pub flags: Option<u64>,
    /// Which bits of `flags` count.
    pub mask: Option<u64>,
    /// Strategy name, with version and parameters where given.
    pub strategy: Option<Name>,
    /// Lifetime of a route, milliseconds.
    pub expiration_period_ms: Option<u64>,
    /// The number on the wire; [`Persistency::from_number`](crate::Persistency::from_number).
    pub face_persistency: Option<u64>,
    /// Interval of congestion marking, nanoseconds.
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// Queue length at which congestion marking starts, bytes.
    pub default_congestion_threshold: Option<u64>,
    /// Largest packet of the face, bytes.
    pub mtu: Option<u64>,
    /// The driver of the interface that the face is on: not of NFD, which passes it over. The number on
    /// the wire; [`FaceDriver::from_number`](crate::FaceDriver::from_number).
    pub driver: Option<u64>,
}

impl ControlParameters {
    /// The block on the wire, type and length included.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Appends the block to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        tlv::append_nested(out, numbers::CONTROL_PARAMETERS, |out| {
            if let Some(name) = &self.name {
                tlv::append_name(out, name.as_ref());
            }
            block::append_optional_number(out, numbers::FACE_ID, self.face_id);
            block::append_optional_text(out, numbers::URI, self.uri.as_deref());
            block::append_optional_text(out, numbers::LOCAL_URI, self.local_uri.as_deref());
            block::append_optional_number(out, numbers::ORIGIN, self.origin);
            block::append_optional_number(out, numbers::COST, self.cost);
            block::append_optional_number(out, numbers::CAPACITY, self.capacity);
            block::append_optional_number(out, numbers::COUNT, self.count);
            block::append_optional_number(out, numbers::FLAGS, self.flags);
            block::append_optional_number(out, numbers::MASK, self.mask);
            if let Some(strategy) = &self.strategy {
                block::append_wrapped_name(out, numbers::STRATEGY, strategy.as_ref());
            }
            block::append_optional_number(
                out,
                numbers::EXPIRATION_PERIOD,
                self.expiration_period_ms,
            );
            block::append_optional_number(out, numbers::FACE_PERSISTENCY, self.face_persistency);
            block::append_optional_number(
                out,
                numbers::BASE_CONGESTION_MARKING_INTERVAL,
                self.base_congestion_marking_interval_ns,
            );
            block::append_optional_number(
                out,
                numbers::DEFAULT_CONGESTION_THRESHOLD,
                self.default_congestion_threshold,
            );
            block::append_optional_number(out, numbers::MTU, self.mtu);
            block::append_optional_number(out, numbers::DRIVER, self.driver);
        });
    }

    /// Decodes one block that fills `wire`.
    ///
    /// Fields may come in any order, as NFD takes them; of a repeated field the first counts,
    /// fields that we do not know are passed over.
    ///
    /// # Errors
    /// If `wire` is not exactly one `ControlParameters` block, or a field's value is malformed.
    pub fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(wire).read_only(numbers::CONTROL_PARAMETERS)?.reader();
        let mut parameters = Self::default();
        while let Some(tlv) = reader.next_tlv()? {
            parameters.take(tlv)?;
        }
        Ok(parameters)
    }

    fn take(&mut self, tlv: Tlv<'_>) -> Result<(), DecodeError> {
        match tlv.ty() {
            types::NAME => set(&mut self.name, block::name_of(tlv)?),
            numbers::FACE_ID => set(&mut self.face_id, tlv.number()?),
            // Commands say what is wrong with it, as NFD's do.
            numbers::URI => set(&mut self.uri, block::lossy_text_of(tlv)),
            numbers::LOCAL_URI => set(&mut self.local_uri, block::lossy_text_of(tlv)),
            numbers::ORIGIN => set(&mut self.origin, origin_of(tlv)?),
            numbers::COST => set(&mut self.cost, tlv.number()?),
            numbers::CAPACITY => set(&mut self.capacity, tlv.number()?),
            numbers::COUNT => set(&mut self.count, tlv.number()?),
            numbers::FLAGS => set(&mut self.flags, tlv.number()?),
            numbers::MASK => set(&mut self.mask, tlv.number()?),
            numbers::STRATEGY => set(&mut self.strategy, block::wrapped_name_of(tlv)?),
            numbers::EXPIRATION_PERIOD => set(&mut self.expiration_period_ms, tlv.number()?),
            numbers::FACE_PERSISTENCY => set(&mut self.face_persistency, tlv.number()?),
            numbers::BASE_CONGESTION_MARKING_INTERVAL => {
                set(&mut self.base_congestion_marking_interval_ns, tlv.number()?);
            }
            numbers::DEFAULT_CONGESTION_THRESHOLD => {
                set(&mut self.default_congestion_threshold, tlv.number()?);
            }
            numbers::MTU => set(&mut self.mtu, tlv.number()?),
            numbers::DRIVER => set(&mut self.driver, tlv.number()?),
            _ => {}
        }
        Ok(())
    }

    /// The value of a flag bit that the sender wants changed (`Mask` has the bit).
    #[must_use]
    pub fn flag(&self, bit: u64) -> Option<bool> {
        (self.mask.unwrap_or(0) & bit != 0).then(|| self.flags.unwrap_or(0) & bit != 0)
    }

    /// Asks for a flag bit to be set or cleared: `Flags` and `Mask` both.
    pub fn set_flag(&mut self, bit: u64, value: bool) {
        self.mask = Some(self.mask.unwrap_or(0) | bit);
        let flags = self.flags.unwrap_or(0);
        self.flags = Some(if value { flags | bit } else { flags & !bit });
    }

    /// The prefix, or the empty name where the command has none.
    #[must_use]
    pub fn prefix(&self) -> NameRef<'_> {
        self.name.as_ref().map(Name::as_ref).unwrap_or(NameRef::ROOT)
    }
}

fn set<T>(field: &mut Option<T>, value: T) {
    field.get_or_insert(value);
}

/// The origin of a route: 16 bits, as clients of ndn-cxx take no longer ones, nor a list that has one.
fn origin_of(tlv: Tlv<'_>) -> Result<u64, DecodeError> {
    let origin = tlv.number()?;
    if origin > route_origin::NONE { Err(tlv.invalid_value()) } else { Ok(origin) }
}

#[cfg(test)]
mod tests;
