//! Locates the programs to measure.

use std::path::PathBuf;

use anyhow::Context;

/// Path of the `namewire` program: beside this program, otherwise on PATH.
pub(crate) fn namewire() -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("namewire")));
    let beside = beside.filter(|path| path.is_file());
    beside
        .or_else(|| on_path("namewire"))
        .context("the program `namewire` is neither beside this one nor on PATH")
}

/// Path of a program on PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}
