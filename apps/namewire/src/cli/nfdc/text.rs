//! The text output of nfdc.

use std::fmt::{Display, Write};

use ndn_management::{
    ControlParameters, CsInfo, FaceStatus, FibEntry, ForwarderStatus, RibEntry, RouteRecord,
    StrategyChoice, cs_flag, face_flag, route_flag, route_origin_text,
};
use ndn_packet::Name;

/// `name=value` pairs on one line, or each on its own line with right-aligned names.
pub(super) struct Attributes {
    out: String,
    /// Width of the names; `None`: on one line.
    width: Option<usize>,
    is_first: bool,
}

impl Attributes {
    pub(super) fn line() -> Self {
        Self { out: String::new(), width: None, is_first: true }
    }

    pub(super) fn block(width: usize) -> Self {
        Self { out: String::new(), width: Some(width), is_first: true }
    }

    pub(super) fn put(&mut self, name: &str, value: impl Display) -> &mut Self {
        let between = match (self.is_first, self.width) {
            (true, _) => "",
            (false, Some(_)) => "\n",
            (false, None) => " ",
        };
        self.is_first = false;
        let width = self.width.unwrap_or(0);
        let _ = write!(self.out, "{between}{name:>width$}={value}");
        self
    }

    pub(super) fn end(mut self) -> String {
        if self.width.is_some() {
            self.out.push('\n');
        }
        self.out
    }
}

pub(super) fn on_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

/// `20261121T023738.182000`, in UTC.
pub(in crate::cli) fn timestamp(unix_ms: u64) -> String {
    let (year, month, day, hour, minute, second) = date(unix_ms);
    let fraction = fraction(unix_ms);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}{fraction}")
}

/// `2026-11-21T02:37:38.182000`, in UTC.
pub(in crate::cli) fn extended_timestamp(unix_ms: u64) -> String {
    let (year, month, day, hour, minute, second) = date(unix_ms);
    let fraction = fraction(unix_ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}")
}

/// Microseconds; none for a whole second.
fn fraction(unix_ms: u64) -> String {
    match unix_ms % 1000 {
        0 => String::new(),
        ms => format!(".{ms:03}000"),
    }
}

/// Civil date and time of day (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn date(unix_ms: u64) -> (u64, u64, u64, u64, u64, u64) {
    let seconds = unix_ms / 1000;
    let days = seconds / 86_400 + 719_468;
    let era_day = days % 146_097;
    let year_of_era = (era_day - era_day / 1460 + era_day / 36_524 - era_day / 146_096) / 365;
    let day_of_year = era_day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + days / 146_097 * 400 + u64::from(month <= 2);
    let in_day = seconds % 86_400;
    (year, month, day, in_day / 3600, in_day / 60 % 60, in_day % 60)
}

pub(super) fn general(status: &ForwarderStatus) -> String {
    let mut block = Attributes::block(21);
    let uptime_s = status.current_timestamp_ms.saturating_sub(status.start_timestamp_ms) / 1000;
    block
        .put("version", &status.version)
        .put("startTime", timestamp(status.start_timestamp_ms))
        .put("currentTime", timestamp(status.current_timestamp_ms))
        .put("uptime", format!("{uptime_s} seconds"))
        .put("nNameTreeEntries", status.name_tree_entries)
        .put("nFibEntries", status.fib_entries)
        .put("nPitEntries", status.pit_entries)
        .put("nMeasurementsEntries", status.measurements_entries)
        .put("nCsEntries", status.cs_entries)
        .put("nInInterests", status.counters.in_interests)
        .put("nOutInterests", status.counters.out_interests)
        .put("nInData", status.counters.in_data)
        .put("nOutData", status.counters.out_data)
        .put("nInNacks", status.counters.in_nacks)
        .put("nOutNacks", status.counters.out_nacks)
        .put("nSatisfiedInterests", status.counters.satisfied_interests)
        .put("nUnsatisfiedInterests", status.counters.unsatisfied_interests);
    format!("General NFD status:\n{}", indented(&block.end()))
}

