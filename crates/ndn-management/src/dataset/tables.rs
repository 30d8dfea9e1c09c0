//! Blocks of `fib/list`, `rib/list`, `strategy-choice/list` and `cs/info`.

use ndn_packet::tlv::{self, Tlv};
use ndn_packet::{DecodeError, Name, NameRef};

use super::DatasetItem;
use super::declare::dataset;
use crate::block::{self, OrderedFields};
use crate::numbers;

dataset! { item:
    /// One next hop of a [`FibEntry`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct NextHopRecord {
        /// FaceId.
        pub face_id: u64,
        /// Cost; lower is preferred.
        pub cost: u64,
    }
}

impl DatasetItem for NextHopRecord {
    const TYPE: u32 = numbers::NESTED_RECORD;

    fn encode(&self, out: &mut Vec<u8>) {
        tlv::append_nested(out, Self::TYPE, |out| {
            tlv::append_number(out, numbers::FACE_ID, self.face_id);
            tlv::append_number(out, numbers::COST, self.cost);
        });
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(block.reader());
        Ok(Self { face_id: fields.number(numbers::FACE_ID)?, cost: fields.number(numbers::COST)? })
    }
}

dataset! { item:
    /// One entry of `fib/list`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FibEntry {
        /// Prefix.
        pub name: Name,
        /// Next hops in ascending cost.
        pub next_hops: Vec<NextHopRecord>,
    }
}

impl DatasetItem for FibEntry {
    const TYPE: u32 = numbers::DATASET_ITEM;

    fn encode(&self, out: &mut Vec<u8>) {
        append_entry(out, self.name.as_ref(), self.next_hops.iter().copied());
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(block.reader());
        Ok(Self { name: fields.name()?, next_hops: records(fields)? })
    }
}

dataset! { item:
    /// One route of a [`RibEntry`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RouteRecord {
        /// FaceId.
        pub face_id: u64,
        /// Origin: a word such as `app`, or a number.
        pub origin: u64,
        /// Cost; lower is preferred.
        pub cost: u64,
        /// [`route_flag`](crate::route_flag) bits.
        pub flags: u64,
        /// Time until the route expires, milliseconds; absent: never.
        pub expiration_period_ms: Option<u64>,
    }
}

impl DatasetItem for RouteRecord {
    const TYPE: u32 = numbers::NESTED_RECORD;

    fn encode(&self, out: &mut Vec<u8>) {
        tlv::append_nested(out, Self::TYPE, |out| {
            tlv::append_number(out, numbers::FACE_ID, self.face_id);
            tlv::append_number(out, numbers::ORIGIN, self.origin);
            tlv::append_number(out, numbers::COST, self.cost);
            tlv::append_number(out, numbers::FLAGS, self.flags);
            block::append_optional_number(
                out,
                numbers::EXPIRATION_PERIOD,
                self.expiration_period_ms,
            );
        });
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(block.reader());
        Ok(Self {
            face_id: fields.number(numbers::FACE_ID)?,
            origin: fields.number(numbers::ORIGIN)?,
            cost: fields.number(numbers::COST)?,
            flags: fields.number(numbers::FLAGS)?,
            expiration_period_ms: fields.optional_number(numbers::EXPIRATION_PERIOD)?,
        })
    }
}

dataset! { item:
    /// One entry of `rib/list`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RibEntry {
        /// Prefix.
        pub name: Name,
        /// Routes in the order of their registration.
        pub routes: Vec<RouteRecord>,
    }
}

impl DatasetItem for RibEntry {
    const TYPE: u32 = numbers::DATASET_ITEM;

    fn encode(&self, out: &mut Vec<u8>) {
        append_entry(out, self.name.as_ref(), self.routes.iter().copied());
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(block.reader());
        Ok(Self { name: fields.name()?, routes: records(fields)? })
    }
}

/// Appends a [`FibEntry`] or [`RibEntry`] without an intermediate value: tables are large.
pub(crate) fn append_entry<T: DatasetItem>(
    out: &mut Vec<u8>,
    name: NameRef<'_>,
    records: impl Iterator<Item = T>,
) {
    tlv::append_nested(out, numbers::DATASET_ITEM, |out| {
        tlv::append_name(out, name);
        records.for_each(|record| record.encode(out));
    });
}

fn records<T: DatasetItem>(mut fields: OrderedFields<'_>) -> Result<Vec<T>, DecodeError> {
    let mut records = Vec::new();
    while let Some(tlv) = fields.next_tlv()? {
        if tlv.ty() == T::TYPE {
            records.push(T::decode_fields(tlv)?);
        } else {
            tlv.skip_unrecognized()?;
        }
    }
    Ok(records)
}

dataset! { item:
    /// One entry of `strategy-choice/list`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct StrategyChoice {
        /// Prefix.
        pub name: Name,
        /// Strategy, with version and parameters.
        pub strategy: Name,
    }
}

impl DatasetItem for StrategyChoice {
    const TYPE: u32 = numbers::DATASET_ITEM;

    fn encode(&self, out: &mut Vec<u8>) {
        tlv::append_nested(out, Self::TYPE, |out| {
            tlv::append_name(out, self.name.as_ref());
            block::append_wrapped_name(out, numbers::STRATEGY, self.strategy.as_ref());
        });
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(block.reader());
        Ok(Self {
            name: fields.name()?,
            strategy: block::wrapped_name_of(fields.required(numbers::STRATEGY)?)?,
        })
    }
}

dataset! { item:
    /// `cs/info`.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct CsInfo {
        /// Capacity, packets.
        pub capacity: u64,
        /// [`cs_flag`](crate::cs_flag) bits.
        pub flags: u64,
        /// Packets held.
        pub entries: u64,
        /// Interests answered from the Content Store.
        pub hits: u64,
        /// Interests that the Content Store could not answer.
        pub misses: u64,
    }
}

impl DatasetItem for CsInfo {
    const TYPE: u32 = numbers::DATASET_ITEM;

    fn encode(&self, out: &mut Vec<u8>) {
        tlv::append_nested(out, Self::TYPE, |out| {
            tlv::append_number(out, numbers::CAPACITY, self.capacity);
            tlv::append_number(out, numbers::FLAGS, self.flags);
            tlv::append_number(out, numbers::N_CS_ENTRIES, self.entries);
            tlv::append_number(out, numbers::N_HITS, self.hits);
            tlv::append_number(out, numbers::N_MISSES, self.misses);
        });
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(block.reader());
        Ok(Self {
            capacity: fields.number(numbers::CAPACITY)?,
            flags: fields.number(numbers::FLAGS)?,
            entries: fields.number(numbers::N_CS_ENTRIES)?,
            hits: fields.number(numbers::N_HITS)?,
            misses: fields.number(numbers::N_MISSES)?,
        })
    }
}
