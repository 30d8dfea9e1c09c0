//! Files for container orchestrators, made of a cell of an experiment: a Compose file with a service for each node, or manifests
//! for Kubernetes.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use ndn_cache_sim::engine::closer_hops;
use serde_json::{Map, Value, json};

use crate::network::Network;
use crate::network::packets::prefix;
use crate::simulation::node::NodeSettings;
use crate::testbed::applications::{
    object_name, objects_of, producer_arguments, traffic_arguments, transfer_arguments,
};
use crate::testbed::{Program, Sockets, Testbed, Workload};

/// UDP port of all forwarders.
const PORT: u16 = 6363;
/// Directory of the socket of a forwarder, a volume.
const RUN: &str = "/run/nfd";
const SOCKET: &str = "/run/nfd/nfd.sock";
/// Address of the first node of a Compose file; its network has 65,536.
const FIRST: u32 = u32::from_be_bytes([10, 64, 0, 10]);
/// Image with a shell, for files of zeros.
const SHELL_IMAGE: &str = "busybox:1.37";
/// Name of all objects of Kubernetes.
const NAME: &str = "namewire-lab";

/// An orchestrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Docker Compose: the topology of the experiment on one machine.
    Compose,
    /// Kubernetes (kustomize): a forwarder on each machine, one file server, and consumers on all machines.
    Kubernetes,
}

/// A cell that is rendered.
pub(crate) struct Cell<'a> {
    /// Name of the experiment, and levels of the cell.
    pub(crate) title: String,
    pub(crate) network: &'a Network<'a>,
    pub(crate) testbed: Testbed,
    pub(crate) image: &'a str,
}

