//! Files of other programs, for `fuzz/` and `tests/corpus.rs`: any bytes go in, and what is
//! promised about them is asserted. Not part of the library's interface.

mod folders;

use std::path::{Path, PathBuf};

use rappel_types::agents::legal;

use crate::portable::Portable;
use crate::{aiwg, caf, forge};

pub use folders::{loki_index, loki_metadata, lugh_archive, lugh_document};

/// What every reader promises.
fn check(checkpoint: &Portable) {
    assert!(!checkpoint.id.is_empty());
    for session in &checkpoint.sessions {
        // Events lead to every state that a reader gives on.
        let mut again = legal(&session.state);
        // How many it takes is not part of what was known.
        again.event = session.state.event;
        assert_eq!(again, session.state);
    }
}

/// A file of CAF.
pub fn caf(bytes: &[u8]) {
    let Ok(read) = caf::from_bytes(bytes) else { return };
    for checkpoint in caf::portables(vec![read]) {
        check(&checkpoint);
        let document = caf::written(&checkpoint);
        let json = serde_json::to_vec(&document).unwrap_or_default();
        let Ok((again, _)) = caf::from_bytes(&json) else { unreachable!("it was written so") };
        assert_eq!(again, document);
        let foreign = Portable { document: None, ..checkpoint };
        let json = serde_json::to_vec(&caf::written(&foreign)).unwrap_or_default();
        assert!(caf::from_bytes(&json).is_ok());
    }
}

/// A file of forge, compressed or not.
pub fn forge(bytes: &[u8]) {
    let path = Path::new("forge.json");
    let Ok(file) = forge::from_bytes(bytes.to_vec(), path) else { return };
    let read = |file| forge::checkpoints_of(file, PathBuf::from("forge.json"), &mut |_| Ok(()));
    let Ok(found) = read(file) else { return };
    found.checkpoints.iter().for_each(check);
    let Ok(file) = forge::added(None, &found.checkpoints, path) else {
        unreachable!("what was read can be written")
    };
    let Ok(again) = read(file) else { unreachable!("it was written so") };
    let ids = |of: &[Portable]| of.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&again.checkpoints), ids(&found.checkpoints));
}

/// A numbered file of aiwg.
pub fn aiwg(bytes: &[u8]) {
    let Ok(data) = aiwg::from_bytes(bytes) else { return };
    let checkpoint = aiwg::portable(&data);
    check(&checkpoint);
    assert_eq!(aiwg::own(&checkpoint), Some(data));
}
