//! The managed forwarder: its configuration, its routes and faces, its traffic.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use ndn_management::{CommandBuilder, ControlParameters, Verb};
use ndn_packet::{Component, Name};
use ndn_security::{Certificate, CertificateOptions, KeyType, PrivateKey, SELF, key_name};
use ndn_traffic::io::Endpoint;

use super::super::addresses::Addresses;
use super::super::generator::Generator;
use super::super::program::Program;
use super::super::programs::{CS_CAPACITY, Running};
use super::super::statistics::to_f64;
use super::super::wire::{PREFIX, split_tlv};
use super::super::{Transport, attach, clock};
use super::report::{ManagementOptions, PAYLOAD, TURNS, WINDOW};
use crate::started::Folder;

/// Maximum commands in flight while the tables are filled.
const FILL_WINDOW: u32 = 200;
/// Prefix that a hostile command would register if it were obeyed.
pub(super) const HOSTILE_PREFIX: &str = "hostile";

/// A forwarder under test.
#[derive(Debug)]
pub(super) struct Subject {
    running: Running,
    pub(super) addresses: Addresses,
    /// Face of the FIB entries, which would be removed with it.
    operator: Option<UnixStream>,
    fib_entries: u32,
    /// Removed after the end of the program.
    _folder: Folder,
}

impl Subject {
    /// Starts and fills the forwarder, and connects consumer and producer.
    pub(super) fn start(options: &ManagementOptions) -> anyhow::Result<(Self, Generator)> {
        // The worker pins itself to its processor; the other threads use the remaining one.
        let subject = Self::launch(options, "subject", [options.cpus[0], options.cpus[2]], 0)?;
        let producer = UnixStream::connect(subject.addresses.socket())?;
        let mut name = Name::default();
        name.push_generic(PREFIX);
        let route = ControlParameters { name: Some(name), ..ControlParameters::default() };
        attach::command(&producer, "fib", "add-nexthop", &route)?;
        let consumer = UnixStream::connect(subject.addresses.socket())?;
        let consumers = vec![Endpoint::stream(OwnedFd::from(consumer))?];
        let producer = Endpoint::stream(OwnedFd::from(producer))?;
        let mut generator = Generator::new(consumers, producer, 1);
        generator.reshape(WINDOW, PAYLOAD, false);
        // Until the Content Store has evicted twice its capacity.
        generator.run(Duration::ZERO, u64::from(3 * CS_CAPACITY / WINDOW) + TURNS)?;
        Ok((subject, generator))
    }

    /// Starts another forwarder with the same tables and no traffic, outside the processors of the worker and the
    /// generator: changes during lists of it are not due to the measured forwarder.
    pub(super) fn start_elsewhere(options: &ManagementOptions) -> anyhow::Result<Self> {
        Self::launch(options, "elsewhere", [options.cpus[2]; 2], 1)
    }

    /// Starts and fills a forwarder on two processors, of which the worker uses the first.
    fn launch(
        options: &ManagementOptions,
        label: &str,
        cpus: [usize; 2],
        port_offset: u16,
    ) -> anyhow::Result<Self> {
        let folder = Folder::new(&format!("namewire-management-{}-{label}", std::process::id()))?;
        let port = options.first_port + port_offset;
        let addresses = Addresses {
            folder: folder.path().to_owned(),
            udp_port: port,
            producer_port: port,
            consumer_ports: Vec::new(),
            transport: Transport::Udp,
            link: None,
            settings: "",
            cs_packets: CS_CAPACITY,
            workers: 1,
        };
        fs::write(folder.path().join("root.cert"), anchor()?)?;
        let config = folder.path().join("namewire.toml");
        fs::write(&config, configuration(cpus[0], &addresses))?;
        let mut command = Command::new(crate::program::namewire()?);
        command.arg("run").arg("--config").arg(config);
        let running = Running::spawn(command, folder.path().join("namewire.log"), &cpus)?;
        let fib_entries = options.fib_entries;
        let mut subject = Self { running, addresses, operator: None, fib_entries, _folder: folder };
        subject.running.await_listening(Program::Namewire, &subject.addresses)?;
        subject.operator = Some(subject.fill(options)?);
        Ok(subject)
    }

    /// Creates the FIB entries and faces to list.
    fn fill(&self, options: &ManagementOptions) -> anyhow::Result<UnixStream> {
        let operator = UnixStream::connect(self.addresses.socket())?;
        operator.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut filler = Filler { stream: &operator, on_the_way: 0, buffer: Vec::new() };
        for number in 0..options.faces {
            // Nothing is sent there; the face is only listed.
            let uri = format!("udp4://127.{}.{}.1:6363", 1 + number / 250, number % 250);
            let parameters = ControlParameters { uri: Some(uri), ..ControlParameters::default() };
            filler.send(Verb::FaceCreate, &parameters)?;
        }
        for number in 0..options.fib_entries {
            let name = Some(format!("/fib/site-{}/router-{number}", number % 1000).parse()?);
            let parameters = ControlParameters {
                name,
                cost: Some(u64::from(number)),
                ..ControlParameters::default()
            };
            filler.send(Verb::FibAddNextHop, &parameters)?;
        }
        filler.wait_for(0)?;
        Ok(operator)
    }

