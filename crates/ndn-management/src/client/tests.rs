#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_packet::Interest;

use super::*;
use crate::testing::name;

#[test]
fn command_is_signed_and_under_the_prefix() {
    let parameters = ControlParameters { name: Some(name("/a/b")), ..ControlParameters::default() };
    let builder = CommandBuilder::new(name("/localhop/nfd")).lifetime_ms(500);
    let wire = builder
        .digest_signed_interest(
            Verb::RibRegister,
            &parameters,
            0x0102_0304_0506_0708,
            1_700_000_000_000,
        )
        .unwrap();
    let interest = Interest::parse(&wire).unwrap();
    assert_eq!(interest.name().len(), 6);
    let expected = name("/localhop/nfd/rib/register/h%08%07%06%08%01a%08%01b");
    assert_eq!(interest.name().prefix(5), expected);
    assert!(interest.must_be_fresh() && !interest.can_be_prefix());
    assert_eq!((interest.lifetime_ms(), interest.nonce()), (500, Some(0x0102_0304)));
    let info = interest.signature_info().unwrap().unwrap();
    assert_eq!(
        (info.time_ms, info.nonce),
        (Some(1_700_000_000_000), Some(&[1, 2, 3, 4, 5, 6, 7, 8][..]))
    );
}
