//! Packets longer than a datagram.

use std::sync::atomic::{AtomicBool, Ordering};

use ndn_packet::tlv::frame_len;
use wtransport::VarInt;

use super::*;
use crate::Session;
use crate::streams::{ANNOUNCEMENT, INCOMING_MAX, ReceiveStreams};

fn reads_streams(mtu: &crate::PathMtu) -> bool {
    mtu.value() == MAX_PACKET_SIZE
}

/// Reads until this number of frames has arrived, or the end; returns the first byte of each value, and the lengths.
fn read_frames(mut stream: &UnixStream, count: usize) -> Vec<(u8, usize)> {
    let (mut bytes, mut frames) = (Vec::new(), Vec::new());
    let mut part = vec![0; 65_536];
    while frames.len() < count {
        let length = stream.read(&mut part).unwrap();
        if length == 0 {
            break;
        }
        bytes.extend_from_slice(&part[..length]);
        while let Ok(Some(length)) = frame_len(&bytes)
            && length <= bytes.len()
        {
            assert!(bytes[4..length].iter().all(|byte| *byte == bytes[4]), "mixed up");
            frames.push((bytes[4], length));
            bytes.drain(..length);
        }
    }
    assert!(bytes.is_empty());
    frames
}

/// More than QUIC lets be on its way at one time, in both directions. None gets lost.
#[test]
fn long_packets_cross_unfragmented_between_peers_with_streams() {
    const COUNT: u8 = 200;
    let listener = listen(8, |_| true);
    let clients = Service::start_with(None, WAITING).unwrap();
    let near = connect(&clients, &listener.target()).unwrap();
    let far = listener.accepted.recv_timeout(TIMEOUT).unwrap();
    wait_until(|| reads_streams(&near.mtu) && reads_streams(&far.mtu));
    let [near, far] = [near, far].map(stream);
    let length = |at: u8| MAX_PACKET_SIZE - usize::from(at) * 30;
    for (from, to) in [(&near, &far), (&far, &near)] {
        let mut got = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_frames(to, usize::from(COUNT)));
            for at in 0..COUNT {
                let mut from = from;
                from.write_all(&frame(length(at), at)).unwrap();
            }
            reader.join().unwrap()
        });
        got.sort_unstable();
        let sent: Vec<_> = (0..COUNT).map(|at| (at, length(at))).collect();
        assert_eq!(got, sent);
    }
    for counters in [listener.service.counters(), clients.counters()] {
        let count = u64::from(COUNT);
        assert_eq!(
            (counters.received_streams.value(), counters.sent_streams.value()),
            (count, count)
        );
        assert_eq!(counters.oversized_frames.value(), 0);
    }
    // The end that closes the session waits for packets in flight.
    let got = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_frames(&far, usize::from(COUNT)));
        for at in 0..COUNT {
            (&near).write_all(&frame(length(at), at)).unwrap();
        }
        drop(near);
        reader.join().unwrap().len()
    });
    assert_eq!(got, usize::from(COUNT));
    drop(far);
    wait_until(|| listener.service.counters().ended.value() == 1);
    assert_eq!(clients.counters().lost_streams.value(), 0);
}

/// Neither frames that this side does not read any more nor input that was never read cause pending output to be
/// dropped.
#[test]
fn bytes_before_the_end_arrive_while_the_peer_sends() {
    const COUNT: u8 = 100;
    let listener = listen(8, |_| true);
    let clients = Service::start_with(None, WAITING).unwrap();
    let near = connect(&clients, &listener.target()).unwrap();
    let far = listener.accepted.recv_timeout(TIMEOUT).unwrap();
    wait_until(|| reads_streams(&near.mtu));
    let (mut near, far) = (stream(near), stream(far));
    let done = AtomicBool::new(false);
    let got = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let frames = read_frames(&far, usize::from(COUNT));
            done.store(true, Ordering::Relaxed);
            frames.len()
        });
        scope.spawn(|| {
            // Until the session has ended.
            while !done.load(Ordering::Relaxed) && (&far).write_all(&frame(300, 0xff)).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        // The peer speaks.
        near.read_exact(&mut [0; 300]).unwrap();
        for at in 0..COUNT {
            near.write_all(&frame(8000, at)).unwrap();
        }
        drop(near);
        reader.join().unwrap()
    });
    assert_eq!(got, usize::from(COUNT));
    drop(far);
    wait_until(|| listener.service.counters().ended.value() == 1);
    assert_eq!(clients.counters().lost_streams.value(), 0);
}