impl Cell<'_> {
    /// Names and contents of the files.
    ///
    /// # Errors
    /// The cell cannot be rendered.
    pub(crate) fn render(&self, form: Form) -> Result<Vec<(String, String)>, String> {
        let network = self.network;
        let programs = self.testbed.programs(network.topology.nodes.len());
        if programs.iter().any(|program| *program != Program::Namewire) {
            return Err("forwarder: only namewire has an image".to_owned());
        }
        if network.has_object_routes {
            return Err("routes: containers have those of sources".to_owned());
        }
        let mut nodes: Vec<u32> = network.requests.iter().map(|request| request.node).collect();
        nodes.sort_unstable();
        if self.workload() == Workload::Transfer && nodes.windows(2).any(|pair| pair[0] == pair[1])
        {
            return Err(
                "pattern: a consumer is a container that fetches one object: one-each".to_owned()
            );
        }
        match form {
            Form::Compose => Ok(self.compose()),
            Form::Kubernetes => self.kubernetes(),
        }
    }

    /// Consumers are programs.
    fn workload(&self) -> Workload {
        match self.testbed.workload {
            Workload::Traffic => Workload::Traffic,
            Workload::Distribution | Workload::Transfer => Workload::Transfer,
        }
    }

    fn header(&self, command: &str) -> String {
        format!(
            "# {}\n# Made by `namewire lab render`; not run by it. Links are those of the container network: rates, delays and losses of\n\
             # the experiment are not applied. The consumers print their results as JSON.\n#\n#   {command}\n",
            self.title
        )
    }

    fn configuration(&self, node: usize, udp: SocketAddrV4, routes: &str) -> String {
        let network = self.network;
        let settings = NodeSettings {
            has_consumers: true,
            is_source: true,
            ..NodeSettings::of(network, node)
        };
        let sockets = Sockets { unix: SOCKET.into(), udp, neighbours: Vec::new() };
        let workers = self.testbed.of_node(node).workers;
        let (_, text) = Program::Namewire.configuration(settings, workers, &sockets);
        let strategy = match network.strategy {
            "best-route" => String::new(),
            other => format!("\n[[strategy_choices]]\nprefix = \"/\"\nstrategy = \"{other}\"\n"),
        };
        format!("{text}{strategy}{routes}")
    }

    fn compose(&self) -> Vec<(String, String)> {
        let (network, topology) = (self.network, self.network.topology);
        let address = |node: usize| Ipv4Addr::from(FIRST + node as u32);
        let sources: BTreeSet<u32> = network.sources.iter().copied().collect();
        let closer: Vec<_> = sources
            .iter()
            .map(|source| (prefix(*source).to_string(), closer_hops(topology, *source as usize)))
            .collect();
        let mut files = Vec::new();
        let (mut services, mut volumes, mut configs) = (Map::new(), Map::new(), Map::new());
        for (number, name) in topology.nodes.iter().enumerate() {
            let mut routes = String::new();
            for (prefix, closer) in &closer {
                for (rank, hop) in closer[number].iter().enumerate() {
                    let face = format!("udp4://{}:{PORT}", address(hop.to));
                    routes.push_str(&route(prefix, &face, 1 + rank as u64));
                }
            }
            let file = format!("node-{number}.toml");
            let udp = SocketAddrV4::new(address(number), PORT);
            files.push((file.clone(), self.configuration(number, udp, &routes)));
            configs.insert(format!("node-{number}"), json!({ "file": format!("./{file}") }));
            volumes.insert(format!("run-{number}"), json!({}));
            let mut service = json!({
                "image": self.image,
                "command": ["run", "--config", "/etc/namewire.toml"],
                "labels": { "node": name },
                "configs": [{ "source": format!("node-{number}"), "target": "/etc/namewire.toml" }],
                "volumes": [format!("run-{number}:{RUN}")],
                "networks": { "lab": { "ipv4_address": address(number).to_string() } },
                "healthcheck": {
                    "test": ["CMD", "/usr/bin/namewire", "status"],
                    "interval": "1s",
                    "timeout": "5s",
                    "retries": 60,
                },
            });
            let processors = self.testbed.of_node(number).processors.iter();
            let processors: Vec<String> = processors.map(ToString::to_string).collect();
            if !processors.is_empty() {
                service["cpuset"] = json!(processors.join(","));
            }
            services.insert(format!("node-{number}"), service);
        }
        for source in &sources {
            self.add_producer(*source, &mut services, &mut volumes);
        }
        for (node, command) in self.consumers() {
            let mut depends = Map::new();
            depends.insert(format!("node-{node}"), json!({ "condition": "service_healthy" }));
            for source in &sources {
                let started = json!({ "condition": "service_started" });
                depends.insert(format!("producer-{source}"), started);
            }
            services.insert(
                format!("consumer-{node}"),
                json!({
                    "image": self.image,
                    "command": with_transport(command),
                    "volumes": [format!("run-{node}:{RUN}")],
                    "tmpfs": ["/tmp"],
                    "network_mode": "none",
                    "depends_on": depends,
                }),
            );
        }
        let file = json!({
            "name": NAME,
            "services": services,
            "volumes": volumes,
            "configs": configs,
            "networks": { "lab": { "ipam": { "config": [{ "subnet": "10.64.0.0/16" }] } } },
        });
        let command = "docker compose up; docker compose logs --no-log-prefix $(docker compose config --services | grep consumer)";
        files.push(("compose.yaml".to_owned(), format!("{}{}", self.header(command), yaml(&file))));
        files
    }

    /// The producer of a source, and what makes its files.
    fn add_producer(
        &self,
        source: u32,
        services: &mut Map<String, Value>,
        volumes: &mut Map<String, Value>,
    ) {
        let network = self.network;
        let mut depends = Map::new();
        depends.insert(format!("node-{source}"), json!({ "condition": "service_healthy" }));
        let mut mounts = vec![format!("run-{source}:{RUN}")];
        if self.workload() == Workload::Transfer {
            let content = format!("content-{source}");
            volumes.insert(content.clone(), json!({}));
            mounts.push(format!("{content}:/content"));
            let of = json!({ "condition": "service_completed_successfully" });
            depends.insert(content.clone(), of);
            services.insert(
                content.clone(),
                json!({
                    "image": SHELL_IMAGE,
                    "command": ["sh", "-c", self.make_files(source)],
                    "volumes": [format!("{content}:/content")],
                    "network_mode": "none",
                }),
            );
        }
        let command = producer_arguments(self.workload(), (network, source), "/content");
        services.insert(
            format!("producer-{source}"),
            json!({
                "image": self.image,
                "command": with_transport(command),
                "volumes": mounts,
                "network_mode": "none",
                "depends_on": depends,
            }),
        );
    }

    /// Node and arguments of each consumer.
    fn consumers(&self) -> Vec<(usize, Vec<String>)> {
        let network = self.network;
        if self.workload() == Workload::Traffic {
            let all = network.topology.consumers.iter();
            return all.map(|node| (*node, traffic_arguments(network, *node))).collect();
        }
        let all = network.requests.iter();
        all.map(|one| (one.node as usize, transfer_arguments(network, one.object, "/tmp/object")))
            .collect()
    }

    /// The command that makes the files of a source.
    fn make_files(&self, source: u32) -> String {
        let network = self.network;
        let file = |object: u32| {
            let size = network.sizes[object as usize];
            format!("truncate -s {size} /content/{}", object_name(object))
        };
        objects_of(network, source).into_iter().map(file).collect::<Vec<_>>().join(" && ")
    }

    /// A forwarder on each machine, the file server of all sources with a forwarder of its own, and jobs of consumers.
    fn kubernetes(&self) -> Result<Vec<(String, String)>, String> {
        let (network, topology) = (self.network, self.network.topology);
        let sources: BTreeSet<u32> = network.sources.iter().copied().collect();
        let origin = format!("udp://origin.{NAME}.svc:{PORT}");
        let routes: String =
            sources.iter().map(|source| route(&prefix(*source).to_string(), &origin, 1)).collect();
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT);
        let cache = (0..topology.nodes.len()).find(|node| topology.has_cache[*node]).unwrap_or(0);
        let without = (0..topology.nodes.len()).find(|node| !topology.has_cache[*node]);
        let configuration = |node: usize, routes: &str| self.configuration(node, any, routes);
        let mut files = vec![
            ("forwarder.toml".to_owned(), configuration(cache, &routes)),
            ("origin.toml".to_owned(), configuration(without.unwrap_or(cache), "")),
        ];
        let mut resources = Vec::new();
        let mut add = |name: &str, manifest: &Value| {
            resources.push(name.to_owned());
            files.push((name.to_owned(), yaml(manifest)));
        };
        add(
            "namespace.yaml",
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAME } }),
        );
        add("forwarder.yaml", &self.daemon_set());
        add("origin-service.yaml", &service());
        add("origin.yaml", &self.origin(&sources)?);
        for job in self.jobs() {
            let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            add(&format!("{name}.yaml"), &job);
        }
        let file = json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": NAME,
            "resources": resources,
            "configMapGenerator": [
                { "name": "forwarder", "files": ["namewire.toml=forwarder.toml"] },
                { "name": "origin", "files": ["namewire.toml=origin.toml"] },
            ],
        });
        let note = "# A cluster has a topology of its own: each machine has a forwarder with the Content Store of the cell's first node with a\n\
                    # cache; its consumers share it, and it leads to the forwarder of one file server with all objects.\n";
        let text = format!("{}{note}{}", self.header("kubectl apply --kustomize ."), yaml(&file));
        files.push(("kustomization.yaml".to_owned(), text));
        Ok(files)
    }

    fn forwarder_container(&self, run: &str) -> Value {
        json!({
            "name": "forwarder",
            "image": self.image,
            "args": ["run", "--config", "/etc/namewire/namewire.toml"],
            "ports": [{ "containerPort": PORT, "protocol": "UDP" }],
            "volumeMounts": [
                { "name": run, "mountPath": RUN },
                { "name": "configuration", "mountPath": "/etc/namewire", "readOnly": true },
            ],
            "readinessProbe": { "exec": { "command": ["/usr/bin/namewire", "status"] }, "periodSeconds": 2 },
        })
    }

    fn daemon_set(&self) -> Value {
        let labels = labels("forwarder");
        json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": { "name": "forwarder", "labels": labels },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "initContainers": [own_directory()],
                        "containers": [self.forwarder_container("run")],
                        "volumes": [socket_of_machine(), configuration("forwarder")],
                    },
                },
            },
        })
    }

    fn origin(&self, sources: &BTreeSet<u32>) -> Result<Value, String> {
        let network = self.network;
        let is_transfer = self.workload() == Workload::Transfer;
        let mut containers = vec![self.forwarder_container("run")];
        let mut init = Vec::new();
        let mut volumes = vec![json!({ "name": "run", "emptyDir": {} }), configuration("origin")];
        for source in sources {
            let content = format!("content-{source}");
            let mut mounts = vec![json!({ "name": "run", "mountPath": RUN })];
            if is_transfer {
                let bytes: u64 = objects_of(network, *source)
                    .iter()
                    .map(|one| network.sizes[*one as usize])
                    .sum();
                if bytes > 1 << 40 {
                    return Err("object_bytes: a source has more than 1 TiB".to_owned());
                }
                let mount = json!({ "name": content, "mountPath": "/content" });
                mounts.push(mount.clone());
                volumes.push(json!({ "name": content, "emptyDir": {} }));
                init.push(json!({
                    "name": content,
                    "image": SHELL_IMAGE,
                    "command": ["sh", "-c", self.make_files(*source)],
                    "volumeMounts": [mount],
                }));
            }
            let arguments = producer_arguments(self.workload(), (network, *source), "/content");
            containers.push(json!({
                "name": format!("producer-{source}"),
                "image": self.image,
                "args": with_transport(arguments),
                "volumeMounts": mounts,
            }));
        }
        let labels = labels("origin");
        Ok(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "origin", "labels": labels },
            "spec": {
                "replicas": 1,
                "strategy": { "type": "Recreate" },
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    // The group of the image's user, so that it may make its socket.
                    "spec": {
                        "securityContext": { "fsGroup": 65532 },
                        "initContainers": init,
                        "containers": containers,
                        "volumes": volumes,
                    },
                },
            },
        }))
    }

    /// An indexed job for each command of consumers.
    fn jobs(&self) -> Vec<Value> {
        let network = self.network;
        let commands: Vec<(String, Vec<String>, usize)> = match self.workload() {
            Workload::Traffic => {
                // All consumers of a cluster are alike; the seed is that of the index.
                let consumers = &network.topology.consumers;
                let mut arguments =
                    traffic_arguments(network, consumers.first().copied().unwrap_or(0));
                if let Some(seed) = arguments.iter().position(|one| one == "--seed") {
                    arguments[seed + 1] = "$(JOB_COMPLETION_INDEX)".to_owned();
                }
                vec![("consumers".to_owned(), arguments, consumers.len())]
            }
            Workload::Distribution | Workload::Transfer => {
                let objects: BTreeSet<u32> =
                    network.requests.iter().map(|one| one.object).collect();
                let command = |object: u32| {
                    let all = network.requests.iter().filter(|one| one.object == object);
                    let arguments = transfer_arguments(network, object, "/tmp/object");
                    (format!("consumers-{object}"), arguments, all.count())
                };
                objects.into_iter().map(command).collect()
            }
        };
        let job = |(name, arguments, count): (String, Vec<String>, usize)| {
            let labels = labels("consumer");
            json!({
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": { "name": name, "labels": labels },
                "spec": {
                    "completionMode": "Indexed",
                    "completions": count,
                    "parallelism": count,
                    "backoffLimit": 0,
                    "template": {
                        "metadata": { "labels": labels },
                        "spec": {
                            "restartPolicy": "Never",
                            "topologySpreadConstraints": [{
                                "maxSkew": 1,
                                "topologyKey": "kubernetes.io/hostname",
                                "whenUnsatisfiable": "ScheduleAnyway",
                                "labelSelector": { "matchLabels": labels },
                            }],
                            "containers": [{
                                "name": "consumer",
                                "image": self.image,
                                "args": with_transport(arguments),
                                "volumeMounts": [
                                    { "name": "run", "mountPath": RUN },
                                    { "name": "objects", "mountPath": "/tmp" },
                                ],
                            }],
                            "volumes": [socket_of_machine(), { "name": "objects", "emptyDir": {} }],
                        },
                    },
                },
            })
        };
        commands.into_iter().map(job).collect()
    }
}

