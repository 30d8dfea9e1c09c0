//! Network devices between the generator and a forwarder, in namespaces of their own.
//!
//! The bench runs in one network namespace and each forwarder in another. Two pairs of virtual Ethernet devices
//! connect them: one for consumers, one for the producer. A relay without knowledge of addresses, which copies each
//! frame to its other device, works too: both pairs have the same two addresses, exchanged, so a frame from one pair
//! is addressed to the generator's end of the other.

use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

/// MTU for which the longest packets of the bench fit into one frame.
pub(super) const MTU_MAX: usize = 9000;
/// MTU of most networks.
pub(super) const MTU_USUAL: usize = 1500;
/// Last argument of a bench that runs in its namespace.
const IN_NAMESPACE: &str = "--in-namespace";

/// Replaces this process with the same program, the same arguments and `IN_NAMESPACE`, in namespaces of its own that
/// end with it. A user other than root becomes root in them.
///
/// # Errors
/// When the kernel or the lack of a tool forbids it; else it does not return.
pub fn enter_namespace() -> anyhow::Error {
    let script = "mount -t sysfs sysfs /sys 2>/dev/null; ip link set lo up && exec \"$@\"";
    let isolate = |command: &mut Command| {
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "--mount"]);
    };
    if let Err(error) = check_tools() {
        return error;
    }
    let mut probe = Command::new("unshare");
    isolate(&mut probe);
    probe.args(["ip", "link", "add", "probe0", "type", "veth"]);
    match probe.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            return anyhow::anyhow!(
                "this transport takes a network namespace with virtual Ethernet devices, which takes \
                 root or user namespaces: {}",
                text.trim()
            );
        }
        Err(error) => return error.into(),
    }
    let executable = match std::env::current_exe() {
        Ok(executable) => executable,
        Err(error) => return error.into(),
    };
    let mut command = Command::new("unshare");
    isolate(&mut command);
    command.args(["sh", "-c", script, "sh"]).arg(executable);
    command.args(std::env::args_os().skip(1)).arg(IN_NAMESPACE);
    command.exec().into()
}

/// Finds the programs that make namespaces and devices.
pub(crate) fn check_tools() -> anyhow::Result<()> {
    for tool in ["unshare", "nsenter", "setpriv", "ip"] {
        let found = crate::program::on_path(tool).is_some();
        ensure!(found, "this transport takes `{tool}`, which is not on PATH");
    }
    Ok(())
}

/// A network namespace; it ends with its last process.
#[derive(Debug)]
struct Namespace {
    /// Holds it until its input ends, at the latest with this process.
    holder: Child,
}

impl Namespace {
    fn new() -> anyhow::Result<Self> {
        let mut holder = Command::new("unshare");
        holder.args(["--net", "sh", "-c", "ip link set lo up && echo && exec cat"]);
        let holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut namespace = Self { holder };
        let mut line = [0];
        let stdout = namespace.holder.stdout.as_mut().context("a pipe")?;
        stdout.read_exact(&mut line).context("no network namespace")?;
        Ok(namespace)
    }

    /// Returns a command whose program runs in this namespace, with the same process id, and ends with this thread.
    fn inside(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id()));
        command.args(["setpriv", "--pdeathsig", "KILL"]).arg(program.as_ref());
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Its devices are removed with it.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Devices between the generator and one forwarder.
#[derive(Debug)]
pub(crate) struct Link {
    /// The forwarder's.
    namespace: Namespace,
    /// Those of consumers and of the producer, if they have one each.
    ends: Option<[Namespace; 2]>,
    number: u8,
    mtu: usize,
}

/// The generator's role on a pair of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Consumer,
    Producer,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Consumer, Self::Producer];

    fn letter(self) -> char {
        match self {
            Self::Consumer => 'c',
            Self::Producer => 'p',
        }
    }
}

impl Link {
    /// Creates link `number` of this process, for frames with `mtu` bytes of payload.
    pub(super) fn new(number: u8, mtu: usize) -> anyhow::Result<Self> {
        Self::plugged(Self { namespace: Namespace::new()?, ends: None, number, mtu })
    }