/// The sender is the first to notice that the peer is gone, while received packets wait to be read.
#[test]
fn frames_received_before_the_peer_disappears_are_delivered() {
    const COUNT: u8 = 120;
    let listener = listen(8, |_| true);
    let clients = Service::start(None).unwrap();
    let counters = listener.service.counters();
    let (runtime, session, far) = plain_client(&listener);
    let mut far = stream(far);
    runtime.block_on(async {
        for at in 0..COUNT {
            send_stream(&session, &frame(8000, at)).await;
        }
    });
    // More than the stream of the session takes, which nobody reads: the rest waits.
    session.connection().close(VarInt::from_u32(0), b"");
    // The listener notices that before another session is accepted, and by the next packet to send.
    let _other = connect(&clients, &listener.target()).unwrap();
    far.write_all(&frame(300, 1)).unwrap();
    let _another = connect(&clients, &listener.target()).unwrap();
    assert_eq!(counters.ended.value(), 0);
    let waiting = counters.received_streams.value();
    let got = u64::try_from(read_frames(&far, usize::MAX).len()).unwrap();
    wait_until(|| counters.ended.value() == 1);
    assert_eq!(got, counters.received_streams.value());
    assert!(got > waiting && waiting > 1, "{waiting} of {got}");
    drop(runtime);
}

/// A session whose client says nothing has the longest datagrams that QUIC looks for, which loopback takes.
#[test]
fn frame_length_grows_with_the_path_mtu() {
    let listener = listen(8, |_| true);
    let (runtime, session, far) = plain_client(&listener);
    let (sender, reported) = channel();
    far.mtu.notify(move |length| {
        let _ = sender.send(length);
    });
    let mtu = far.mtu.clone();
    // The value before there was a listener, and the changes since.
    let mut known = mtu.value();
    wait_until(|| {
        known = reported.try_iter().last().unwrap_or(known);
        known == mtu.value() && known > 1350
    });
    assert!(known <= 1452, "{known}");
    let mut far = stream(far);
    far.write_all(&frame(known, 1)).unwrap();
    let got = runtime.block_on(session.connection().receive_datagram()).unwrap();
    assert_eq!(got[..], frame(known, 1));
    assert_eq!(listener.service.counters().oversized_frames.value(), 0);
}

/// A runtime for a client that does as it likes, and what it shares a session with.
fn plain_client(listener: &Listener) -> (runtime::Runtime, Session, Accepted) {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.unwrap();
    let session = runtime.block_on(client::connect(&listener.target(), IDLE)).unwrap();
    (runtime, session, listener.accepted.recv_timeout(TIMEOUT).unwrap())
}

async fn send_stream(session: &Session, bytes: &[u8]) {
    let mut stream = session.connection().open_uni().await.unwrap().await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let _ = stream.finish().await;
}

#[test]
fn session_without_stream_support_receives_datagrams() {
    let listener = listen(8, |_| true);
    let (runtime, session, far) = plain_client(&listener);
    let mtu = far.mtu.clone();
    let mut far = stream(far);
    // It may send by streams, and is notified of it.
    let reported = runtime.block_on(async {
        send_stream(&session, &frame(8000, 1)).await;
        let mut stream = session.connection().accept_uni().await.unwrap();
        let mut reported = [0; 2];
        stream.read_exact(&mut reported).await.unwrap();
        reported
    });
    assert_eq!(reported, ANNOUNCEMENT);
    assert_eq!(read_frames(&far, 1), [(1, 8000)]);
    assert!(!reads_streams(&mtu), "{mtu:?}");
    far.write_all(&frame(8000, 2)).unwrap();
    let counters = listener.service.counters();
    wait_until(|| counters.oversized_frames.value() == 1);
    // Now it says so.
    runtime.block_on(send_stream(&session, &ANNOUNCEMENT));
    wait_until(|| reads_streams(&mtu));
    far.write_all(&[frame(8000, 3), frame(300, 4)].concat()).unwrap();
    let (long, short) = runtime.block_on(async {
        let mut stream = session.connection().accept_uni().await.unwrap();
        let mut long = vec![0; 8000];
        stream.read_exact(&mut long).await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), None);
        (long, session.connection().receive_datagram().await.unwrap())
    });
    assert!(long == frame(8000, 3));
    assert_eq!(short[..], frame(300, 4));
    assert_eq!((counters.received_streams.value(), counters.sent_streams.value()), (1, 1));
    // What it does not confirm is counted.
    drop(runtime);
    far.write_all(&frame(8000, 5)).unwrap();
    wait_until(|| counters.sent_streams.value() == 2);
    drop(far);
    wait_until(|| counters.ended.value() == 1);
    assert_eq!(counters.lost_streams.value(), 1);
}

