//! What people and agents write for a shell, for `fuzz/` and `tests/corpus.rs`: any bytes go in, and
//! what is promised about them is asserted. Not part of the library's interface.

use std::path::Path;

use crate::shell::{Verdict, readers_agree, verdict};

/// A command line.
pub fn command_line(bytes: &[u8]) {
    let line = String::from_utf8_lossy(bytes);
    assert!(readers_agree(&line), "{line:?} is read in two ways");
    let folder = Path::new("/nonexistent/project");
    let found = verdict(&line, folder);
    assert_eq!(found, verdict(&line, folder), "{line:?} has two verdicts");
    if let Verdict::Destructive { operation, reaches } = found {
        assert!(!operation.does.is_empty() && !reaches.is_empty(), "{line:?}");
        assert_eq!(operation.databases, reaches.contains(&crate::shell::Reach::Databases));
        let named = operation.files.iter().chain(&operation.ignored);
        for path in named {
            assert!(
                path.is_absolute() || path.to_string_lossy().starts_with('~'),
                "{}",
                path.display()
            );
        }
    }
}
