//! The declaration of a setting: its key, type, default, limits, documentation, and when a change takes effect.
//!
//! The macro `settings!` declares a table of settings as a struct. From the declaration follow the reader, the writer,
//! the sample file, the reference, and the comparison of two configurations at a reload:
//!
//! ```text
//! settings! {
//!     /// Text of the table, for the reference.
//!     pub struct Pool {
//!         /// Text of the setting, for the reference.
//!         capacity: ByteSize = ByteSize::mebibytes(256) => restart(Memory).within(LEAST..=MOST),
//!         /// A table within the table.
//!         inner: Inner = Inner::default() => table(),
//!     }
//! }
//! ```
//!
//! The expression behind the arrow is a [`Kind`]: a single value ([`restart`], [`new_faces`] or [`live`]), a table
//! ([`table()`]), an array of tables ([`tables`]), or a table whose keys are not fixed ([`entries`]).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

#[cfg(test)]
use proptest::prelude::*;
use toml::de::DeValue;

use crate::reader::Section;
use crate::value::{Number, Value, number_in, quoted};
use crate::writer::Writer;

/// When a changed setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// At the next start, for this reason.
    Restart(RestartReason),
    /// At a reload for new faces, except for those of UDP peers that connect first: workers create these with the
    /// settings of the start.
    NewFaces,
    /// At a reload.
    Live,
}

impl fmt::Display for Reload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart(reason) => write!(formatter, "restart ({})", reason.word()),
            Self::NewFaces => formatter.write_str("reload, for new faces"),
            Self::Live => formatter.write_str("reload"),
        }
    }
}

/// Why a changed setting takes effect at the next start only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestartReason {
    /// The process opens sockets and devices before it gives up its rights.
    Sockets,
    /// A process that has given up its rights cannot take them back.
    RightsGivenUp,
    /// Memory is reserved at the start.
    Memory,
    /// Worker threads are set up at the start.
    WorkerThreads,
    /// Management is set up at the start.
    ManagementSetup,
    /// Lines of two forms in one log could not be read by programs.
    OneLogFormat,
    /// The control socket is beside the Unix socket.
    ControlSocket,
    /// All UDP faces of a worker use the sockets of the listener.
    UdpSockets,
    /// The thread of WebTransport sessions gets its sockets at the start.
    WebTransportThread,
}

impl RestartReason {
    /// All reasons.
    pub(crate) const ALL: [Self; 9] = [
        Self::Sockets,
        Self::RightsGivenUp,
        Self::Memory,
        Self::WorkerThreads,
        Self::ManagementSetup,
        Self::OneLogFormat,
        Self::ControlSocket,
        Self::UdpSockets,
        Self::WebTransportThread,
    ];

    /// The reason in one word, for the reference.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Sockets => "sockets",
            Self::RightsGivenUp => "rights",
            Self::Memory => "memory",
            Self::WorkerThreads => "workers",
            Self::ManagementSetup => "management",
            Self::OneLogFormat => "log",
            Self::ControlSocket => "control",
            Self::UdpSockets => "udp",
            Self::WebTransportThread => "webtransport",
        }
    }
}

impl fmt::Display for RestartReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sockets => "sockets are opened before the process gives up its rights",
            Self::RightsGivenUp => "a process that has given up its rights cannot take them back",
            Self::Memory => "memory is reserved at the start, so that no packet waits for it",
            Self::WorkerThreads => "worker threads are set up at the start",
            Self::ManagementSetup => "management is set up at the start",
            Self::OneLogFormat => "lines of two forms in one log could not be read by programs",
            Self::ControlSocket => {
                "commands find the control socket, which does not move, beside the Unix socket"
            }
            Self::UdpSockets => "the UDP faces of a worker use the sockets of the listener",
            Self::WebTransportThread => {
                "the thread of WebTransport sessions gets its sockets at the start"
            }
        })
    }
}

