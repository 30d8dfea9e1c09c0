//! Observables and bounded properties of a trace.
//!
//! ```text
//! property    = P(formula) >= 0.99 | P(formula) | E(number) | Q(0.99, number)
//! formula     = over packets: satisfied, dropped, late, nacked, marked, latency < 50 us
//!               not, and, or, ->, G[0, 5 ms] f, F[0, 5 ms] f, (f U[0, 5 ms] g)
//!               over the trace: number >= number, all(f)
//! number      = 0.999, 50 us, share(f), count(f), mean(latency), quantile(latency, 0.99), throughput,
//!               queue["name"].max, queue["name"].dropped, queue["name"].wait, pit.max
//! ```
//!
//! Packets are the Interests that were sent after the warm-up, in order of time. A temporal formula holds
//! of a packet; `G[a, b] f` says that f holds of all packets sent between a and b after it (metric
//! temporal logic with pointwise semantics), and the bounds are required. A formula over packets holds
//! of a trace if it holds of its first packet; `all(f)` if f holds of every packet.
//!
//! `all`, `share` and `count` range over the packets whose windows are complete: those sent so early that
//! all the bounds in f end before the trace does.
//!
//! `queue["name"].max`, `.dropped` and `.wait` and `pit.max` are of the whole trace: they include the
//! warm-up, and the drain after the last Interest.
//!
//! Three questions are kept apart: `P(all(satisfied))`, `P(share(satisfied) >= 0.999)` and
//! `E(share(satisfied))`.

use crate::file::Model;
use crate::network::{Outcome, Record, TraceResult};
use crate::units;

/// A question about a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Property {
    /// Whether the probability that a trace satisfies the formula is at least this.
    ProbabilityAtLeast(Formula, f64),
    /// The probability that a trace satisfies the formula.
    Probability(Formula),
    /// The mean of a number over traces.
    Expectation(Number),
    /// A quantile of a number over traces.
    Quantile(f64, Number),
}

/// A formula over the packets of a trace, or over the trace.
#[derive(Debug, Clone, PartialEq)]
pub enum Formula {
    /// The outcome of a packet.
    Is(PacketState),
    /// The latency of a packet compares to a duration in picoseconds; that of an unsatisfied one is infinite.
    Latency(Comparison, f64),
    /// Two numbers of the trace compare.
    Compare(Number, Comparison, Number),
    /// A formula holds of every packet.
    All(Box<Self>),
    /// Negation.
    Not(Box<Self>),
    /// Conjunction.
    And(Box<Self>, Box<Self>),
    /// Disjunction.
    Or(Box<Self>, Box<Self>),
    /// Always within the bounds.
    Globally(Bounds, Box<Self>),
    /// Sometime within the bounds.
    Finally(Bounds, Box<Self>),
    /// The first until the second, which holds within the bounds.
    Until(Bounds, Box<Self>, Box<Self>),
}

/// An interval of time after a packet, in picoseconds, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Begin.
    pub from_ps: u64,
    /// End.
    pub to_ps: u64,
}

/// A state of a packet that a formula can test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketState {
    /// Its Data came in time.
    Satisfied,
    /// It or its answer was dropped or lost.
    Dropped,
    /// Its Data came too late.
    Late,
    /// A Nack came.
    Nacked,
    /// A queue marked it.
    Marked,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// A number that a trace has. Durations are in picoseconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// A constant.
    Constant(f64),
    /// The fraction of packets of which a formula holds.
    Share(Box<Formula>),
    /// The number of packets of which a formula holds.
    Count(Box<Formula>),
    /// The mean latency of satisfied packets.
    MeanLatency,
    /// A quantile of the latency over all packets, infinite for unsatisfied ones.
    QuantileLatency(f64),
    /// Satisfied Interests per second.
    Throughput,
    /// The longest that a queue was.
    QueueMax(usize),
    /// Packets that found a queue full.
    QueueDropped(usize),
    /// Mean wait in a queue.
    QueueWait(usize),
    /// Most PIT entries of a shard; only of models with a PIT capacity.
    PitMax,
}

/// An error in the text of a property, with its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyError {
    /// Column from 1.
    pub column: usize,
    /// The reason.
    pub reason: String,
}

impl core::fmt::Display for PropertyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "property, column {}: {}", self.column, self.reason)
    }
}

impl core::error::Error for PropertyError {}

