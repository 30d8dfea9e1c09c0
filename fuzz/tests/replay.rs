//! Calls every target with every file of its corpus, and with each of its beginnings.

use namewire_fuzz::TARGETS;
use std::fs;
use std::path::PathBuf;

/// Beginnings of longer files are not tried.
const CUT_LEN_MAX: usize = 512;

#[test]
fn every_target_accepts_its_corpus() {
    for (name, target) in TARGETS.iter().copied().flatten() {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut count = 0;
        for entry in
            fs::read_dir(&directory).unwrap_or_else(|error| panic!("{directory:?}: {error}"))
        {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            println!("{}", path.display());
            target(&bytes);
            if bytes.len() <= CUT_LEN_MAX {
                (0..bytes.len()).for_each(|len| target(&bytes[..len]));
            }
            count += 1;
        }
        assert!(count > 0, "{directory:?} is empty");
    }
}

#[test]
fn every_corpus_has_its_target() {
    let corpora = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in fs::read_dir(corpora).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(namewire_fuzz::find_target(&name).is_some(), "{name} is in no table");
    }
}
