//! The import of a bundle, our own portable form: a lineage of the workspace that it was made of.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use rappel_capture::git::foreign;
use rappel_formats::Form;
use rappel_formats::form::Skipped;
use rappel_store::bundle::{Bundle, Part};
use rappel_store::operation::Phase;
use rappel_store::{NewRecord, Writer, tree};
use rappel_types::agents::SessionId;
use rappel_types::manifest::{OriginPart, PartialReason};
use rappel_types::{CheckpointId, Facet, Manifest, Node, RelPath, WorkspaceId};

use super::bundle::{self, Names};
use super::{Imported, Known, is_taken, names};
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
    /// The lineage of the first one that is known.
    of: Option<WorkspaceId>,
}

impl Rappel {
    /// Imports a bundle. It is read and checked as a whole before anything of it is taken.
    pub(super) fn import_bundle(&self, path: &Path) -> Result<Imported> {
        self.progress().begin(Phase::ReadingCheckpoints, None);
        let bundle = Bundle::open(path)?;
        self.again_if_moved(|| self.try_bundle(&bundle))
    }

    fn try_bundle(&self, bundle: &Bundle) -> Result<Imported> {
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
            let known = before.iter().find(|one| Some(one.workspace) == called.of);
            answer.lineage = known.cloned().or(answer.lineage);
            return Ok(answer);
        }
        let writer = self.store.begin()?;
        self.progress().begin(Phase::TakingIn, Some(imported));
        bundle::take_objects(&writer, bundle, &mut |_| self.cancel().check())?;
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
            answer.skipped.extend(sound_git(&writer, &mut manifest)?);
            writer.add(NewRecord::Manifest { manifest: Box::new(manifest), base: None })?;
            self.progress().add(Phase::TakingIn, 1, 0);
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
        let made: Vec<CheckpointId> = called.new.iter().map(|(id, _)| id.clone()).collect();
        writer.commit(|moment| {
            let index = &mut *moment.index;
            if self.has_moved(index, &identified, (&before, &lineage, last), &made)? {
                return Err(rappel_store::Error::Moved);
            }
            self.cancel().close()?;
            Ok(records)
        })?;
        if let (true, Some(document)) = (identified.begins, identified.document) {
            self.recognised(Recognition::Known(document));
        }
        tracing::info!(imported, known, lineage = %lineage.workspace, "imported a bundle");
        Ok(answer)
    }

    /// Names for everything in a bundle: those of an earlier import, or new ones.
    fn called(&self, bundle: &Bundle, before: &[Lineage], lineage: &Lineage) -> Result<Called> {
        let mut known: HashMap<Form, HashMap<String, Vec<Known>>> = HashMap::new();
        for form in std::iter::once(Form::Rappel).chain(bundle.manifests().filter_map(came_as)) {
            if let Entry::Vacant(entry) = known.entry(form) {
                entry.insert(self.known_of(before, form)?);
            }
        }
        let find = |form: Form, id: &str, digest: &str| {
            let all = known.get(&form).and_then(|all| all.get(id)).into_iter().flatten();
            all.into_iter().find(|one| one.digest == digest)
        };
        let mut called = Called {
            checkpoints: HashMap::new(),
            new: Vec::new(),
            sessions: HashMap::new(),
            of: None,
        };
        let mut taken = HashSet::new();
        for (object, manifest) in bundle.identified() {
            let digest = digest_of(&object.to_string());
            // One that was imported into this workspace, exported from it and comes back.
            let returns = manifest.origin.as_ref().zip(came_as(manifest));
            let returns = returns.and_then(|(origin, form)| find(form, &origin.id, &origin.digest));
            let same = find(Form::Rappel, manifest.id.as_str(), &digest).or(returns);
            let id = match same {
                Some(same) => {
                    called.of.get_or_insert(same.lineage);
                    same.id.clone()
                }
                None => {
                    let id = names::name(Form::Rappel, manifest.id.as_str(), &mut |id| {
                        let is_taken = self.store.look_up(|index| is_taken(index, id))?;
                        Ok::<_, Error>(is_taken || taken.contains(id))
                    })?;
                    called.new.push((id.clone(), digest));
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

/// Leaves out what git would believe unchecked, and says so.
fn sound_git(writer: &Writer<'_>, manifest: &mut Manifest) -> Result<Vec<Skipped>> {
    let Some(part) = &mut manifest.git else { return Ok(Vec::new()) };
    let refused = foreign::refused(writer, part)?;
    let Some(tree) = part.tree.as_mut().filter(|_| !refused.is_empty()) else {
        return Ok(Vec::new());
    };
    let gone: Vec<(RelPath, Option<Node>)> =
        refused.iter().map(|one| (one.path.clone(), None)).collect();
    *tree = tree::update(writer, tree, &gone)?;
    let mut skipped = Vec::new();
    for foreign::Refused { file, reason, .. } in refused {
        let path = format!("{}: {file}", manifest.id);
        skipped.push(Skipped { path, reason: reason.clone() });
        let reason = format!("{file} did not come along: {reason}");
        manifest.partial_reasons.push(PartialReason {
            facet: Facet::Git,
            database: None,
            path: None,
            reason,
        });
    }
    manifest.partial = true;
    Ok(skipped)
}

/// The form in which a checkpoint came to the home that a bundle was written from.
fn came_as(manifest: &Manifest) -> Option<Form> {
    manifest.origin.as_ref()?.format.parse().ok()
}

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
