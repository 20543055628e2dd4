//! Where a transcript lies that its agent moved. Codex archives sessions, takes them out of the
//! archive and compresses them; Claude Code takes a session along to the project of a work tree.
//!
//! An older copy at the former place would hide what the session has become, or be a second one.

use rappel_types::RelPath;

use crate::agents::Provider;
use crate::agents::home::Home;
use crate::agents::locate::codex_rollouts;
use crate::files::stamp::{Kind, Stamp};

/// A search in one agent's home, which lists each folder once.
pub(super) struct Moved<'a> {
    provider: Provider,
    home: &'a Home,
    listed: Option<Vec<(RelPath, Stamp)>>,
}

impl<'a> Moved<'a> {
    pub fn new(provider: Provider, home: &'a Home) -> Self {
        Self { provider, home, listed: None }
    }

    /// Where the transcript is that is gone from `path`.
    pub fn find(&mut self, path: &RelPath) -> Option<(RelPath, Stamp)> {
        let (provider, home) = (self.provider, self.home);
        match provider {
            Provider::Codex => {
                let listed = self.listed.get_or_insert_with(|| codex_rollouts(home));
                let name = uncompressed(path.name());
                listed.iter().find(|(other, _)| uncompressed(other.name()) == name).cloned()
            }
            Provider::Claude => {
                let (projects, rest) = path.as_bytes().split_at_checked(b"projects/".len())?;
                let slash = rest.iter().position(|byte| *byte == b'/')?;
                let below = rest.get(slash + 1..).filter(|_| projects == b"projects/")?;
                let listed = self.listed.get_or_insert_with(|| {
                    let projects = RelPath::new("projects").ok();
                    projects.and_then(|projects| home.list(&projects).ok()).unwrap_or_default()
                });
                let folders = listed.iter().filter(|(_, stamp)| stamp.kind() == Kind::Folder);
                folders.into_iter().find_map(|(folder, _)| {
                    let other = folder.join(below).ok()?;
                    let stamp = home.look(&other).ok()?;
                    (stamp.kind() == Kind::File).then_some((other, stamp))
                })
            }
            Provider::Gemini => None,
        }
    }
}

fn uncompressed(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".zst").unwrap_or(name)
}
