//! Verifies the content left by an earlier fetch, by checksum or against the packet digests in a
//! manifest: each packet is rebuilt from its content, which is possible if its signature is a
//! digest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use ndn_client::ReceivedData;
use ndn_client::fetch::Verification;
use ndn_packet::tlv::{append_nested, append_number, append_tlv, header_len};
use ndn_packet::{ComponentType, Data, SignatureType, types};
use ndn_security::sha256;

use super::checksum::{Chain, xxh64};
use super::part::progress::{Origin, Progress, SEGMENT_LEN_MAX};

/// Maximum number of bytes read at a time: at least one segment.
const READ_BUFFER_LEN: usize = SEGMENT_LEN_MAX;
/// Maximum number of threads.
const THREADS_MAX: usize = 8;

/// The valid part of the content, with its checksum if it has one.
pub(super) fn check(
    file: &File,
    progress: &Progress,
    segment: Option<&ReceivedData>,
    verification: &Verification,
) -> io::Result<Option<(Option<Chain>, Progress)>> {
    if !progress.is_possible() {
        return Ok(None);
    }
    if let Some(checksum) = &progress.xxh64 {
        let chain = chain_of(file, progress)?.filter(|chain| chain.to_hex() == *checksum);
        return Ok(chain.map(|chain| (Some(chain), progress.clone())));
    }
    // Packets are rebuilt from whole contents.
    let segment = segment.filter(|_| progress.extent.is_none());
    let Some(template) = segment.and_then(|segment| Template::of(&segment.data())) else {
        return Ok(None);
    };
    let segments = count_verified(file, progress, &template, verification)?;
    let bytes = segments.saturating_mul(progress.segment_len).min(progress.bytes);
    Ok((segments > 0).then(|| (None, Progress { segments, bytes, ..progress.clone() })))
}

/// Whether the content of `file` is that of an object of `size` bytes, in segments of `segment_len` bytes, according to
/// the digests that `verification` knows; `segment` is any of its packets. False if the packets cannot be rebuilt, since
/// they have signatures. Blocks until the file has been read.
///
/// # Errors
/// The file cannot be read.
pub fn has_content(
    file: &File,
    size: u64,
    segment_len: u64,
    segment: &ReceivedData,
    verification: &Verification,
) -> io::Result<bool> {
    if file.metadata()?.len() != size {
        return Ok(false);
    }
    if size == 0 {
        return Ok(true);
    }
    let progress = Progress {
        origin: Origin { name: String::new(), verification: String::new() },
        extent: None,
        segment_len,
        segments: size.div_ceil(segment_len.max(1)),
        bytes: size,
        xxh64: None,
    };
    let checked = check(file, &progress, Some(segment), verification)?;
    Ok(checked.is_some_and(|(_, valid)| valid.segments == progress.segments))
}

/// Checksum of the content; `None` if there is less than the sidecar states.
fn chain_of(file: &File, progress: &Progress) -> io::Result<Option<Chain>> {
    let mut chain = Chain::default();
    let Ok(segment_len) = usize::try_from(progress.segment_len) else {
        return Ok(None);
    };
    if file.metadata()?.len() < progress.bytes {
        return Ok(None);
    }
    let mut buffer = vec![0; READ_BUFFER_LEN / segment_len * segment_len];
    let mut offset = 0;
    // The first segment may be shorter, and is read separately then.
    let skipped = usize::try_from(progress.skipped()).unwrap_or(0);
    let mut room = if skipped > 0 { segment_len - skipped } else { buffer.len() };
    while offset < progress.bytes {
        let left = usize::try_from(progress.bytes - offset).unwrap_or(usize::MAX);
        let length = left.min(room);
        file.read_exact_at(&mut buffer[..length], offset)?;
        for segment in buffer[..length].chunks(segment_len) {
            chain.push(xxh64(segment, 0));
        }
        offset += u64::try_from(length).unwrap_or(0);
        room = buffer.len();
    }
    Ok(Some(chain))
}

/// Whether the packet can be rebuilt from its content.
pub(super) fn can_be_rebuilt(data: &Data<'_>) -> bool {
    data.signature_info().is_ok_and(|info| info.signature_type == SignatureType::DIGEST_SHA256)
}

/// The common parts of all packets of an object.
struct Template {
    /// Name without the segment.
    name: Vec<u8>,
    /// MetaInfo and SignatureInfo, encoded.
    meta_info: Vec<u8>,
    signature_info: Vec<u8>,
}

impl Template {
    /// From any segment; `None` if its signature is not just a digest.
    fn of(segment: &Data<'_>) -> Option<Self> {
        let wire = segment.wire();
        let content = segment.content_range().filter(|_| can_be_rebuilt(segment))?;
        let content_start = content.start.checked_sub(header_len(types::CONTENT, content.len()))?;
        let value_len = segment.signature_value().len();
        let value_len = header_len(types::SIGNATURE_VALUE, value_len) + value_len;
        Some(Self {
            name: segment.name().parent().value().to_vec(),
            meta_info: wire.get(segment.name_value_range().end..content_start)?.to_vec(),
            signature_info: wire.get(content.end..wire.len().checked_sub(value_len)?)?.to_vec(),
        })
    }

    /// The packet of `segment` with this content.
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

/// Number of leading segments of `progress`, whose values are consistent, that are in `file` and
/// valid according to `verification`. Blocks, with several threads.
///
/// # Errors
/// The file cannot be read.
fn count_verified(
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