pub(super) fn cs(info: &CsInfo) -> String {
    let mut block = Attributes::block(8);
    block
        .put("capacity", info.capacity)
        .put("admit", on_off(info.flags & cs_flag::ADMIT != 0))
        .put("serve", on_off(info.flags & cs_flag::SERVE != 0))
        .put("nEntries", info.entries)
        .put("nHits", info.hits)
        .put("nMisses", info.misses);
    format!("CS information:\n{}", indented(&block.end()))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

pub(super) fn face(face: &FaceStatus, is_block: bool) -> String {
    let mut out = if is_block { Attributes::block(10) } else { Attributes::line() };
    let properties = &face.properties;
    out.put("faceid", properties.face_id)
        .put("remote", &properties.remote_uri)
        .put("local", &properties.local_uri);
    if let Some(period_ms) = face.expiration_period_ms {
        out.put("expires", format!("{}s", period_ms / 1000));
    }
    let interval = face
        .base_congestion_marking_interval_ns
        .map(|ns| format!("base-marking-interval={}ms", ns / 1_000_000));
    let threshold =
        face.default_congestion_threshold.map(|bytes| format!("default-threshold={bytes}B"));
    if interval.is_some() || threshold.is_some() {
        let parts: Vec<String> = interval.into_iter().chain(threshold).collect();
        out.put("congestion", format!("{{{}}}", parts.join(" ")));
    }
    if let Some(mtu) = face.mtu {
        out.put("mtu", mtu);
    }
    let c = &face.counters;
    out.put(
        "counters",
        format!(
            "{{in={{{}i {}d {}n {}B}} out={{{}i {}d {}n {}B}}}}",
            c.in_interests,
            c.in_data,
            c.in_nacks,
            c.in_bytes,
            c.out_interests,
            c.out_data,
            c.out_nacks,
            c.out_bytes
        ),
    );
    let mut flags = vec![
        properties.scope.to_string(),
        properties.persistency.to_string(),
        properties.link_type.to_string(),
    ];
    for (bit, word) in [
        (face_flag::LOCAL_FIELDS, "local-fields"),
        (face_flag::LP_RELIABILITY, "lp-reliability"),
        (face_flag::CONGESTION_MARKING, "congestion-marking"),
    ] {
        if properties.flags & bit != 0 {
            flags.push(word.to_owned());
        }
    }
    out.put("flags", format!("{{{}}}", flags.join(" ")));
    out.end()
}

/// The settings of a face in the output of `face create` and `face destroy`.
pub(super) fn face_settings(out: &mut Attributes, parameters: &ControlParameters) {
    let is_set = |bit| parameters.flags.unwrap_or(0) & bit != 0;
    out.put("reliability", on_off(is_set(face_flag::LP_RELIABILITY)))
        .put("congestion-marking", on_off(is_set(face_flag::CONGESTION_MARKING)));
    if let Some(ns) = parameters.base_congestion_marking_interval_ns {
        out.put("congestion-marking-interval", format!("{}ms", ns / 1_000_000));
    }
    if let Some(bytes) = parameters.default_congestion_threshold {
        out.put("default-congestion-threshold", format!("{bytes}B"));
    }
    if let Some(mtu) = parameters.mtu {
        out.put("mtu", mtu);
    }
}

pub(super) fn fib_entry(entry: &FibEntry) -> String {
    let hops: Vec<String> = entry
        .next_hops
        .iter()
        .map(|hop| format!("faceid={} (cost={})", hop.face_id, hop.cost))
        .collect();
    format!("{} nexthops={{{}}}", entry.name, hops.join(", "))
}

pub(super) fn rib_entry(entry: &RibEntry) -> String {
    let routes: Vec<String> = entry.routes.iter().map(|route| self::route(None, route)).collect();
    format!("{} routes={{{}}}", entry.name, routes.join(", "))
}

pub(super) fn route(prefix: Option<&Name>, route: &RouteRecord) -> String {
    let mut line = Attributes::line();
    if let Some(prefix) = prefix {
        line.put("prefix", prefix);
    }
    line.put("nexthop", route.face_id)
        .put("origin", route_origin_text(route.origin))
        .put("cost", route.cost)
        .put("flags", route_flags(route.flags));
    match route.expiration_period_ms {
        Some(period_ms) => line.put("expires", format!("{}s", period_ms / 1000)),
        None => line.put("expires", "never"),
    };
    line.end()
}

pub(super) fn route_flags(flags: u64) -> String {
    let known = route_flag::CHILD_INHERIT | route_flag::CAPTURE;
    let mut words = Vec::new();
    if flags & route_flag::CHILD_INHERIT != 0 {
        words.push("child-inherit".to_owned());
    }
    if flags & route_flag::CAPTURE != 0 {
        words.push("capture".to_owned());
    }
    if flags & !known != 0 {
        words.push(format!("{:#x}", flags & !known));
    }
    if words.is_empty() { "none".to_owned() } else { words.join("|") }
}

pub(super) fn strategy(choice: &StrategyChoice, is_block: bool) -> String {
    let mut out = if is_block { Attributes::block(8) } else { Attributes::line() };
    out.put("prefix", &choice.name).put("strategy", &choice.strategy);
    out.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_format_of_boost() {
        assert_eq!(timestamp(1_795_228_658_182), "20261121T023738.182000");
        assert_eq!(extended_timestamp(1_795_228_658_000), "2026-11-21T02:37:38");
        assert_eq!(timestamp(0), "19700101T000000");
        assert_eq!(timestamp(951_782_400_001), "20000229T000000.001000");
        assert_eq!(timestamp(4_107_542_400_000), "21000301T000000");
    }

    #[test]
    fn attribute_names_of_a_block_are_aligned() {
        let mut block = Attributes::block(8);
        block.put("prefix", "/").put("strategy", "/s");
        assert_eq!(block.end(), "  prefix=/\nstrategy=/s\n");
        let mut long = Attributes::block(3);
        long.put("congestion", "x");
        assert_eq!(long.end(), "congestion=x\n");
    }

    #[test]
    fn route_flags_have_the_words_of_nfdc() {
        for (flags, words) in
            [(0, "none"), (1, "child-inherit"), (2, "capture"), (3, "child-inherit|capture")]
        {
            assert_eq!(route_flags(flags), words);
        }
    }
}
