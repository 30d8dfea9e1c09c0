//! `nfdc status report xml` (schema `ndn:/localhost/nfd/status/1` of NFD).

use std::fmt::{Display, Write};

use ndn_management::{
    FaceStatus, ForwarderStatus, RibEntry, cs_flag, face_flag, route_flag, route_origin_text,
};

use super::datasets::Report;
use super::text::extended_timestamp;

#[derive(Default)]
struct Xml {
    out: String,
}

impl Xml {
    fn within(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        let _ = write!(self.out, "<{name}>");
        content(self);
        let _ = write!(self.out, "</{name}>");
    }

    fn leaf(&mut self, name: &str, value: impl Display) {
        self.within(name, |xml| xml.text(&value.to_string()));
    }

    fn empty(&mut self, name: &str) {
        let _ = write!(self.out, "<{name}/>");
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.empty(name);
        }
    }

    fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("&quot;"),
                '&' => self.out.push_str("&amp;"),
                '\'' => self.out.push_str("&apos;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                other => self.out.push(other),
            }
        }
    }

    fn packets(&mut self, name: &str, interests: u64, data: u64, nacks: u64) {
        self.within(name, |xml| {
            xml.leaf("nInterests", interests);
            xml.leaf("nData", data);
            xml.leaf("nNacks", nacks);
        });
    }
}

/// `PT1.500S`.
fn duration(ms: u64) -> String {
    match ms % 1000 {
        0 => format!("PT{}S", ms / 1000),
        fraction => format!("PT{}.{fraction:03}S", ms / 1000),
    }
}

/// The whole document.
pub(super) fn report(report: &Report) -> String {
    let mut xml = Xml::default();
    xml.out.push_str("<?xml version=\"1.0\"?><nfdStatus xmlns=\"ndn:/localhost/nfd/status/1\">");
    general(&mut xml, &report.general);
    xml.within("channels", |xml| {
        for channel in &report.channels {
            xml.within("channel", |xml| xml.leaf("localUri", &channel.local_uri));
        }
    });
    xml.within("faces", |xml| report.faces.iter().for_each(|item| face(xml, item)));
    xml.within("fib", |xml| {
        for entry in &report.fib {
            xml.within("fibEntry", |xml| {
                xml.leaf("prefix", &entry.name);
                xml.within("nextHops", |xml| {
                    for hop in &entry.next_hops {
                        xml.within("nextHop", |xml| {
                            xml.leaf("faceId", hop.face_id);
                            xml.leaf("cost", hop.cost);
                        });
                    }
                });
            });
        }
    });
    xml.within("rib", |xml| report.rib.iter().for_each(|entry| rib_entry(xml, entry)));
    xml.within("cs", |xml| {
        let info = &report.cs;
        xml.leaf("capacity", info.capacity);
        xml.flag("admitEnabled", info.flags & cs_flag::ADMIT != 0);
        xml.flag("serveEnabled", info.flags & cs_flag::SERVE != 0);
        xml.leaf("nEntries", info.entries);
        xml.leaf("nHits", info.hits);
        xml.leaf("nMisses", info.misses);
    });
    xml.within("strategyChoices", |xml| {
        for choice in &report.strategies {
            xml.within("strategyChoice", |xml| {
                xml.leaf("namespace", &choice.name);
                xml.within("strategy", |xml| xml.leaf("name", &choice.strategy));
            });
        }
    });
    xml.out.push_str("</nfdStatus>");
    xml.out
}

