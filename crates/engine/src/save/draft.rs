//! The manifest of a checkpoint: a draft of what was seen, then its place in the history.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

use rappel_store::ambient;
use rappel_store::document::Undo;
use rappel_store::index::{CheckpointRow, Index};
use rappel_store::record::Kind;
use rappel_types::manifest::{
    Cost, FilesPart, MANIFEST_VERSION, PartialReason, Skipped, WorkspacePart,
};
use rappel_types::path::escape_bytes;
use rappel_types::{
    CheckpointId, Facet, FacetState, Manifest, ObjectId, Trigger, WorkspaceId, secret,
};

use super::SaveOptions;
use super::look::Seen;
use crate::databases::CapturedDatabases;
use crate::lineage::lineages_in;
use crate::rappel::Rappel;

/// What the metadata call the checkpoint of a lineage that was restored before.
const RESTORED_FROM: &str = "restored_from";

/// Every so many checkpoints the manifest is stored whole, so that chains stay short.
const MANIFEST_CHAIN: u64 = 8;

impl Rappel {
    /// The manifest, but for what is only known under the lock.
    pub(crate) fn draft(
        &self,
        id: WorkspaceId,
        options: &SaveOptions,
        seen: &Seen,
        interrupted_restore: bool,
    ) -> Manifest {
        let mut tags = options.tags.clone();
        tags.dedup();
        let partial_reasons = self.partial_reasons(seen);
        let files = seen.files.as_ref();
        Manifest {
            version: MANIFEST_VERSION,
            id: CheckpointId::new(self.now(), 0),
            sequence: 0,
            parent: None,
            created_at: self.now(),
            trigger: options.trigger(),
            description: options.message().map(str::to_owned),
            tags,
            environment: self.environment(options),
            variables: self.variables(),
            session_id: options.session.clone(),
            workspace: self.workspace_part(id),
            facets: facets(seen, options),
            partial: !partial_reasons.is_empty(),
            partial_reasons,
            mid_operation: Vec::new(),
            interrupted_restore,
            files: files.map(|files| with_left_out(files.part(), &options.left_out)),
            git: seen.git.as_ref().and_then(|git| git.captured.part.clone()),
            databases: seen.databases.as_ref().map(|all| all.parts.clone()).unwrap_or_default(),
            agents: None,
            knowledge: seen.knowledge.clone(),
            process: options.process.and_then(|memory| serde_json::to_value(memory).ok()),
            metadata: options.metadata.clone(),
            origin: None,
            cost: Cost::default(),
        }
    }

    /// The folder of this workspace, as a manifest of the history `id` names it.
    pub(crate) fn workspace_part(&self, id: WorkspaceId) -> WorkspacePart {
        let root = escape_bytes(self.root.as_os_str().as_bytes());
        let name = self.root.file_name().map(|name| escape_bytes(name.as_bytes()));
        WorkspacePart { id, root, name: name.unwrap_or_default() }
    }

    /// Why a checkpoint does not hold everything that it should.
    fn partial_reasons(&self, seen: &Seen) -> Vec<PartialReason> {
        let mut reasons: Vec<PartialReason> = seen.files_git_and_databases().cloned().collect();
        if let (Some(problem), true) = (&self.config_problem, seen.files.is_some()) {
            reasons.push(PartialReason {
                facet: Facet::Databases,
                path: None,
                database: None,
                reason: format!(
                    "rappel.toml: {problem}; the rules of the last checkpoint were used, and nothing \
                     that rappel.toml names was read or run"
                ),
            });
        }
        reasons.extend(seen.transcripts.iter().flat_map(|found| found.partial.iter().cloned()));
        reasons
    }

    /// The environment's name: asked for, else the process's, else the configuration's.
    pub(super) fn environment(&self, options: &SaveOptions) -> Option<String> {
        let named = options.environment.clone();
        named
            .or_else(|| self.options.environment_name.clone())
            .or_else(|| self.config.environment.clone())
    }

    /// The environment variables that `[variables]` names, but for what looks like a secret.
    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        let names = self.config.variables.capture.iter();
        names
            .filter_map(|name| Some((name.clone(), (self.options.variables)(name)?)))
            .filter(|(name, value)| secret::of_variable(name, value).is_none())
            .collect()
    }

    /// A sentence for each of those that is not set, or looks like a secret.
    pub(super) fn refused_variables(&self) -> Vec<String> {
        let names = self.config.variables.capture.iter();
        names
            .filter_map(|name| {
                let Some(value) = (self.options.variables)(name) else {
                    return Some(format!("the variable {name} is not kept: it is not set"));
                };
                let kind = secret::of_variable(name, &value)?;
                Some(format!("the variable {name} is not kept: it looks like a secret ({kind})"))
            })
            .collect()
    }
}

/// The files of a manifest, with what the caller left out.
fn with_left_out(mut part: FilesPart, left_out: &[Skipped]) -> FilesPart {
    part.skipped.extend_from_slice(left_out);
    part.skipped.sort();
    part.skipped.dedup();
    part
}

