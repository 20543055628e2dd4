//! The reading of intents, for `fuzz/` and `tests/corpus.rs`: any bytes go in, and what is promised
//! about them is asserted. Not part of the library's interface.

use super::intent::{Header, Intent, IntentId};
use super::plan::is_git_path;
use super::record;
use super::steps::{Way, steps_of};

/// The name under which the bytes are read.
pub const ID: IntentId = IntentId(0x0123_4567_89ab_cdef);

/// An intent's file, and the same bytes as the plan of one whose checksum is right.
pub fn intent(bytes: &[u8]) {
    if let Ok(found) = record::decode(ID, bytes) {
        assert!(found.end <= bytes.len() as u64);
        check(&found.header);
        // Marks are only ever appended: what came before the last one reads the same.
        let whole = record::decode(ID, &bytes[..found.end as usize]);
        assert!(whole.is_ok_and(|whole| (whole.marks, whole.phase) == (found.marks, found.phase)));
    }
    if let Ok(found) = record::decode(ID, &file(bytes)) {
        check(&found.header);
    }
}

/// The file of an intent whose plan is `json`, whatever that is.
pub fn file(json: &[u8]) -> Vec<u8> {
    record::encode_json(ID, record::VERSION, json)
}

fn check(header: &Header) {
    assert_eq!(header.id, ID);
    for way in [Way::Forward, Way::Backward] {
        let Ok(steps) = steps_of(header, way) else { continue };
        assert_eq!(steps.len(), header.actions.len());
        for step in steps {
            assert!(!is_git_path(&step.path) && !is_git_path(&step.slot), "{}", step.path);
        }
    }
    let encoded = record::encode(header).expect("what was read can be written");
    let again = record::decode(ID, &encoded).expect("what was written can be read");
    assert_eq!(record::encode(&again.header).expect("and written again"), encoded);
    let record::Decoded { header, phase, begun, done, .. } = again;
    let intent = Intent { header, phase, begun, done };
    let _ = intent.staging_paths(std::path::Path::new("/nonexistent"));
}