/// A table of settings.
pub(crate) trait Table: Clone + fmt::Debug + PartialEq + 'static {
    /// The text of the table in the reference.
    const DOCUMENTATION: &'static str;

    /// The defaults. Of a required setting, an example.
    fn initial() -> Self;

    /// The settings and tables in it, in the order of the reference.
    fn fields() -> Vec<Box<dyn Field<Self>>>;
}

/// A setting or a table of table `S`.
pub(crate) trait Field<S> {
    fn key(&self) -> &'static str;
    /// The text of the setting in the reference. Of a table, its own [`Table::DOCUMENTATION`] is there.
    fn documentation(&self) -> &'static str;
    fn read(&self, section: &mut Section<'_>, target: &mut S);
    fn write_value(&self, writer: &mut Writer, value: &S, default: &S);
    fn write_tables(&self, writer: &mut Writer, path: &str, value: &S, default: &S);
    fn describe(&self, path: &str, default: &S) -> Description;
    fn keep(&self, path: &str, running: &S, read: &mut S, pending: &mut PendingChanges);
    #[cfg(test)]
    fn arbitrary(&self) -> BoxedStrategy<Assignment<S>>;
}

/// A kind of setting or table, with the operations on a value of its type.
pub(crate) trait Kind<T: Clone + fmt::Debug> {
    /// Reads the value under `key`; without one, `target` stays what it is.
    fn read(&self, section: &mut Section<'_>, key: &'static str, target: &mut T);

    /// Writes the value under `key` in the current table. Tables write nothing here.
    fn write_value(&self, writer: &mut Writer, key: &str, value: &T, default: &T);

    /// Writes the tables at `path`. Single values write nothing here.
    fn write_tables(&self, _writer: &mut Writer, _path: &str, _value: &T, _default: &T) {}

    /// Describes the setting for the reference.
    fn describe(&self, path: &str, default: &T) -> Description;

    /// Compares what runs with what was read. A setting that takes effect at the next start is put back in `read`.
    fn keep(&self, path: &str, running: &T, read: &mut T, pending: &mut PendingChanges);

    /// Values for property tests.
    #[cfg(test)]
    fn arbitrary(&self) -> BoxedStrategy<T>;
}

/// Changes of a configuration, by the time at which they take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingChanges {
    /// Settings that take effect at the next start, as dotted paths, by reason.
    pub restart: BTreeMap<RestartReason, Vec<String>>,
    /// Settings that take effect for new faces, but not for those of UDP peers that connect first.
    pub new_faces: Vec<String>,
    /// Settings that take effect at the reload.
    pub live: Vec<String>,
}

impl PendingChanges {
    /// Records that the change of a setting takes effect at the next start.
    pub fn wait_for_restart(&mut self, reason: RestartReason, setting: String) {
        self.restart.entry(reason).or_default().push(setting);
    }
}

/// A setting or table, for the reference.
#[derive(Clone, Debug)]
pub(crate) enum Description {
    Setting {
        /// The type of the value, with its limits.
        values: String,
        /// None: there is no default value.
        default: Option<String>,
        /// A value, if there is no default.
        example: String,
        is_required: bool,
        reload: Reload,
    },
    Table {
        documentation: &'static str,
        /// Whether it is a table of an array, written `[[…]]`.
        is_item: bool,
        /// Whether there is one by default.
        is_present: bool,
        entries: Vec<Described>,
    },
    /// A table whose keys are not fixed.
    Entries { keys: String, values: String, example: &'static str, reload: Reload },
}

/// A [`Description`] with its key.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    /// The dotted path.
    pub(crate) path: String,
    pub(crate) key: &'static str,
    pub(crate) documentation: &'static str,
    pub(crate) description: Description,
}

/// Reads the settings of a table. Returns whether all that are required were read.
pub(crate) fn read_table<T: Table>(mut section: Section<'_>, target: &mut T) -> bool {
    for field in T::fields() {
        field.read(&mut section, target);
    }
    section.finish()
}