/// More than a new connection may send at once, to a client that has not begun to read when the session ends.
#[test]
fn session_end_waits_for_frames_in_flight() {
    const COUNT: u8 = 8;
    let listener = listen_with(8, |_| true, WAITING);
    // It does nothing but while a test waits for it.
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let session = runtime.block_on(client::connect(&listener.target(), IDLE)).unwrap();
    let far = listener.accepted.recv_timeout(TIMEOUT).unwrap();
    runtime.block_on(send_stream(&session, &ANNOUNCEMENT));
    wait_until(|| reads_streams(&far.mtu));
    let mut far = stream(far);
    for at in 0..COUNT {
        far.write_all(&frame(8000, at)).unwrap();
    }
    drop(far);
    let counters = listener.service.counters();
    wait_until(|| counters.sent_streams.value() == u64::from(COUNT));
    // Once the listener's thread has done something else, it has seen the end, too.
    let earlier = listener.target();
    listener
        .service
        .set_identity(Identity::self_signed(real_clock().unix_time().as_secs()).unwrap());
    wait_until(|| listener.target() != earlier);
    let arrived = runtime.block_on(async {
        let mut arrived = 0;
        while arrived < COUNT
            && let Ok(mut stream) = session.connection().accept_uni().await
        {
            let mut bytes = vec![0; 8000];
            // The first is what the listener says of itself.
            arrived += u8::from(stream.read_exact(&mut bytes).await.is_ok());
        }
        // It waits for this end, which has all, and no longer.
        session.connection().close(VarInt::from_u32(0), b"");
        while counters.ended.value() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        arrived
    });
    assert_eq!(arrived, COUNT);
    assert_eq!(counters.lost_streams.value(), 0);
}

#[test]
fn malformed_streams_are_rejected_and_counted() {
    let listener = listen(8, |_| true);
    let (runtime, session, far) = plain_client(&listener);
    let far = stream(far);
    let counters = listener.service.counters();
    let too_long = [&[6, 0xfd, 0x30, 0][..], &[0; 0x3000]].concat();
    let endless = vec![0x64; 100_000];
    let wrong: [&[u8]; 8] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0, 0],
        &[6, 3, 0],
        &[6, 0, 0],
        &[0x64, 0, 0x64, 0],
        &too_long,
        &endless,
    ];
    runtime.block_on(async {
        for bytes in wrong {
            let mut stream = session.connection().open_uni().await.unwrap().await.unwrap();
            // It may be refused before all is written.
            let _ = stream.write_all(bytes).await;
            let _ = stream.finish().await;
        }
        let mut taken_back = session.connection().open_uni().await.unwrap().await.unwrap();
        taken_back.write_all(&[6, 2, 7]).await.unwrap();
        taken_back.reset(VarInt::from_u32(7)).unwrap();
    });
    // The last may be gone before its first byte is sent.
    wait_until(|| counters.malformed_streams.value() >= 8);
    runtime.block_on(send_stream(&session, &frame(5000, 1)));
    assert_eq!(read_frames(&far, 1), [(1, 5000)]);
    assert_eq!(counters.received_streams.value(), 1);
}

#[test]
fn endless_streams_are_bounded_and_reset() {
    let listener = listen(8, |_| true);
    let (runtime, session, far) = plain_client(&listener);
    let far = stream(far);
    runtime.block_on(async {
        let mut open = Vec::new();
        // As many as the peer lets be open; what it says of more comes with the end of some only.
        while let Ok(stream) =
            tokio::time::timeout(Duration::ZERO, session.connection().open_uni()).await
        {
            let mut stream = stream.unwrap().await.unwrap();
            stream.write_all(&[6, 0xfd, 0x20]).await.unwrap();
            open.push(stream);
        }
        assert!((INCOMING_MAX as usize..INCOMING_MAX as usize + 8).contains(&open.len()));
        // Datagrams go on.
        session.connection().send_datagram(frame(300, 1)).unwrap();
        assert_eq!(read_frames(&far, 1), [(1, 300)]);
        let mut last = open.pop().unwrap();
        last.write_all(&[&[0, 7][..], &[7; 0x1fff]].concat()).await.unwrap();
        last.finish().await.unwrap();
        assert_eq!(read_frames(&far, 1), [(7, 0x2004)]);
        for mut stream in open {
            stream.reset(VarInt::from_u32(7)).unwrap();
        }
        send_stream(&session, &frame(8000, 2)).await;
        assert_eq!(read_frames(&far, 1), [(2, 8000)]);
    });
}

#[test]
fn overdue_stream_is_reset_and_counted() {
    let listener = listen(8, |_| true);
    let (runtime, session, _far) = plain_client(&listener);
    let counters = Counters::default();
    runtime.block_on(async {
        // Nobody answers by streams of both directions.
        let (_sender, silent) = session.connection().open_bi().await.unwrap().await.unwrap();
        let mut incoming = ReceiveStreams::new(Duration::from_millis(20));
        incoming.add(silent);
        assert_eq!(incoming.next(&counters).await, None);
    });
    assert_eq!(counters.overdue_streams.value(), 1);
    assert_eq!(counters.malformed_streams.value(), 0);
}
