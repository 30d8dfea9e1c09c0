//! The reference engine: atomic components, interactions and priorities, in the manner of BIP.
//!
//! This engine is the semantics of every model. It is written to be read, not to be fast; the fast
//! engine is checked against it packet by packet.
//!
//! * A [`Component`] has control states, ports, variables and transitions. A transition is labelled with a
//!   port; it may have a guard over the variables, a delay, and an action.
//! * A delay is evaluated whenever the component enters the state that the transition leaves, also by a
//!   transition that stays in it. A transition without one is ready at once.
//! * An [`Interaction`] joins ports of several components. It is enabled when each of them has a ready
//!   transition with that port whose guard holds, and its own guard holds. It fires as soon as it is
//!   enabled: first its transfer moves data between the components, then each transition's action runs.
//! * Of interactions enabled at the same instant, the one with the highest priority fires first, then the
//!   one that was added first. Each firing may enable or disable others.
//!
//! Sources: Basu, Bozga, Sifakis: "Modeling Heterogeneous Real-time Components in BIP", SEFM 2006; Nouri et
//! al.: "Statistical model checking QoS properties of systems with SBIP", STTT 2015. Unlike SBIP, a
//! conflict is never resolved by an unnamed random choice: a model that wants one draws it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::TraceRandom;

/// A control state of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateId(usize);

/// A port of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortId(usize);

/// A component of a composition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComponentId(usize);

/// An interaction of a composition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InteractionId(pub usize);

/// The present instant, and the random numbers of the trace.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Simulated time, in picoseconds.
    pub time_ps: u64,
    /// The random numbers of this trace.
    pub random: TraceRandom,
}

type Guard<V> = Box<dyn Fn(&V) -> bool>;
type Delay<V> = Box<dyn Fn(&V, Now) -> u64>;
type Action<V> = Box<dyn Fn(&mut V, Now)>;
type JointGuard<V> = Box<dyn Fn(&[&V]) -> bool>;
type Transfer<V> = Box<dyn Fn(&mut [V], Now)>;

/// A step of a component from one state to another through a port.
pub struct Transition<V> {
    from: StateId,
    port: PortId,
    to: StateId,
    guard: Option<Guard<V>>,
    delay: Option<Delay<V>>,
    action: Option<Action<V>>,
}

impl<V> Transition<V> {
    /// A transition without guard, delay and action.
    #[must_use]
    pub const fn new(from: StateId, port: PortId, to: StateId) -> Self {
        Self { from, port, to, guard: None, delay: None, action: None }
    }

    /// Allows the transition only while `guard` holds.
    #[must_use]
    pub fn guard(mut self, guard: impl Fn(&V) -> bool + 'static) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Makes the transition ready this long (in picoseconds) after its state was entered.
    #[must_use]
    pub fn delay(mut self, delay: impl Fn(&V, Now) -> u64 + 'static) -> Self {
        self.delay = Some(Box::new(delay));
        self
    }

    /// Changes the variables when the transition is taken.
    #[must_use]
    pub fn action(mut self, action: impl Fn(&mut V, Now) + 'static) -> Self {
        self.action = Some(Box::new(action));
        self
    }
}

impl<V> core::fmt::Debug for Transition<V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Transition({} -{}-> {})", self.from.0, self.port.0, self.to.0)
    }
}

/// An atomic component with variables of type `V`. Its first state is the initial one.
#[derive(Debug)]
pub struct Component<V> {
    name: String,
    states: Vec<&'static str>,
    ports: Vec<&'static str>,
    transitions: Vec<Transition<V>>,
    variables: V,
}

impl<V> Component<V> {
    /// A component without states, ports and transitions.
    #[must_use]
    pub fn new(name: impl Into<String>, variables: V) -> Self {
        Self {
            name: name.into(),
            states: Vec::new(),
            ports: Vec::new(),
            transitions: Vec::new(),
            variables,
        }
    }

    /// Adds a control state.
    pub fn state(&mut self, name: &'static str) -> StateId {
        self.states.push(name);
        StateId(self.states.len() - 1)
    }

    /// Adds a port.
    pub fn port(&mut self, name: &'static str) -> PortId {
        self.ports.push(name);
        PortId(self.ports.len() - 1)
    }

    /// Adds a transition. Of several with the same port, the first whose guard holds counts.
    pub fn transition(&mut self, transition: Transition<V>) {
        self.transitions.push(transition);
    }
}

