//! Pauses of processors in the fast engine: when threads go on.

use super::packet::NEVER;
use crate::network::{self, Network, streams};
use crate::random::TraceRandom;

/// The processor of a thread; none if it never pauses.
pub(super) type Processor = Option<usize>;

/// The pauses of all processors, drawn as far as times have come.
#[derive(Debug)]
pub(super) struct Pauses<'n> {
    law: Option<&'n network::Pauses>,
    calendars: Vec<Calendar>,
    random: TraceRandom,
}

/// The pauses of a processor.
#[derive(Debug, Default)]
struct Calendar {
    /// Begin and end of each, in order.
    pauses_ps: Vec<(u64, u64)>,
    /// Where the last search ended: times of the next one are near.
    place: usize,
}

impl<'n> Pauses<'n> {
    pub(super) fn new(network: &'n Network) -> Self {
        let law = network.pauses.as_ref();
        let count = law.map_or(0, network::Pauses::processors);
        let calendars = (0..count).map(|_| Calendar::default()).collect();
        Self { law, calendars, random: TraceRandom::new(0, 0) }
    }

    /// The processor of a station of the network.
    pub(super) fn of_station(&self, station: usize) -> Processor {
        self.law.and_then(|law| law.stations[station])
    }

    /// The processor of a consumer.
    pub(super) fn of_consumer(&self, consumer: usize) -> Processor {
        self.law.and_then(|law| law.consumers[consumer])
    }

    pub(super) fn reset(&mut self, random: TraceRandom) {
        self.random = random;
        for calendar in &mut self.calendars {
            calendar.pauses_ps.clear();
            calendar.place = 0;
        }
    }

    /// The first time from `time_ps` on that is not in a pause.
    #[inline(always)]
    pub(super) fn resume_ps(&mut self, processor: Processor, time_ps: u64) -> u64 {
        match processor {
            None => time_ps,
            Some(processor) => self.resumes(processor, time_ps),
        }
    }

    /// When work that begins at `time_ps` ends. It may end at the begin of a pause; without work that is at once.
    #[inline(always)]
    pub(super) fn work_ps(&mut self, processor: Processor, time_ps: u64, work_ps: u64) -> u64 {
        match processor {
            None => time_ps + work_ps,
            Some(processor) => self.works(processor, time_ps, work_ps),
        }
    }

    fn resumes(&mut self, processor: usize, time_ps: u64) -> u64 {
        if time_ps >= NEVER {
            return time_ps;
        }
        let place = self.seek(processor, time_ps);
        let (begin_ps, end_ps) = self.calendars[processor].pauses_ps[place];
        if begin_ps <= time_ps { end_ps } else { time_ps }
    }

    fn works(&mut self, processor: usize, mut time_ps: u64, mut work_ps: u64) -> u64 {
        if work_ps == 0 {
            return time_ps;
        }
        let mut place = self.seek(processor, time_ps);
        loop {
            let (begin_ps, end_ps) = self.pause(processor, place);
            let until_ps = begin_ps.saturating_sub(time_ps);
            if work_ps <= until_ps {
                return time_ps + work_ps;
            }
            work_ps -= until_ps;
            time_ps = end_ps;
            place += 1;
        }
    }

    /// The first pause that ends after `time_ps`.
    fn seek(&mut self, processor: usize, time_ps: u64) -> usize {
        let mut place = self.calendars[processor].place;
        while place > 0 && self.pause(processor, place - 1).1 > time_ps {
            place -= 1;
        }
        while self.pause(processor, place).1 <= time_ps {
            place += 1;
        }
        self.calendars[processor].place = place;
        place
    }

    /// Begin and end of a pause that is known, or the next one.
    fn pause(&mut self, processor: usize, number: usize) -> (u64, u64) {
        let pauses_ps = &mut self.calendars[processor].pauses_ps;
        if let Some(law) = self.law
            && number == pauses_ps.len()
        {
            let draw = |stream| self.random.draw(stream, number as u64);
            let before_ps = pauses_ps.last().map_or(0, |(_, end_ps)| *end_ps);
            let mut interval = draw(streams::pause_interval(processor));
            let mut length = draw(streams::pause_length(processor));
            let begin_ps = before_ps + law.interval.sample_ps(&mut interval, 1.0);
            pauses_ps.push((begin_ps, begin_ps + law.length.sample_ps(&mut length, 1.0)));
        }
        pauses_ps[number]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::distribution::Distribution;
    use crate::file::Model;
    use crate::network::PausedTraffic;

    #[test]
    fn work_goes_on_after_pauses() {
        // In [10, 15), [25, 30), [40, 45), …
        let mut network = Model::parse(crate::file::tests::EXAMPLE).unwrap().network;
        let laws = (Distribution::Constant(10.0), Distribution::Constant(5.0));
        let pauses = network::Pauses::of_threads(&network, laws, false, PausedTraffic::Shared);
        assert_eq!(pauses.stations, [Some(0), Some(1), Some(1)], "two workers and the producer");
        assert_eq!((pauses.processors(), &pauses.consumers[..]), (2, &[Some(0)][..]));
        assert!((pauses.share() - 1.0 / 3.0).abs() < 1e-12);
        network.pauses = Some(pauses);
        let mut pauses = Pauses::new(&network);
        let own = pauses.of_station(1);
        for (time_ps, resumes_ps) in [(9, 9), (10, 15), (14, 15), (15, 15), (44, 45), (12, 15)] {
            assert_eq!(pauses.resume_ps(own, time_ps), resumes_ps, "{time_ps}");
        }
        for (time_ps, work_ps, ends_ps) in [
            (3, 7, 10),
            (3, 8, 16),
            (10, 0, 10),
            (10, 1, 16),
            (12, 10, 25),
            (12, 11, 31),
            (0, 25, 35),
            (0, 30, 40),
            (0, 31, 46),
        ] {
            assert_eq!(pauses.work_ps(own, time_ps, work_ps), ends_ps, "{time_ps} {work_ps}");
        }
        assert_eq!((pauses.work_ps(None, 3, 8), pauses.resume_ps(own, NEVER)), (11, NEVER));
    }
}
