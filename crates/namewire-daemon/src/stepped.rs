//! A forwarder without threads: the embedding program steps it.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use namewire_control::LedgerStatus;
use ndn_dataplane::{Dataplane, MemoryFaceOptions, SteppedWorker, WorkerLedgers, WorkerView};
use ndn_face::InternalEnd;
use ndn_forwarding::Counters;
use ndn_management::ControlState;
#[cfg(feature = "planted-faults")]
use ndn_management::{FibUpdate, NextHop};
use ndn_packet::Name;
use ndn_sys::poll::{Events, Poller};
use ndn_types::Timestamp;
use ndn_types::random::Random;

use crate::calls::Calls;
use crate::config::Config;
use crate::control::management::LocalAnswer;
use crate::control::{Control, EVENTS_PER_ROUND, Parts, Reason};
use crate::environment::{Environment, now};
use crate::forwarder::{forwarding_tables, refused};
use crate::listeners::Listeners;
use crate::plan::Plan;
use crate::settings;
use ndn_management::{CallError, Management};

/// A complete forwarder, control plane and workers, that runs only in [`step`](Self::step). It never waits and opens
/// only the sockets that its configuration names. It has no control socket.
///
/// A simulation steps all its forwarders until none did anything, then advances their clock to the earliest
/// [`next_deadline`](Self::next_deadline).
#[derive(Debug)]
pub struct SteppedForwarder {
    control: Control,
    workers: Vec<SteppedWorker>,
    /// The number of the worker that is not stepped.
    stalled: Option<usize>,
    /// The order of a step: 0 is the control thread, others are a worker each.
    order: Vec<usize>,
    /// Draws the order of each step.
    random: Option<Random>,
    ready: Events,
}

/// Maximum steps until a call is answered; more indicate a fault.
const CALL_STEPS_MAX: usize = 10_000;

impl SteppedForwarder {
    /// Creates a forwarder on this clock with these seeds.
    ///
    /// # Errors
    /// All settings that cannot be used, or the reason why the forwarder cannot start.
    pub fn new(config: &Config, environment: &Environment) -> anyhow::Result<Self> {
        let plan = Plan::embedded(config, &environment.clock);
        let Plan {
            management,
            key_chain,
            places,
            #[cfg(feature = "vip")]
            vip,
        } = plan.map_err(|faults| refused(&faults))?;
        let with_faces = places.iter().filter(|place| place.roles.has_faces()).count();
        let mut listeners = Listeners::open(config, with_faces, environment.seeds.peer_spread)?;
        let mut tables = forwarding_tables(config, environment);
        let (fib, strategies) = tables.initial();
        let udp = listeners.take_udp();
        let options = settings::dataplane_options(config, &places, udp, environment);
        let (dataplane, workers) = Dataplane::stepped(options, fib, strategies)?;
        // No other thread calls.
        let (_, calls) = Calls::new()?;
        let parts = Parts {
            clock: environment.clock.clone(),
            poller: Poller::stepped()?,
            has_link_monitor: false,
            management,
            key_chain,
            dataplane,
            tables,
            listeners,
            calls,
            own: Vec::new(),
            #[cfg(feature = "vip")]
            vip,
        };
        let ready = Events::with_capacity(EVENTS_PER_ROUND);
        let order = (0..=workers.len()).collect();
        let control = Control::new(config, parts)?;
        Ok(Self { control, workers, stalled: None, order, random: None, ready })
    }

    /// Draws the order of the control thread and the workers in each step from now on, as the scheduler of a kernel may have
    /// it. Without this call, the control thread is first and the workers follow by number.
    pub fn shuffle_steps(&mut self, seed: u64) {
        self.random = Some(Random::new(seed, 0));
    }

    /// Handles what is ready or due at the current time of the clock. Returns whether there was work.
    ///
    /// # Errors
    /// A worker has ended by a fault of its own.
    pub fn step(&mut self) -> anyhow::Result<bool> {
        if let Some(random) = &mut self.random {
            for (last, count) in
                (1..self.order.len()).rev().zip((2..=self.order.len() as u64).rev())
            {
                let drawn = usize::try_from(random.below(count)).unwrap_or(last);
                self.order.swap(last, drawn);
            }
        }
        let mut is_active = false;
        for part in &self.order {
            is_active |= match part.checked_sub(1) {
                None => self.control.step(&mut self.ready)?,
                Some(number) => Some(number) != self.stalled && self.workers[number].step(),
            };
        }
        Ok(is_active)
    }

    /// Does not step a worker from now on, as if its thread got no processor; `None` steps all again. Calls of management
    /// that wait for this worker are not answered meanwhile.
    pub fn stall(&mut self, worker: Option<usize>) {
        self.stalled = worker;
    }

