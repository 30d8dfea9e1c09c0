//! The programs beside the readers: forwarder, file server, mount, nginx and XRootD.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use ndn_security::{KeyType, PrivateKey};

use super::plan::Plan;
use crate::program;
use crate::started::{Folder, Process, START_TIMEOUT, free_port};
use crate::transfer::write_noise;

/// The served file, below the served directory.
const FILE: &str = "data";

/// A server of a way of reading. It is started for each read, so that its cache is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// `namewire mount`.
    Mount,
    /// XRootD with the plug-in.
    XRootD,
    /// XRootD with its own storage system.
    XRootDOfLocalFiles,
    /// nginx.
    Nginx,
}

/// A running server, and the path or URL of the file.
#[derive(Debug)]
pub(super) struct Server {
    process: Option<Process>,
    pub(super) address: String,
    /// The directory of a mount.
    mounted: Option<PathBuf>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process = None;
        let Some(directory) = &self.mounted else { return };
        // A process of the mount unmounts; the folder of the run can be removed then.
        let needle = format!(" {} ", directory.display());
        let start = Instant::now();
        while fs::read_to_string("/proc/self/mounts").is_ok_and(|mounts| mounts.contains(&needle))
            && start.elapsed() < START_TIMEOUT
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The forwarder and the file server, and the folder of all files.
#[derive(Debug)]
pub(super) struct Programs {
    // Dropped in this order.
    servers: Vec<Process>,
    folder: Folder,
}

impl Programs {
    /// Starts a forwarder and a server of a file of this length, with manifests.
    pub(super) fn start(bytes: u64) -> anyhow::Result<Self> {
        let folder = Folder::new(&format!("namewire-access-{}", std::process::id()))?;
        // XRootD runs as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        fs::create_dir_all(folder.path().join("served"))?;
        let mut programs = Self { servers: Vec::new(), folder };
        write_noise(&programs.file(), bytes, 1)?;
        let key = PrivateKey::generate(KeyType::Ecdsa)?;
        fs::write(programs.key(), key.to_pem()?.as_bytes())?;
        fs::set_permissions(programs.key(), fs::Permissions::from_mode(0o644))?;
        let public =
            run(Command::new("openssl").args(["pkey", "-pubout", "-in"]).arg(programs.key()))?;
        fs::write(programs.public_key(), public.stdout)?;
        let namewire = program::namewire()?;
        let mut forwarder = Command::new(&namewire);
        forwarder.arg("run").arg("--socket").arg(programs.path("nfd.sock"));
        forwarder.args(["--no-udp", "--no-tcp"]);
        let ready = |printed: &str| printed.contains("listening on");
        let forwarder = Process::serve(programs.folder.path(), "forwarder", forwarder, ready)?;
        programs.servers.push(forwarder);
        fs::set_permissions(programs.path("nfd.sock"), fs::Permissions::from_mode(0o666))?;
        let mut server = programs.command(&namewire);
        server.arg("serve").arg(programs.path("served")).args(["--prefix", "/bench", "--sign"]);
        server.arg(programs.key());
        let server = Process::serve(programs.folder.path(), "server", server, |printed| {
            printed.contains("serving ")
        })?;
        programs.servers.insert(0, server);
        Ok(programs)
    }

    /// A file of the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The served file.
    pub(super) fn file(&self) -> PathBuf {
        self.path("served").join(FILE)
    }

    /// Its name.
    pub(super) fn name(&self) -> String {
        format!("/bench/{FILE}")
    }

    fn key(&self) -> PathBuf {
        self.path("key.pem")
    }

    /// The key that verifies.
    pub(super) fn public_key(&self) -> PathBuf {
        self.path("public.pem")
    }

    /// A command that uses the forwarder.
    pub(super) fn command(&self, executable: &Path) -> Command {
        let mut command = Command::new(executable);
        command.env("NDN_CLIENT_TRANSPORT", self.transport()).env("HOME", self.folder.path());
        command.env("XDG_CACHE_HOME", self.path("cache")).current_dir(self.folder.path());
        command
    }

    pub(super) fn transport(&self) -> String {
        format!("unix://{}", self.path("nfd.sock").display())
    }

