//! Which paths a checkpoint's own rules would have taken. Only what they would have taken may be
//! deleted.

use std::sync::{Arc, OnceLock};

use rappel_capture::files::Selector;
use rappel_store::sink::Source;
use rappel_store::{content, tree};
use rappel_types::manifest::FilesPart;
use rappel_types::{Node, RelPath};

use crate::error::Result;

/// Larger rule files are none, for a save too.
const RULE_FILE_MAX: u64 = 1 << 20;

/// The rules that a checkpoint was made with.
pub(crate) struct RecordedRules<'a> {
    selector: Selector<'a>,
    /// The first rule file that the store could not give back.
    unread: Arc<OnceLock<RelPath>>,
}

impl<'a> RecordedRules<'a> {
    pub fn of(source: &'a dyn Source, files: &'a FilesPart) -> Result<Self> {
        let lookup = tree::Lookup::new(source, files.tree);
        let unread = Arc::new(OnceLock::new());
        let note = Arc::clone(&unread);
        let rule_file = move |path: &RelPath| {
            let read = || match lookup.find(path)? {
                Some(Node::File { size, content, .. }) if size <= RULE_FILE_MAX => {
                    content::read(source, &content, size, RULE_FILE_MAX).map(Some)
                }
                _ => Ok(None),
            };
            read().unwrap_or_else(|_: rappel_store::Error| {
                let _ = note.set(path.clone());
                None
            })
        };
        Ok(Self { selector: Selector::recorded(&files.rules, rule_file)?, unread })
    }

    /// Whether they would have taken it. Once one of them cannot be read, nobody knows.
    pub fn selects(&self, path: &RelPath, is_folder: bool) -> bool {
        self.selector.selects(path, is_folder) && self.unread.get().is_none()
    }

    /// What there is to say to the user, after all questions.
    pub fn warning(&self) -> Option<String> {
        let path = self.unread.get()?;
        Some(format!(
            "the checkpoint's {path} is damaged, so it is not known which files it left out: none is deleted"
        ))
    }
}