/// Ports of several components that act together.
pub struct Interaction<V> {
    name: String,
    participants: Vec<(ComponentId, PortId)>,
    priority: u32,
    guard: Option<JointGuard<V>>,
    transfer: Option<Transfer<V>>,
}

impl<V> Interaction<V> {
    /// An interaction of `participants` with priority 0.
    #[must_use]
    pub fn new(name: impl Into<String>, participants: Vec<(ComponentId, PortId)>) -> Self {
        Self { name: name.into(), participants, priority: 0, guard: None, transfer: None }
    }

    /// Lets it fire before enabled interactions of lower priority.
    #[must_use]
    pub const fn priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Allows the interaction only while `guard` holds over the participants' variables, in order.
    #[must_use]
    pub fn guard(mut self, guard: impl Fn(&[&V]) -> bool + 'static) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Moves data between the participants' variables, in order, before their actions.
    #[must_use]
    pub fn transfer(mut self, transfer: impl Fn(&mut [V], Now) + 'static) -> Self {
        self.transfer = Some(Box::new(transfer));
        self
    }
}

impl<V> core::fmt::Debug for Interaction<V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Interaction({} of {:?})", self.name, self.participants)
    }
}

/// Components and their interactions.
#[derive(Debug)]
pub struct Composition<V> {
    components: Vec<Component<V>>,
    interactions: Vec<Interaction<V>>,
}

impl<V> Default for Composition<V> {
    fn default() -> Self {
        Self { components: Vec::new(), interactions: Vec::new() }
    }
}

impl<V> Composition<V> {
    /// Adds a component.
    pub fn component(&mut self, component: Component<V>) -> ComponentId {
        self.components.push(component);
        ComponentId(self.components.len() - 1)
    }

    /// Adds an interaction.
    pub fn interaction(&mut self, interaction: Interaction<V>) -> InteractionId {
        self.interactions.push(interaction);
        InteractionId(self.interactions.len() - 1)
    }

    /// Describes every component, its states, ports and transitions, for a reader.
    #[must_use]
    pub fn describe(&self) -> String {
        use core::fmt::Write;
        let mut text = String::new();
        for component in &self.components {
            let _ = writeln!(text, "component {}: states {:?}", component.name, component.states);
            for transition in &component.transitions {
                let _ = writeln!(
                    text,
                    "  {} --{}{}{}--> {}",
                    component.states[transition.from.0],
                    component.ports[transition.port.0],
                    if transition.guard.is_some() { " [guarded]" } else { "" },
                    if transition.delay.is_some() { " after a delay" } else { "" },
                    component.states[transition.to.0],
                );
            }
        }
        for interaction in &self.interactions {
            let ports: Vec<String> = interaction
                .participants
                .iter()
                .map(|(component, port)| {
                    let component = &self.components[component.0];
                    format!("{}.{}", component.name, component.ports[port.0])
                })
                .collect();
            let _ = writeln!(
                text,
                "interaction {} (priority {}): {}",
                interaction.name,
                interaction.priority,
                ports.join(" + ")
            );
        }
        text
    }
}

/// A firing of an interaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firing {
    /// When it fired.
    pub time_ps: u64,
    /// Which interaction it was.
    pub interaction: InteractionId,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The next interaction lies after the end of the run.
    TimeReached,
    /// No interaction is or will be enabled.
    Quiescent,
    /// More interactions fired at one instant than the limit: time does not advance.
    TimeStopped {
        /// The instant.
        time_ps: u64,
    },
}

/// When an interaction is enabled, its priority, its number, and its version.
type Scheduled = (u64, Reverse<u32>, usize, u64);

/// More firings than this at one instant end the run.
pub const FIRINGS_PER_INSTANT_MAX: u32 = 1_000_000;

/// Runs one trace of a composition.
pub struct Engine<V> {
    composition: Composition<V>,
    /// Control state of each component.
    states: Vec<StateId>,
    /// When each transition of each component is ready; only meaningful for those that leave the state.
    ready_ps: Vec<Vec<u64>>,
    /// The interactions that each component takes part in.
    touched: Vec<Vec<usize>>,
    /// Entries of the heap with another version than their interaction's are out of date.
    versions: Vec<u64>,
    heap: BinaryHeap<Reverse<Scheduled>>,
    now: Now,
    firings_of_instant: u32,
}

