//! Packets as plain values, with an encoder of the tests' own, so that it can serve as an oracle.

use std::fmt;

/// Type of an ImplicitSha256DigestComponent.
pub const DIGEST: u16 = 1;
/// Type of a GenericNameComponent.
pub const GENERIC: u16 = 8;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Component(pub u16, pub Vec<u8>);

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == GENERIC {
            write!(f, "{}", String::from_utf8_lossy(&self.1))
        } else {
            write!(f, "{}={:02x?}", self.0, &self.1[..self.1.len().min(4)])
        }
    }
}

pub type Name = Vec<Component>;

/// The name of a URI of generic components without escapes.
pub fn name(uri: &str) -> Name {
    uri.split('/')
        .filter(|part| !part.is_empty())
        .map(|part| Component(GENERIC, part.as_bytes().to_vec()))
        .collect()
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interest {
    pub name: Name,
    pub can_be_prefix: bool,
    pub must_be_fresh: bool,
    pub hint: Vec<Name>,
    pub nonce: Option<u32>,
    pub lifetime_ms: Option<u64>,
    pub hop_limit: Option<u8>,
}

impl Interest {
    pub fn new(uri: &str, nonce: u32) -> Self {
        Self {
            name: name(uri),
            can_be_prefix: false,
            must_be_fresh: false,
            hint: Vec::new(),
            nonce: Some(nonce),
            lifetime_ms: None,
            hop_limit: None,
        }
    }

    pub fn can_be_prefix(mut self) -> Self {
        self.can_be_prefix = true;
        self
    }

    pub fn must_be_fresh(mut self) -> Self {
        self.must_be_fresh = true;
        self
    }

    pub fn lifetime_ms(mut self, lifetime_ms: u64) -> Self {
        self.lifetime_ms = Some(lifetime_ms);
        self
    }

    pub fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = Some(hop_limit);
        self
    }

    pub fn hint(mut self, uri: &str) -> Self {
        self.hint.push(name(uri));
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut value = encode_name(&self.name);
        if self.can_be_prefix {
            tlv(&mut value, 33, &[]);
        }
        if self.must_be_fresh {
            tlv(&mut value, 18, &[]);
        }
        if !self.hint.is_empty() {
            tlv(&mut value, 30, &self.hint.iter().flat_map(encode_name).collect::<Vec<_>>());
        }
        if let Some(nonce) = self.nonce {
            tlv(&mut value, 10, &nonce.to_be_bytes());
        }
        if let Some(lifetime_ms) = self.lifetime_ms {
            tlv(&mut value, 12, &number(lifetime_ms));
        }
        if let Some(hop_limit) = self.hop_limit {
            tlv(&mut value, 34, &[hop_limit]);
        }
        let mut wire = Vec::new();
        tlv(&mut wire, 5, &value);
        wire
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Data {
    pub name: Name,
    pub freshness_ms: Option<u64>,
    pub content: Vec<u8>,
}

impl Data {
    pub fn new(uri: &str) -> Self {
        Self { name: name(uri), freshness_ms: None, content: b"content".to_vec() }
    }

    pub fn freshness_ms(mut self, freshness_ms: u64) -> Self {
        self.freshness_ms = Some(freshness_ms);
        self
    }

    pub fn content(mut self, content: &[u8]) -> Self {
        self.content = content.to_vec();
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut value = encode_name(&self.name);
        if let Some(freshness_ms) = self.freshness_ms {
            let mut meta_info = Vec::new();
            tlv(&mut meta_info, 25, &number(freshness_ms));
            tlv(&mut value, 20, &meta_info);
        }
        tlv(&mut value, 21, &self.content);
        tlv(&mut value, 22, &[27, 1, 200]);
        tlv(&mut value, 23, &[]);
        let mut wire = Vec::new();
        tlv(&mut wire, 6, &value);
        wire
    }

    /// The name with the implicit digest.
    pub fn full_name(&self) -> Name {
        let mut name = self.name.clone();
        name.push(digest_component(&self.encode()));
        name
    }
}

/// The implicit digest of a packet.
pub fn digest_component(wire: &[u8]) -> Component {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, wire);
    Component(DIGEST, digest.as_ref().to_vec())
}

fn encode_name(name: &Name) -> Vec<u8> {
    let mut value = Vec::new();
    for component in name {
        tlv(&mut value, u32::from(component.0), &component.1);
    }
    let mut wire = Vec::new();
    tlv(&mut wire, 7, &value);
    wire
}

/// The value of a Name TLV.
pub fn name_value(name: &Name) -> Vec<u8> {
    let mut value = Vec::new();
    for component in name {
        tlv(&mut value, u32::from(component.0), &component.1);
    }
    value
}

fn tlv(out: &mut Vec<u8>, kind: u32, value: &[u8]) {
    var_number(out, u64::from(kind));
    var_number(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn var_number(out: &mut Vec<u8>, number: u64) {
    match number {
        0..253 => out.push(u8::try_from(number).unwrap()),
        253..0x1_0000 => {
            out.push(253);
            out.extend(u16::try_from(number).unwrap().to_be_bytes());
        }
        _ => {
            out.push(254);
            out.extend(u32::try_from(number).unwrap().to_be_bytes());
        }
    }
}

fn number(number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let length = match number {
        0..0x100 => 1,
        0x100..0x1_0000 => 2,
        0x1_0000..0x1_0000_0000 => 4,
        _ => 8,
    };
    bytes[8 - length..].to_vec()
}

/// Nack reasons on the wire.
pub const CONGESTION: u64 = 50;
pub const DUPLICATE: u64 = 100;
pub const NO_ROUTE: u64 = 150;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Packet {
    Interest(Interest),
    Data(Data),
    Nack(u64, Interest),
}

impl Packet {
    /// The network packet, without LP header.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Interest(interest) | Self::Nack(_, interest) => interest.encode(),
            Self::Data(data) => data.encode(),
        }
    }

    pub fn name(&self) -> &Name {
        match self {
            Self::Interest(interest) | Self::Nack(_, interest) => &interest.name,
            Self::Data(data) => &data.name,
        }
    }
}