fn general(xml: &mut Xml, status: &ForwarderStatus) {
    let (start_ms, now_ms) = (status.start_timestamp_ms, status.current_timestamp_ms);
    xml.within("generalStatus", |xml| {
        xml.leaf("version", &status.version);
        xml.leaf("startTime", extended_timestamp(start_ms));
        xml.leaf("currentTime", extended_timestamp(now_ms));
        xml.leaf("uptime", duration(now_ms.saturating_sub(start_ms) / 1000 * 1000));
        xml.leaf("nNameTreeEntries", status.name_tree_entries);
        xml.leaf("nFibEntries", status.fib_entries);
        xml.leaf("nPitEntries", status.pit_entries);
        xml.leaf("nMeasurementsEntries", status.measurements_entries);
        xml.leaf("nCsEntries", status.cs_entries);
        let c = &status.counters;
        xml.within("packetCounters", |xml| {
            xml.packets("incomingPackets", c.in_interests, c.in_data, c.in_nacks);
            xml.packets("outgoingPackets", c.out_interests, c.out_data, c.out_nacks);
        });
        xml.leaf("nSatisfiedInterests", c.satisfied_interests);
        xml.leaf("nUnsatisfiedInterests", c.unsatisfied_interests);
    });
}

fn face(xml: &mut Xml, face: &FaceStatus) {
    let (properties, c) = (&face.properties, &face.counters);
    xml.within("face", |xml| {
        xml.leaf("faceId", properties.face_id);
        xml.leaf("remoteUri", &properties.remote_uri);
        xml.leaf("localUri", &properties.local_uri);
        if let Some(period_ms) = face.expiration_period_ms {
            xml.leaf("expirationPeriod", duration(period_ms));
        }
        xml.leaf("faceScope", properties.scope);
        xml.leaf("facePersistency", properties.persistency);
        xml.leaf("linkType", properties.link_type);
        let interval = face.base_congestion_marking_interval_ns;
        let threshold = face.default_congestion_threshold;
        if interval.is_none() && threshold.is_none() {
            xml.empty("congestion");
        } else {
            xml.within("congestion", |xml| {
                if let Some(ns) = interval {
                    xml.leaf("baseMarkingInterval", duration(ns / 1_000_000));
                }
                if let Some(bytes) = threshold {
                    xml.leaf("defaultThreshold", bytes);
                }
            });
        }
        if let Some(mtu) = face.mtu {
            xml.leaf("mtu", mtu);
        }
        if properties.flags == 0 {
            xml.empty("flags");
        } else {
            xml.within("flags", |xml| {
                let is_set = |bit| properties.flags & bit != 0;
                xml.flag("localFieldsEnabled", is_set(face_flag::LOCAL_FIELDS));
                xml.flag("lpReliabilityEnabled", is_set(face_flag::LP_RELIABILITY));
                xml.flag("congestionMarkingEnabled", is_set(face_flag::CONGESTION_MARKING));
            });
        }
        xml.within("packetCounters", |xml| {
            xml.packets("incomingPackets", c.in_interests, c.in_data, c.in_nacks);
            xml.packets("outgoingPackets", c.out_interests, c.out_data, c.out_nacks);
        });
        xml.within("byteCounters", |xml| {
            xml.leaf("incomingBytes", c.in_bytes);
            xml.leaf("outgoingBytes", c.out_bytes);
        });
    });
}

fn rib_entry(xml: &mut Xml, entry: &RibEntry) {
    xml.within("ribEntry", |xml| {
        xml.leaf("prefix", &entry.name);
        xml.within("routes", |xml| {
            for route in &entry.routes {
                xml.within("route", |xml| {
                    xml.leaf("faceId", route.face_id);
                    xml.leaf("origin", route_origin_text(route.origin));
                    xml.leaf("cost", route.cost);
                    if route.flags == 0 {
                        xml.empty("flags");
                    } else {
                        xml.within("flags", |xml| {
                            xml.flag("childInherit", route.flags & route_flag::CHILD_INHERIT != 0);
                            xml.flag("ribCapture", route.flags & route_flag::CAPTURE != 0);
                        });
                    }
                    if let Some(period_ms) = route.expiration_period_ms {
                        xml.leaf("expirationPeriod", duration(period_ms / 1000 * 1000));
                    }
                });
            }
        });
    });
}