impl<V> core::fmt::Debug for Engine<V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Engine(at {} ps)", self.now.time_ps)
    }
}

impl<V> Engine<V> {
    /// An engine at time 0 with every component in its first state.
    #[must_use]
    pub fn new(composition: Composition<V>, random: TraceRandom) -> Self {
        let mut touched = vec![Vec::new(); composition.components.len()];
        for (index, interaction) in composition.interactions.iter().enumerate() {
            for (component, _) in &interaction.participants {
                touched[component.0].push(index);
            }
        }
        let mut engine = Self {
            states: vec![StateId(0); composition.components.len()],
            ready_ps: composition.components.iter().map(|c| vec![0; c.transitions.len()]).collect(),
            touched,
            versions: vec![0; composition.interactions.len()],
            heap: BinaryHeap::new(),
            now: Now { time_ps: 0, random },
            firings_of_instant: 0,
            composition,
        };
        for component in 0..engine.states.len() {
            engine.enter(component);
        }
        for interaction in 0..engine.versions.len() {
            engine.schedule(interaction);
        }
        engine
    }

    /// The variables of a component.
    #[must_use]
    pub fn variables(&self, component: ComponentId) -> &V {
        &self.composition.components[component.0].variables
    }

    /// Fires interactions until `end_ps`, and reports each to `observe`.
    pub fn run(&mut self, end_ps: u64, mut observe: impl FnMut(Firing, &Self)) -> RunEnd
    where
        V: Default,
    {
        while let Some(Reverse((time_ps, _, interaction, version))) = self.heap.peek().copied() {
            if version != self.versions[interaction] {
                self.heap.pop();
                continue;
            }
            if time_ps > end_ps {
                return RunEnd::TimeReached;
            }
            self.heap.pop();
            if time_ps > self.now.time_ps {
                self.now.time_ps = time_ps;
                self.firings_of_instant = 0;
            }
            self.firings_of_instant += 1;
            if self.firings_of_instant > FIRINGS_PER_INSTANT_MAX {
                return RunEnd::TimeStopped { time_ps };
            }
            self.fire(interaction);
            observe(Firing { time_ps, interaction: InteractionId(interaction) }, self);
        }
        RunEnd::Quiescent
    }

    fn fire(&mut self, index: usize)
    where
        V: Default,
    {
        let now = self.now;
        let participants = self.composition.interactions[index].participants.clone();
        let taken: Vec<usize> = participants
            .iter()
            .map(|(component, port)| {
                let found = self.ready_transition(component.0, *port);
                found.expect("an enabled interaction has a transition of each participant").0
            })
            .collect();
        if let Some(transfer) = &self.composition.interactions[index].transfer {
            let mut variables: Vec<V> = participants
                .iter()
                .map(|(component, _)| {
                    std::mem::take(&mut self.composition.components[component.0].variables)
                })
                .collect();
            transfer(&mut variables, now);
            for ((component, _), changed) in participants.iter().zip(variables) {
                self.composition.components[component.0].variables = changed;
            }
        }
        for ((component, _), transition) in participants.iter().zip(taken) {
            let component = component.0;
            let Component { transitions, variables, .. } =
                &mut self.composition.components[component];
            let transition = &transitions[transition];
            if let Some(action) = &transition.action {
                action(variables, now);
            }
            self.states[component] = transition.to;
            self.enter(component);
        }
        for (component, _) in &participants {
            for position in 0..self.touched[component.0].len() {
                self.schedule(self.touched[component.0][position]);
            }
        }
    }

    /// Evaluates the delays of the transitions that leave the component's state.
    fn enter(&mut self, component: usize) {
        let Component { transitions, variables, .. } = &self.composition.components[component];
        for (transition, ready_ps) in transitions.iter().zip(&mut self.ready_ps[component]) {
            if transition.from == self.states[component] {
                let delay = transition.delay.as_ref().map_or(0, |delay| delay(variables, self.now));
                *ready_ps = self.now.time_ps.saturating_add(delay);
            }
        }
    }

