//! `namewire mount` with `namewire serve`, and programs that use the file system.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use namewire_tests::{
    Endpoint, Forwarder, Process, Settings, noise, program, run_to_end, skip, skip_unless_found,
    wait_until,
};
use rustix::process::Signal;

const FILE_BYTES: usize = 5 * 1024 * 1024 + 77;

/// Whether file systems can be mounted; if they cannot, the test is reported as skipped.
fn can_mount() -> bool {
    let device = Path::new("/dev/fuse");
    if File::options().read(true).write(true).open(device).is_err() {
        skip("fuse", "/dev/fuse cannot be opened");
        return false;
    }
    rustix::process::geteuid().is_root() || skip_unless_found("fusermount3")
}

struct Bed {
    mount: Process,
    server: Process,
    forwarder: Forwarder,
    served: PathBuf,
    mounted: PathBuf,
}

impl Bed {
    /// Serves a few files as `/files`, and mounts them.
    fn new(options: &[&str]) -> Self {
        let forwarder = Settings::new().start();
        let served = forwarder.directory().join("served");
        fs::create_dir_all(served.join("sub/empty")).unwrap();
        fs::write(served.join("large"), noise(1, FILE_BYTES)).unwrap();
        fs::write(served.join("sub/ü b"), noise(2, 8192)).unwrap();
        fs::write(served.join("sub/nothing"), b"").unwrap();
        fs::write(served.join("program"), b"#!/bin/sh\necho \"it runs\"\n").unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(served.join("program"), executable).unwrap();
        for index in 0..300 {
            fs::write(served.join(format!("sub/entry {index}")), format!("{index}")).unwrap();
        }
        let directory = served.display().to_string();
        let serve = ["serve", directory.as_str(), "--prefix", "/files"];
        let mut server = forwarder.spawn("server", &serve);
        server.wait_for_output("serving ");
        let mounted = forwarder.directory().join("mounted here");
        fs::create_dir(&mounted).unwrap();
        let mount = Self::mount(&forwarder, &mounted, options);
        Self { mount, server, forwarder, served, mounted }
    }

    fn mount(forwarder: &Endpoint, mounted: &Path, options: &[&str]) -> Process {
        let at = mounted.display().to_string();
        let arguments = [&["mount", "/files", at.as_str()], options].concat();
        let mut mount = forwarder.spawn("mount", &arguments);
        mount.wait_for_output("mounted ");
        mount
    }

    fn is_mounted(&self) -> bool {
        is_mounted(&self.mounted)
    }

    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        fs::read(self.mounted.join(path))
    }

    /// Replaces a served file.
    fn replace(&self, path: &str, content: &[u8]) {
        let new = self.served.join(".new");
        fs::write(&new, content).unwrap();
        fs::rename(new, self.served.join(path)).unwrap();
    }
}

fn is_mounted(path: &Path) -> bool {
    let path = path.display().to_string().replace(' ', "\\040");
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().any(|line| line.split(' ').nth(4) == Some(&path))
}

#[test]
fn mounted_directory_equals_the_served_one() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new(&[]);
    let compared = run_to_end({
        let mut command = Command::new("diff");
        command.arg("--recursive").arg(&bed.served).arg(&bed.mounted);
        command
    });
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
    let copied = bed.forwarder.directory().join("copy");
    let copy = run_to_end({
        let mut command = Command::new("cp");
        command.arg("--recursive").arg(&bed.mounted).arg(&copied);
        command
    });
    assert!(copy.status.success(), "{}", String::from_utf8_lossy(&copy.stderr));
    assert_eq!(fs::read(copied.join("large")).unwrap(), noise(1, FILE_BYTES));
    let ran = run_to_end(Command::new(bed.mounted.join("program")));
    assert_eq!(ran.stdout, b"it runs\n");
    let length_and_time = |directory: &Path| {
        let metadata = fs::metadata(directory.join("large")).unwrap();
        (metadata.len(), metadata.modified().unwrap())
    };
    assert_eq!(length_and_time(&bed.mounted), length_and_time(&bed.served));
    let refused = fs::write(bed.mounted.join("new"), b"x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(bed.read("none").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(bed.read("large/none").unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(bed.read("sub").unwrap_err().kind(), ErrorKind::IsADirectory);
    let mut name = [0; 200];
    let length =
        rustix::fs::getxattr(bed.mounted.join("sub/ü b"), "user.ndn.name", &mut name).unwrap();
    let name = String::from_utf8_lossy(&name[..length]).into_owned();
    assert!(name.starts_with("/files/sub/%C3%BC%20b/v="), "{name}");
}

