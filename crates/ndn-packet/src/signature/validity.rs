//! ValidityPeriod of certificates.

use crate::error::{DecodeError, EncodeError};
use crate::tlv::{Field, Fields, Tlv, Writer, tlv_len};
use crate::types;
use core::fmt;

/// Validity of a certificate, both ends included, as `YYYYMMDDThhmmss` in UTC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ValidityPeriod {
    /// First second.
    pub not_before: [u8; 15],
    /// Last second.
    pub not_after: [u8; 15],
}

impl ValidityPeriod {
    /// From seconds since 1970; `None` outside the years 0 to 9999.
    #[must_use]
    pub fn from_unix_seconds(not_before: i64, not_after: i64) -> Option<Self> {
        Some(Self { not_before: format_time(not_before)?, not_after: format_time(not_after)? })
    }

    /// First second, in seconds since 1970; `None` when the text is not a time.
    #[must_use]
    pub fn not_before_unix_s(&self) -> Option<i64> {
        parse_time(&self.not_before)
    }

    /// Last second, in seconds since 1970; `None` when the text is not a time.
    #[must_use]
    pub fn not_after_unix_s(&self) -> Option<i64> {
        parse_time(&self.not_after)
    }

    /// Whether `unix_s` is in the period.
    #[must_use]
    pub fn contains(&self, unix_s: i64) -> bool {
        matches!(
            (self.not_before_unix_s(), self.not_after_unix_s()),
            (Some(first), Some(last)) if first <= unix_s && unix_s <= last
        )
    }

    /// Parses a ValidityPeriod element.
    ///
    /// # Errors
    /// If one of the two times is absent or invalid.
    pub fn from_tlv(tlv: &Tlv<'_>) -> Result<Self, DecodeError> {
        const ORDER: [Field; 2] = [Field::once(types::NOT_BEFORE), Field::once(types::NOT_AFTER)];
        let (mut not_before, mut not_after) = (None, None);
        let mut fields = Fields::new(tlv.reader(), &ORDER);
        while let Some(inner) = fields.next_field()? {
            let text = *inner.array::<15>()?;
            if parse_time(&text).is_none() {
                return Err(inner.invalid_value());
            }
            if inner.ty() == types::NOT_BEFORE {
                not_before = Some(text)
            } else {
                not_after = Some(text)
            }
        }
        match (not_before, not_after) {
            (Some(not_before), Some(not_after)) => Ok(Self { not_before, not_after }),
            (None, _) => Err(tlv.missing(types::NOT_BEFORE)),
            (_, None) => Err(tlv.missing(types::NOT_AFTER)),
        }
    }

    pub(super) const VALUE_LEN: usize =
        tlv_len(types::NOT_BEFORE, 15) + tlv_len(types::NOT_AFTER, 15);

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.header(types::VALIDITY_PERIOD, Self::VALUE_LEN)?;
        writer.tlv(types::NOT_BEFORE, &self.not_before)?;
        writer.tlv(types::NOT_AFTER, &self.not_after)
    }
}

impl fmt::Display for ValidityPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.not_before.escape_ascii(), self.not_after.escape_ascii())
    }
}

impl fmt::Debug for ValidityPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Seconds since 1970 of `YYYYMMDDThhmmss`.
pub(super) fn parse_time(text: &[u8; 15]) -> Option<i64> {
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0_i64, |n, byte| {
            byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let valid = text[8] == b'T'
        && (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    valid.then(|| days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Limits of the years with four digits.
const TIME_MIN: i64 = -62_167_219_200;
const TIME_MAX: i64 = 253_402_300_799;

pub(super) fn format_time(unix_s: i64) -> Option<[u8; 15]> {
    if !(TIME_MIN..=TIME_MAX).contains(&unix_s) {
        return None;
    }
    let (days, second_of_day) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    let (year, month, day) = date_of(days);
    let text = format!(
        "{year:04}{month:02}{day:02}T{:02}{:02}{:02}",
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60
    );
    text.into_bytes().try_into().ok()
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar. Years start in March, so that the leap day
/// comes last and the day of the year depends on the month alone.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + day_of_year - 719_468
}

/// Year, month and day of a day counted from 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    // An estimate, at most a few years off within the years of four digits.
    let mut year = 1970 + days / 366;
    while days_since_1970(year, 1, 1) > days {
        year -= 1;
    }
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut left = days - days_since_1970(year, 1, 1);
    let mut month = 1;
    while left >= days_in_month(year, month) {
        left -= days_in_month(year, month);
        month += 1;
    }
    (year, month, left + 1)
}
