//! The agent of a lab on another host: performs a host's part of runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use ndn_sys::clock::Clock;
use ndn_types::Timestamp;

use super::inputs::Inputs;
use super::network;
use super::outcome::RunFailure;
use crate::design::Run;
use crate::experiment::{Executor, Experiment, SeededRun};
use crate::hosts::{Assignment, Hello, Order, Report, VERSION};
use crate::leftovers;
use crate::network::Network;
use crate::testbed::{Driven, Part, Program, Testbed, place};

/// Performs the orders that arrive on `input`, and answers on `output`. When `input` ends, all programs are ended, all files
/// removed, and the process exits. The caller does the same ([`super::abandon`]) if this returns.
///
/// # Errors
/// An answer cannot be written.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write,
    clock: &Clock,
) -> Result<(), String> {
    leftovers::end_orphans();
    let (send, orders) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(input).lines() {
            // An order that is not understood is of another program, with which nothing can be done.
            let Some(order) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else {
                break;
            };
            if send.send(order).is_err() {
                break;
            }
        }
        super::abandon();
        std::process::exit(0);
    });
    let mut line = Line { orders, output };
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    line.send(&Report::Hello(Hello { version: VERSION.to_owned(), connection }))?;
    loop {
        match line.next()? {
            Order::Time => line.send(&Report::Time(clock.now().as_nanos()))?,
            Order::Version(name) => {
                let version = Program::parse(&name).and_then(Program::version);
                line.send(&version.map_or_else(failed, Report::Version))?;
            }
            Order::Prepare(assignment) => {
                let report = match perform(&assignment, &mut line, clock) {
                    Ok(driven) => Report::Driven(Box::new(driven)),
                    Err(RunFailure { reason, log }) => Report::Failed { reason, log },
                };
                line.send(&report)?;
            }
            Order::Stop => {}
            Order::Start(_) | Order::Drive { .. } => {
                line.send(&failed("there is no run".to_owned()))?;
            }
        }
    }
}

fn failed(reason: String) -> Report {
    Report::Failed { reason, log: String::new() }
}

/// The connection to the lab.
struct Line<W> {
    orders: Receiver<Order>,
    output: W,
}

impl<W: Write> Line<W> {
    fn next(&self) -> Result<Order, String> {
        self.orders.recv().map_err(|_| "the connection has ended".to_owned())
    }

    fn send(&mut self, report: &Report) -> Result<(), String> {
        let text = serde_json::to_string(report).map_err(|error| error.to_string())?;
        let written = writeln!(self.output, "{text}").and_then(|()| self.output.flush());
        written.map_err(|error| error.to_string())
    }
}

fn perform<W: Write>(
    assignment: &Assignment,
    line: &mut Line<W>,
    clock: &Clock,
) -> Result<Driven, RunFailure> {
    let experiment = Experiment::parse(&assignment.text).map_err(|fault| fault.to_string())?;
    let Executor::Network(executor) = &experiment.executor else {
        return Err("no experiment of networks".to_owned().into());
    };
    let Assignment { cell, replication, seed, .. } = *assignment;
    let run = SeededRun { run: Run { cell, replication, block: 0 }, seed };
    let inputs = Inputs::of_texts(&assignment.inputs);
    let nodes = (&assignment.nodes, assignment.host);
    let (experiment, run) = (&experiment, run);
    network::part((experiment, run), &inputs, executor, nodes, |testbed, network| {
        perform_part((testbed, network), assignment, line, clock)
    })
}

/// Starts the forwarders, performs the requests and ends the forwarders.
fn perform_part<W: Write>(
    (testbed, network): (Testbed, &Network<'_>),
    assignment: &Assignment,
    line: &mut Line<W>,
    clock: &Clock,
) -> Result<Driven, RunFailure> {
    let Assignment { id, nodes, cell, replication, host, .. } = assignment;
    let end = clock.now().since(Timestamp::ZERO) + Duration::from_millis(assignment.limit_ms);
    let ports = place::free_ports(nodes.len(), network.seed);
    line.send(&Report::Ports(ports.map_err(|error| format!("ports: {error}"))?))?;
    let Order::Start(endpoints) = line.next()? else {
        return Err("another order than to start".to_owned().into());
    };
    let permission = leftovers::starting();
    let directory = leftovers::directory(&permission);
    drop(permission);
    let directory = directory.map_err(|error| format!("temporary directory: {error}"))?;
    // Two names may be the same machine.
    let mark = format!("{id}-{cell}-{replication}-{host}");
    let mut part = Part::new(testbed, network, clock);
    let mut drive = || -> Result<Driven, String> {
        part.start(nodes, (directory.path(), &mark), &endpoints, None)?;
        part.read()?;
        line.send(&Report::Started)?;
        let Order::Drive { origin_ns } = line.next()? else {
            return Err("another order than to begin the load".to_owned());
        };
        let mut is_reported = false;
        part.drive(Duration::from_nanos(origin_ns), end, || {
            if !is_reported {
                is_reported = true;
                // If the lab has gone, this process ends.
                let _ = line.send(&Report::Complete);
            }
            !matches!(line.orders.try_recv(), Err(TryRecvError::Empty))
        })
    };
    let driven = drive();
    let log = driven.as_ref().map_or_else(|_| part.log(), |_| String::new());
    drop(part);
    leftovers::end_processes(&mark);
    // Blocks if the forwarders were ended by the end of the connection.
    drop(leftovers::starting());
    driven.map_err(|reason| RunFailure { reason, log })
}