impl Property {
    /// Reads a property of `model`, whose queues it may name.
    ///
    /// # Errors
    /// [`PropertyError`] with column and reason.
    pub fn parse(text: &str, model: &Model) -> Result<Self, PropertyError> {
        let mut parser = Parser::new(text, model)?;
        let property = parser.property()?;
        parser.expect_end()?;
        Ok(property)
    }

    /// The observation of a trace: 1 or 0 for a formula, else the number.
    #[must_use]
    pub fn observe(&self, trace: &Trace<'_>) -> f64 {
        match self {
            Self::ProbabilityAtLeast(formula, _) | Self::Probability(formula) => {
                f64::from(u8::from(trace.satisfies(formula)))
            }
            Self::Expectation(number) | Self::Quantile(_, number) => trace.number(number),
        }
    }

    /// Whether it asks for a probability.
    #[must_use]
    pub const fn is_probability(&self) -> bool {
        matches!(self, Self::ProbabilityAtLeast(..) | Self::Probability(_))
    }

    /// Whether it is about a formula that is expected to hold of most traces: the rare event is that it does not.
    #[must_use]
    pub fn is_rarely_false(&self) -> bool {
        matches!(self, Self::ProbabilityAtLeast(_, threshold) if *threshold > 0.5)
    }

    /// The bounds of the observed number, where every trace keeps to them.
    #[must_use]
    pub fn natural_bounds(&self) -> Option<(f64, f64)> {
        match self {
            Self::Expectation(Number::Share(_)) => Some((0.0, 1.0)),
            Self::ProbabilityAtLeast(..)
            | Self::Probability(_)
            | Self::Expectation(_)
            | Self::Quantile(..) => None,
        }
    }
}

/// A trace as formulas see it: the packets after the warm-up.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    records: &'a [Record],
    result: &'a TraceResult,
    length_ps: u64,
    horizon_ps: u64,
}

impl<'a> Trace<'a> {
    /// The trace of `model` with `result`.
    #[must_use]
    pub fn new(model: &Model, result: &'a TraceResult) -> Self {
        let first = result.records.partition_point(|record| record.created_ps < model.warm_up_ps);
        let length_ps = model.horizon_ps - model.warm_up_ps;
        let horizon_ps = model.horizon_ps;
        Self { records: &result.records[first..], result, length_ps, horizon_ps }
    }

    /// Whether the trace satisfies a formula. Without packets, a formula over packets holds.
    #[must_use]
    pub fn satisfies(&self, formula: &Formula) -> bool {
        match formula {
            Formula::Compare(left, comparison, right) => {
                comparison.holds(self.number(left), self.number(right))
            }
            Formula::All(inner) => self.evaluate_complete(inner).iter().all(|holds| *holds),
            Formula::Not(inner) if inner.is_of_trace() => !self.satisfies(inner),
            Formula::And(left, right) if formula.is_of_trace() => {
                self.satisfies(left) && self.satisfies(right)
            }
            Formula::Or(left, right) if formula.is_of_trace() => {
                self.satisfies(left) || self.satisfies(right)
            }
            Formula::Is(_)
            | Formula::Latency(..)
            | Formula::Not(_)
            | Formula::And(..)
            | Formula::Or(..)
            | Formula::Globally(..)
            | Formula::Finally(..)
            | Formula::Until(..) => self.evaluate(formula).first().copied().unwrap_or(true),
        }
    }

    /// The value of a number; NaN where there is nothing to take it of.
    #[must_use]
    pub fn number(&self, number: &Number) -> f64 {
        let count_of = |holds: &[bool]| holds.iter().filter(|holds| **holds).count() as f64;
        let count = |formula: &Formula| count_of(&self.evaluate_complete(formula));
        match number {
            Number::Constant(value) => *value,
            Number::Share(formula) => {
                let holds = self.evaluate_complete(formula);
                count_of(&holds) / holds.len() as f64
            }
            Number::Count(formula) => count(formula),
            Number::MeanLatency => {
                let latencies: Vec<f64> = self
                    .records
                    .iter()
                    .map(latency)
                    .filter(|latency| latency.is_finite())
                    .collect();
                latencies.iter().sum::<f64>() / latencies.len() as f64
            }
            Number::QuantileLatency(level) => {
                let mut latencies: Vec<f64> = self.records.iter().map(latency).collect();
                latencies.sort_by(f64::total_cmp);
                crate::smc::quantile::sample_quantile(&latencies, *level).unwrap_or(f64::NAN)
            }
            Number::Throughput => {
                count(&Formula::Is(PacketState::Satisfied)) / (self.length_ps as f64 / 1e12)
            }
            Number::QueueMax(queue) => self.result.queues[*queue].length_max as f64,
            Number::QueueDropped(queue) => self.result.queues[*queue].dropped as f64,
            Number::QueueWait(queue) => {
                let record = &self.result.queues[*queue];
                record.waited_ps as f64 / record.entered as f64
            }
            Number::PitMax => self.result.pit_max.iter().copied().max().unwrap_or(0) as f64,
        }
    }