/// Writes the settings of a table that differ from `default`, and those that are required.
pub(crate) fn write_table<T: Table>(writer: &mut Writer, path: &str, value: &T, default: &T) {
    // Values come before the tables within a table, which TOML requires.
    for field in T::fields() {
        field.write_value(writer, value, default);
    }
    for field in T::fields() {
        field.write_tables(writer, &join(path, field.key()), value, default);
    }
}

/// Describes the settings of a table.
pub(crate) fn describe_table<T: Table>(path: &str, default: &T) -> Vec<Described> {
    let describe = |field: Box<dyn Field<T>>| {
        let path = join(path, field.key());
        Described {
            key: field.key(),
            documentation: field.documentation(),
            description: field.describe(&path, default),
            path,
        }
    };
    T::fields().into_iter().map(describe).collect()
}

/// Compares the settings of a table. See [`Kind::keep`].
pub(crate) fn keep_table<T: Table>(
    path: &str,
    running: &T,
    read: &mut T,
    pending: &mut PendingChanges,
) {
    for field in T::fields() {
        field.keep(&join(path, field.key()), running, read, pending);
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// A setting with a single value.
pub(crate) struct Setting<T> {
    reload: Reload,
    is_required: bool,
    /// A value for the reference, if there is no default.
    example: Option<&'static str>,
    check: fn(&T) -> Result<(), String>,
    limits: Option<Limits<T>>,
}

/// Reads a value, and refuses one out of range.
type ReadInRange<T> = Box<dyn Fn(&DeValue<'_>) -> Result<T, String>>;

/// The range of a setting.
struct Limits<T> {
    shown: String,
    read: ReadInRange<T>,
    #[cfg(test)]
    arbitrary: BoxedStrategy<T>,
}

/// A setting of a table in an array: it takes effect when the array does.
pub(crate) fn value<T: Value>() -> Setting<T> {
    Setting::new(Reload::Live)
}

/// A setting that takes effect at the next start.
pub(crate) fn restart<T: Value>(reason: RestartReason) -> Setting<T> {
    Setting::new(Reload::Restart(reason))
}

/// A setting that takes effect at a reload.
pub(crate) fn live<T: Value>() -> Setting<T> {
    Setting::new(Reload::Live)
}

/// A setting that takes effect at a reload for new faces.
pub(crate) fn new_faces<T: Value>() -> Setting<T> {
    Setting::new(Reload::NewFaces)
}

impl<T: Value> Setting<T> {
    fn new(reload: Reload) -> Self {
        Self { reload, is_required: false, example: None, check: |_| Ok(()), limits: None }
    }

    /// The setting has no default. The value that its declaration gives is an example.
    pub(crate) fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// The setting has no value by default, but for example this one, as TOML.
    pub(crate) fn example(mut self, example: &'static str) -> Self {
        self.example = Some(example);
        self
    }

    /// Only values that pass a check are valid.
    pub(crate) fn checked(mut self, check: fn(&T) -> Result<(), String>) -> Self {
        self.check = check;
        self
    }

    fn read_value(&self, value: &DeValue<'_>) -> Result<T, String> {
        let read = match &self.limits {
            Some(limits) => (limits.read)(value)?,
            None => T::from_toml(value)?,
        };
        (self.check)(&read).map(|()| read)
    }
}

impl<T: Number> Setting<T> {
    /// Only values of a range are valid.
    pub(crate) fn within(mut self, range: RangeInclusive<T>) -> Self {
        self.limits = Some(Limits {
            shown: format!("{} to {}", range.start().shown(), range.end().shown()),
            #[cfg(test)]
            arbitrary: T::arbitrary_in(range.clone()),
            read: Box::new(move |value| number_in(value, &range)),
        });
        self
    }
}

impl<T: Value> Kind<T> for Setting<T> {
    fn read(&self, section: &mut Section<'_>, key: &'static str, target: &mut T) {
        let Some(value) = section.value(key) else {
            if self.is_required {
                section.report_missing(key);
            }
            return;
        };
        match self.read_value(value.get_ref()) {
            Ok(read) => *target = read,
            Err(reason) if self.is_required => section.reject_required(key, value.span(), &reason),
            Err(reason) => section.reject(key, value.span(), &reason),
        }
    }

    fn write_value(&self, writer: &mut Writer, key: &str, value: &T, default: &T) {
        if (self.is_required || value != default)
            && let Some(text) = value.to_toml()
        {
            writer.write(key, &text);
        }
    }

    fn describe(&self, _: &str, default: &T) -> Description {
        let default = default.to_toml();
        let limits = self.limits.as_ref().map(|limits| format!(", {}", limits.shown));
        Description::Setting {
            values: T::type_name() + &limits.unwrap_or_default(),
            example: self.example.map(str::to_owned).or(default.clone()).unwrap_or_default(),
            default: default.filter(|_| !self.is_required),
            is_required: self.is_required,
            reload: self.reload,
        }
    }

    fn keep(&self, path: &str, running: &T, read: &mut T, pending: &mut PendingChanges) {
        keep_value(self.reload, path, running, read, pending);
    }

    #[cfg(test)]
    fn arbitrary(&self) -> BoxedStrategy<T> {
        let check = self.check;
        let all = self.limits.as_ref().map_or_else(T::arbitrary, |limits| limits.arbitrary.clone());
        all.prop_filter("a valid value", move |value| check(value).is_ok()).boxed()
    }
}

fn keep_value<T: Clone + PartialEq>(
    reload: Reload,
    path: &str,
    running: &T,
    read: &mut T,
    pending: &mut PendingChanges,
) {
    if running == read {
        return;
    }
    match reload {
        Reload::Restart(reason) => {
            pending.wait_for_restart(reason, path.to_owned());
            read.clone_from(running);
        }
        Reload::NewFaces => pending.new_faces.push(path.to_owned()),
        Reload::Live => pending.live.push(path.to_owned()),
    }
}

/// A table within a table.
pub(crate) struct SubTable;

/// A table within a table.
pub(crate) fn table() -> SubTable {
    SubTable
}

impl<T: Table> Kind<T> for SubTable {
    fn read(&self, section: &mut Section<'_>, key: &'static str, target: &mut T) {
        read_table(section.section(key), target);
    }

    fn write_value(&self, _: &mut Writer, _: &str, _: &T, _: &T) {}

    fn write_tables(&self, writer: &mut Writer, path: &str, value: &T, default: &T) {
        writer.begin_table(path);
        write_table(writer, path, value, default);
    }

    fn describe(&self, path: &str, default: &T) -> Description {
        Description::Table {
            documentation: T::DOCUMENTATION,
            is_item: false,
            is_present: true,
            entries: describe_table(path, default),
        }
    }

    fn keep(&self, path: &str, running: &T, read: &mut T, pending: &mut PendingChanges) {
        keep_table(path, running, read, pending);
    }

    #[cfg(test)]
    fn arbitrary(&self) -> BoxedStrategy<T> {
        arbitrary_table()
    }
}

/// An array of tables.
pub(crate) struct Tables {
    reload: Reload,
}

/// An array of tables.
pub(crate) fn tables(reload: Reload) -> Tables {
    Tables { reload }
}

impl<T: Table> Kind<Vec<T>> for Tables {
    fn read(&self, section: &mut Section<'_>, key: &'static str, target: &mut Vec<T>) {
        // An empty list differs from none, which leaves the default.
        let Some(items) = section.sections(key) else { return };
        target.clear();
        for (number, item) in items {
            let mut read = T::initial();
            if read_table(item, &mut read) {
                section.accept_item(key, number);
                target.push(read);
            }
        }
    }

    fn write_value(&self, writer: &mut Writer, key: &str, value: &Vec<T>, default: &Vec<T>) {
        if value.is_empty() && !default.is_empty() {
            writer.write(key, "[]");
        }
    }

    fn write_tables(&self, writer: &mut Writer, path: &str, value: &Vec<T>, default: &Vec<T>) {
        if value != default {
            for item in value {
                writer.begin_item(path);
                write_table(writer, path, item, &T::initial());
            }
        }
    }

    fn describe(&self, path: &str, default: &Vec<T>) -> Description {
        let item = default.first().cloned().unwrap_or_else(T::initial);
        let mut entries = describe_table(path, &item);
        for entry in &mut entries {
            if let Description::Setting { reload, .. } = &mut entry.description {
                *reload = self.reload;
            }
        }
        let is_present = !default.is_empty();
        Description::Table { documentation: T::DOCUMENTATION, is_item: true, is_present, entries }
    }

    fn keep(&self, path: &str, running: &Vec<T>, read: &mut Vec<T>, pending: &mut PendingChanges) {
        keep_value(self.reload, path, running, read, pending);
    }

    #[cfg(test)]
    fn arbitrary(&self) -> BoxedStrategy<Vec<T>> {
        prop::collection::vec(arbitrary_table(), 0..3).boxed()
    }
}

/// A table whose keys are not fixed.
pub(crate) struct Entries {
    reload: Reload,
    keys: fn() -> String,
    check_key: fn(&str) -> Result<(), String>,
    /// A setting, as TOML.
    example: &'static str,
}

/// A table whose keys are not fixed; `keys` describes them.
pub(crate) fn entries(
    reload: Reload,
    keys: fn() -> String,
    check_key: fn(&str) -> Result<(), String>,
    example: &'static str,
) -> Entries {
    Entries { reload, keys, check_key, example }
}

impl<V: Value> Kind<BTreeMap<String, V>> for Entries {
    fn read(&self, section: &mut Section<'_>, key: &'static str, target: &mut BTreeMap<String, V>) {
        *target = section.section(key).entries(self.check_key, V::from_toml).into_iter().collect();
    }

    fn write_value(
        &self,
        _: &mut Writer,
        _: &str,
        _: &BTreeMap<String, V>,
        _: &BTreeMap<String, V>,
    ) {
    }

    fn write_tables(
        &self,
        writer: &mut Writer,
        path: &str,
        value: &BTreeMap<String, V>,
        _: &BTreeMap<String, V>,
    ) {
        writer.begin_table(path);
        for (key, value) in value {
            writer.write(&quoted(key), &value.to_toml().unwrap_or_default());
        }
    }

    fn describe(&self, _: &str, _: &BTreeMap<String, V>) -> Description {
        let (keys, values) = ((self.keys)(), V::type_name());
        Description::Entries { keys, values, example: self.example, reload: self.reload }
    }

    fn keep(
        &self,
        path: &str,
        running: &BTreeMap<String, V>,
        read: &mut BTreeMap<String, V>,
        pending: &mut PendingChanges,
    ) {
        keep_value(self.reload, path, running, read, pending);
    }

    #[cfg(test)]
    fn arbitrary(&self) -> BoxedStrategy<BTreeMap<String, V>> {
        let keys = prop::sample::select(vec!["ndn_dataplane", "ndn_dataplane::worker", "quinn"]);
        prop::collection::btree_map(keys.prop_map(str::to_owned), V::arbitrary(), 0..3).boxed()
    }
}

/// A field of a struct, and what is declared of it.
struct Declared<S, T, K> {
    key: &'static str,
    documentation: &'static str,
    of: fn(&S) -> &T,
    of_mut: fn(&mut S) -> &mut T,
    kind: K,
}

/// Declares a field of a struct; for `list_item!`.
pub(crate) fn declare<S: 'static, T: Clone + fmt::Debug + 'static, K: Kind<T> + 'static>(
    key: &'static str,
    documentation: &'static str,
    of: fn(&S) -> &T,
    of_mut: fn(&mut S) -> &mut T,
    kind: K,
) -> Box<dyn Field<S>> {
    Box::new(Declared { key, documentation, of, of_mut, kind })
}

impl<S: 'static, T: Clone + fmt::Debug + 'static, K: Kind<T>> Field<S> for Declared<S, T, K> {
    fn key(&self) -> &'static str {
        self.key
    }

    fn documentation(&self) -> &'static str {
        self.documentation
    }

    fn read(&self, section: &mut Section<'_>, target: &mut S) {
        self.kind.read(section, self.key, (self.of_mut)(target));
    }

    fn write_value(&self, writer: &mut Writer, value: &S, default: &S) {
        self.kind.write_value(writer, self.key, (self.of)(value), (self.of)(default));
    }

    fn write_tables(&self, writer: &mut Writer, path: &str, value: &S, default: &S) {
        self.kind.write_tables(writer, path, (self.of)(value), (self.of)(default));
    }

    fn describe(&self, path: &str, default: &S) -> Description {
        self.kind.describe(path, (self.of)(default))
    }

    fn keep(&self, path: &str, running: &S, read: &mut S, pending: &mut PendingChanges) {
        self.kind.keep(path, (self.of)(running), (self.of_mut)(read), pending);
    }

    #[cfg(test)]
    fn arbitrary(&self) -> BoxedStrategy<Assignment<S>> {
        let of_mut = self.of_mut;
        let assign = move |value: T| {
            Assignment(std::rc::Rc::new(move |table: &mut S| {
                *of_mut(table) = value.clone();
            }))
        };
        self.kind.arbitrary().prop_map(assign).boxed()
    }
}