/// What became of each facet.
fn facets(seen: &Seen, options: &SaveOptions) -> BTreeMap<Facet, FacetState> {
    let mut facets: BTreeMap<Facet, FacetState> =
        Facet::ALL.into_iter().map(|facet| (facet, FacetState::NotAsked)).collect();
    if seen.files.is_some() {
        facets.insert(Facet::Files, FacetState::Captured);
        if options.wants(Facet::Knowledge) {
            let state = match seen.knowledge {
                Some(_) => FacetState::Captured,
                None => FacetState::Absent,
            };
            facets.insert(Facet::Knowledge, state);
        }
    }
    if options.process.is_some() {
        facets.insert(Facet::Process, FacetState::Captured);
    }
    facets.extend(seen.git.iter().map(|git| (Facet::Git, git.captured.state)));
    let databases = seen.databases.as_ref().map(CapturedDatabases::state);
    facets.extend(databases.map(|state| (Facet::Databases, state)));
    facets
}

/// Gives several manifests their places, one after the other. Under the lock.
pub(super) fn place_all<'m>(
    manifests: impl Iterator<Item = &'m mut Manifest>,
    index: &mut Index,
    id: WorkspaceId,
    now: rappel_types::Timestamp,
) -> rappel_store::Result<()> {
    let mut before: Vec<CheckpointId> = Vec::new();
    for (place_of, manifest) in manifests.enumerate() {
        loop {
            place(manifest, index, id, manifest.trigger, now)?;
            if !before.contains(&manifest.id) {
                break;
            }
        }
        manifest.sequence += place_of as u64;
        if let Some(last) = before.last() {
            manifest.parent = Some(last.clone());
        }
        before.push(manifest.id.clone());
    }
    Ok(())
}

/// Gives a manifest its place in the workspace's history. Under the lock.
pub(crate) fn place(
    manifest: &mut Manifest,
    index: &mut Index,
    id: WorkspaceId,
    trigger: Trigger,
    now: rappel_types::Timestamp,
) -> rappel_store::Result<()> {
    let newest = index.newest(id)?;
    manifest.sequence = index.last_sequence(id)? + 1;
    let (parent, foreign) = follows(index, id, newest.as_ref())?;
    if let Some(foreign) = foreign {
        manifest.metadata.insert(RESTORED_FROM.into(), foreign.as_str().into());
    }
    let not_before = newest.as_ref().map_or(i64::MIN, |row| row.created_at);
    manifest.created_at = now.max(rappel_types::Timestamp::from_millis(not_before.max(0)));
    manifest.parent = parent;
    manifest.trigger = trigger;
    loop {
        let random = (ambient::random() & 0xf_ffff) as u32;
        manifest.id = CheckpointId::new(manifest.created_at, random);
        if index.checkpoint(&manifest.id)?.is_none() {
            for database in &mut manifest.databases {
                database.as_of.get_or_insert_with(|| manifest.id.clone());
            }
            return Ok(());
        }
    }
}

/// The manifest that one with this number is stored against.
pub(crate) fn manifest_base(
    index: &Index,
    id: WorkspaceId,
    sequence: u64,
) -> rappel_store::Result<Option<ObjectId>> {
    if sequence % MANIFEST_CHAIN == 1 {
        return Ok(None);
    }
    Ok(index.newest(id)?.map(|row| row.manifest))
}

/// What the next checkpoint follows: the newest one, or what was restored since.
pub(crate) fn parent_of(
    index: &mut Index,
    id: WorkspaceId,
    newest: Option<&CheckpointRow>,
) -> rappel_store::Result<Option<CheckpointId>> {
    Ok(follows(index, id, newest)?.0)
}

/// The same, and the checkpoint of a lineage that was restored since: that one is never a parent of
/// the workspace's own.
fn follows(
    index: &mut Index,
    id: WorkspaceId,
    newest: Option<&CheckpointRow>,
) -> rappel_store::Result<(Option<CheckpointId>, Option<CheckpointId>)> {
    let own = newest.map(|row| row.id.clone());
    let restored = index
        .newest_document(Kind::Undo, &id.to_string())?
        .filter(|row| newest.is_none_or(|newest| row.birth > newest.birth))
        .and_then(|row| serde_json::from_str::<Undo>(&row.json).ok())
        .map(|undo| undo.to);
    let Some(restored) = restored else { return Ok((own, None)) };
    // One that this folder made before it adopted another history is its own too.
    let of = index.checkpoint(&restored)?.map(|(row, _)| row.workspace);
    let is_foreign = match of.filter(|of| *of != id) {
        Some(of) => lineages_in(index, id)?.iter().any(|lineage| lineage.workspace == of),
        None => false,
    };
    Ok(if is_foreign { (own, Some(restored)) } else { (Some(restored), None) })
}