fn route(prefix: &str, face: &str, cost: u64) -> String {
    format!("\n[[static_routes]]\nprefix = \"{prefix}\"\nface = \"{face}\"\ncost = {cost}\n")
}

fn with_transport(arguments: Vec<String>) -> Vec<String> {
    [arguments, vec!["--transport".to_owned(), format!("unix://{SOCKET}")]].concat()
}

fn labels(component: &str) -> Value {
    json!({ "app.kubernetes.io/name": NAME, "app.kubernetes.io/component": component })
}

/// The directory of the machine in which its forwarder has its socket.
fn socket_of_machine() -> Value {
    json!({ "name": "run", "hostPath": { "path": "/run/namewire-lab", "type": "DirectoryOrCreate" } })
}

fn configuration(name: &str) -> Value {
    json!({ "name": "configuration", "configMap": { "name": name } })
}

/// Gives the directory of the machine to the user of the image.
fn own_directory() -> Value {
    json!({
        "name": "directory",
        "image": SHELL_IMAGE,
        "command": ["chown", "65532:65532", RUN],
        "volumeMounts": [{ "name": "run", "mountPath": RUN }],
    })
}

/// The address of the file server's forwarder.
fn service() -> Value {
    let labels = labels("origin");
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "origin", "labels": labels },
        "spec": {
            "clusterIP": "None",
            "selector": labels,
            "ports": [{ "name": "ndn", "port": PORT, "protocol": "UDP" }],
        },
    })
}