    /// Of which packets with complete windows a formula holds.
    fn evaluate_complete(&self, formula: &Formula) -> Vec<bool> {
        let reach_ps = formula.reach_ps();
        let is_complete = |record: &Record| {
            reach_ps == 0 || record.created_ps.saturating_add(reach_ps) < self.horizon_ps
        };
        let mut holds = self.evaluate(formula);
        holds.truncate(self.records.partition_point(is_complete));
        holds
    }

    /// Of which packets a formula holds. Windows are cut at the end of the trace.
    fn evaluate(&self, formula: &Formula) -> Vec<bool> {
        match formula {
            Formula::Is(state) => self.records.iter().map(|record| state.is_of(record)).collect(),
            Formula::Latency(comparison, bound) => self
                .records
                .iter()
                .map(|record| comparison.holds(latency(record), *bound))
                .collect(),
            Formula::Compare(..) | Formula::All(_) => {
                vec![self.satisfies(formula); self.records.len()]
            }
            Formula::Not(inner) => self.evaluate(inner).iter().map(|holds| !holds).collect(),
            Formula::And(left, right) => {
                combine(&self.evaluate(left), &self.evaluate(right), |a, b| a && b)
            }
            Formula::Or(left, right) => {
                combine(&self.evaluate(left), &self.evaluate(right), |a, b| a || b)
            }
            Formula::Finally(bounds, inner) => self.finally(*bounds, &self.evaluate(inner)),
            Formula::Globally(bounds, inner) => {
                let fails: Vec<bool> = self.evaluate(inner).iter().map(|holds| !holds).collect();
                self.finally(*bounds, &fails).iter().map(|holds| !holds).collect()
            }
            Formula::Until(bounds, left, right) => {
                self.until(*bounds, &self.evaluate(left), &self.evaluate(right))
            }
        }
    }

    /// The packets within the bounds after packet `index`: first, and one past the last.
    fn window(&self, bounds: Bounds, index: usize) -> (usize, usize) {
        let now_ps = self.records[index].created_ps;
        let from_ps = now_ps.saturating_add(bounds.from_ps);
        let to_ps = now_ps.saturating_add(bounds.to_ps);
        let later = &self.records[index..];
        (
            index + later.partition_point(|record| record.created_ps < from_ps),
            index + later.partition_point(|record| record.created_ps <= to_ps),
        )
    }

    fn finally(&self, bounds: Bounds, inner: &[bool]) -> Vec<bool> {
        let sums = prefix_sums(inner);
        (0..inner.len())
            .map(|index| {
                let (first, end) = self.window(bounds, index);
                sums[end] > sums[first]
            })
            .collect()
    }

    fn until(&self, bounds: Bounds, left: &[bool], right: &[bool]) -> Vec<bool> {
        let count = right.len();
        // The next packet, from each one on, of which the right side holds, and of which the left does not.
        let mut next_right = vec![count; count + 1];
        let mut next_failure = vec![count; count + 1];
        for index in (0..count).rev() {
            next_right[index] = if right[index] { index } else { next_right[index + 1] };
            next_failure[index] = if left[index] { next_failure[index + 1] } else { index };
        }
        (0..count)
            .map(|index| {
                let (first, end) = self.window(bounds, index);
                let reached = next_right[first];
                reached < end && next_failure[index] >= reached
            })
            .collect()
    }
}

fn prefix_sums(values: &[bool]) -> Vec<usize> {
    let mut sums = vec![0; values.len() + 1];
    for (index, value) in values.iter().enumerate() {
        sums[index + 1] = sums[index] + usize::from(*value);
    }
    sums
}

fn combine(left: &[bool], right: &[bool], join: impl Fn(bool, bool) -> bool) -> Vec<bool> {
    left.iter().zip(right).map(|(a, b)| join(*a, *b)).collect()
}

