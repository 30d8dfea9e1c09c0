//! The model file of a setting.

use core::fmt::Write as _;

use super::calibration::Calibration;
use super::error::CalibrateError;
use super::packet_times::{NS, NS_MIN, Stages};
use super::run::{FACES, Setting};
use super::service_times::Shape;
use crate::assembly::Placement;
use crate::distribution::Distribution;
use crate::file::law;

/// The model file of a setting: a run of `seconds` after `warm_up` seconds.
///
/// # Errors
/// A cost that is not positive: the setting is too far from what was measured.
pub fn model_text(
    calibration: &Calibration,
    setting: &Setting,
    warm_up: f64,
    seconds: f64,
) -> Result<String, CalibrateError> {
    let stages = Stages::of(calibration, setting)?;
    // With all packets in remote memory.
    let remote_factor = (calibration.at(setting, 0.0, Placement::P4) / stages.miss).max(0.01);
    let constant = |ns: f64| law(&Distribution::Constant(ns.max(NS_MIN) * NS));
    let shaped = |shape: &Shape, ns: f64| law(&shape.scaled(ns.max(NS_MIN) * NS));
    let delay = calibration.latency_ns[1].max(0.004) / 4.0;
    // Every worker has faces, and prefixes enough for an even load.
    let faces = FACES.max(setting.workers);
    let prefixes = 64 * setting.workers;
    let mut text = String::new();
    let _ = write!(
        text,
        "[forwarder]\nkind = \"namewire\"\nworkers = {workers}\nnic-capacity = {queue}\nring-capacity = 4096\n\
         overload = {{ interval = \"100 ms\" }}\ndispatch = {{ balanced = true }}\nhit-ratio = {hits:?}\n\
         placement = \"{placement:?}\"\nremote-factor = {remote_factor:?}\n\n\
         [services]\n\
         input = {{ interest = {input_i}, data = {input_d} }}\n\
         forward = {{ interest = {forward_i}, data = {forward_d}, hit = {forward_hit} }}\n\
         output = {{ interest = {output}, data = {output} }}\n\n\
         [producers]\ncount = {faces}\n\n\
         [links]\nconsumer = {{ delay = {delay} }}\nproducer = {{ delay = {delay} }}\n\n\
         [run]\nhorizon = \"{horizon:.6} ms\"\nwarm-up = \"{warm_up:.6} ms\"\n",
        workers = setting.workers,
        placement = setting.placement,
        queue = calibration.queue,
        hits = setting.hit_ratio,
        input_i = constant(stages.input_interest),
        input_d = constant(stages.input_data),
        forward_i = shaped(&calibration.shapes[0], stages.forward_interest),
        forward_d = shaped(&calibration.shapes[1], stages.forward_data),
        forward_hit = constant(stages.forward_hit),
        output = constant(stages.output),
        delay = constant(delay),
        faces = faces,
        horizon = (warm_up + seconds) * 1e3,
        warm_up = warm_up * 1e3,
    );
    if let Some(pauses) = &calibration.pauses {
        let traffic = match () {
            () if calibration.processors == usize::MAX => "elsewhere",
            () if calibration.is_shared(setting) => "shared",
            () => "own",
        };
        let _ = write!(
            text,
            "\n[pauses]\ninterval = {}\nlength = {}\ntogether = {}\ntraffic = \"{traffic}\"\n",
            law(&pauses.law.interval.distribution()),
            law(&pauses.law.length.distribution()),
            pauses.are_together(),
        );
    }
    for _ in 0..faces {
        let _ = write!(
            text,
            "\n[[consumers]]\nrate = \"{:.3} /s\"\narrivals = \"poisson\"\nfirst-prefix = 0\nprefixes = {prefixes}\n",
            setting.rate / faces as f64
        );
    }
    Ok(text)
}