#[test]
fn reads_anywhere_return_the_bytes_of_the_file() {
    if !can_mount() {
        return;
    }
    // The cache holds a tenth of the file.
    let bed = Bed::new(&["--cache", "512KiB", "--read-ahead", "256KiB"]);
    let expected = Arc::new(noise(1, FILE_BYTES));
    let readers: Vec<_> = (0..8_usize)
        .map(|reader| {
            let file = File::open(bed.mounted.join("large")).unwrap();
            let expected = Arc::clone(&expected);
            std::thread::spawn(move || {
                for index in 0..200_usize {
                    let offset = (reader * 7919 + index * 104_729 * (reader + 1)) % FILE_BYTES;
                    let mut buffer = vec![0; 1 + (index * 977) % 30_000];
                    let count = file.read_at(&mut buffer, offset as u64).unwrap();
                    let end = (offset + buffer.len()).min(FILE_BYTES);
                    assert!(buffer[..count] == expected[offset..end], "{offset}");
                }
            })
        })
        .collect();
    for reader in readers {
        reader.join().unwrap();
    }
}

/// The output of a shell command in `directory`.
fn shell(directory: &Path, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(directory).env("LC_ALL", "C");
    let ended = run_to_end(command);
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{script}: {printed}{complaint}");
    printed
}

#[test]
fn programs_read_a_mount_as_they_read_the_served_directory() {
    if !can_mount() || !["fio", "git", "sqlite3"].into_iter().all(skip_unless_found) {
        return;
    }
    let bed = Bed::new(&[]);
    let equal = |script: &str| {
        let printed = shell(&bed.mounted, script);
        assert_eq!(printed, shell(&bed.served, script), "{script}");
        printed
    };
    // Blocks with their checksums, and a database.
    let fio = "fio --name=blocks --filename=blocks --bs=4k --size=2m --ioengine=psync --verify=crc32c \
        --verify_state_save=0";
    let _ = shell(&bed.served, &format!("{fio} --rw=write --do_verify=0"));
    let table = "create table t(a integer primary key, b);
        with recursive n(a) as (select 0 union all select a + 1 from n where a < 19999)
        insert into t select a, a || ' ' || a from n;";
    let _ = shell(&bed.served, &format!("sqlite3 database \"{table}\""));
    let _ = shell(&bed.served, "find . -type f -exec md5sum '{}' + | sort > ../sums");
    // Owners, permissions and the sizes of directories are other ones.
    let listed = equal("ls -lR | awk '/^-/ { print $5, $9, $10 } /:$/'");
    assert_eq!(listed.lines().filter(|line| !line.ends_with(':')).count(), 306);
    let checked = shell(&bed.mounted, "md5sum -c ../sums");
    assert_eq!(checked.lines().filter(|line| line.ends_with(": OK")).count(), 306, "{checked}");
    let found = equal("git grep --no-index -n -e '^29.$' -e 'it runs' -- . | sort");
    assert_eq!(found.lines().count(), 11, "{found}");
    let read = shell(&bed.mounted, &format!("{fio} --rw=randread --readonly"));
    assert!(read.contains("READ: ") && !read.contains("verify failed"), "{read}");
    let query = "select count(*), sum(a) from t; select b from t where a = 12345;";
    let answer = shell(&bed.mounted, &format!("sqlite3 -readonly database '{query}'"));
    assert_eq!(answer, "20000|199990000\n12345 12345\n");
}