    /// Puts the interaction on the heap for when it will be enabled, if no participant changes before.
    fn schedule(&mut self, index: usize) {
        self.versions[index] += 1;
        let interaction = &self.composition.interactions[index];
        let mut enabled_ps = self.now.time_ps;
        for (component, port) in &interaction.participants {
            let Some((_, ready_ps)) = self.ready_transition(component.0, *port) else { return };
            enabled_ps = enabled_ps.max(ready_ps);
        }
        if let Some(guard) = &interaction.guard {
            let components = &self.composition.components;
            let variables: Vec<&V> =
                interaction.participants.iter().map(|(c, _)| &components[c.0].variables).collect();
            if !guard(&variables) {
                return;
            }
        }
        if enabled_ps == u64::MAX {
            return;
        }
        self.heap.push(Reverse((
            enabled_ps,
            Reverse(interaction.priority),
            index,
            self.versions[index],
        )));
    }

    /// The first transition with `port` whose guard holds, and when it is ready.
    fn ready_transition(&self, component: usize, port: PortId) -> Option<(usize, u64)> {
        let Component { transitions, variables, .. } = &self.composition.components[component];
        let index = transitions.iter().position(|transition| {
            transition.port == port
                && transition.from == self.states[component]
                && transition.guard.as_ref().is_none_or(|guard| guard(variables))
        })?;
        Some((index, self.ready_ps[component][index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::StreamId;

    fn random() -> TraceRandom {
        TraceRandom::new(1, 0)
    }

    /// A component that counts how often its only port fired.
    fn counter(limit: i64) -> (Component<i64>, PortId) {
        let mut component = Component::new("counter", 0);
        let only = component.state("only");
        let tick = component.port("tick");
        let step = Transition::new(only, tick, only);
        component.transition(step.guard(move |n| *n < limit).action(|n, _| *n += 1));
        (component, tick)
    }

    #[test]
    fn components_synchronise_and_exchange_data_at_ports() {
        let mut composition = Composition::default();
        let (left, tick) = counter(3);
        let left = composition.component(left);
        let (right, _) = counter(100);
        let right = composition.component(right);
        composition.interaction(
            Interaction::new("both", vec![(left, tick), (right, tick)])
                .transfer(|variables, _| variables[1] += 10 * variables[0]),
        );
        let mut engine = Engine::new(composition, random());
        assert_eq!(engine.run(0, |_, _| {}), RunEnd::Quiescent);
        assert_eq!(*engine.variables(left), 3);
        // Each firing adds ten times the left count before its own step: 1, then 12, then 33.
        assert_eq!(*engine.variables(right), 33);
    }

    #[test]
    fn higher_priority_fires_first_then_order_of_addition() {
        let mut composition = Composition::default();
        let (component, tick) = counter(1);
        let first = composition.component(component);
        let mut add = |name: &str, priority| {
            let (component, tick) = counter(1);
            let other = composition.component(component);
            let parts = vec![(first, tick), (other, tick)];
            composition.interaction(Interaction::new(name, parts).priority(priority))
        };
        let _low = add("low", 0);
        let high = add("high", 5);
        let _late = add("late", 5);
        let _ = tick;
        let mut fired = Vec::new();
        let mut engine = Engine::new(composition, random());
        engine.run(0, |firing, _| fired.push(firing.interaction));
        assert_eq!(fired, [high], "the others need the same component, which steps once");
    }

    #[test]
    fn time_that_does_not_advance_is_reported() {
        let mut composition = Composition::default();
        let (component, tick) = counter(i64::MAX);
        let component = composition.component(component);
        composition.interaction(Interaction::new("alone", vec![(component, tick)]));
        let mut engine = Engine::new(composition, random());
        assert_eq!(engine.run(1, |_, _| {}), RunEnd::TimeStopped { time_ps: 0 });
    }

    #[test]
    fn a_delay_starts_when_the_state_is_entered() {
        let mut composition = Composition::default();
        let mut component = Component::new("clock", 0i64);
        let wait = component.state("wait");
        let tick = component.port("tick");
        let step = Transition::new(wait, tick, wait);
        component.transition(
            step.delay(|n, now| {
                let jitter = now.random.draw(StreamId(0), *n as u64).below(1);
                100 + jitter
            })
            .action(|n, _| *n += 1),
        );
        let clock = composition.component(component);
        composition.interaction(Interaction::new("tick", vec![(clock, tick)]));
        let text = composition.describe();
        assert!(text.contains("wait --tick after a delay--> wait"), "{text}");
        let mut times = Vec::new();
        let mut engine = Engine::new(composition, random());
        assert_eq!(engine.run(350, |firing, _| times.push(firing.time_ps)), RunEnd::TimeReached);
        assert_eq!(times, [100, 200, 300]);
        assert_eq!(*engine.variables(clock), 3);
    }
}
