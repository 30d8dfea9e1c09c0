//! Examples of every command, for `--help`, the manual pages and the reference.

use std::fmt::Write;

/// A line of a shell, and what it does.
pub(super) type Example = (&'static str, &'static str);

/// Examples by command, without the name of the program; the empty command is the program itself.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[
            ("Start a forwarder, and serve a directory until interrupted", "namewire start"),
            ("", "namewire serve /srv/data --prefix /example/data"),
            ("Fetch a file of it", "namewire get /example/data/file.txt -o file.txt"),
            ("Connect to another forwarder", "namewire route add /example udp4://192.0.2.1:6363"),
        ],
    ),
    (
        "run",
        &[
            ("Run with the defaults", "namewire run"),
            (
                "Run with a configuration file and more log lines",
                "namewire run --config namewire.toml --log debug",
            ),
            ("Run beside another forwarder", "namewire run --socket /tmp/second.sock --port 7000"),
        ],
    ),
    ("start", &[("Start, and keep the log", "namewire start --log-file namewire.log")]),
    (
        "stop",
        &[
            ("Stop the default forwarder", "namewire stop"),
            ("Stop the forwarder at a socket", "namewire stop --transport /tmp/second.sock"),
        ],
    ),
    ("status", &[("Show the state, as JSON for programs", "namewire status --json")]),
    (
        "face",
        &[
            ("List the faces", "namewire face"),
            (
                "Create a face that is kept and reconnected",
                "namewire face create tcp4://192.0.2.1 --persistency permanent",
            ),
        ],
    ),
    (
        "face list",
        &[
            ("List UDP faces", "namewire face list --scheme udp4"),
            ("Include local addresses, packets and retransmissions", "namewire face list --long"),
        ],
    ),
    ("face show", &[("Show a face by its FaceId", "namewire face show 257")]),
    (
        "face create",
        &[
            (
                "Create a UDP face with link reliability",
                "namewire face create udp4://192.0.2.1:6363 --reliability on",
            ),
            (
                "Create an Ethernet face",
                "namewire face create 'ether://[08:00:27:01:02:03]' dev://eth1",
            ),
        ],
    ),
    ("face update", &[("Limit the frames of a face", "namewire face update 257 --mtu 1400B")]),
    (
        "face destroy",
        &[("Destroy a face by the URI of its peer", "namewire face destroy udp4://192.0.2.1:6363")],
    ),
    ("route", &[("List the routes below a prefix", "namewire route --prefix /example")]),
    ("route list", &[("List the routes below a prefix", "namewire route list /example")]),
    ("route fib", &[("Show where Interests for a name go", "namewire route fib /example")]),
    (
        "route add",
        &[
            (
                "Forward Interests for a prefix to another forwarder",
                "namewire route add /example udp4://192.0.2.1:6363",
            ),
            (
                "Add a route of higher cost that expires",
                "namewire route add /example 257 --cost 20 --expires 10min",
            ),
            (
                "Add the routes of a file with lines such as `/example 257 --cost 20`",
                "namewire route add --batch routes.txt",
            ),
        ],
    ),
    ("route remove", &[("Remove a route", "namewire route remove /example udp4://192.0.2.1:6363")]),
    ("strategy", &[("List the strategies of all prefixes", "namewire strategy")]),
    ("strategy list", &[("List the strategies as JSON", "namewire strategy list --json")]),
    ("strategy known", &[("List the available strategies", "namewire strategy known")]),
    (
        "strategy show",
        &[("Show which strategy applies to a name", "namewire strategy show /example/data")],
    ),
    (
        "strategy set",
        &[("Send Interests to all next hops", "namewire strategy set /example multicast")],
    ),
    ("strategy unset", &[("Inherit the strategy again", "namewire strategy unset /example")]),
    ("cs", &[("Show the contents of the Content Store", "namewire cs")]),
    ("cs info", &[("Show capacity and hits as JSON", "namewire cs info --json")]),
    (
        "cs config",
        &[
            ("Store at most 10,000 packets", "namewire cs config --capacity 10000"),
            (
                "Keep Data that are requested once from evicting others",
                "namewire cs config --policy s3-fifo",
            ),
        ],
    ),
    ("cs erase", &[("Erase the Data under a prefix", "namewire cs erase /example/data")]),
    ("ping", &[("Send four pings", "namewire ping /example --count 4 --interval 500ms")]),
    (
        "ping-server",
        &[("Answer pings with 1000 bytes", "namewire ping-server /example --size 1000B")],
    ),
    (
        "peek",
        &[
            ("Print the content of a packet", "namewire peek /example/hello"),
            (
                "Show every element of the first packet under a prefix",
                "namewire peek -P /example --format dissect",
            ),
        ],
    ),
    ("poke", &[("Serve one packet", "echo hello | namewire poke /example/hello")]),
    (
        "put",
        &[
            (
                "Publish a file, signed with an identity",
                "namewire put /example/file file.txt --identity /example",
            ),
            (
                "Publish until nobody fetches it any more",
                "tar c . | namewire put /example/archive --until-idle 30s",
            ),
        ],
    ),
    (
        "get",
        &[
            ("Fetch a file", "namewire get /example/data/file.txt -o file.txt"),
            (
                "Fetch a directory, verified by trust rules",
                "namewire get /example/data -r -o data --verify rules:trust.conf",
            ),
            (
                "Fetch the first MiB to standard output",
                "namewire get /example/data/large --range 0-1048575 -o -",
            ),
        ],
    ),
    (
        "sync",
        &[
            (
                "Make a directory a copy, and keep it one",
                "namewire sync /example/data copy --delete",
            ),
            (
                "Print what would be done for C sources only",
                "namewire sync /example/data copy --include '*/' --include '*.[ch]' --exclude '*' --dry-run",
            ),
            (
                "Compare a copy with signed digests",
                "namewire sync /example/data copy --verify-only --verify server.cert",
            ),
        ],
    ),
    ("ls", &[("List a directory with sizes and times", "namewire ls -l /example/data")]),
    (
        "find",
        &[
            ("Find the files of a name", "namewire find /example/data '*.root'"),
            (
                "Find them by their metadata, which are in FILE.meta.json beside each file",
                "namewire find /example/data --where detector=CMS --where 'run>3' --long",
            ),
        ],
    ),
    (
        "serve",
        &[
            ("Serve a directory", "namewire serve /srv/data --prefix /example/data"),
            (
                "Serve several directories, signed with an identity",
                "namewire serve --mounts mounts.toml --identity /example",
            ),
            (
                "Serve a bucket, with the credentials in the environment",
                "namewire serve s3://my-bucket/run-3 --prefix /example/run-3",
            ),
            (
                "Publish a catalogue of the files, too",
                "namewire serve /srv/data --prefix /example/data --catalogue --identity /example",
            ),
        ],
    ),
    (
        "gateway",
        &[
            ("Serve files to HTTP clients of this host", "namewire gateway --prefix /example/data"),
            ("Fetch a file through it", "curl http://127.0.0.1:8080/file.txt -o file.txt"),
            (
                "List a directory as JSON",
                "curl -H 'Accept: application/json' http://127.0.0.1:8080/",
            ),
            ("Mount it", "rclone mount :webdav: /mnt --webdav-url http://127.0.0.1:8080"),
            (
                "Serve them to clients of S3, too",
                "namewire gateway --prefix /example/data --s3-bucket data",
            ),
        ],
    ),
    (
        "mount",
        &[
            ("Show served files as a file system", "namewire mount /example/data /mnt"),
            ("Show which version of a file it is", "getfattr -n user.ndn.name /mnt/file.txt"),
            ("Unmount it", "umount /mnt"),
        ],
    ),
    (
        "dissect",
        &[
            ("Show a packet in hexadecimal", "namewire dissect 05050703080161"),
            ("Show the Data of a capture", "namewire dissect face.pcapng --type data"),
            (
                "Show a packet of the network",
                "namewire peek /example/hello --format packet | namewire dissect",
            ),
        ],
    ),
    (
        "capture",
        &[
            (
                "Show Interests and Nacks below a prefix",
                "namewire capture --name /example --type interest --type nack",
            ),
            (
                "Capture the packets of a face for Wireshark",
                "namewire capture --face 257 --write face.pcapng",
            ),
            (
                "Capture one of 100 packets, and keep those of the latest 24 hours",
                "namewire capture --sample 100 --write sample.pcapng --rotate-time 1h --files 24",
            ),
            ("Let Wireshark show names", "namewire capture --install-dissector"),
        ],
    ),
    (
        "log",
        &[
            ("Log more of one module", "namewire log ndn_dataplane=debug"),
            ("Follow warnings and errors", "namewire log --follow --level warn"),
        ],
    ),
    ("workers", &[("Show the load over ten seconds", "namewire workers --duration 10s")]),
    ("webtransport", &[("Show addresses and certificates", "namewire webtransport")]),
    ("interfaces", &[("Show one interface", "namewire interfaces eth0")]),
    ("ndt", &[("Show the load of the workers", "namewire ndt list")]),
    ("ndt list", &[("Show all entries", "namewire ndt list --all")]),
    ("ndt set", &[("Move a name to worker 1", "namewire ndt set /example/data 1")]),
    ("ndt balance", &[("Balance now", "namewire ndt balance")]),
    ("limits", &[("Show all principals", "namewire limits --all")]),
    ("vip", &[("Show the objects of highest score, and the neighbours", "namewire vip")]),
    ("nfdc", &[("Run a command of nfdc", "namewire nfdc face list")]),
    (
        "autoreg",
        &[("Add a route for each peer that connects", "namewire autoreg --prefix /example")],
    ),
    ("autoconfig", &[("Find a hub once", "namewire autoconfig")]),
    (
        "autoconfig-server",
        &[("Announce a hub", "namewire autoconfig-server udp4://192.0.2.1:6363")],
    ),
    (
        "status-server",
        &[("Serve the status on another port", "namewire status-server --port 8001")],
    ),
    (
        "trace",
        &[(
            "Show the decisions about packets of a prefix",
            "namewire trace packets --name /example",
        )],
    ),
    ("trace latency", &[("Measure for ten seconds", "namewire trace latency --duration 10s")]),
    (
        "trace packets",
        &[(
            "Show the next 20 packets of a prefix",
            "namewire trace packets --name /example --count 20",
        )],
    ),
    (
        "traffic",
        &[(
            "Send Interests at a rate",
            "namewire traffic consumer /load --rate 1000 --duration 10s",
        )],
    ),
    (
        "traffic consumer",
        &[(
            "Measure with 64 Interests in flight",
            "namewire traffic consumer /load --window 64 --duration 10s",
        )],
    ),
    (
        "traffic producer",
        &[(
            "Answer with Data of two sizes",
            "namewire traffic producer /load --payload 100B,1200B",
        )],
    ),
    ("bench", &[("Measure one shard in memory", "namewire bench pipeline")]),
    (
        "model",
        &[(
            "Find the number of workers for a rate",
            "namewire model plan --calibration calibration.toml --rate 250k --name-components 7 --payload 1200B",
        )],
    ),
    (
        "model check",
        &[(
            "Estimate the satisfaction rate",
            "namewire model check model.toml --property 'E(share(satisfied))'",
        )],
    ),
    (
        "model explore",
        &[(
            "Compare numbers of workers",
            "namewire model explore model.toml --property 'E(share(satisfied))' --vary forwarder.workers=1,2,4",
        )],
    ),
    (
        "model run-tasks",
        &[("Run the first of eight parts", "namewire model run-tasks tasks.json --part 0/8")],
    ),
    (
        "model fit",
        &[("Fit distributions to nanoseconds", "namewire model fit durations.txt --unit ns")],
    ),
    (
        "model measure",
        &[("Measure this machine", "namewire model measure campaign.jsonl --workers 1,2")],
    ),
    (
        "lab",
        &[
            ("Perform an experiment and write a report", "namewire lab run experiment.toml"),
            ("", "namewire lab report experiment.sqlite"),
        ],
    ),
    (
        "lab run-tasks",
        &[("Run the first of eight parts", "namewire lab run-tasks tasks.json --part 0/8")],
    ),
    (
        "lab check",
        &[("Show factors, cells and the number of runs", "namewire lab check experiment.toml")],
    ),
    (
        "lab run",
        &[
            ("Perform an experiment", "namewire lab run experiment.toml"),
            (
                "Simulations on two processors, with the results elsewhere",
                "namewire lab run experiment.toml --jobs 2 --results /tmp/first.sqlite",
            ),
        ],
    ),
    (
        "lab resume",
        &[
            ("Continue after an interruption", "namewire lab resume experiment.sqlite"),
            ("Repeat runs that failed", "namewire lab resume --failed experiment.sqlite"),
            (
                "Add replications that the changed file has",
                "namewire lab resume experiment.sqlite --experiment experiment.toml",
            ),
        ],
    ),
    (
        "lab analyse",
        &[
            ("Effects of all factors on all responses", "namewire lab analyse experiment.sqlite"),
            (
                "Effects in a table of own measurements",
                "namewire lab analyse table.csv --response delay",
            ),
            (
                "How many replications give intervals of plus or minus 5",
                "namewire lab analyse experiment.sqlite --response delay --half-width 5",
            ),
        ],
    ),
    ("lab report", &[("Write a report", "namewire lab report experiment.sqlite --output report")]),
    (
        "lab render",
        &[
            (
                "Write a Compose file of the second cell",
                "namewire lab render experiment.toml --cell 2 --compose containers",
            ),
            (
                "Write manifests for Kubernetes",
                "namewire lab render experiment.toml --kubernetes manifests",
            ),
        ],
    ),
    (
        "lab list",
        &[
            ("Results in this directory", "namewire lab list"),
            ("What failed runs printed", "namewire lab list --failed experiment.sqlite"),
        ],
    ),
    (
        "cache",
        &[(
            "Compare two policies on Abilene",
            "namewire cache simulate --topology abilene --method lru,lfu",
        )],
    ),
    (
        "cache simulate",
        &[
            (
                "Compare LRU and LFU on Abilene under a higher load",
                "namewire cache simulate --topology abilene --method lru,lfu --set requests_per_s=9",
            ),
            (
                "All topologies and methods, with charts",
                "namewire cache simulate --csv runs.csv --svg charts",
            ),
        ],
    ),
    (
        "model screen",
        &[(
            "Draw which settings matter",
            "namewire model screen campaign.jsonl --svg screening.svg",
        )],
    ),
    (
        "model reproduce",
        &[(
            "Repeat the experiments with other service times",
            "namewire model reproduce --exchange 3us --component 50ns",
        )],
    ),
    (
        "model calibrate",
        &[(
            "Calibrate with a campaign",
            "namewire model calibrate campaign.jsonl --output calibration.toml",
        )],
    ),
    (
        "model plan",
        &[(
            "Find the number of workers",
            "namewire model plan --calibration calibration.toml --rate 250k --name-components 7 --payload 1200B",
        )],
    ),
    (
        "model validate",
        &[(
            "Compare predictions with measurements",
            "namewire model validate --calibration calibration.toml",
        )],
    ),
    ("key", &[("Create a key", "namewire key gen /example/alice")]),
    (
        "key gen",
        &[(
            "Create a key and keep its certificate",
            "namewire key gen /example/alice > alice.cert",
        )],
    ),
    ("key list", &[("List identities, keys and certificates", "namewire key list")]),
    (
        "key export",
        &[("Export a key", "namewire key export /example/alice --output alice.safebag")],
    ),
    ("key import", &[("Import a key", "namewire key import alice.safebag")]),
    ("key delete", &[("Delete an identity with its keys", "namewire key delete /example/alice")]),
    (
        "key default",
        &[("Sign with this identity by default", "namewire key default /example/alice")],
    ),
    ("cert", &[("Request a certificate", "namewire cert request /example/alice > alice.request")]),
    (
        "cert request",
        &[("Request a certificate", "namewire cert request /example/alice > alice.request")],
    ),
    (
        "cert sign",
        &[(
            "Issue a certificate",
            "namewire cert sign alice.request --identity /example > alice.cert",
        )],
    ),
    ("cert install", &[("Install a certificate", "namewire cert install alice.cert")]),
    (
        "cert dump",
        &[("Show a certificate in readable form", "namewire cert dump --file alice.cert --pretty")],
    ),
    ("config", &[("Validate a file", "namewire config check namewire.toml")]),
    ("config check", &[("Validate a file", "namewire config check namewire.toml")]),
    (
        "config reload",
        &[
            ("Take over changes of the configuration file", "namewire config reload"),
            (
                "Show what a reload would change, and what waits for the next start",
                "namewire config reload --check",
            ),
        ],
    ),
    ("config sample", &[("Begin a configuration file", "namewire config sample > namewire.toml")]),
    (
        "config reference",
        &[("Write the reference", "namewire config reference > configuration.md")],
    ),
    (
        "config convert",
        &[(
            "Convert a configuration of NFD",
            "namewire config convert /etc/ndn/nfd.conf -o namewire.toml",
        )],
    ),
    ("control", &[("Print the token of the first start", "namewire control token")]),
    (
        "control token",
        &[(
            "Create a token that can only read",
            "namewire control token --name dashboard --role read",
        )],
    ),
    ("control schema", &[("Write the schema", "namewire control schema > schema.graphql")]),
    (
        "completions",
        &[(
            "Install the completions of bash",
            "namewire completions bash > ~/.local/share/bash-completion/completions/namewire",
        )],
    ),
    (
        "man",
        &[
            ("Read the page of a command", "namewire man get"),
            ("Write all pages", "namewire man --directory man1"),
        ],
    ),
];