/// Time from Interest to Data; infinite if none came in time.
fn latency(record: &Record) -> f64 {
    if record.outcome == Outcome::Satisfied {
        (record.ended_ps - record.created_ps) as f64
    } else {
        f64::INFINITY
    }
}

impl PacketState {
    fn is_of(self, record: &Record) -> bool {
        match self {
            Self::Satisfied => record.outcome == Outcome::Satisfied,
            Self::Late => record.outcome == Outcome::Late,
            Self::Nacked => record.outcome == Outcome::Nacked,
            Self::Marked => record.is_marked,
            Self::Dropped => matches!(
                record.outcome,
                Outcome::QueueFull(_)
                    | Outcome::Shed(_)
                    | Outcome::PitFull(_)
                    | Outcome::LinkLoss(_)
                    | Outcome::LinkFull(_)
            ),
        }
    }
}

impl Comparison {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
        }
    }
}

impl Formula {
    /// Maximum time after a packet of the packets on which its value depends.
    fn reach_ps(&self) -> u64 {
        match self {
            Self::Is(_) | Self::Latency(..) | Self::Compare(..) | Self::All(_) => 0,
            Self::Not(inner) => inner.reach_ps(),
            Self::And(left, right) | Self::Or(left, right) => left.reach_ps().max(right.reach_ps()),
            Self::Globally(bounds, inner) | Self::Finally(bounds, inner) => {
                bounds.to_ps.saturating_add(inner.reach_ps())
            }
            Self::Until(bounds, left, right) => {
                bounds.to_ps.saturating_add(left.reach_ps().max(right.reach_ps()))
            }
        }
    }