    pub(super) fn resident_mib(&self) -> anyhow::Result<f64> {
        Ok(to_f64(self.running.resident_bytes()?) / f64::from(1 << 20))
    }

    /// Returns the CPU time of its worker.
    pub(super) fn worker_cpu_ns(&self) -> anyhow::Result<u64> {
        self.running.thread_cpu_ns("worker-0").context("the worker's time cannot be read")
    }

    /// Returns a command that runs this project's `nfdc` against it.
    pub(super) fn nfdc(&self) -> anyhow::Result<Command> {
        let mut command = Command::new(crate::program::namewire()?);
        command.arg("nfdc");
        command
            .env("NDN_CLIENT_TRANSPORT", format!("unix://{}", self.addresses.socket().display()));
        Ok(command)
    }

    /// Checks that it still answers, and has obeyed no hostile command.
    ///
    /// # Errors
    /// It does not answer, or has obeyed one.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let routes = self.nfdc()?.args(["route", "list"]).output()?;
        if !routes.status.success() {
            bail!("routes cannot be listed: {}", String::from_utf8_lossy(&routes.stderr));
        }
        if String::from_utf8_lossy(&routes.stdout).contains(HOSTILE_PREFIX) {
            bail!("a hostile command was obeyed");
        }
        let status = self.nfdc()?.args(["status", "show"]).output()?;
        let status = String::from_utf8_lossy(&status.stdout);
        let mut words = status.split_ascii_whitespace();
        let found = words.find_map(|word| word.strip_prefix("nFibEntries=")?.parse::<u32>().ok());
        let Some(found) = found else { bail!("no status: {status}") };
        if found < self.fib_entries {
            bail!("{found} FIB entries are there and not {}", self.fib_entries);
        }
        Ok(())
    }
}

/// Sends commands without waiting for each answer.
struct Filler<'a> {
    stream: &'a UnixStream,
    on_the_way: u32,
    buffer: Vec<u8>,
}

impl Filler<'_> {
    fn send(&mut self, verb: Verb, parameters: &ControlParameters) -> anyhow::Result<()> {
        let now_ns = clock::wall_ns();
        let nonce = now_ns.rotate_left(32);
        let wire = CommandBuilder::default().digest_signed_interest(
            verb,
            parameters,
            nonce,
            now_ns / 1_000_000,
        )?;
        self.stream.write_all(&wire)?;
        self.on_the_way += 1;
        self.wait_for(FILL_WINDOW)
    }

    /// Reads answers until at most `most` are outstanding.
    fn wait_for(&mut self, most: u32) -> anyhow::Result<()> {
        let mut chunk = [0; 64 * 1024];
        while self.on_the_way > most {
            let count = self.stream.read(&mut chunk).context("the forwarder does not answer")?;
            self.buffer.extend_from_slice(&chunk[..count]);
            let mut at = 0;
            while let Some((_, _, length)) = split_tlv(&self.buffer[at..]) {
                at += length;
                self.on_the_way = self.on_the_way.saturating_sub(1);
            }
            self.buffer.drain(..at);
            if count == 0 {
                bail!("the forwarder closed the connection");
            }
        }
        Ok(())
    }
}

/// Returns a certificate whose key signs nothing here.
fn anchor() -> anyhow::Result<String> {
    let key = Arc::new(PrivateKey::generate(KeyType::Ecdsa)?);
    let name = key_name("/operator".parse::<Name>()?.as_ref(), Component::generic(b"k"));
    let now = i64::try_from(clock::wall_ns() / 1_000_000_000)?;
    let options = CertificateOptions {
        issuer_id: SELF,
        version: 1,
        not_before_unix_s: now - 60,
        not_after_unix_s: now + 86_400,
        description: &[],
    };
    Ok(Certificate::self_sign(name.as_ref(), &key, &options)?.to_text())
}

/// Faces and FIB are open to any local user, which fills the tables; routes belong to the operator, whose certificate
/// must be validated.
fn configuration(cpu: usize, addresses: &Addresses) -> String {
    let listening = [SocketAddr::from((Ipv4Addr::LOCALHOST, addresses.udp_port))];
    let cpu = format!("[forwarder]\ncpus = [{cpu}]\n");
    let socket = addresses.socket();
    let base = crate::config_text::namewire(&socket, &listening, &listening, CS_CAPACITY, 1)
        .replace("[forwarder]\n", &cpu);
    format!(
        "{base}\n[management]\nlocalhost_rib = '''\n{RULES}\
         trust-anchor {{ type file file-name {} }}\n'''\n\
         [[management.authorizations]]\ncertificate = \"any\"\nprivileges = [\"faces\", \"fib\"]\n",
        addresses.folder.join("root.cert").display(),
    )
}

const RULES: &str = "\
rule {
  id commands
  for interest
  filter { type name regex ^<localhost><nfd><rib>[<register><unregister>]<>{1,3}$ }
  checker {
    type customized
    sig-type ecdsa-sha256
    key-locator { type name regex ^<>*<KEY><>{1,3}$ }
  }
}
rule {
  id certificates
  for data
  checker { type hierarchical }
}
";
