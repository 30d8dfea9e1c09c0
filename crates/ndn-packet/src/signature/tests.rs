use super::validity::{format_time, parse_time};
use super::*;
use crate::name::Name;
use crate::testing::{nested, tlv};

const TYPE: &[u8] = &[27, 1, 3];

fn parse(parts: &[&[u8]]) -> Result<SignatureInfo<'static>, DecodeError> {
    let value: &'static [u8] = parts.concat().leak();
    SignatureInfo::from_value(value)
}

fn period(not_before: &[u8], not_after: &[u8]) -> Vec<u8> {
    let (first, last) = (tlv(types::NOT_BEFORE, not_before), tlv(types::NOT_AFTER, not_after));
    nested(types::VALIDITY_PERIOD, &[&first, &last])
}

#[test]
fn every_field_round_trips() {
    let key: Name = "/example/KEY/%01%02/self/v=1".parse().unwrap();
    let pairs = [("Organization", "Example"), ("", "é")];
    let description = AdditionalDescription::encode(&pairs);
    let info = SignatureInfo {
        signature_type: SignatureType::SHA256_WITH_ECDSA,
        key_locator: Some(KeyLocator::Name(key.as_ref())),
        nonce: Some(&[1, 2, 3]),
        time_ms: Some(1_700_000_000_000),
        sequence_num: Some(256),
        validity_period: ValidityPeriod::from_unix_seconds(0, 4_102_444_799),
        additional_description: Some(AdditionalDescription::new(&description).unwrap()),
    };
    for ty in [types::SIGNATURE_INFO, types::INTEREST_SIGNATURE_INFO] {
        let mut out = vec![0; info.encoded_len(ty)];
        let mut writer = Writer::new(&mut out);
        info.write(ty, &mut writer).unwrap();
        assert_eq!(writer.len(), info.encoded_len(ty));
        let tlv = Reader::new(&out).read_only(ty).unwrap();
        assert_eq!(SignatureInfo::from_tlv(&tlv), Ok(info));
        for len in 0..out.len() {
            let result = info.write(ty, &mut Writer::new(&mut out[..len]));
            assert_eq!(result, Err(EncodeError::BufferTooSmall));
        }
    }
    assert_eq!(info.additional_description.unwrap().iter().collect::<Vec<_>>(), pairs);
    let period = info.validity_period.unwrap();
    assert_eq!(period.to_string(), "19700101T000000 to 20991231T235959");
    assert!(period.contains(0) && period.contains(4_102_444_799));
    assert!(!period.contains(-1) && !period.contains(4_102_444_800));
}

#[test]
fn signature_type_is_required_and_first() {
    assert_eq!(parse(&[TYPE]), Ok(SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA)));
    assert_eq!(parse(&[]), Err(DecodeError::Missing { ty: types::SIGNATURE_TYPE, offset: 0 }));
    let locator = nested(types::KEY_LOCATOR, &[&[7, 0]]);
    assert_eq!(
        parse(&[&locator]),
        Err(DecodeError::Missing { ty: types::SIGNATURE_TYPE, offset: 4 })
    );
    let late = DecodeError::OutOfOrder { ty: types::SIGNATURE_TYPE, offset: 4 };
    assert_eq!(parse(&[&locator, TYPE]), Err(late));
    let again = DecodeError::OutOfOrder { ty: types::KEY_LOCATOR, offset: 7 };
    assert_eq!(parse(&[TYPE, &locator, &locator]), Err(again));
    assert!(matches!(parse(&[&[27, 3, 0, 0, 0]]), Err(DecodeError::InvalidLength { ty: 27, .. })));
}

#[test]
fn fields_out_of_order_are_skipped_unless_critical() {
    let (nonce, time, sequence) = (tlv(38, &[9]), tlv(40, &[1]), tlv(42, &[2]));
    let validity = period(b"20200101T000000", b"20300101T000000");
    let all = parse(&[TYPE, &nonce, &time, &sequence, &validity]).unwrap();
    assert_eq!((all.nonce, all.time_ms, all.sequence_num), (Some(&[9][..]), Some(1), Some(2)));
    assert!(all.validity_period.is_some());
    // Not critical: skipped where out of order or repeated.
    let late = parse(&[TYPE, &sequence, &time, &nonce, &sequence]).unwrap();
    assert_eq!((late.nonce, late.time_ms, late.sequence_num), (None, None, Some(2)));
    let late = parse(&[TYPE, &validity, &validity, &time]).unwrap();
    assert!(late.validity_period.is_some() && late.time_ms.is_none());
    // Unknown.
    assert!(parse(&[TYPE, &tlv(256, &[]), &time, &tlv(510, &[])]).unwrap().time_ms.is_some());
    for ty in [24, 29, 31, 33, 257, 511] {
        assert_eq!(
            parse(&[TYPE, &tlv(ty, &[])]),
            Err(DecodeError::UnrecognizedCritical { ty, offset: 3 })
        );
    }
    assert!(matches!(
        parse(&[TYPE, &tlv(38, &[])]),
        Err(DecodeError::InvalidLength { ty: 38, .. })
    ));
    for ty in [40, 42] {
        assert!(matches!(
            parse(&[TYPE, &tlv(ty, &[1; 3])]),
            Err(DecodeError::InvalidLength { .. })
        ));
    }
}

