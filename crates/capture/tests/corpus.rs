//! What an intent's file may hold, as the fuzz target reads it: the kept corpus and thousands of
//! variations.

use std::sync::Arc;

use rappel_capture::fuzz;
use rappel_capture::restore::Intents;
use rappel_store::disk::RealDisk;
use rappel_testing::corpus::{run, seed};

/// A corpus of a format that is no longer ours would find nothing.
#[test]
fn the_valid_seed_is_valid() {
    let folder = rappel_testing::memory_dir();
    let name = format!("{}.intent", fuzz::ID);
    std::fs::write(folder.path().join(name), seed("intent", "mark-1-1")).expect("a file");
    let listing = Intents::new(folder.path(), Arc::new(RealDisk)).list().expect("a list");
    assert_eq!((listing.open.len(), listing.damaged.len()), (1, 0));
}

#[test]
fn intents() {
    run("intent", 1000, fuzz::intent);
}
