//! Energy of the processor packages, as the kernel counts it (RAPL, `/sys/class/powercap`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Reads the counters of all processor packages of the machine.
#[derive(Debug, Clone)]
pub struct EnergyMeter {
    packages: Vec<Package>,
}

#[derive(Debug, Clone)]
struct Package {
    counter: PathBuf,
    /// The counter begins again after this many microjoules.
    range_uj: u64,
}

/// Counters of all packages at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnergyReading(Vec<u64>);

impl EnergyMeter {
    /// Finds the packages below `root/sys/class/powercap`, and reads them once.
    ///
    /// # Errors
    /// The machine has no counters (`NotFound`), or they may not be read: since Linux 5.10 by root only.
    pub fn open(root: &Path) -> io::Result<Self> {
        let entries = fs::read_dir(root.join("sys/class/powercap"))?.flatten();
        let mut directories: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        // A machine can have two interfaces to the counter of a package: `intel-rapl:0`, by which it is read, and
        // `intel-rapl-mmio:0`, which is before the other in this order.
        directories.sort_unstable();
        let mut packages = BTreeMap::new();
        for directory in directories.into_iter().rev() {
            // Zones within packages, and that of the whole platform, have other names.
            let name = fs::read_to_string(directory.join("name")).unwrap_or_default();
            if !name.starts_with("package-") {
                continue;
            }
            if let Entry::Vacant(vacant) = packages.entry(name.trim().to_owned()) {
                let range_uj = number(&directory.join("max_energy_range_uj"))?;
                vacant.insert(Package { counter: directory.join("energy_uj"), range_uj });
            }
        }
        if packages.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let meter = Self { packages: packages.into_values().collect() };
        meter.read()?;
        Ok(meter)
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// Those of the files.
    pub fn read(&self) -> io::Result<EnergyReading> {
        let counters = self.packages.iter().map(|package| number(&package.counter));
        counters.collect::<io::Result<Vec<u64>>>().map(EnergyReading)
    }

    /// Microjoules between two readings of all packages. A counter that began again more than once, which takes 20 minutes at 200 W
    /// if its range is 262 kJ, gives too little.
    #[must_use]
    pub fn between_uj(&self, from: &EnergyReading, until: &EnergyReading) -> u64 {
        let pairs = self.packages.iter().zip(from.0.iter().zip(&until.0));
        let of = |(package, (from, until)): (&Package, (&u64, &u64))| match until.checked_sub(*from)
        {
            Some(difference) => difference,
            None => (package.range_uj + until).saturating_sub(*from),
        };
        pairs.map(of).sum()
    }
}

fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn energy_is_that_of_all_packages_also_when_a_counter_begins_again() {
        let root = tempfile::tempdir().unwrap();
        let zones = root.path().join("sys/class/powercap");
        fs::create_dir_all(&zones).unwrap();
        let error = EnergyMeter::open(root.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let set = |zone: &str, name: &str, energy: u64| {
            let directory = zones.join(zone);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("name"), format!("{name}\n")).unwrap();
            fs::write(directory.join("max_energy_range_uj"), "1000000\n").unwrap();
            fs::write(directory.join("energy_uj"), format!("{energy}\n")).unwrap();
        };
        let set_all = |first: u64, second: u64| {
            set("intel-rapl:0", "package-0", first);
            set("intel-rapl:1", "package-1", second);
            // A second interface to the counter of the first package.
            set("intel-rapl-mmio:0", "package-0", first / 2);
            set("intel-rapl:0:0", "core", 7);
            set("intel-rapl:2", "psys", 5);
        };
        set_all(100, 999_900);
        let meter = EnergyMeter::open(root.path()).unwrap();
        let from = meter.read().unwrap();
        set_all(400, 50);
        let until = meter.read().unwrap();
        assert_eq!(meter.between_uj(&from, &until), 300 + 150);
        fs::write(zones.join("intel-rapl:1/energy_uj"), "text").unwrap();
        assert_eq!(meter.read().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
