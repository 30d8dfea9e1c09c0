//! Publishes a file as a versioned, segmented object on the ndn-app crate. Answers RDR discovery,
//! prints READY once the forwarder has accepted the prefix, and serves until it is terminated.
#![forbid(unsafe_code)]

use std::sync::Arc;

use bytes::Bytes;
use namewire_interop_ndn_app::{
    append, arguments, block_on, metadata, segment, segment_number, version_now,
};
use ndn_app::app::{App, AppHandler};
use ndn_app::verifier::AllowAll;
use ndn_protocol::{
    Data, DigestSha256, FinalBlockId, FreshnessPeriod, Interest, MetaInfo, Name, NameComponent,
};
use ndn_tlv::TlvEncode;

/// The library's reader loses its place in packets of more than 8192 bytes; stay well below.
const SEGMENT_BYTES: usize = 7200;

struct Object {
    prefix: Name,
    versioned: Name,
    content: Bytes,
}

impl Object {
    fn last_segment(&self) -> usize {
        self.content.len().div_ceil(SEGMENT_BYTES).saturating_sub(1)
    }

    fn answer(&self, name: &Name) -> Option<Data<Bytes>> {
        if name.has_prefix(&append(&self.prefix, metadata())) {
            let name =
                append(&append(&append(&self.prefix, metadata()), version_now()), segment(0));
            return Some(data(name, self.versioned.encode(), segment(0), 10));
        }
        let index = name.components.last().and_then(segment_number)?;
        if *name != append(&self.versioned, segment(index)) || index > self.last_segment() {
            return None;
        }
        let start = index * SEGMENT_BYTES;
        let end = self.content.len().min(start + SEGMENT_BYTES);
        Some(data(
            name.clone(),
            self.content.slice(start..end),
            segment(self.last_segment()),
            10_000,
        ))
    }
}

fn data(name: Name, content: Bytes, last: NameComponent, freshness_ms: u64) -> Data<Bytes> {
    let mut data = Data::new(name, content);
    data.set_meta_info(Some(MetaInfo {
        content_type: None,
        freshness_period: Some(FreshnessPeriod::new(freshness_ms)),
        final_block_id: Some(FinalBlockId { final_block_id: last }),
    }));
    data
}

async fn on_interest(
    _: AppHandler,
    interest: Interest<()>,
    object: Arc<Object>,
) -> Option<Data<Bytes>> {
    object.answer(interest.name())
}

async fn on_start(_: AppHandler, _: Arc<Object>) {
    println!("READY");
}

fn main() {
    let (prefix, path) = arguments("producer", "FILE");
    let prefix = Name::from_str(&prefix).expect("a name");
    let content = Bytes::from(std::fs::read(&path).expect("a readable file"));
    let versioned = append(&prefix, version_now());
    let object = Arc::new(Object { prefix: prefix.clone(), versioned, content });
    let app = App::new(DigestSha256::new(), object)
        .route(prefix, AllowAll, on_interest)
        .on_start(on_start);
    if let Err(error) = block_on(app.start()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
