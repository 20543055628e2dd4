//! The truth after a restore: an agent that goes on remembers a workspace that is no longer there.

use rappel_store::document::{Undo, UndoKind};
use rappel_store::record::Kind;
use rappel_types::agents::SessionId;
use rappel_types::{Facet, Timestamp};

use super::memory::Memory;
use crate::error::Result;
use crate::rappel::Rappel;

/// So many paths are named.
const NAMED: usize = 40;
/// So many restores are told.
const TOLD: usize = 5;

impl Rappel {
    /// What a session should know of the restores that came after it began and were not told yet.
    /// An agent that was resumed remembers what its earlier runs saw, and was told what they were.
    pub(super) fn truth(&self, session: &SessionId) -> Result<Option<String>> {
        let Some(id) = self.workspace_id() else { return Ok(None) };
        let key = id.to_string();
        let newest = self.store.look_up(|index| index.newest_document(Kind::Undo, &key))?;
        let mut memory = Memory::read(self, session);
        let newest = newest.filter(|row| row.birth > memory.restore);
        let Some(newest) = newest else { return Ok(None) };
        let runs = self.runs_of(session)?;
        let told = runs.iter().map(|run| Memory::read(self, &run.id).restore).max();
        let began = runs.first().and_then(|run| run.started_at);
        let rows = self.store.look_up(|index| index.documents(Kind::Undo, Some(&key)))?;
        let mut restores: Vec<(u64, Undo)> = Vec::new();
        for row in &rows {
            let Ok(restore) = serde_json::from_str::<Undo>(&row.json) else { continue };
            if restore.did_nothing() || began.is_some_and(|began| restore.at < began) {
                continue;
            }
            // Files and conversation may go back one after the other: both are one restore then.
            match restores.last_mut().filter(|(_, before)| before.to == restore.to) {
                Some((birth, before)) => {
                    *birth = row.birth;
                    join(before, restore);
                }
                None => restores.push((row.birth, restore)),
            }
        }
        restores.retain(|(birth, _)| Some(*birth) > told);
        // Where the conversation went back last, nothing that it told before is left in it.
        let set_back = restores.iter().rposition(|(_, restore)| restore.transcripts);
        let mut texts = Vec::new();
        for (place, (_, restore)) in restores.iter().enumerate() {
            let target = self.store.checkpoint(&restore.to)?.map(|row| self.view(&row));
            let target = target.and_then(Result::ok).map(|checkpoint| checkpoint.manifest);
            let name = target.as_ref().and_then(|manifest| manifest.description.clone());
            let made = target.map(|manifest| manifest.created_at);
            let is_told = set_back.is_none_or(|last| place > last);
            texts.push(tell(restore, name.as_deref(), made, is_told));
        }
        memory.restore = newest.birth;
        memory.write(self, session);
        // The newest ones matter most; the model's context is not ours to fill.
        let from = texts.len().saturating_sub(TOLD);
        Ok((!texts.is_empty()).then(|| texts[from..].join("\n\n")))
    }
}

/// Adds a later restore of the same checkpoint to an earlier one.
fn join(before: &mut Undo, later: Undo) {
    before.at = later.at;
    before.facets.extend(later.facets);
    let more = later.paths.into_iter().filter(|path| !before.paths.contains(path));
    before.paths.extend(more.collect::<Vec<_>>());
    before.git.extend(later.git);
    before.databases.extend(later.databases);
    before.transcripts |= later.transcripts;
}

/// What a restore changed. `is_told` says that the conversation still tells of what it took back.
fn tell(restore: &Undo, name: Option<&str>, made: Option<Timestamp>, is_told: bool) -> String {
    let what = match restore.kind {
        UndoKind::Restore => "restored the workspace",
        UndoKind::Undo => "took a step back (undo) in the workspace",
        UndoKind::Redo => "took a step forward again (redo) in the workspace",
    };
    let name = name.map(|name| format!(" {name:?}")).unwrap_or_default();
    let made = made.map(|made| format!(", made {made}")).unwrap_or_default();
    let mut lines = vec![format!(
        "Rappel {what} at {}, to checkpoint {}{name}{made}. What you remember of these may no longer be so; look again \
         before you go on.",
        restore.at, restore.to
    )];
    if !restore.paths.is_empty() {
        let named: Vec<String> =
            restore.paths.iter().take(NAMED).map(ToString::to_string).collect();
        let more = restore.paths.len() - named.len();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        lines.push(format!("Files that changed: {}{more}.", named.join(", ")));
    }
    for repository in &restore.git {
        let refs: Vec<String> = repository.refs.iter().map(ToString::to_string).collect();
        let place = repository.path.as_ref().map(|path| format!(" in {path}")).unwrap_or_default();
        if repository.whole {
            lines.push(format!("Git{place}: the whole repository was put back or taken away."));
        } else if !refs.is_empty() {
            lines.push(format!("Git{place}: refs that moved: {}.", refs.join(", ")));
        }
    }
    if !restore.databases.is_empty() {
        let names: Vec<&str> = restore.databases.iter().map(|one| one.name.as_str()).collect();
        lines.push(format!("Databases that were set back: {}.", names.join(", ")));
    }
    let all = [Facet::Files, Facet::Git, Facet::Databases, Facet::Agents];
    let left: Vec<&str> = all
        .into_iter()
        .filter(|facet| !restore.facets.contains(facet))
        .map(Facet::as_str)
        .collect();
    if !left.is_empty() {
        lines.push(format!("Not restored: {}.", left.join(", ")));
    }
    if is_told && !restore.transcripts {
        lines.push(
            "This conversation was not set back: it tells of things that were undone.".into(),
        );
    }
    lines.join("\n")
}
