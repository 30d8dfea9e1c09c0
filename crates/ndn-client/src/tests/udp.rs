//! A connection by UDP, with packets larger than its MTU, on the loopback interface.

use std::time::Duration;

use bytes::Bytes;
use ndn_packet::{DataBuilder, Interest, InterestBuilder, Name};
use ndn_security::{DigestSigner, sign_data};
use tokio::net::UdpSocket;

use crate::lp::Reassembler;
use crate::{Endpoint, EndpointOptions, ForwarderAddress, InterestRequest, Request};
use ndn_packet::lp::{append_packet, fragment_frame};

const MTU: usize = 1400;

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

async fn connect() -> (UdpSocket, Endpoint) {
    let forwarder = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = ForwarderAddress::Udp {
        host: "127.0.0.1".into(),
        port: forwarder.local_addr().unwrap().port(),
        family: None,
    };
    let options =
        EndpointOptions { address: Some(address), mtu: MTU, ..EndpointOptions::default() };
    (forwarder, Endpoint::connect(options).await.unwrap())
}

/// Receives datagrams until they form a packet; returns it with its token.
async fn receive(socket: &UdpSocket) -> (Bytes, Vec<u8>) {
    let mut reassembler = Reassembler::default();
    let mut buffer = vec![0; 65_536];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        assert!(length <= MTU);
        socket.connect(from).await.unwrap();
        let frame = Bytes::copy_from_slice(&buffer[..length]);
        if let Some(incoming) = reassembler.handle(Duration::ZERO, &frame).unwrap() {
            return (incoming.wire, incoming.token.as_bytes().to_vec());
        }
    }
}

#[tokio::test]
async fn large_packets_are_fragmented_and_reassembled() {
    let (forwarder, endpoint) = connect().await;
    let request = InterestRequest::new(name("/udp")).parameters(vec![5; 4000]);
    let asked = tokio::spawn(async move { endpoint.express(&request).await });
    let (wire, _) = receive(&forwarder).await;
    let interest = Interest::parse(&wire).unwrap();
    assert_eq!(interest.parameters(), Some(&[5; 4000][..]));
    let content = vec![6; 8000];
    let data = sign_data(&DataBuilder::new(interest.name()).content(&content), &DigestSigner);
    let mut datagrams = Vec::new();
    fragment_frame(&data.unwrap(), MTU, &mut 0, |datagram| datagrams.push(datagram.to_vec()))
        .unwrap();
    // The network reverses their order.
    for datagram in datagrams.iter().rev() {
        forwarder.send(datagram).await.unwrap();
    }
    let received = asked.await.unwrap().unwrap();
    assert_eq!(received.content(), content);
}

#[tokio::test]
async fn fragmented_packets_keep_tokens_and_commands_use_localhop() {
    let (forwarder, endpoint) = connect().await;
    let serve = |request: Request| {
        let content = vec![7; 5000];
        let data = DataBuilder::new(request.name()).content(&content);
        request.answer_with(&data, &DigestSigner).unwrap();
    };
    let producer = {
        let endpoint = endpoint.clone();
        tokio::spawn(async move { endpoint.produce(&name("/udp"), serve).await })
    };
    let (wire, _) = receive(&forwarder).await;
    let command = Interest::parse(&wire).unwrap();
    assert!(command.name().to_uri().starts_with("/localhop/nfd/rib/register/"));
    let content = ndn_management::ControlResponse::new(200, "OK").to_vec();
    let answer = sign_data(&DataBuilder::new(command.name()).content(&content), &DigestSigner);
    forwarder.send(&answer.unwrap()).await.unwrap();
    // No connection ends with the application: the route would remain.
    let parameters = command.name().component(4).unwrap();
    let parameters = ndn_management::ControlParameters::decode(parameters.value()).unwrap();
    assert_eq!(parameters.expiration_period_ms, Some(60_000));
    let _served = producer.await.unwrap().unwrap();

    let interest = InterestBuilder::new(name("/udp/x").as_ref()).nonce(1).to_vec().unwrap();
    let token = [9; 32];
    let mut packet = Vec::new();
    let header = ndn_packet::LpHeader { pit_token: &token, ..ndn_packet::LpHeader::default() };
    append_packet(&mut packet, &header, &interest);
    forwarder.send(&packet).await.unwrap();
    let (wire, returned) = receive(&forwarder).await;
    assert_eq!(returned, token);
    assert_eq!(ndn_packet::Data::parse(&wire).unwrap().content(), Some(&[7; 5000][..]));
}

#[tokio::test]
async fn closed_port_is_reported() {
    let (forwarder, endpoint) = connect().await;
    drop(forwarder);
    let request =
        InterestRequest::new(name("/udp")).lifetime(Duration::from_millis(100)).retransmissions(3);
    let error = endpoint.express(&request).await.unwrap_err();
    assert!(endpoint.is_refused());
    let forwarder = endpoint.address().unwrap().to_string();
    assert!(forwarder.starts_with("udp://127.0.0.1:"), "{forwarder}");
    assert_eq!(error, crate::ExpressError::NotListening { forwarder });
}

#[tokio::test]
async fn icmp_refusal_of_one_interest_is_reported() {
    let (forwarder, endpoint) = connect().await;
    drop(forwarder);
    let asking = endpoint.clone();
    let request = InterestRequest::new(name("/udp")).lifetime(Duration::from_secs(60));
    let asking = tokio::spawn(async move { asking.express(&request).await });
    let arrived = async {
        while !endpoint.is_refused() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), arrived).await.unwrap();
    asking.abort();
}