#[test]
fn key_locators_are_read_and_malformed_ones_rejected() {
    let locator = |parts: &[&[u8]]| {
        parse(&[TYPE, &nested(types::KEY_LOCATOR, parts)]).map(|info| info.key_locator)
    };
    let name = nested(types::NAME, &[&tlv(8, b"k")]);
    let digest = tlv(types::KEY_DIGEST, &[1, 2]);
    assert!(matches!(locator(&[&name]), Ok(Some(KeyLocator::Name(name))) if name.to_uri() == "/k"));
    assert_eq!(locator(&[&digest]), Ok(Some(KeyLocator::Digest(&[1, 2]))));
    assert_eq!(locator(&[]), Ok(None));
    assert_eq!(locator(&[&tlv(32, &[])]), Ok(None));
    assert_eq!(
        locator(&[&tlv(31, &[])]),
        Err(DecodeError::UnrecognizedCritical { ty: 31, offset: 5 })
    );
    assert!(matches!(locator(&[&name, &digest]), Err(DecodeError::OutOfOrder { .. })));
    assert!(matches!(locator(&[&[7, 1, 8]]), Err(DecodeError::Truncated { offset: 8 })));
    let info = SignatureInfo {
        key_locator: Some(KeyLocator::Digest(&[1, 2])),
        ..SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA)
    };
    let mut out = vec![0; info.encoded_len(types::SIGNATURE_INFO)];
    info.write(types::SIGNATURE_INFO, &mut Writer::new(&mut out)).unwrap();
    assert_eq!(out[2..], [TYPE, &nested(types::KEY_LOCATOR, &[&digest])].concat());
}

#[test]
fn validity_periods_are_read_and_invalid_times_rejected() {
    let read = |first: &[u8], last: &[u8]| {
        parse(&[TYPE, &period(first, last)]).map(|info| info.validity_period)
    };
    let valid = read(b"20200229T235960", b"20201231T235959").unwrap().unwrap();
    assert_eq!(valid.not_before_unix_s(), Some(1_583_020_800));
    assert_eq!(valid.not_after_unix_s(), Some(1_609_459_199));
    for bad in [
        &b"20210229T000000"[..],
        b"20201301T000000",
        b"20200001T000000",
        b"20200100T000000",
        b"20200132T000000",
        b"20200101 000000",
        b"20200101T240000",
        b"20200101T006000",
        b"20200101T000061",
        b"2020010AT000000",
        b"+0200101T000000",
    ] {
        assert!(matches!(
            read(bad, b"20300101T000000"),
            Err(DecodeError::InvalidValue { ty: 254, .. })
        ));
        assert!(matches!(
            read(b"20100101T000000", bad),
            Err(DecodeError::InvalidValue { ty: 255, .. })
        ));
    }
    for len in [0, 14, 16] {
        let text = vec![b'1'; len];
        assert!(matches!(read(&text, b"20300101T000000"), Err(DecodeError::InvalidLength { .. })));
    }
    let only =
        |ty| parse(&[TYPE, &nested(types::VALIDITY_PERIOD, &[&tlv(ty, b"20300101T000000")])]);
    assert!(matches!(only(types::NOT_BEFORE), Err(DecodeError::Missing { ty: 255, .. })));
    assert!(matches!(only(types::NOT_AFTER), Err(DecodeError::Missing { ty: 254, .. })));
}

#[test]
fn times_round_trip() {
    // From year 0 to year 9999, in steps that hit every month, and the ends of years.
    let (first, last) = (-62_167_219_200, 253_402_300_799);
    for unix_s in
        (first..=last).step_by(86_400 * 27 + 12_345).chain([first, last, 0, -1, 951_782_400])
    {
        let text = format_time(unix_s).unwrap();
        assert_eq!(parse_time(&text), Some(unix_s), "{}", text.escape_ascii());
    }
    assert_eq!(format_time(951_827_696), Some(*b"20000229T123456"));
    assert_eq!(format_time(first - 1), None);
    assert_eq!(format_time(last + 1), None);
    assert_eq!(format_time(i64::MAX), None);
    assert_eq!(format_time(i64::MIN), None);
    assert_eq!(ValidityPeriod::from_unix_seconds(0, i64::MAX), None);
}

#[test]
fn malformed_additional_description_is_rejected() {
    let read =
        |value: &[u8]| parse(&[TYPE, &tlv(types::ADDITIONAL_DESCRIPTION, value)]).map(|_| ());
    let (key, text) = (tlv(types::DESCRIPTION_KEY, b"k"), tlv(types::DESCRIPTION_VALUE, b"v"));
    let entry = |parts: &[&[u8]]| nested(types::DESCRIPTION_ENTRY, parts);
    assert_eq!(read(&entry(&[&key, &text])), Ok(()));
    let value = [entry(&[&key, &text]), tlv(600, b""), entry(&[&key, &text])].concat();
    assert_eq!(read(&value), Ok(()));
    assert_eq!(AdditionalDescription::new(&value).unwrap().iter().count(), 2);
    assert!(matches!(read(&entry(&[&key])), Err(DecodeError::Missing { ty: 514, .. })));
    assert!(matches!(read(&entry(&[&text])), Err(DecodeError::Missing { ty: 513, .. })));
    assert!(matches!(read(&entry(&[&text, &key])), Err(DecodeError::OutOfOrder { ty: 513, .. })));
    assert!(matches!(read(&tlv(601, b"")), Err(DecodeError::UnrecognizedCritical { .. })));
    let latin = tlv(types::DESCRIPTION_VALUE, b"\xE9");
    assert!(matches!(
        read(&entry(&[&key, &latin])),
        Err(DecodeError::InvalidValue { ty: 514, .. })
    ));
    assert!(AdditionalDescription::new(&entry(&[&key])).is_err());
}

#[test]
fn signature_types_have_names() {
    assert_eq!(SignatureType::DIGEST_SHA256.to_string(), "DigestSha256");
    assert_eq!(SignatureType(77).to_string(), "SignatureType 77");
}
