//! Where the programs are that are measured.

use std::path::PathBuf;

use anyhow::Context;

/// The `namewire` program: beside this one, otherwise on PATH.
pub(crate) fn namewire() -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("namewire")));
    let beside = beside.filter(|path| path.is_file());
    beside
        .or_else(|| on_path("namewire"))
        .context("the program `namewire` is neither beside this one nor on PATH")
}

/// A program on PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}
