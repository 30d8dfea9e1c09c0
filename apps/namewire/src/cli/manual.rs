//! Manual pages: those of `clap_mangen` with sections of their own for examples, files, variables and exit statuses.

use std::io::{self, Write};
use std::path::Path;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::{examples, failure};

/// The program and its version, at the foot of each page.
const SOURCE: &str = concat!("namewire ", env!("CARGO_PKG_VERSION"));

/// Files that commands use.
const FILES: &[(&str, &str)] = &[
    ("/run/nfd/nfd.sock", "Socket of the forwarder of root; the control socket is beside it."),
    ("$XDG_RUNTIME_DIR/nfd/nfd.sock", "Socket of the forwarder of another user."),
    (
        "~/.ndn/client.conf, /etc/ndn/client.conf",
        "Where clients find the forwarder and the key chain.",
    ),
    ("~/.ndn/pib.db, ~/.ndn/ndnsec-key-file", "The key chain, which ndnsec and ndn-cxx use too."),
];

/// Environment variables that commands read.
const VARIABLES: &[(&str, &str)] = &[
    ("NDN_CLIENT_TRANSPORT", "The forwarder to connect to; --transport has precedence."),
    ("NDN_CLIENT_PIB, NDN_CLIENT_TPM", "Location of the key chain."),
    ("NDN_CLIENT_MEMIF_SECRET", "Secret of the forwarder's memif socket."),
    ("NAMEWIRE_PASSPHRASE", "Passphrase of encrypted keys."),
    ("XDG_RUNTIME_DIR", "Directory of the socket of a user."),
    ("XDG_CACHE_HOME", "Directory of the digests that `namewire serve` stores."),
    ("NO_COLOR", "If set and not empty, log lines have no colours."),
];

/// The page of the command with this path (`face list`; empty for the program), in roff.
pub(super) fn page(program: &clap::Command, path: &str) -> io::Result<Option<Vec<u8>>> {
    let mut command = program;
    for word in path.split(' ').filter(|word| !word.is_empty()) {
        let Some(found) = command.find_subcommand(word) else { return Ok(None) };
        command = found;
    }
    let mut page = Vec::new();
    write_page(program, command, path, &mut page)?;
    Ok(Some(page))
}

/// Writes the pages of all commands to a directory.
pub(super) fn write_all(program: &clap::Command, directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    write_below(program, program, "", directory)
}

fn write_below(
    program: &clap::Command,
    command: &clap::Command,
    path: &str,
    directory: &Path,
) -> io::Result<()> {
    let mut page = Vec::new();
    write_page(program, command, path, &mut page)?;
    std::fs::write(directory.join(format!("{}.1", page_name(path))), page)?;
    for sub in shown(command) {
        write_below(program, sub, format!("{path} {}", sub.get_name()).trim_start(), directory)?;
    }
    Ok(())
}

fn shown(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

fn page_name(path: &str) -> String {
    format!("namewire {path}").trim_end().replace(' ', "-")
}

fn write_page(
    program: &clap::Command,
    command: &clap::Command,
    path: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = page_name(path);
    // Examples and notes have sections of their own.
    let described = command.clone().after_help(None::<&str>).after_long_help(None::<&str>);
    let described = described.display_name(name.clone());
    let described = described.bin_name(format!("namewire {path}").trim_end().to_owned());
    let mut described = described.disable_help_subcommand(true);
    // That of clap_mangen has all options, without their values.
    let mut synopsis = Roff::new();
    let usage = described.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    literal(synopsis.control("SH", ["SYNOPSIS"]), usage);
    let man = Man::new(described).title(name.to_uppercase()).source(SOURCE);
    man.render_title(out)?;
    man.render_name_section(out)?;
    synopsis.to_writer(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    let mut roff = Roff::new();
    if shown(command).next().is_some() {
        roff.control("SH", ["COMMANDS"]);
        for sub in shown(command) {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            let page = page_name(format!("{path} {}", sub.get_name()).trim_start());
            roff.control("TP", []).text([bold(page), roman("(1)")]).text([roman(about)]);
        }
    }
    let (units, statuses) = failure::notes();
    if path.is_empty() {
        literal(roff.control("SH", ["UNITS"]), units);
    }
    roff.control("SH", ["EXAMPLES"]);
    literal(&mut roff, examples::text(examples::of(path)).trim_start_matches("Examples:\n"));
    list(&mut roff, "FILES", FILES);
    list(&mut roff, "ENVIRONMENT", VARIABLES);
    literal(roff.control("SH", ["EXIT STATUS"]), statuses.trim_start_matches("Exit status:\n"));
    roff.control("SH", ["SEE ALSO"]);
    let related = related(program, path);
    for (number, page) in related.iter().enumerate() {
        let end = if number + 1 == related.len() { "(1)" } else { "(1), " };
        roff.text([bold(page.clone()), roman(end)]);
    }
    roff.to_writer(out)
}

/// Pages about the same subject: that of the group, and those of its commands.
fn related(program: &clap::Command, path: &str) -> Vec<String> {
    let parent = path.rsplit_once(' ').map(|(parent, _)| parent);
    let mut pages = Vec::new();
    if let Some(parent) = parent {
        let group = program.find_subcommand(parent);
        pages.push(page_name(parent));
        pages.extend(
            group
                .into_iter()
                .flat_map(shown)
                .map(|sub| page_name(&format!("{parent} {}", sub.get_name()))),
        );
    } else if path.is_empty() {
        pages.extend(shown(program).map(|sub| page_name(sub.get_name())));
    } else {
        pages.push("namewire".to_owned());
        pages.extend(super::groups::beside(path).into_iter().map(page_name));
    }
    pages.retain(|page| *page != page_name(path));
    pages
}

/// Adds lines that keep their breaks.
fn literal(roff: &mut Roff, text: &str) {
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line.trim_end())]);
    }
    roff.control("fi", []);
}

fn list(roff: &mut Roff, heading: &str, entries: &[(&str, &str)]) {
    roff.control("SH", [heading]);
    for (name, what) in entries {
        roff.control("TP", []).text([bold(*name)]).text([roman(*what)]);
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_page_has_all_sections() {
        let program = crate::cli::program();
        let directory = tempfile::tempdir().unwrap();
        write_all(&program, directory.path()).unwrap();
        let count = std::fs::read_dir(directory.path()).unwrap().count();
        assert!(count > 70, "{count}");
        for name in ["namewire", "namewire-get", "namewire-face-list"] {
            let page = std::fs::read_to_string(directory.path().join(format!("{name}.1"))).unwrap();
            for section in [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "OPTIONS",
                "EXAMPLES",
                "FILES",
                "ENVIRONMENT",
                "\"EXIT STATUS\"",
                "\"SEE ALSO\"",
            ] {
                assert_eq!(
                    page.matches(&format!(".SH {section}\n")).count(),
                    1,
                    "{name}: {section}\n{page}"
                );
            }
        }
        let get = String::from_utf8(page(&program, "get").unwrap().unwrap()).unwrap();
        assert!(get.contains("\nnamewire get [OPTIONS] <NAME>\n") && get.contains(SOURCE), "{get}");
        assert!(get.contains("namewire\\-serve"), "{get}");
        assert!(page(&program, "no such").unwrap().is_none());
        assert!(crate::cli::Arguments::command().find_subcommand("get").is_some());
    }
}