    /// Whether it speaks of the trace only, not of single packets.
    fn is_of_trace(&self) -> bool {
        match self {
            Self::Compare(..) | Self::All(_) => true,
            Self::Not(inner) => inner.is_of_trace(),
            Self::And(left, right) | Self::Or(left, right) => {
                left.is_of_trace() && right.is_of_trace()
            }
            Self::Is(_)
            | Self::Latency(..)
            | Self::Globally(..)
            | Self::Finally(..)
            | Self::Until(..) => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    /// A number with its unit, as written.
    Quantity(String),
    Text(String),
    Sign(&'static str),
}

struct Parser<'a> {
    tokens: Vec<(usize, Token)>,
    position: usize,
    end: usize,
    model: &'a Model,
}

/// Words and signs of a property at most: formulas nest by recursion.
const TOKENS_MAX: usize = 300;
const SIGNS: [&str; 11] = ["->", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", "."];
const COMPARISONS: [(&str, Comparison); 4] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl<'a> Parser<'a> {
    fn new(text: &str, model: &'a Model) -> Result<Self, PropertyError> {
        let mut tokens = Vec::new();
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            let column = text.len() - rest.len() + 1;
            let Some(first) = rest.chars().next() else { break };
            let length = if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                tokens.push((column, Token::Sign(sign)));
                sign.len()
            } else if first == '"' {
                let Some(end) = rest[1..].find('"') else {
                    return Err(PropertyError { column, reason: "the quote is not closed".into() });
                };
                tokens.push((column, Token::Text(rest[1..=end].to_owned())));
                end + 2
            } else if first.is_ascii_digit() {
                let digits = length_of(rest, |c| c.is_ascii_digit() || matches!(c, '.' | '_'));
                let spaces = length_of(&rest[digits..], |c| c == ' ');
                let unit =
                    length_of(&rest[digits + spaces..], |c| c.is_alphabetic() || matches!(c, '/'));
                let unit_text = &rest[digits + spaces..digits + spaces + unit];
                let is_unit = units::duration_ps(&format!("1 {unit_text}")).is_ok();
                let length = if is_unit { digits + spaces + unit } else { digits };
                tokens.push((column, Token::Quantity(rest[..length].to_owned())));
                length
            } else if first.is_alphabetic() {
                let length = length_of(rest, |c| c.is_alphanumeric() || c == '_');
                tokens.push((column, Token::Word(rest[..length].to_owned())));
                length
            } else {
                return Err(PropertyError { column, reason: format!("unexpected `{first}`") });
            };
            rest = &rest[length..];
            if tokens.len() > TOKENS_MAX {
                let reason = format!("a property has at most {TOKENS_MAX} words and signs");
                return Err(PropertyError { column, reason });
            }
        }
        Ok(Self { tokens, position: 0, end: text.len() + 1, model })
    }

    fn property(&mut self) -> Result<Property, PropertyError> {
        let column = self.column();
        let word = self.word("P, E or Q")?;
        self.sign("(")?;
        match word.as_str() {
            "P" => {
                let formula = self.formula()?;
                self.sign(")")?;
                if !self.accepts(">=") {
                    return Ok(Property::Probability(formula));
                }
                let column = self.column();
                let threshold = self.plain()?;
                if !(threshold > 0.0 && threshold < 1.0) {
                    let reason = "a probability to be decided lies strictly between 0 and 1".into();
                    return Err(PropertyError { column, reason });
                }
                Ok(Property::ProbabilityAtLeast(formula, threshold))
            }
            "E" => {
                let number = self.number()?;
                self.sign(")")?;
                Ok(Property::Expectation(number))
            }
            "Q" => {
                let level = self.level()?;
                self.sign(",")?;
                let number = self.number()?;
                self.sign(")")?;
                Ok(Property::Quantile(level, number))
            }
            _ => Err(PropertyError { column, reason: format!("`{word}` is not P, E or Q") }),
        }
    }

    /// Implication, which binds weakest; then or; then and.
    fn formula(&mut self) -> Result<Formula, PropertyError> {
        let left = self.disjunction()?;
        if self.accepts("->") {
            let right = self.formula()?;
            return Ok(Formula::Or(Box::new(Formula::Not(Box::new(left))), Box::new(right)));
        }
        Ok(left)
    }

    fn disjunction(&mut self) -> Result<Formula, PropertyError> {
        let mut left = self.conjunction()?;
        while self.accepts_word("or") {
            left = Formula::Or(Box::new(left), Box::new(self.conjunction()?));
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Formula, PropertyError> {
        let mut left = self.until()?;
        while self.accepts_word("and") {
            left = Formula::And(Box::new(left), Box::new(self.until()?));
        }
        Ok(left)
    }

    fn until(&mut self) -> Result<Formula, PropertyError> {
        let left = self.unary()?;
        if self.accepts_word("U") {
            let bounds = self.bounds()?;
            return Ok(Formula::Until(bounds, Box::new(left), Box::new(self.unary()?)));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Formula, PropertyError> {
        if self.accepts("(") {
            let inner = self.formula()?;
            self.sign(")")?;
            return Ok(inner);
        }
        let start = self.position;
        if let Some((_, Token::Word(word))) = self.tokens.get(self.position) {
            let word = word.clone();
            self.position += 1;
            match word.as_str() {
                "not" => return Ok(Formula::Not(Box::new(self.unary()?))),
                "G" => {
                    let bounds = self.bounds()?;
                    return Ok(Formula::Globally(bounds, Box::new(self.unary()?)));
                }
                "F" => {
                    let bounds = self.bounds()?;
                    return Ok(Formula::Finally(bounds, Box::new(self.unary()?)));
                }
                "all" => return Ok(Formula::All(self.quantified()?)),
                "satisfied" => return Ok(Formula::Is(PacketState::Satisfied)),
                "dropped" => return Ok(Formula::Is(PacketState::Dropped)),
                "late" => return Ok(Formula::Is(PacketState::Late)),
                "nacked" => return Ok(Formula::Is(PacketState::Nacked)),
                "marked" => return Ok(Formula::Is(PacketState::Marked)),
                "latency" => {
                    let comparison = self.comparison()?;
                    return Ok(Formula::Latency(comparison, self.duration()?));
                }
                _ => self.position = start,
            }
        }
        let left = self.number()?;
        let comparison = self.comparison()?;
        Ok(Formula::Compare(left, comparison, self.number()?))
    }

    /// A formula in parentheses that ranges over the packets whose windows are complete.
    fn quantified(&mut self) -> Result<Box<Formula>, PropertyError> {
        self.sign("(")?;
        let column = self.column();
        let formula = self.formula()?;
        if formula.reach_ps() >= self.model.horizon_ps - self.model.warm_up_ps {
            let reason = "no packet has a complete window: nested bounds end after the trace does";
            return Err(PropertyError { column, reason: reason.into() });
        }
        self.sign(")")?;
        Ok(Box::new(formula))
    }

    fn number(&mut self) -> Result<Number, PropertyError> {
        let column = self.column();
        if let Some((_, Token::Quantity(text))) = self.tokens.get(self.position) {
            let text = text.clone();
            self.position += 1;
            let value = text.replace('_', "").parse().or_else(|_| units::duration_ps(&text));
            return value.map(Number::Constant).map_err(|reason| PropertyError { column, reason });
        }
        let word = self.word("a number")?;
        match word.as_str() {
            "share" | "count" => {
                let formula = self.quantified()?;
                Ok(if word == "share" { Number::Share(formula) } else { Number::Count(formula) })
            }
            "mean" => {
                self.sign("(")?;
                self.exact_word("latency")?;
                self.sign(")")?;
                Ok(Number::MeanLatency)
            }
            "quantile" => {
                self.sign("(")?;
                self.exact_word("latency")?;
                self.sign(",")?;
                let level = self.level()?;
                self.sign(")")?;
                Ok(Number::QuantileLatency(level))
            }
            "throughput" => Ok(Number::Throughput),
            "pit" => {
                self.sign(".")?;
                self.exact_word("max")?;
                if self.model.network.shards.iter().all(|shard| shard.pit_capacity.is_none()) {
                    let reason = "pit.max needs a model with a pit-capacity".into();
                    return Err(PropertyError { column, reason });
                }
                Ok(Number::PitMax)
            }
            "queue" => self.queue(),
            _ => Err(PropertyError { column, reason: format!("`{word}` is not an observable") }),
        }
    }

    fn queue(&mut self) -> Result<Number, PropertyError> {
        self.sign("[")?;
        let column = self.column();
        let Some((_, Token::Text(name))) = self.tokens.get(self.position).cloned() else {
            return Err(PropertyError {
                column,
                reason: "expected the name of a queue in quotes".into(),
            });
        };
        self.position += 1;
        let queues = &self.model.network.queues;
        let Some(index) = queues.iter().position(|queue| queue.name == name) else {
            let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
            let reason = format!("no queue \"{name}\": the model has {}", names.join(", "));
            return Err(PropertyError { column, reason });
        };
        self.sign("]")?;
        self.sign(".")?;
        let column = self.column();
        match self.word("max, dropped or wait")?.as_str() {
            "max" => Ok(Number::QueueMax(index)),
            "dropped" => Ok(Number::QueueDropped(index)),
            "wait" => Ok(Number::QueueWait(index)),
            other => {
                let reason = format!("a queue has max, dropped and wait, no `{other}`");
                Err(PropertyError { column, reason })
            }
        }
    }

    fn bounds(&mut self) -> Result<Bounds, PropertyError> {
        let column = self.column();
        if !self.accepts("[") {
            let reason = "time is bounded: write G[0, 5 ms], with a begin and an end".into();
            return Err(PropertyError { column, reason });
        }
        let from_ps = self.duration()? as u64;
        self.sign(",")?;
        let to_ps = self.duration()? as u64;
        self.sign("]")?;
        let length_ps = self.model.horizon_ps - self.model.warm_up_ps;
        if from_ps > to_ps || to_ps > length_ps {
            let reason = "bounds are in order, and end before the trace does".into();
            return Err(PropertyError { column, reason });
        }
        Ok(Bounds { from_ps, to_ps })
    }

    fn duration(&mut self) -> Result<f64, PropertyError> {
        let column = self.column();
        let Some((_, Token::Quantity(text))) = self.tokens.get(self.position).cloned() else {
            return Err(PropertyError {
                column,
                reason: "expected a duration such as 50 us".into(),
            });
        };
        self.position += 1;
        if text == "0" {
            return Ok(0.0);
        }
        units::duration_ps(&text).map_err(|reason| PropertyError { column, reason })
    }

    fn level(&mut self) -> Result<f64, PropertyError> {
        let column = self.column();
        let level = self.plain()?;
        if level > 0.0 && level < 1.0 {
            return Ok(level);
        }
        Err(PropertyError { column, reason: "a level lies strictly between 0 and 1".into() })
    }

    fn plain(&mut self) -> Result<f64, PropertyError> {
        let column = self.column();
        let number = match self.tokens.get(self.position) {
            Some((_, Token::Quantity(text))) => text.replace('_', "").parse().ok(),
            _ => None,
        };
        self.position += 1;
        number.ok_or_else(|| PropertyError {
            column,
            reason: "expected a number without a unit".into(),
        })
    }

    fn comparison(&mut self) -> Result<Comparison, PropertyError> {
        let column = self.column();
        for (sign, comparison) in COMPARISONS {
            if self.accepts(sign) {
                return Ok(comparison);
            }
        }
        Err(PropertyError { column, reason: "expected <, <=, > or >=".into() })
    }

    fn word(&mut self, expected: &str) -> Result<String, PropertyError> {
        let column = self.column();
        let Some((_, Token::Word(word))) = self.tokens.get(self.position).cloned() else {
            return Err(PropertyError { column, reason: format!("expected {expected}") });
        };
        self.position += 1;
        Ok(word)
    }

    fn exact_word(&mut self, expected: &str) -> Result<(), PropertyError> {
        let column = self.column();
        let word = self.word(expected)?;
        if word == expected {
            return Ok(());
        }
        Err(PropertyError { column, reason: format!("expected `{expected}`, not `{word}`") })
    }

    fn sign(&mut self, sign: &'static str) -> Result<(), PropertyError> {
        let column = self.column();
        if self.accepts(sign) {
            return Ok(());
        }
        Err(PropertyError { column, reason: format!("expected `{sign}`") })
    }

    fn accepts(&mut self, sign: &str) -> bool {
        let is = matches!(self.tokens.get(self.position), Some((_, Token::Sign(found))) if *found == sign);
        self.position += usize::from(is);
        is
    }

    fn accepts_word(&mut self, word: &str) -> bool {
        let is = matches!(self.tokens.get(self.position), Some((_, Token::Word(found))) if found == word);
        self.position += usize::from(is);
        is
    }

    fn expect_end(&self) -> Result<(), PropertyError> {
        if self.position >= self.tokens.len() {
            return Ok(());
        }
        Err(PropertyError {
            column: self.column(),
            reason: "expected the end of the property".into(),
        })
    }

    fn column(&self) -> usize {
        self.tokens.get(self.position).map_or(self.end, |(column, _)| *column)
    }
}

fn length_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "tests")]
    use super::*;
    use crate::file::tests::EXAMPLE;
    use crate::random::{StreamId, TraceRandom};

    fn model() -> Model {
        Model::parse(EXAMPLE).unwrap()
    }

    fn formula(text: &str) -> Formula {
        match Property::parse(&format!("P({text})"), &model()).unwrap() {
            Property::Probability(formula) => formula,
            other => panic!("{other:?}"),
        }
    }

    /// Packets at random times with random outcomes.
    fn records(trace: u32) -> Vec<Record> {
        let mut draw = TraceRandom::new(6, trace).draw(StreamId(0), 0);
        let mut time = 2_000_000_000;
        (0..40)
            .map(|_| {
                time += draw.below(3) * 1_000_000;
                let mut record = Record::new(time);
                record.ended_ps = time + draw.below(100) * 1_000_000;
                record.outcome = [Outcome::Satisfied, Outcome::QueueFull(0), Outcome::Late]
                    [draw.below(3) as usize];
                record
            })
            .collect()
    }

    /// The definition of the semantics, one packet at a time.
    fn holds_at(records: &[Record], formula: &Formula, at: usize) -> bool {
        let within = |bounds: &Bounds, other: usize| {
            let after = records[other].created_ps - records[at].created_ps;
            (bounds.from_ps..=bounds.to_ps).contains(&after)
        };
        let later = || at..records.len();
        match formula {
            Formula::Is(state) => state.is_of(&records[at]),
            Formula::Latency(comparison, bound) => comparison.holds(latency(&records[at]), *bound),
            Formula::Not(f) => !holds_at(records, f, at),
            Formula::And(f, g) => holds_at(records, f, at) && holds_at(records, g, at),
            Formula::Or(f, g) => holds_at(records, f, at) || holds_at(records, g, at),
            Formula::Globally(bounds, f) => {
                later().filter(|i| within(bounds, *i)).all(|i| holds_at(records, f, i))
            }
            Formula::Finally(bounds, f) => {
                later().filter(|i| within(bounds, *i)).any(|i| holds_at(records, f, i))
            }
            Formula::Until(bounds, f, g) => later().filter(|i| within(bounds, *i)).any(|i| {
                holds_at(records, g, i) && (at..i).all(|before| holds_at(records, f, before))
            }),
            Formula::Compare(..) | Formula::All(_) => unreachable!("not over packets"),
        }
    }

    #[test]
    fn temporal_formulas_mean_what_their_definition_says() {
        let formulas = [
            "G[0, 5 us] satisfied",
            "F[2 us, 6 us] dropped",
            "satisfied U[1 us, 9 us] late",
            "G[0, 8 us] (dropped -> F[0, 3 us] satisfied)",
            "not (latency <= 50 us and satisfied) or F[0, 0] late",
            "(satisfied or late) U[0, 4 us] (G[0, 2 us] not late)",
        ];
        let model = model();
        let mut both = [0, 0];
        for text in formulas {
            let formula = formula(text);
            for trace in 0..40 {
                let result =
                    TraceResult { records: records(trace), queues: vec![], pit_max: vec![] };
                let trace = Trace::new(&model, &result);
                for (at, actual) in trace.evaluate(&formula).into_iter().enumerate() {
                    assert_eq!(actual, holds_at(&result.records, &formula, at), "{text} at {at}");
                    both[usize::from(actual)] += 1;
                }
            }
        }
        assert!(both.iter().all(|count| *count > 500), "{both:?}");
    }

    #[test]
    fn numbers_of_a_trace_are_counted_after_the_warm_up() {
        let model = model();
        let mut records = records(1);
        records.insert(0, Record::new(5));
        let result = TraceResult { records, queues: vec![], pit_max: vec![] };
        let trace = Trace::new(&model, &result);
        let satisfied =
            result.records.iter().filter(|r| r.outcome == Outcome::Satisfied).count() as f64;
        let number = |text: &str| match Property::parse(&format!("E({text})"), &model).unwrap() {
            Property::Expectation(number) => trace.number(&number),
            other => panic!("{other:?}"),
        };
        assert_eq!(number("count(satisfied)"), satisfied);
        assert_eq!(number("share(satisfied)"), satisfied / 40.0);
        assert!((number("throughput") - satisfied / 0.009).abs() < 1e-6);
        assert!(trace.satisfies(&formula("share(satisfied) > 0.1 and not all(satisfied)")));
        assert_eq!(number("quantile(latency, 0.99)"), f64::INFINITY);
    }

    #[test]
    fn packets_without_a_complete_window_are_left_out() {
        let model = model();
        let at = |time_ps: u64, outcome| Record { outcome, ..Record::new(time_ps) };
        let ms = 1_000_000_000;
        let records = vec![
            at(2 * ms, Outcome::QueueFull(0)),
            at(3 * ms, Outcome::Satisfied),
            at(model.horizon_ps - ms, Outcome::QueueFull(0)),
        ];
        let result = TraceResult { records, queues: vec![], pit_max: vec![] };
        let trace = Trace::new(&model, &result);
        assert!(trace.satisfies(&formula("all(dropped -> F[0, 5 ms] satisfied)")));
        assert!(trace.satisfies(&formula("count(F[0, 5 ms] satisfied) >= 2")));
        assert!(trace.satisfies(&formula("share(F[0, 5 ms] satisfied) >= 1")));
        assert!(trace.satisfies(&formula("share(dropped) > 0.6")));
        assert!(!trace.satisfies(&formula("all(dropped -> F[0, 500 us] satisfied)")));
    }

    #[test]
    fn faults_have_a_column_and_a_reason() {
        let model = model();
        for (text, column, reason) in [
            ("P(G satisfied)", 5, "time is bounded"),
            ("P(unsatisfied)", 3, "not an observable"),
            ("P(share(satisfied) >= 0.9) >= 1", 31, "strictly between"),
            ("E(queue[\"nothing\"].max)", 9, "no queue"),
            ("P(G[0, 20 ms] satisfied)", 4, "end before the trace"),
            ("P(G[5 us, 1 us] satisfied)", 4, "in order"),
            ("P(all(F[0, 5 ms] F[0, 5 ms] late))", 7, "complete window"),
            ("P(latency < 5)", 13, "no unit"),
            ("E(share(satisfied)) extra", 21, "the end"),
            ("X(satisfied)", 1, "not P, E or Q"),
            ("P(satisfied", 12, "expected `)`"),
            ("E(pit.max)", 3, "pit-capacity"),
            ("P(satisfied & late)", 13, "unexpected `&`"),
        ] {
            let error = Property::parse(text, &model).unwrap_err();
            assert!(error.reason.contains(reason), "{text}: {error}");
            assert_eq!(error.column, column, "{text}: {error}");
        }
        let nested = format!("P({}satisfied{})", "(".repeat(20_000), ")".repeat(20_000));
        let error = Property::parse(&nested, &model).unwrap_err();
        assert!(error.reason.contains("at most 300"), "{error}");
    }
}