/// A value as YAML in block style. Texts are in quotes as in JSON, of which YAML 1.2 is a superset.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    append_yaml(&mut text, value, 0);
    text
}

fn append_yaml(text: &mut String, value: &Value, indent: usize) {
    let is_block = |value: &Value| match value {
        Value::Array(all) => all.iter().any(|one| one.is_array() || one.is_object()),
        Value::Object(all) => !all.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    let margin = " ".repeat(indent);
    match value {
        Value::Object(all) if is_block(value) => {
            for (key, below) in all {
                let key = match key
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
                {
                    true => key.clone(),
                    false => Value::from(key.as_str()).to_string(),
                };
                text.push_str(&format!("{margin}{key}:"));
                if is_block(below) {
                    text.push('\n');
                    append_yaml(text, below, indent + 2);
                } else {
                    text.push_str(&format!(" {below}\n"));
                }
            }
        }
        Value::Array(all) if is_block(value) => {
            for one in all {
                let mut below = String::new();
                append_yaml(&mut below, one, indent + 2);
                // The first line follows the hyphen.
                text.push_str(&format!("{margin}- {}", below.trim_start()));
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => text.push_str(&format!("{margin}{value}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_block_style() {
        let value = json!({
            "a": { "b": ["x", "y: z"], "empty": {}, "none": [] },
            "list": [{ "name": "1", "n": 2 }, [{ "deep": true }], "text\n"],
            "k:v": null,
        });
        let expected = "a:\n  b: [\"x\",\"y: z\"]\n  empty: {}\n  none: []\n\"k:v\": null\nlist:\n  - n: 2\n    name: \"1\"\n  \
                        - - deep: true\n  - \"text\\n\"\n";
        assert_eq!(yaml(&value), expected);
    }
}
