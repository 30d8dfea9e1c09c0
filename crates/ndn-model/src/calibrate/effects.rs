//! The effects on the processor time of the workers per Interest.

use libm::log2;

use super::run::Setting;

/// Effects on the processor time per Interest, in nanoseconds.
pub const EFFECTS: [&str; EFFECT_COUNT] = [
    "sleep",
    "miss",
    "miss-per-component",
    "miss-per-1000-bytes",
    "hit",
    "hit-per-component",
    "hit-per-1000-bytes",
    "crossing",
    "per-doubling-of-routes",
    "probe",
    "remote",
];

/// Number of [`EFFECTS`], and the places of some of them.
pub(super) const EFFECT_COUNT: usize = 11;
pub(super) const SLEEP: usize = 0;
pub(super) const PROBE: usize = 9;
pub(super) const REMOTE: usize = 10;

/// Column of the transfers with one worker, before that with several: they are estimated with the effects.
pub(super) const TRANSFER: usize = EFFECT_COUNT;
pub(super) const COLUMNS: usize = EFFECT_COUNT + 2;

/// Name components and routes at which their effect is zero.
const COMPONENTS_AT_ZERO: f64 = 7.0;
const ROUTES_AT_ZERO: f64 = 64.0;

/// Nanoseconds of each column, or a value of each regressor.
pub(super) type Effects = [f64; COLUMNS];

/// The regressors of an Interest and its Data: the time per Interest is their sum of products with the effects.
///
/// `sleeps` are those per Interest, `transfer_ns` is the time by which a transfer is longer than usual.
pub(super) fn regressors(
    setting: &Setting,
    hit_ratio: f64,
    sleeps: f64,
    is_traced: bool,
    transfer_ns: f64,
) -> Effects {
    let crossings = f64::from(u8::from(setting.workers > 1));
    // Frames relative to a miss, which has four; a hit has two.
    let frames = 0.5 * (2.0 - hit_ratio);
    let components = setting.components as f64 - COMPONENTS_AT_ZERO;
    let bytes = setting.payload as f64 / 1000.0;
    let miss = 1.0 - hit_ratio;
    [
        sleeps,
        miss,
        miss * components,
        miss * bytes,
        hit_ratio,
        hit_ratio * components,
        hit_ratio * bytes,
        crossings,
        log2(setting.routes.max(1) as f64 / ROUTES_AT_ZERO),
        f64::from(u8::from(is_traced)),
        setting.remote_share(),
        frames * transfer_ns * (1.0 - crossings),
        frames * transfer_ns * crossings,
    ]
}
