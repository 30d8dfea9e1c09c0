//! Fetches a versioned, segmented object on the ndn-app crate: RDR discovery, then one Interest at
//! a time, because the library's reader loses its place when packets arrive back to back. Digests
//! are checked where there are any.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use namewire_interop_ndn_app::{append, arguments, block_on, metadata, segment, segment_number};
use ndn_app::app::{App, AppHandler};
use ndn_app::error::Error;
use ndn_app::verifier::AllowAll;
use ndn_protocol::{Data, DigestSha256, Interest, Name, NameComponent};
use ndn_tlv::{NonNegativeInteger, TlvDecode};

const ATTEMPTS: u32 = 8;
const LIFETIME_MS: u64 = 1000;

type Outcome = Arc<Mutex<Option<Result<Vec<u8>, String>>>>;

async fn express(app: &mut AppHandler, name: Name, discover: bool) -> Result<Data<Bytes>, String> {
    let mut last_error = None;
    for attempt in 1..=ATTEMPTS {
        let mut interest = Interest::<()>::new(name.clone());
        interest.set_can_be_prefix(discover).set_must_be_fresh(discover);
        interest.set_interest_lifetime(Some(NonNegativeInteger::new(LIFETIME_MS)));
        match app.express_interest_unsigned(interest, AllowAll).await {
            Ok(data) => return check(data),
            Err(Error::NackReceived) => {
                tokio::time::sleep(Duration::from_millis(10) * attempt).await
            }
            Err(error) => last_error = Some(error),
        }
    }
    Err(format!("{name}: {last_error:?}"))
}

fn check(data: Data<Bytes>) -> Result<Data<Bytes>, String> {
    let digest = DigestSha256::new();
    let is_digest = data.signature_info().is_some_and(|info| u64::from(info.signature_type()) == 0);
    if is_digest && data.verify(&digest).is_err() {
        return Err(format!("bad digest: {}", data.name()));
    }
    Ok(data)
}

async fn fetch(app: &mut AppHandler, prefix: &Name) -> Result<Vec<u8>, String> {
    let discovered = express(app, append(prefix, metadata()), true).await?;
    let mut payload = discovered.content().cloned().unwrap_or_default();
    let versioned = Name::decode(&mut payload).map_err(|error| error.to_string())?;
    let mut content = Vec::new();
    let mut last = None;
    let mut index = 0;
    while last.is_none_or(|last| index <= last) {
        let data = express(app, append(&versioned, segment(index)), false).await?;
        if last.is_none() {
            let final_block =
                data.meta_info().as_ref().and_then(|info| info.final_block_id.as_ref());
            let component: Option<&NameComponent> = final_block.map(|block| &block.final_block_id);
            last = Some(component.and_then(segment_number).ok_or("segment 0 has no FinalBlockId")?);
        }
        content.extend_from_slice(data.content().map_or(&[][..], |content| &content[..]));
        index += 1;
    }
    Ok(content)
}

fn main() {
    let (prefix, path) = arguments("consumer", "OUT-FILE");
    let prefix = Name::from_str(&prefix).expect("a name");
    let outcome = Outcome::default();
    let started = Instant::now();
    let on_start = move |mut app: AppHandler, outcome: Outcome| {
        let prefix = prefix.clone();
        async move {
            let fetched = fetch(&mut app, &prefix).await;
            *outcome.lock().expect("no panic while locked") = Some(fetched);
            app.shutdown();
        }
    };
    let app = App::new(DigestSha256::new(), Arc::clone(&outcome)).on_start(on_start);
    let ended = block_on(app.start());
    let fetched = outcome.lock().expect("no panic while locked").take();
    match fetched {
        Some(Ok(content)) => {
            std::fs::write(&path, &content).expect("a writable file");
            eprintln!("{} bytes in {:.3} s", content.len(), started.elapsed().as_secs_f64());
        }
        Some(Err(reason)) => {
            eprintln!("{reason}");
            std::process::exit(1);
        }
        None => {
            eprintln!("the connection ended: {ended:?}");
            std::process::exit(1);
        }
    }
}
