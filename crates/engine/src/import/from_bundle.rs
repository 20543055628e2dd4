//! The import of a bundle, our own portable form: a lineage of the workspace that it was made of.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::Ordering;

use rappel_formats::Form;
use rappel_store::bundle::{Bundle, Part};
use rappel_store::{NewRecord, Writer, tree};
use rappel_types::agents::SessionId;
use rappel_types::manifest::OriginPart;
use rappel_types::{CheckpointId, Manifest, Node, WorkspaceId};

use super::bundle::{self, Names};
use super::{ImportProgress, Imported, any, is_taken, names};
use crate::agents::session_name;
use crate::error::{Error, Result};
use crate::lineage::{Lineage, lineages_in};
use crate::rappel::Rappel;
use crate::save::workspace_record;
use crate::workspace::{self, Recognition};

/// What the checkpoints and sessions of a bundle are called here.
struct Called {
    checkpoints: HashMap<CheckpointId, CheckpointId>,
    /// Those that are new, with their digests, in the bundle's order.
    new: Vec<(CheckpointId, String)>,
    sessions: HashMap<SessionId, SessionId>,
}

impl Rappel {
    /// Imports a bundle. It is read and checked as a whole before anything of it is taken.
    pub(super) fn import_bundle(&self, path: &Path, progress: &ImportProgress) -> Result<Imported> {
        let bundle = Bundle::open(path)?;
        progress.read.store(bundle.manifests().count() as u64, Ordering::Relaxed);
        self.again_if_moved(|| self.try_bundle(&bundle, progress))
    }

    fn try_bundle(&self, bundle: &Bundle, progress: &ImportProgress) -> Result<Imported> {
        let Some(origin) = bundle.manifests().next().map(|first| first.workspace.clone()) else {
            return Ok(Imported::default());
        };
        let identified = self.identify();
        let of = identified.id;
        let before = self.store.look_up(|index| lineages_in(index, of))?;
        // One workspace has one lineage, whatever files it comes in.
        let format = Form::Rappel.as_str();
        let place = format!("{} ({})", origin.root, origin.id);
        let same = before.iter().find(|one| one.format == format && one.place == place);
        let lineage = same.cloned().unwrap_or_else(|| {
            let (workspace, format) = (workspace::new_id(), format.to_owned());
            Lineage { workspace, of, format, place }
        });
        let called = self.called(bundle, &before, &lineage)?;
        let imported = called.new.len() as u64;
        let known = called.checkpoints.len() as u64 - imported;
        let mut answer = Imported { imported, known, ..Imported::default() };
        answer.lineage = Some(lineage.clone());
        if imported == 0 {
            return Ok(answer);
        }
        let writer = self.store.begin()?;
        bundle::take_objects(&writer, bundle, &mut |_| match self
            .options
            .cancel
            .load(Ordering::Relaxed)
        {
            true => Err(rappel_store::Error::Cancelled),
            false => Ok(()),
        })?;
        let names = Names {
            workspace: self.workspace_part(lineage.workspace),
            checkpoint: &|id| called.checkpoints.get(id).cloned(),
            session: &|id| called.sessions.get(id).unwrap_or(id).clone(),
        };
        let new: HashSet<&CheckpointId> = called.new.iter().map(|(id, _)| id).collect();
        let is_new = |id: &CheckpointId| called.checkpoints.get(id).filter(|id| new.contains(id));
        let last = self.store.look_up(|index| index.last_sequence(lineage.workspace))?;
        let mut sequence = last;
        for original in bundle.manifests().filter(|one| is_new(&one.id).is_some()) {
            sequence += 1;
            let mut manifest = bundle::manifest(original, sequence, &names)?;
            let digest = called.new.iter().find(|(id, _)| *id == manifest.id);
            manifest.origin = Some(origin_of(original, digest.map(|(_, digest)| digest.clone())));
            harmless_modes(&writer, &mut manifest)?;
            writer.add(NewRecord::Manifest { manifest: Box::new(manifest), base: None })?;
            progress.taken.fetch_add(1, Ordering::Relaxed);
        }
        let mut records = Vec::new();
        if let (true, Some(document)) = (identified.begins, &identified.document) {
            records.push(workspace_record(document)?);
        }
        if same.is_none() {
            records.push(workspace_record(&lineage.record(self.now()))?);
        }
        for record in bundle::documents(bundle, &names)? {
            writer.add(record)?;
        }
        writer.commit(|moment| {
            let index = &mut *moment.index;
            let moved = identified.begins && workspace::is_known_by_now(index, &self.evidence)?
                || lineages_in(index, of)? != before
                || index.last_sequence(lineage.workspace)? != last
                || any(&called.new, |(id, _)| is_taken(index, id))?;
            if moved { Err(rappel_store::Error::Moved) } else { Ok(records) }
        })?;
        if let (true, Some(document)) = (identified.begins, identified.document) {
            self.recognised(Recognition::Known(document));
        }
        tracing::info!(imported, known, lineage = %lineage.workspace, "imported a bundle");
        Ok(answer)
    }