#[test]
fn data_of_another_key_and_changed_content_are_errors_with_a_reason() {
    if !can_mount() {
        return;
    }
    let forwarder = Settings::new().start();
    let path = |name: &str| forwarder.directory().join(name);
    for name in ["served", "mounted", "other", "records", "no-records"] {
        fs::create_dir(path(name)).unwrap();
    }
    for name in ["file", "another"] {
        fs::write(path("served").join(name), noise(1, FILE_BYTES)).unwrap();
    }
    let keys = ["own", "wrong"].map(|name| {
        let script = "openssl genpkey -algorithm ed25519 -out $name.pem
            openssl pkey -in $name.pem -pubout -out $name.public.pem";
        let _ = shell(forwarder.directory(), &format!("name={name}\n{script}"));
        ["pem", "public.pem"].map(|kind| path(&format!("{name}.{kind}")).display().to_string())
    });
    let served = path("served").display().to_string();
    let serve = |key: &str, records: &str| {
        let records = path(records).display().to_string();
        let fixed = ["serve", served.as_str(), "--prefix", "/files", "--sign", key];
        let arguments = [&fixed[..], &["--manifest-cache", &records]].concat();
        let mut server = forwarder.spawn("server", &arguments);
        server.wait_for_output("serving ");
        server
    };
    let mut server = serve(&keys[0][0], "records");
    // The mount of another key's files fails.
    let refused = forwarder.run(&[
        "mount",
        "/files",
        path("other").to_str().unwrap(),
        "--verify",
        &keys[1][1],
    ]);
    let printed = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && printed.contains("not verify"), "{printed}");
    // Nothing is kept, and the kernel reads what it is asked for.
    let options = ["--verify", keys[0][1].as_str(), "--cache", "0", "--read-ahead", "0"];
    let timing = ["--timeout", "60s", "--lifetime", "500ms", "--metadata-lifetime", "0s"];
    let mount = Bed::mount(&forwarder, &path("mounted"), &[options, timing].concat());
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let opened = File::options().read(true).custom_flags(direct).open(path("mounted").join("file"));
    let (file, mut start) = (opened.unwrap(), [0; 100]);
    file.read_exact_at(&mut start, 0).unwrap();
    assert!(start[..] == noise(1, FILE_BYTES)[..100]);

    // Other content of the same version, as a server without records of the former state announces it, signed by the right key.
    // It is requested for 15 s, past caches that may have changed it.
    server.signal(Signal::INT);
    server.wait();
    let changed = path("served").join("file");
    let modified = fs::metadata(&changed).unwrap().modified().unwrap();
    fs::write(&changed, noise(2, FILE_BYTES)).unwrap();
    File::options().write(true).open(&changed).unwrap().set_modified(modified).unwrap();
    let mut server = serve(&keys[0][0], "no-records");
    let error = file.read_at(&mut start, 3_000_000).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{error}");
    let has_reason = |name: &str| {
        let printed = mount.stderr();
        let mut lines = printed.lines();
        lines.any(|line| line.contains(name) && line.contains("does not verify")).then_some(())
    };
    wait_until("the reason", || has_reason("/files/file/"));

    // Files that another key signs.
    server.signal(Signal::INT);
    server.wait();
    let _server = serve(&keys[1][0], "no-records");
    let error = fs::read(path("mounted").join("another")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{error}");
    wait_until("the reason", || has_reason("/files/another/"));
}

#[test]
fn open_files_keep_their_version() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new(&["--metadata-lifetime", "100ms"]);
    let (old, new) = (noise(2, 8192), noise(3, 9000));
    let open = File::open(bed.mounted.join("sub/ü b")).unwrap();
    let mut start = [0; 10];
    open.read_exact_at(&mut start, 0).unwrap();
    bed.replace("sub/ü b", &new);
    wait_until("the new version", || (bed.read("sub/ü b").unwrap() == new).then_some(()));
    let mut all = vec![0; 8192];
    open.read_exact_at(&mut all, 0).unwrap();
    assert!(all == old, "the version that was opened, from the cache");
    fs::remove_file(bed.served.join("program")).unwrap();
    wait_until("the end of a removed file", || {
        let found = bed.read("program");
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound).then_some(())
    });
}

#[test]
fn mount_ends_with_its_program_and_its_program_with_the_mount() {
    if !can_mount() {
        return;
    }
    let mut bed = Bed::new(&[]);
    bed.mount.signal(Signal::INT);
    assert!(bed.mount.wait().success(), "{}", bed.mount.everything());
    assert!(!bed.is_mounted());
    // In use: it is removed, and the program does not wait.
    bed.mount = Bed::mount(&bed.forwarder, &bed.mounted, &[]);
    let open = File::open(bed.mounted.join("large")).unwrap();
    bed.mount.signal(Signal::TERM);
    assert!(bed.mount.wait().success(), "{}", bed.mount.everything());
    assert!(!bed.is_mounted());
    assert!(bed.mount.stderr().contains("the mount was in use"), "{}", bed.mount.stderr());
    assert!(open.read_at(&mut [0; 10], 0).is_err());
    drop(open);
    // Killed: the process that watches it unmounts.
    bed.mount = Bed::mount(&bed.forwarder, &bed.mounted, &[]);
    bed.mount.signal(Signal::KILL);
    bed.mount.wait();
    wait_until("the end of the mount", || (!bed.is_mounted()).then_some(()));
    // Unmounted by others.
    bed.mount = Bed::mount(&bed.forwarder, &bed.mounted, &[]);
    let program = if rustix::process::geteuid().is_root() { "umount" } else { "fusermount3" };
    let mut unmount = Command::new(program);
    if program == "fusermount3" {
        unmount.arg("-u");
    }
    unmount.arg(&bed.mounted);
    let ended = run_to_end(unmount);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(bed.mount.wait().success(), "{}", bed.mount.everything());
}