    /// Time and reason of the next [`step`](Self::step) if no frame arrives before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<(Timestamp, Reason)> {
        let workers = self.workers.iter().enumerate();
        let workers = workers.filter(|(number, _)| Some(*number) != self.stalled);
        let workers =
            workers.filter_map(|(_, worker)| Some((worker.next_deadline()?, Reason::Worker)));
        workers.chain(self.control.next_deadline()).min_by_key(|(at, _)| *at)
    }

    /// Creates a face whose frames go through queues in this process. Steps the forwarder until management knows it.
    ///
    /// # Errors
    /// No file descriptor is left, or the limit of faces is reached.
    pub fn add_memory_face(
        &mut self,
        options: &MemoryFaceOptions,
    ) -> Result<(u64, InternalEnd), CallError> {
        let no_answer = |error: std::io::Error| CallError::NoAnswer(error.to_string());
        let (near, far) = InternalEnd::pair(options.queue_frames_max).map_err(no_answer)?;
        let (answer, answered) = sync_channel(1);
        self.control.add_memory_face(options, near, answer);
        let added = self.step_until(|| answered.try_recv().ok())?;
        Ok((added.map_err(no_answer)?, far))
    }

    /// The authoritative tables: RIB, FIB, strategy choices, faces.
    #[must_use]
    pub fn state(&self) -> &ControlState {
        self.control.state()
    }

    /// The FaceIds of the next hops of exactly `prefix`, in the FIB that each worker reads. Faces that are closed are left out.
    #[must_use]
    pub fn next_hops(&self, prefix: &Name) -> Vec<Vec<u64>> {
        let face_id = |face| self.workers.iter().find_map(|worker| worker.face_id(face));
        let of_worker = |worker: &SteppedWorker| {
            worker.next_hops(prefix.as_ref()).into_iter().filter_map(face_id).collect()
        };
        self.workers.iter().map(of_worker).collect()
    }

    /// Counts and scores of VIP, if it is enabled.
    #[cfg(feature = "vip")]
    #[must_use]
    pub fn vip(&self) -> Option<namewire_control::VipStatus> {
        self.control.vip_status()
    }

    /// Sum of the counters of all workers.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.control.dataplane().counters()
    }

    /// The counters of each worker.
    #[must_use]
    pub fn workers(&self) -> &[WorkerView] {
        self.control.dataplane().workers()
    }

    /// The workers, for faults that a simulation plants.
    #[cfg(feature = "planted-faults")]
    pub fn workers_mut(&mut self) -> &mut [SteppedWorker] {
        &mut self.workers
    }

    /// Plants a fault: `face_id` becomes the only next hop of `prefix` in the FIB of the workers, without a route.
    #[cfg(feature = "planted-faults")]
    pub fn corrupt_next_hop(&mut self, prefix: &Name, face_id: u64) {
        let next_hops = vec![NextHop { face_id, cost: 0 }];
        let updates = vec![FibUpdate::Set { prefix: prefix.clone(), next_hops }];
        self.control.update_fib(updates);
    }

    /// Resources that principals hold in each worker.
    #[must_use]
    pub fn ledgers(&self) -> Vec<WorkerLedgers> {
        self.workers.iter().filter_map(SteppedWorker::ledgers).collect()
    }

    /// The resources that principals hold, as `namewire limits` shows them.
    #[must_use]
    pub fn limits(&self) -> LedgerStatus {
        let mut sum = self.control.held();
        self.ledgers().iter().for_each(|ledgers| sum.add_of_worker(ledgers));
        sum.into_status()
    }

    /// Plants a fault: routes are first come, first served.
    #[cfg(feature = "planted-faults")]
    pub fn stop_sharing_routes(&mut self) {
        self.control.state_mut().stop_sharing_routes();
    }

    /// Plants a fault: a route is charged, and never given back.
    #[cfg(feature = "planted-faults")]
    pub fn leak_route(&mut self) {
        self.control.state_mut().leak_route();
    }

    /// Returns spare and partly filled packet blocks to the pools of the workers. Returns the number of blocks in use
    /// afterwards, which have packets.
    pub fn release_blocks(&mut self) -> u32 {
        self.workers.iter_mut().for_each(SteppedWorker::release_blocks);
        self.workers.iter().map(SteppedWorker::blocks_in_use).sum()
    }

    /// Queues a management Interest; [`PendingCall::poll`] returns its Data after some steps.
    pub fn begin_call(&mut self, interest: Vec<u8>) -> PendingCall {
        let (answer, receiver) = sync_channel(1);
        self.control.handle_local_interest(&interest, answer);
        PendingCall(receiver)
    }

    /// Steps at the current time of the clock until there is a result.
    fn step_until<T>(&mut self, result: impl Fn() -> Option<T>) -> Result<T, CallError> {
        for _ in 0..CALL_STEPS_MAX {
            let is_active = self.step();
            let is_active = is_active.map_err(|error| CallError::NoAnswer(format!("{error:#}")))?;
            if let Some(result) = result() {
                return Ok(result);
            }
            if !is_active {
                break;
            }
        }
        Err(CallError::NoAnswer("there is no answer before time passes".to_owned()))
    }

    /// Stops the workers and closes all faces.
    ///
    /// # Errors
    /// A worker has ended by a fault of its own.
    pub fn shut_down(self) -> anyhow::Result<()> {
        self.control.finish()
    }
}

/// A call without a result yet.
#[derive(Debug)]
pub struct PendingCall(Receiver<LocalAnswer>);

impl PendingCall {
    /// Returns the Data or the error; `None` before management has answered.
    pub fn poll(&self) -> Option<Result<Vec<u8>, CallError>> {
        match self.0.try_recv() {
            Ok(answer) => Some(answer.map_err(CallError::NoAnswer)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(CallError::Stopping)),
        }
    }
}

impl Management for SteppedForwarder {
    /// Steps this forwarder at the current time of the clock until management has answered.
    fn exchange(&mut self, interest: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let call = self.begin_call(interest);
        self.step_until(|| call.poll())?
    }

    fn nonce(&mut self) -> u32 {
        ndn_management::nonce_at(self.control.clock().now())
    }

    fn unix_ms(&self) -> u64 {
        now(self.control.clock()).unix_ms()
    }
}
