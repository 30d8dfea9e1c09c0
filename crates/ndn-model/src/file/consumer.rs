//! The consumers of a model file.

use serde::Deserialize;

use super::error::FileError;
use super::law::DurationLaw;
use super::quantity::{Count, Duration, Rate, Ratio};
use crate::distribution::Distribution;
use crate::network::{Arrivals, Window};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct ConsumerTable {
    rate: Option<Rate>,
    interval: Option<DurationLaw>,
    #[serde(default)]
    arrivals: ArrivalsKind,
    on: Option<DurationLaw>,
    off: Option<DurationLaw>,
    times: Option<Vec<Duration>>,
    pub(super) first_prefix: Option<u32>,
    pub(super) prefixes: Option<Count>,
    pub(super) zipf: Option<f64>,
    window: Option<Count>,
    window_max: Option<Count>,
    slow_start: Option<Count>,
    control: Option<ControlKind>,
    decrease: Option<Ratio>,
    pace: Option<Duration>,
    timeout: Option<Duration>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum ControlKind {
    Aimd,
    None,
}

#[derive(Deserialize, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum ArrivalsKind {
    #[default]
    Fixed,
    Poisson,
    OnOff,
    Trace,
    Window,
}

/// Window at the beginning without one in the file, as `ndncatchunks` has.
const WINDOW_INITIAL: usize = 2;
/// Interests in flight at most without a limit in the file.
const WINDOW_MAX: usize = 1024;

impl ConsumerTable {
    /// The first key that belongs to a window.
    fn window_key(&self) -> Option<&'static str> {
        let keys = [
            ("window", self.window.is_some()),
            ("window-max", self.window_max.is_some()),
            ("slow-start", self.slow_start.is_some()),
            ("control", self.control.is_some()),
            ("decrease", self.decrease.is_some()),
            ("pace", self.pace.is_some()),
            ("timeout", self.timeout.is_some()),
        ];
        keys.iter().find(|(_, is_given)| *is_given).map(|(key, _)| *key)
    }

    fn window(
        &self,
        lifetime_ps: u64,
        wrong: &impl Fn(&str) -> FileError,
    ) -> Result<Window, FileError> {
        if self.rate.is_some() || self.interval.is_some() || self.times.is_some() {
            return Err(wrong("with a window, answers set the rate: no rate, interval or times"));
        }
        let is_controlled = self.control != Some(ControlKind::None);
        if !is_controlled && (self.slow_start.is_some() || self.decrease.is_some()) {
            return Err(wrong("`slow-start` and `decrease` belong to control = \"aimd\""));
        }
        let initial = self.window.map_or(WINDOW_INITIAL, |count| count.0);
        let most = self.window_max.map_or(WINDOW_MAX.max(initial), |count| count.0);
        if most < initial {
            return Err(wrong("window-max is not below window"));
        }
        let decrease = self.decrease.map_or(0.5, |factor| factor.0);
        if decrease <= 0.0 {
            return Err(wrong("a decrease is a factor above 0, up to 1"));
        }
        let timeout_ps = self.timeout.map_or(lifetime_ps, |timeout| timeout.0 as u64);
        if timeout_ps == 0 {
            return Err(wrong("a timeout is above zero"));
        }
        Ok(Window {
            initial: initial as f64,
            most: most as f64,
            is_controlled,
            threshold: self.slow_start.map_or(most, |count| count.0) as f64,
            decrease,
            pace_ps: self.pace.map_or(1, |pace| (pace.0 as u64).max(1)),
            timeout_ps,
        })
    }

    pub(super) fn arrivals(
        &self,
        lifetime_ps: u64,
        wrong: &impl Fn(&str) -> FileError,
    ) -> Result<Arrivals, FileError> {
        if self.arrivals != ArrivalsKind::OnOff && (self.on.is_some() || self.off.is_some()) {
            return Err(wrong("`on` and `off` belong to arrivals = \"on-off\""));
        }
        if self.arrivals == ArrivalsKind::Window {
            return self.window(lifetime_ps, wrong).map(Arrivals::Window);
        }
        if let Some(key) = self.window_key() {
            return Err(wrong(&format!("`{key}` belongs to arrivals = \"window\"")));
        }
        if self.arrivals == ArrivalsKind::Trace {
            let Some(times) = &self.times else { return Err(wrong("a trace has `times`")) };
            if self.rate.is_some() || self.interval.is_some() {
                return Err(wrong("a trace has neither a rate nor an interval"));
            }
            let times: Vec<u64> = times.iter().map(|time| time.0 as u64).collect();
            if !times.is_sorted() {
                return Err(wrong("the times of a trace are ascending"));
            }
            return Ok(Arrivals::Trace(times));
        }
        if self.times.is_some() {
            return Err(wrong("`times` belong to arrivals = \"trace\""));
        }
        let law = match (&self.rate, &self.interval) {
            (Some(rate), None) => Distribution::Constant(1e12 / rate.0),
            (None, Some(law)) => law.0.clone(),
            (Some(_), Some(_)) => {
                return Err(wrong("a rate and an interval contradict each other: give one"));
            }
            (None, None) => return Err(wrong("a consumer has a rate or an interval")),
        };
        if law.mean() < 1.0 {
            return Err(wrong("an interval between Interests is at least 1 ps"));
        }
        match (self.arrivals, &self.on, &self.off) {
            (ArrivalsKind::Poisson, ..) => {
                Ok(Arrivals::Renewal(Distribution::Exponential { mean: law.mean() }))
            }
            (ArrivalsKind::OnOff, Some(on), Some(off)) => Ok(Arrivals::OnOff {
                interval_ps: law.mean() as u64,
                on: on.0.clone(),
                off: off.0.clone(),
            }),
            (ArrivalsKind::OnOff, ..) => Err(wrong("on-off arrivals have `on` and `off`")),
            (ArrivalsKind::Fixed | ArrivalsKind::Trace | ArrivalsKind::Window, ..) => {
                Ok(Arrivals::Renewal(law))
            }
        }
    }
}