    /// Writes a plan for readers; returns its file.
    pub(super) fn write_plan(&self, plan: &Plan) -> anyhow::Result<PathBuf> {
        let path = self.path("plan");
        fs::write(&path, plan.to_text())?;
        Ok(path)
    }

    /// Starts a server of this kind.
    pub(super) fn server(&self, kind: ServerKind) -> anyhow::Result<Server> {
        match kind {
            ServerKind::Mount => self.mount(),
            ServerKind::Nginx => self.nginx(),
            ServerKind::XRootD => {
                let plug_in = program::namewire()?.with_file_name("libXrdNamewire.so");
                ensure!(plug_in.is_file(), "there is no {} (make xrootd)", plug_in.display());
                self.xrootd(&format!(
                    "ofs.osslib {} prefix=/bench transport={} verify={}",
                    plug_in.display(),
                    self.transport(),
                    self.public_key().display()
                ))
            }
            ServerKind::XRootDOfLocalFiles => {
                self.xrootd(&format!("oss.localroot {}", self.path("served").display()))
            }
        }
    }

    fn mount(&self) -> anyhow::Result<Server> {
        let directory = self.path("mounted");
        fs::create_dir_all(&directory)?;
        let mut command = self.command(&program::namewire()?);
        command.args(["mount", "/bench"]).arg(&directory).arg("--verify").arg(self.public_key());
        let process = Process::serve(self.folder.path(), "mount", command, |printed| {
            printed.contains("mounted ")
        })?;
        let address = directory.join(FILE).display().to_string();
        Ok(Server { process: Some(process), address, mounted: Some(directory) })
    }

    fn nginx(&self) -> anyhow::Result<Server> {
        let executable = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"].map(PathBuf::from);
        let executable = executable.into_iter().find(|path| path.is_file());
        let executable = executable.or_else(|| program::on_path("nginx")).context("no nginx")?;
        let (port, own) = (free_port()?, self.path("nginx"));
        fs::create_dir_all(&own)?;
        let own = own.display();
        let text = format!(
            "daemon off; master_process off; error_log stderr; pid {own}/pid;\n\
             events {{}}\n\
             http {{ access_log off; sendfile on; client_body_temp_path {own}/a; proxy_temp_path {own}/b;\n\
             fastcgi_temp_path {own}/c; uwsgi_temp_path {own}/d; scgi_temp_path {own}/e;\n\
             server {{ listen 127.0.0.1:{port}; root {}; }} }}\n",
            self.path("served").display()
        );
        let configuration = self.path("nginx.conf");
        fs::write(&configuration, text)?;
        let mut command = self.command(&executable);
        command.arg("-c").arg(&configuration).arg("-p").arg(self.path("nginx"));
        let is_ready = |_: &str| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        let process = Process::serve(self.folder.path(), "nginx", command, is_ready)?;
        let address = format!("http://127.0.0.1:{port}/{FILE}");
        Ok(Server { process: Some(process), address, mounted: None })
    }

    /// Starts XRootD with these lines of configuration.
    fn xrootd(&self, lines: &str) -> anyhow::Result<Server> {
        let executable = program::on_path("xrootd").context("no xrootd")?;
        let (port, own) = (free_port()?, self.path("xrootd"));
        fs::create_dir_all(&own)?;
        let run_path = own.display();
        let text = format!(
            "xrd.port {port}\nxrd.network nodnr\nall.adminpath {run_path}\nall.pidpath {run_path}\n\
             all.export /\n{lines}\n"
        );
        let configuration = own.join("xrootd.cfg");
        fs::write(&configuration, text)?;
        let mut command = self.command(&executable);
        if rustix::process::geteuid().is_root() {
            run(Command::new("chown").args(["-R", "xrootd"]).arg(&own))?;
            command.args(["-R", "xrootd"]);
        }
        command.arg("-c").arg(&configuration);
        let ended = format!(":{port} initialization completed");
        let process = Process::serve(self.folder.path(), "xrootd", command, |printed| {
            printed.contains(&ended)
        })?;
        let address = format!("root://127.0.0.1:{port}//{FILE}");
        Ok(Server { process: Some(process), address, mounted: None })
    }
}

/// The output of a command that succeeds.
pub(super) fn run(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{:?}", command.get_program()))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{:?}: {}", command.get_program(), complaint.trim());
    Ok(output)
}