/// The examples of a command.
pub(super) fn of(path: &str) -> &'static [Example] {
    EXAMPLES.iter().find(|(command, _)| *command == path).map_or(&[], |(_, examples)| examples)
}

/// Adds its examples to the help of every command.
pub(super) fn added(program: clap::Command) -> clap::Command {
    add(program, "")
}

fn add(command: clap::Command, path: &str) -> clap::Command {
    let examples = text(of(path));
    let command = match command.get_after_long_help() {
        Some(notes) => {
            let long = format!("{examples}\n\n{notes}");
            command.after_long_help(long)
        }
        None => command,
    };
    let command = command.after_help(examples);
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        add(sub, path.trim_start())
    })
}

/// The examples as lines of a shell, with what they do as comments.
pub(super) fn text(examples: &[Example]) -> String {
    let mut text = "Examples:".to_owned();
    for (what, line) in examples {
        // Writing to a string does not fail.
        if !what.is_empty() {
            let _ = write!(text, "\n  # {what}");
        }
        let _ = write!(text, "\n  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn paths(command: &clap::Command, path: &str, all: &mut Vec<String>) {
        all.push(path.to_owned());
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            paths(sub, format!("{path} {}", sub.get_name()).trim_start(), all);
        }
    }

    #[test]
    fn every_command_has_an_example() {
        let mut all = Vec::new();
        paths(&crate::cli::Arguments::command(), "", &mut all);
        for path in &all {
            assert!(!of(path).is_empty(), "`{path}` has no example");
        }
        for (path, _) in EXAMPLES {
            assert!(all.iter().any(|known| known == path), "`{path}` is not a command");
        }
    }

    #[test]
    fn every_example_is_accepted_by_its_command() {
        for (path, examples) in EXAMPLES {
            let of_program = examples.iter().flat_map(|(_, line)| line.split(" | "));
            for line in of_program.filter(|line| line.starts_with("namewire ")) {
                let line = line.split(" > ").next().unwrap();
                let words = line.split(' ').map(|word| word.trim_matches('\''));
                let parsed = crate::cli::Arguments::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
            assert!(
                examples.iter().any(|(_, line)| line.contains(&format!("namewire {path}"))),
                "{path}"
            );
        }
    }
}