#[test]
fn process_is_not_stuck_when_its_file_server_ends() {
    if !can_mount() {
        return;
    }
    let mut bed = Bed::new(&["--timeout", "3s", "--lifetime", "1s"]);
    let open = wait_until("the file", || File::open(bed.mounted.join("large")).ok());
    bed.server.signal(Signal::STOP);
    let silent = open.read_at(&mut [0; 100], 3_000_000).unwrap_err();
    assert_eq!(silent.kind(), ErrorKind::TimedOut, "{silent}");
    wait_until("the reason", || bed.mount.stderr().contains("was not answered").then_some(()));
    bed.server.signal(Signal::CONT);
    let expected = noise(1, FILE_BYTES);
    let mut bytes = [0; 100];
    wait_until("the server", || open.read_exact_at(&mut bytes, 3_000_000).is_ok().then_some(()));
    assert!(bytes[..] == expected[3_000_000..3_000_100]);
    assert!(bed.mount.is_running());
}

#[test]
fn mount_survives_the_forwarder() {
    if !can_mount() {
        return;
    }
    let mut forwarder = Settings::new().start_program();
    let served = forwarder.directory().join("served");
    fs::create_dir(&served).unwrap();
    fs::write(served.join("file"), noise(1, 100_000)).unwrap();
    let directory = served.display().to_string();
    let mut server = forwarder.spawn("server", &["serve", &directory, "--prefix", "/files"]);
    server.wait_for_output("serving ");
    let mounted = forwarder.directory().join("mounted");
    fs::create_dir(&mounted).unwrap();
    let mut mount =
        Bed::mount(&forwarder, &mounted, &["--timeout", "5s", "--metadata-lifetime", "0s"]);
    let reads = || fs::read(mounted.join("file")).is_ok_and(|read| read == noise(1, 100_000));
    wait_until("the file", || reads().then_some(()));
    forwarder.process.signal(Signal::KILL);
    forwarder.process.wait();
    assert!(!reads());
    let directory = forwarder.directory().to_owned();
    let mut command = Command::new(program());
    command.arg("run").arg("--config").arg(directory.join("namewire.toml"));
    forwarder.process = Process::start("forwarder-again", command, &directory);
    wait_until("the file again", || reads().then_some(()));
    assert!(mount.is_running());
}

/// Mounts with a cache on disk that is killed while it writes, again and again; what it left is never wrong.
#[test]
fn cache_on_disk_survives_killed_mounts() {
    if !can_mount() {
        return;
    }
    let mut bed = Bed::new(&[]);
    let expected = noise(1, FILE_BYTES);
    let cache = bed.forwarder.directory().join("cache");
    let cache_option = cache.display().to_string();
    let options = ["--cache-dir", cache_option.as_str(), "--cache", "0"];
    let remount = |bed: &mut Bed| {
        wait_until("the end of the mount", || (!is_mounted(&bed.mounted)).then_some(()));
        bed.mount = Bed::mount(&bed.forwarder, &bed.mounted, &options);
    };
    bed.mount.signal(Signal::INT);
    bed.mount.wait();
    for round in 1..=4_u64 {
        remount(&mut bed);
        let file = File::open(bed.mounted.join("large")).unwrap();
        let mut buffer = vec![0; FILE_BYTES / 5];
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert!(buffer == expected[..buffer.len()]);
        let at = round * FILE_BYTES as u64 / 5;
        let reader = std::thread::spawn(move || file.read_exact_at(&mut vec![0; 1 << 20], at));
        // The mount is killed at some moment of the read, which no condition describes.
        std::thread::sleep(std::time::Duration::from_millis(round * 3));
        bed.mount.signal(Signal::KILL);
        bed.mount.wait();
        let _ = reader.join();
    }
    let damage = cache_files(&cache);
    assert!(!damage.is_empty());
    for path in &damage {
        let length = fs::metadata(path).unwrap().len();
        // In the middle of the contents.
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(b"damaged", length / 2).unwrap();
    }
    remount(&mut bed);
    assert!(bed.read("large").unwrap() == expected);
}