/// Sets one field of a table to a value.
#[cfg(test)]
#[derive(Clone)]
pub(crate) struct Assignment<S>(std::rc::Rc<dyn Fn(&mut S)>);

#[cfg(test)]
impl<S> fmt::Debug for Assignment<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Assignment")
    }
}

/// Tables with arbitrary valid settings.
#[cfg(test)]
pub(crate) fn arbitrary_table<T: Table>() -> BoxedStrategy<T> {
    let fields: Vec<_> = T::fields().iter().map(|field| field.arbitrary()).collect();
    let assigned = |assignments: Vec<Assignment<T>>| {
        let mut table = T::initial();
        assignments.iter().for_each(|Assignment(assign)| assign(&mut table));
        table
    };
    fields.prop_map(assigned).boxed()
}

/// Declares a table of settings with its defaults.
macro_rules! settings {
    ($(#$attribute:tt)* pub struct $table:ident $settings:tt) => {
        $crate::declaration::list_item! { $(#$attribute)* pub struct $table $settings }

        impl Default for $table {
            fn default() -> Self {
                $crate::declaration::Table::initial()
            }
        }
    };
}
pub(crate) use settings;

/// Declares a table of an array of tables.
macro_rules! list_item {
    (
        $(#[doc = $documentation:literal])*
        pub struct $table:ident {
            $(
                $(#[doc = $text:literal])*
                $key:ident: $type:ty = $default:expr => $kind:expr
            ),* $(,)?
        }
    ) => {
        $(#[doc = $documentation])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $table {
            $($(#[doc = $text])* pub $key: $type,)*
        }

        impl $crate::declaration::Table for $table {
            const DOCUMENTATION: &'static str = concat!($($documentation, "\n"),*);

            fn initial() -> Self {
                Self { $($key: $default,)* }
            }

            fn fields() -> Vec<Box<dyn $crate::declaration::Field<Self>>> {
                vec![$($crate::declaration::declare::<Self, $type, _>(
                    stringify!($key),
                    concat!($($text, "\n"),*),
                    |table| &table.$key,
                    |table| &mut table.$key,
                    $kind,
                )),*]
            }
        }
    };
}
pub(crate) use list_item;