    /// Names for everything in a bundle: those of an earlier import, or new ones.
    fn called(&self, bundle: &Bundle, before: &[Lineage], lineage: &Lineage) -> Result<Called> {
        let known = self.known_of(before, Form::Rappel)?;
        let mut called =
            Called { checkpoints: HashMap::new(), new: Vec::new(), sessions: HashMap::new() };
        let mut taken = HashSet::new();
        for (object, manifest) in bundle.identified() {
            let digest = object.to_string();
            let here = known.get(manifest.id.as_str()).into_iter().flatten();
            let same = here.into_iter().find(|one| one.digest == digest_of(&digest));
            let id = match same {
                Some(same) => same.id.clone(),
                None => {
                    let id = names::name(Form::Rappel, manifest.id.as_str(), &mut |id| {
                        let is_taken = self.store.look_up(|index| is_taken(index, id))?;
                        Ok::<_, Error>(is_taken || taken.contains(id))
                    })?;
                    called.new.push((id.clone(), digest_of(&digest)));
                    id
                }
            };
            taken.insert(id.clone());
            called.checkpoints.insert(manifest.id.clone(), id);
        }
        let events = bundle.documents().iter().filter(|one| one.kind != Part::Label);
        for session in events.filter_map(|one| one.key.parse::<SessionId>().ok()) {
            if let Entry::Vacant(entry) = called.sessions.entry(session) {
                let here = self.unused_session(lineage.workspace, entry.key())?;
                entry.insert(here);
            }
        }
        Ok(called)
    }

    /// A name for a session's journal. One of an earlier import has ended here: the journal of another
    /// import stands beside it.
    fn unused_session(&self, lineage: WorkspaceId, id: &SessionId) -> Result<SessionId> {
        let form = Form::Rappel.as_str();
        let mut here = session_name(form, lineage, id.as_str())?;
        for number in 2_u64.. {
            if self.store.look_up(|index| index.last_event(here.as_str()))?.is_none() {
                break;
            }
            here = session_name(form, lineage, &format!("{id}.{number}"))?;
        }
        Ok(here)
    }
}

/// Files of others never run as somebody else: bits beyond the permissions are left out.
fn harmless_modes(writer: &Writer<'_>, manifest: &mut Manifest) -> Result<()> {
    let repositories = manifest.git.iter_mut().flat_map(|git| {
        std::iter::once(&mut git.root).chain(git.nested.iter_mut().map(|nested| &mut nested.part))
    });
    let worktrees = repositories.flat_map(|part| &mut part.worktrees);
    let parts = worktrees.filter_map(|worktree| worktree.files.as_mut());
    for part in parts.chain(&mut manifest.files) {
        let mut entries = tree::read(writer, &part.tree)?;
        let mut is_changed = false;
        for entry in &mut entries {
            if let Node::File { mode, .. } | Node::Directory { mode } = &mut entry.node {
                is_changed |= *mode & !PERMISSIONS != 0;
                *mode &= PERMISSIONS;
            }
        }
        if is_changed {
            part.tree = tree::write(writer, &entries)?;
        }
    }
    Ok(())
}

const PERMISSIONS: u32 = 0o777;

/// An object's name in the place of a digest must not look like one: gc would keep what it names.
fn digest_of(object: &str) -> String {
    format!("b3:{object}")
}

fn origin_of(original: &Manifest, digest: Option<String>) -> OriginPart {
    OriginPart {
        format: Form::Rappel.as_str().to_owned(),
        id: original.id.to_string(),
        parent: original.parent.as_ref().map(ToString::to_string),
        session: original.session_id.clone(),
        root: Some(original.workspace.root.clone()),
        digest: digest.unwrap_or_default(),
        document: None,
    }
}
