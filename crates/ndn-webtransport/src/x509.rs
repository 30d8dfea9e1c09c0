//! A self-signed X.509 certificate as browsers want it where a page names its hash: ECDSA on P-256, valid
//! for two weeks at most (W3C WebTransport, "custom certificate requirements"). RFC 5280, section 4.1.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use crate::certificate::CertificateError;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0]` and `[3]`, constructed.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// A DNS name among alternative names: `[2]`.
const DNS_NAME: u8 = 0x82;

const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 17];

const BASE64_DIGITS: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The common name of the subject.
const SUBJECT: &[u8] = b"Namewire";
/// Clients that know the hash ask for no name; one has to be there.
const HOST: &[u8] = b"localhost";

/// A new key in PKCS #8 and a certificate for it in DER, valid between these times (seconds since
/// 1970).
///
/// # Errors
/// The cryptographic library has no random numbers.
pub(crate) fn self_signed(
    not_before_s: u64,
    not_after_s: u64,
) -> Result<(Vec<u8>, Vec<u8>), CertificateError> {
    let failed = |_| CertificateError::KeyGeneration;
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
    let random = SystemRandom::new();
    let mut serial = [0; 16];
    aws_lc_rs::rand::fill(&mut serial).map_err(failed)?;
    // Positive, and with no more bytes than it needs.
    serial[0] = serial[0] & 0x3f | 0x40;
    let algorithm = element(SEQUENCE, &[&element(OBJECT_IDENTIFIER, &[ECDSA_WITH_SHA256])]);
    let name = element(
        SEQUENCE,
        &[&element(
            SET,
            &[&element(
                SEQUENCE,
                &[&element(OBJECT_IDENTIFIER, &[COMMON_NAME]), &element(UTF8_STRING, &[SUBJECT])],
            )],
        )],
    );
    let validity = element(SEQUENCE, &[&time(not_before_s), &time(not_after_s)]);
    let key_algorithm = element(
        SEQUENCE,
        &[&element(OBJECT_IDENTIFIER, &[EC_PUBLIC_KEY]), &element(OBJECT_IDENTIFIER, &[P256])],
    );
    let point = element(BIT_STRING, &[&[0], pair.public_key().as_ref()]);
    let key_info = element(SEQUENCE, &[&key_algorithm, &point]);
    let names = element(SEQUENCE, &[&element(DNS_NAME, &[HOST])]);
    let extension = element(
        SEQUENCE,
        &[
            &element(OBJECT_IDENTIFIER, &[SUBJECT_ALTERNATIVE_NAME]),
            &element(OCTET_STRING, &[&names]),
        ],
    );
    let extensions = element(EXTENSIONS, &[&element(SEQUENCE, &[&extension])]);
    let version = element(VERSION, &[&element(INTEGER, &[&[2]])]);
    let serial = element(INTEGER, &[&serial]);
    let parts: [&[u8]; 8] =
        [&version, &serial, &algorithm, &name, &validity, &name, &key_info, &extensions];
    let to_be_signed = element(SEQUENCE, &parts);
    let signature = pair.sign(&random, &to_be_signed).map_err(failed)?;
    let signature = element(BIT_STRING, &[&[0], signature.as_ref()]);
    let certificate = element(SEQUENCE, &[&to_be_signed, &algorithm, &signature]);
    let key = pair.to_pkcs8v1().map_err(failed)?;
    Ok((key.as_ref().to_vec(), certificate))
}

/// A DER element (X.690, section 8.1).
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    let bytes = length.to_be_bytes();
    let significant = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => out.push(short),
        _ => {
            out.push(0x80 | u8::try_from(significant.len()).unwrap_or(0x7f));
            out.extend(significant);
        }
    }
    for part in parts {
        out.extend(*part);
    }
    out
}

/// UTCTime up to 2049, GeneralizedTime from then on (RFC 5280, section 4.1.2.5).
fn time(unix_s: u64) -> Vec<u8> {
    let (year, month, day) = date(unix_s / 86_400);
    let of_day = unix_s % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    if (1950..2050).contains(&year) {
        element(UTC_TIME, &[format!("{:02}{rest}", year % 100).as_bytes()])
    } else {
        element(GENERALIZED_TIME, &[format!("{year:04}{rest}").as_bytes()])
    }
}