/// The files with contents in a cache.
fn cache_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(cache_files(&path));
        } else if fs::metadata(&path).unwrap().len() > 100_000 {
            found.push(path);
        }
    }
    found
}

#[test]
fn full_disk_of_the_cache_is_a_warning() {
    if !can_mount() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip("fuse", "only root mounts a small file system");
    }
    let mut bed = Bed::new(&[]);
    bed.mount.signal(Signal::INT);
    bed.mount.wait();
    let disk = bed.forwarder.directory().join("small disk");
    fs::create_dir(&disk).unwrap();
    let mut small = Command::new("mount");
    small.args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"]).arg(&disk);
    let mounted = run_to_end(small);
    assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
    let cache = disk.display().to_string();
    bed.mount = Bed::mount(&bed.forwarder, &bed.mounted, &["--cache-dir", &cache]);
    assert!(bed.read("large").unwrap() == noise(1, FILE_BYTES));
    wait_until("the warning", || {
        let printed = bed.mount.stderr();
        printed.contains("content is not cached on disk: No space left on device").then_some(())
    });
    bed.mount.signal(Signal::INT);
    bed.mount.wait();
    let mut unmount = Command::new("umount");
    unmount.arg(&disk);
    assert!(run_to_end(unmount).status.success());
}

#[test]
fn names_and_directories_that_cannot_be_mounted_are_errors() {
    if !can_mount() {
        return;
    }
    let bed = Bed::new(&[]);
    let (served, mounted) = (bed.served.display().to_string(), bed.mounted.display().to_string());
    let other = bed.forwarder.directory().join("other");
    fs::create_dir(&other).unwrap();
    let other = other.display().to_string();
    let file = bed.served.join("large").display().to_string();
    for (arguments, status, reason) in [
        (["mount", "/files/none", &other], 1, "there is no such object: /files/none"),
        (["mount", "/files/large", &other], 2, "/files/large is not a directory"),
        (["mount", "/nowhere", &other], 4, "no route to /nowhere"),
        (["mount", "/files", "/nonexistent/directory"], 2, "/nonexistent/directory: No such file"),
        (["mount", "/files", &file], 2, "Not a directory"),
        (["mount", "/files", &served], 2, "the directory is not empty"),
        (["mount", "/files", &mounted], 2, "a file system is mounted here already"),
    ] {
        let ended = bed.forwarder.run(&arguments);
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {printed}");
        assert!(printed.contains(reason), "{arguments:?}: {printed}");
        assert!(!printed.contains("os error"), "{printed}");
    }
    assert!(!is_mounted(Path::new(&other)));
}

#[test]
fn users_that_are_not_root_mount_with_fusermount3() {
    if !can_mount() || !skip_unless_found("fusermount3") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        // The other tests are those of such a user.
        return;
    }
    let device = fs::metadata("/dev/fuse").unwrap();
    if device.mode() & 0o006 != 0o006 {
        skip("fuse", "/dev/fuse is for root only");
        return;
    }
    let bed = Bed::new(&[]);
    let user = 65_534;
    let mounted = bed.forwarder.directory().join("of-a-user");
    fs::create_dir(&mounted).unwrap();
    std::os::unix::fs::chown(&mounted, Some(user), Some(user)).unwrap();
    let at = mounted.display().to_string();
    let Some(command) = bed.forwarder.command_as(user, &["mount", "/files", &at]) else { return };
    let mut mount = Process::start("mount of a user", command, bed.forwarder.directory());
    mount.wait_for_output("mounted ");
    let read = |user: u32| {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("cat");
        command.arg(mounted.join("program")).uid(user).gid(user);
        run_to_end(command)
    };
    assert_eq!(read(user).stdout, fs::read(bed.served.join("program")).unwrap());
    assert!(!read(1).status.success(), "the mount is for its user only");
    mount.signal(Signal::KILL);
    mount.wait();
    wait_until("the end of the mount", || (!is_mounted(&mounted)).then_some(()));
}
