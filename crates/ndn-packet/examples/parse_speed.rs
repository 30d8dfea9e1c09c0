//! Measures parsing and header writing: `cargo run --release -p ndn-packet --example parse_speed`.

#![expect(clippy::disallowed_methods, reason = "a stopwatch")]
#![expect(clippy::print_stdout, reason = "a program")]

use ndn_packet::{
    Data, DataBuilder, EncodeError, Interest, InterestBuilder, LpHeader, LpPacket, Name,
    SignatureInfo, SignatureType,
};
use std::hint::black_box;
use std::time::Instant;

/// Different packets in turn, so that the branch predictor cannot learn a single one.
const PACKETS: usize = 256;
const PASSES: usize = 20_000;

fn name(i: usize, components: usize) -> Name {
    let mut name = Name::new();
    for c in 0..components - 1 {
        name.push_generic(format!("part{c}{:0width$}", i % 100, width = 2 + (i + c) % 5));
    }
    name.push_segment(i as u64);
    name
}

/// Times passes over all packets. The low percentiles are the cost on an idle machine; the high
/// ones include passes slowed by interrupts or other programs.
fn measure(label: &str, packets: &[Vec<u8>], mut run: impl FnMut(&[u8])) {
    let mut times: Vec<f64> = (0..PASSES)
        .map(|_| {
            let start = Instant::now();
            for packet in packets {
                run(black_box(packet));
            }
            start.elapsed().as_nanos() as f64 / packets.len() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let mean_len = packets.iter().map(Vec::len).sum::<usize>() / packets.len();
    let at = |percent: usize| times[PASSES * percent / 100];
    println!(
        "{label:<40} {mean_len:>5} B  p1 {:>5.1}  p10 {:>5.1}  p50 {:>5.1} ns",
        at(1),
        at(10),
        at(50)
    );
}

fn data(name: &Name, content: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    DataBuilder::new(name).freshness_ms(4000).final_segment(99).content(content).to_vec(
        &info,
        32,
        |_, _| Some(32),
    )
}

fn main() -> Result<(), EncodeError> {
    for components in [4, 7, 13] {
        let interests = (0..PACKETS)
            .map(|i| {
                let name = name(i, components);
                InterestBuilder::new(&name)
                    .must_be_fresh(i % 3 == 0)
                    .nonce(7)
                    .lifetime_ms(4000)
                    .to_vec()
            })
            .collect::<Result<Vec<_>, _>>()?;
        measure(&format!("Interest, {components} components"), &interests, |packet| {
            black_box(Interest::parse(packet).is_ok());
        });
    }
    for (components, content_len) in [(4, 100), (4, 1000), (7, 1000), (4, 8000)] {
        let content = vec![7; content_len];
        let packets = (0..PACKETS)
            .map(|i| data(&name(i, components), &content))
            .collect::<Result<Vec<_>, _>>()?;
        measure(
            &format!("Data, {components} components, content {content_len}"),
            &packets,
            |packet| {
                black_box(Data::parse(packet).is_ok());
            },
        );
    }
    let mut wrapped = Vec::new();
    for i in 0..PACKETS {
        let payload = data(&name(i, 4), &[7; 1000])?;
        let header = LpHeader {
            pit_token: &[3; 6],
            congestion_mark: (i % 4 == 0).then_some(1),
            ..LpHeader::default()
        };
        let mut out = vec![0; header.encoded_len(payload.len()) + payload.len()];
        header.write(&payload, &mut out)?;
        wrapped.push(out);
    }
    measure("LpPacket with token, then Data", &wrapped, |packet| {
        if let Ok(lp) = LpPacket::parse(packet) {
            black_box(lp.fragment().is_some_and(|fragment| Data::parse(fragment).is_ok()));
        }
    });
    let mut out = [0; 64];
    measure("LpHeader with token, written", &wrapped, |packet| {
        let header = LpHeader { pit_token: &packet[8..14], ..LpHeader::default() };
        black_box(header.write_prefix(packet.len(), &mut out).is_ok());
        black_box(&mut out);
    });
    Ok(())
}