    /// Creates a link whose near ends are in a namespace each, so that the namespace of this process stays as it is.
    pub(crate) fn of_line() -> anyhow::Result<Self> {
        let ends = Some([Namespace::new()?, Namespace::new()?]);
        Self::plugged(Self { namespace: Namespace::new()?, ends, number: 0, mtu: MTU_MAX })
    }

    fn plugged(link: Self) -> anyhow::Result<Self> {
        for side in Side::BOTH {
            link.plug(side)?;
        }
        Ok(link)
    }

    fn plug(&self, side: Side) -> anyhow::Result<()> {
        let (near, far) = (self.near_device(side), Self::far_device(side));
        let (near_mac, far_mac) = (mac_text(Self::near_mac(side)), mac_text(Self::far_mac(side)));
        let (near_ip, far_ip) = (self.near_ip(side), self.far_ip(side));
        let (pid, mtu) = (self.namespace.holder.id(), self.mtu);
        // A single queue: one AF_XDP socket receives all frames.
        run(
            self.at("ip", side),
            &format!(
                "link add {near} address {near_mac} mtu {mtu} numtxqueues 1 numrxqueues 1 type veth \
                 peer name {far} address {far_mac} mtu {mtu} numtxqueues 1 numrxqueues 1 netns {pid}"
            ),
        )?;
        run(self.at("ip", side), &format!("addr add {near_ip}/24 dev {near}"))?;
        run(self.inside("ip"), &format!("addr add {far_ip}/24 dev {far}"))?;
        run(self.at("ip", side), &format!("link set {near} up"))?;
        run(self.inside("ip"), &format!("link set {far} up"))
    }

    /// Returns a command whose program runs in the forwarder's namespace, with the same process id, and ends with
    /// this thread.
    pub(super) fn inside(&self, program: impl AsRef<Path>) -> Command {
        self.namespace.inside(program)
    }

    /// The same for the near end of this side.
    pub(crate) fn at(&self, program: impl AsRef<Path>, side: Side) -> Command {
        match &self.ends {
            Some([consumer, _]) if side == Side::Consumer => consumer.inside(program),
            Some([_, producer]) => producer.inside(program),
            None => Command::new(program.as_ref()),
        }
    }

    /// Returns the maximum frame payload, bytes.
    pub(super) fn mtu(&self) -> usize {
        self.mtu
    }

    /// The generator's device.
    pub(super) fn near_device(&self, side: Side) -> String {
        format!("{}{}", side.letter(), self.number)
    }

    /// The forwarder's device.
    pub(super) fn far_device(side: Side) -> &'static str {
        match side {
            Side::Consumer => "consumer",
            Side::Producer => "producer",
        }
    }

    /// The generator's hardware address.
    pub(super) fn near_mac(side: Side) -> [u8; 6] {
        match side {
            Side::Consumer => [2, 0, 0, 0, 0, 0xc],
            Side::Producer => [2, 0, 0, 0, 0, 0xf],
        }
    }

    /// The forwarder's hardware address: that of the generator on the other side.
    pub(super) fn far_mac(side: Side) -> [u8; 6] {
        match side {
            Side::Consumer => Self::near_mac(Side::Producer),
            Side::Producer => Self::near_mac(Side::Consumer),
        }
    }

    /// The generator's address.
    pub(super) fn near_ip(&self, side: Side) -> Ipv4Addr {
        self.ip(side, 1)
    }

    /// The forwarder's address.
    pub(crate) fn far_ip(&self, side: Side) -> Ipv4Addr {
        self.ip(side, 2)
    }

    fn ip(&self, side: Side, host: u8) -> Ipv4Addr {
        let net = self.number * 2 + u8::from(side == Side::Producer);
        Ipv4Addr::new(10, 77, net, host)
    }
}

/// Formats an address as in URIs and for `ip`.
pub(super) fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn run(mut command: Command, arguments: &str) -> anyhow::Result<()> {
    command.args(arguments.split_ascii_whitespace());
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{arguments}`: {}", text.trim());
    Ok(())
}