/// Year, month and day of a number of days after 1 January 1970, in the Gregorian calendar. Years begin in March here,
/// so that a leap day is the last day of its year.
fn date(days: u64) -> (u64, u64, u64) {
    // 1 March of the year 0 is 719468 days before.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// When a certificate in DER ends, in seconds since 1970; `None` if it is not as [`self_signed`] makes them.
pub(crate) fn not_after_s(certificate: &[u8]) -> Option<u64> {
    let (SEQUENCE, certificate, _) = split(certificate)? else { return None };
    let (SEQUENCE, mut rest, _) = split(certificate)? else { return None };
    // Version, serial number, algorithm and issuer come before.
    for tag in [VERSION, INTEGER, SEQUENCE, SEQUENCE] {
        let (found, _, after) = split(rest)?;
        rest = if found == tag { after } else { return None };
    }
    let (SEQUENCE, validity, _) = split(rest)? else { return None };
    let (_, _, not_after) = split(validity)?;
    let (tag, text, _) = split(not_after)?;
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        // From 1950 to 2049.
        UTC_TIME => {
            let year: u64 = text.get(..2)?.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let pair = |at: usize| -> Option<u64> { rest.get(at..at + 2)?.parse().ok() };
    let day = (1970..3000).contains(&year).then(|| day_number(year, pair(0)?, pair(2)?))??;
    Some(day * 86_400 + pair(4)? * 3600 + pair(6)? * 60 + pair(8)?)
}

/// The number of a day after 1 January 1970, found as the one that [`date`] says is that day.
fn day_number(year: u64, month: u64, day: u64) -> Option<u64> {
    // No later than it, and at most two years before.
    let earliest = (year - 1970) * 365;
    let years = (year - 1970) / 4 + 367;
    (earliest..=earliest + years).find(|&number| date(number) == (year, month, day))
}

/// Tag and value of the first element, and what follows it.
fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((tag, value, rest))
}

/// As PEM writes it (RFC 7468).
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - three.len()));
            for place in 0..4_usize {
                let digit = BASE64_DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
                text.push(if place <= three.len() { char::from(digit) } else { '=' });
            }
        }
        text.push('\n');
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_times_convert_to_calendar_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_778, (2026, 11, 21)),
            (29_219, (2049, 12, 31)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
        // Each day follows the one before.
        let mut last = date(0);
        for days in 1..60_000 {
            let (year, month, day) = date(days);
            let follows = (year, month, day) == (last.0, last.1, last.2 + 1)
                || (year, month, day) == (last.0, last.1 + 1, 1)
                || (year, month, day) == (last.0 + 1, 1, 1) && (last.1, last.2) == (12, 31);
            assert!(follows, "{last:?} {:?}", (year, month, day));
            last = (year, month, day);
        }
    }

    #[test]
    fn times_are_encoded_as_in_rfc_5280() {
        assert_eq!(time(0), b"\x17\x0d700101000000Z");
        assert_eq!(time(2_524_607_999), b"\x17\x0d491231235959Z");
        assert_eq!(time(2_524_608_000), b"\x18\x0f20500101000000Z");
    }

    #[test]
    fn expiry_of_a_certificate_round_trips() {
        for end_s in [86_400, 951_782_400, 951_868_799, 1_795_000_000, 2_524_607_999, 4_102_444_800]
        {
            let (_, certificate) = self_signed(end_s - 86_400, end_s).unwrap();
            assert_eq!(not_after_s(&certificate), Some(end_s));
            // Not even a broken one makes it fail.
            for cut in 0..certificate.len().min(200) {
                let _ = not_after_s(&certificate[..cut]);
                let mut other = certificate.clone();
                other[cut] ^= 0xff;
                let _ = not_after_s(&other);
            }
        }
    }

    #[test]
    fn long_der_elements_have_multi_byte_lengths() {
        assert_eq!(element(4, &[&[7; 127]])[..2], [4, 127]);
        assert_eq!(element(4, &[&[7; 128]])[..3], [4, 0x81, 128]);
        assert_eq!(element(4, &[&[7; 200], &[7; 100]])[..4], [4, 0x82, 1, 44]);
    }
}
