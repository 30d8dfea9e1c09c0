//! Checking what an earlier fetch has left against the digests of packets, as a manifest lists them:
//! each packet is made again from its content, which can be done where its signature is a digest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use ndn_client::fetch::Verification;
use ndn_packet::tlv::{append_nested, append_number, append_tlv, header_len};
use ndn_packet::{ComponentType, Data, SignatureType, types};
use ndn_security::sha256;

use super::part::Progress;

/// Most threads.
const THREADS_MAX: usize = 8;

/// Whether the packet can be made again from its content.
pub(super) fn can_be_made_again(data: &Data<'_>) -> bool {
    data.signature_info().is_ok_and(|info| info.signature_type == SignatureType::DIGEST_SHA256)
}

/// What all packets of an object have in common.
pub(super) struct Template {
    /// Name without the segment.
    name: Vec<u8>,
    /// MetaInfo and SignatureInfo, encoded.
    meta_info: Vec<u8>,
    signature_info: Vec<u8>,
}

impl Template {
    /// From any segment; `None` if its signature is not just a digest.
    pub(super) fn of(segment: &Data<'_>) -> Option<Self> {
        let wire = segment.wire();
        let content = segment.content_range().filter(|_| can_be_made_again(segment))?;
        let content_start = content.start.checked_sub(header_len(types::CONTENT, content.len()))?;
        let value_len = segment.signature_value().len();
        let value_len = header_len(types::SIGNATURE_VALUE, value_len) + value_len;
        Some(Self {
            name: segment.name().parent().value().to_vec(),
            meta_info: wire.get(segment.name_value_range().end..content_start)?.to_vec(),
            signature_info: wire.get(content.end..wire.len().checked_sub(value_len)?)?.to_vec(),
        })
    }

    /// The packet of `segment`, if this is its content.
    fn packet(&self, segment: u64, content: &[u8]) -> Vec<u8> {
        let mut signed = Vec::with_capacity(content.len() + 512);
        append_nested(&mut signed, types::NAME, |out| {
            out.extend_from_slice(&self.name);
            append_number(out, ComponentType::SEGMENT.tlv_type(), segment);
        });
        signed.extend_from_slice(&self.meta_info);
        append_tlv(&mut signed, types::CONTENT, content);
        signed.extend_from_slice(&self.signature_info);
        let digest = sha256(&signed);
        append_tlv(&mut signed, types::SIGNATURE_VALUE, &digest);
        let mut packet = Vec::with_capacity(signed.len() + 8);
        append_tlv(&mut packet, types::DATA, &signed);
        packet
    }
}

/// How many of the segments that `progress`, whose figures are possible, tells of are in `file` as `verification` wants them, from
/// the first on. Blocks, with several threads.
///
/// # Errors
/// The file cannot be read.
pub(super) fn count_verified(
    file: &File,
    progress: &Progress,
    template: &Template,
    verification: &Verification,
) -> io::Result<u64> {
    let Ok(segment_len) = usize::try_from(progress.segment_len) else {
        return Ok(0);
    };
    let (next, wrong) = (AtomicU64::new(0), AtomicU64::new(progress.segments));
    let check = || -> io::Result<()> {
        let mut content = vec![0; segment_len];
        loop {
            let segment = next.fetch_add(1, Ordering::Relaxed);
            if segment >= wrong.load(Ordering::Relaxed) {
                return Ok(());
            }
            let offset = segment * progress.segment_len;
            let length = progress.segment_len.min(progress.bytes - offset);
            let content = &mut content[..usize::try_from(length).unwrap_or(0)];
            let read = file.read_exact_at(content, offset);
            let packet = template.packet(segment, content);
            let same = Data::parse(&packet).is_ok_and(|data| verification.check(&data).is_ok());
            match read {
                Ok(()) if same => {}
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
                Ok(()) | Err(_) => {
                    wrong.fetch_min(segment, Ordering::Relaxed);
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(check)).collect();
        let ended = || io::Error::other("a thread that checks what is there has panicked");
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| ended())?)
    })?;
    Ok(wrong.into_inner())
}
