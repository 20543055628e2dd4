//! What `--redact` takes out of a checkpoint on its way out. What is left out becomes a partial
//! reason, so that a restore deletes nothing there.
//!
//! Files are left out whole: one without its secret would be another file. In transcripts, journals,
//! messages and values the secret alone is replaced. Git's objects and the contents of databases are
//! not looked into, and are left out.
//!
//! Not guaranteed: that every secret is found; see `rappel_types::redact`.

mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rappel_formats::Portable;
use rappel_formats::portable::File;
use rappel_store::bundle::{Document, Part};
use rappel_store::overlay::Overlay;
use rappel_store::sink::{Role, Sink, Source};
use rappel_store::{content, tree};
use rappel_types::knowledge;
use rappel_types::manifest::{FilesPart, PartialReason};
use rappel_types::{Facet, FacetState, Manifest, Node, RelPath, redact, secret};
use serde_json::Value;

use crate::error::{Error, Result};
use search::{Lines, Search};

const BY: &str = "left out by redaction";

/// Takes the secrets out of a manifest and of what it refers to. Gives what was left out, a sentence
/// each.
pub(super) fn manifest(manifest: &mut Manifest, overlay: &Overlay<'_>) -> Result<Vec<String>> {
    let mut reasons = Vec::new();
    let mut gone = BTreeSet::new();
    if let Some(files) = &mut manifest.files {
        gone = redact_files(files, overlay, &mut reasons)?;
    }
    redact_knowledge(manifest, &gone, overlay)?;
    if manifest.git.take().is_some() {
        let reason = format!("{BY}: git's objects are not searched for secrets");
        leave_out(manifest, Facet::Git, reason, &mut reasons);
    }
    if !manifest.databases.is_empty() {
        let names: Vec<String> = manifest.databases.drain(..).map(|one| one.name).collect();
        let names = names.join(", ");
        let reason = format!("{BY}: databases are not searched for secrets ({names})");
        leave_out(manifest, Facet::Databases, reason, &mut reasons);
    }
    redact_agents(manifest, overlay, &mut reasons)?;
    manifest.variables.retain(|name, value| secret::of_variable(name, value).is_none());
    redact_values(&mut manifest.metadata);
    manifest.process.iter_mut().for_each(redact::value);
    let words = manifest.description.iter_mut().chain(&mut manifest.mid_operation);
    let words = words.chain(&mut manifest.tags).chain(&mut manifest.environment);
    for words in words.chain(manifest.partial_reasons.iter_mut().map(|one| &mut one.reason)) {
        *words = redact::text(words).into_owned();
    }
    let said = |one: &PartialReason| match &one.path {
        Some(path) => format!("{path} ({})", one.reason),
        None => format!("{}: {}", one.facet, one.reason),
    };
    let said = reasons.iter().map(said).collect();
    manifest.partial |= !reasons.is_empty();
    manifest.partial_reasons.extend(reasons);
    Ok(said)
}

fn leave_out(
    manifest: &mut Manifest,
    facet: Facet,
    reason: String,
    reasons: &mut Vec<PartialReason>,
) {
    manifest.facets.insert(facet, FacetState::Failed);
    reasons.push(PartialReason::new(facet, None, reason));
}

/// Leaves out the files that hold secrets; gives their paths.
fn redact_files(
    files: &mut FilesPart,
    overlay: &Overlay<'_>,
    reasons: &mut Vec<PartialReason>,
) -> Result<BTreeSet<RelPath>> {
    let mut changes = Vec::new();
    for entry in tree::read(overlay, &files.tree)? {
        let (size, kind) = match &entry.node {
            Node::File { size, content, .. } => {
                let mut search = Search::new(&entry.path);
                content::write_to(overlay, content, *size, &mut search)?;
                (*size, search.finish())
            }
            Node::Symlink { target } => (0, redact::in_bytes(target)),
            Node::Directory { .. } => continue,
        };
        let Some(kind) = kind else { continue };
        files.count = files.count.saturating_sub(1);
        files.bytes = files.bytes.saturating_sub(size);
        let reason = format!("{BY}: {kind}");
        let path = Some(entry.path.clone());
        reasons.push(PartialReason::new(Facet::Files, path, reason));
        changes.push((entry.path, None));
    }
    files.tree = tree::update(overlay, &files.tree, &changes)?;
    for extra in &mut files.rules.extra {
        extra.text = redact::sure(&extra.text).into_owned();
    }
    Ok(changes.into_iter().map(|(path, _)| path).collect())
}

/// The list of documents, without those that were left out.
fn redact_knowledge(
    manifest: &mut Manifest,
    gone: &BTreeSet<RelPath>,
    overlay: &Overlay<'_>,
) -> Result<()> {
    let Some(knowledge) = &mut manifest.knowledge else { return Ok(()) };
    let bad = |error| Error::Damaged { message: format!("knowledge: {error}") };
    let index = overlay.get(&knowledge.index)?;
    let mut documents: Vec<knowledge::Document> = serde_json::from_slice(&index).map_err(bad)?;
    documents.retain(|one| !gone.contains(&one.path));
    for title in documents.iter_mut().filter_map(|one| one.title.as_mut()) {
        *title = redact::text(title).into_owned();
    }
    knowledge.document_count = documents.len() as u64;
    let json = serde_json::to_vec(&documents).map_err(bad)?;
    knowledge.index = overlay.put(Role::Content, &json, None)?;
    Ok(())
}

/// Transcripts without their secrets; what programs gave only where no secret is seen. Stored states
/// are left out: the journals say the same.
fn redact_agents(
    manifest: &mut Manifest,
    overlay: &Overlay<'_>,
    reasons: &mut Vec<PartialReason>,
) -> Result<()> {
    let Some(agents) = &mut manifest.agents else { return Ok(()) };
    for session in &mut agents.sessions {
        session.snapshot = None;
    }
    if let Some(transcripts) = &mut agents.transcripts {
        let mut changes = Vec::new();
        for entry in tree::read(overlay, transcripts)? {
            let Node::File { mode, size, content } = &entry.node else { continue };
            let mut lines = Lines::new(overlay);
            content::write_to(overlay, content, *size, &mut lines)?;
            let Some((content, size)) = lines.finish()? else { continue };
            let reason = format!("{}: secrets in it were replaced", entry.path);
            reasons.push(PartialReason::new(Facet::Agents, None, reason));
            changes.push((entry.path, Some(Node::File { mode: *mode, size, content })));
        }
        *transcripts = tree::update(overlay, transcripts, &changes)?;
    }
    for (name, object) in std::mem::take(&mut agents.connected) {
        match redact::in_bytes(&overlay.get(&object)?) {
            None => _ = agents.connected.insert(name, object),
            Some(kind) => {
                let reason = format!("{name}: {BY}: {kind}");
                reasons.push(PartialReason::new(Facet::Agents, None, reason));
            }
        }
    }
    Ok(())
}

/// Values whose names may tell that they are secret.
fn redact_values(values: &mut BTreeMap<String, Value>) {
    let mut named = Value::Object(std::mem::take(values).into_iter().collect());
    redact::value(&mut named);
    if let Value::Object(named) = named {
        *values = named.into_iter().collect();
    }
}

/// A label or an event. What is said in an event was looked at when it was recorded, and its ids
/// must stay: only what is surely a token is looked for once more.
pub(super) fn document(document: &mut Document) {
    let Ok(mut value) = serde_json::from_str::<Value>(&document.json) else { return };
    match document.kind {
        Part::Label => redact::value(&mut value),
        Part::Event => redact::tokens(&mut value),
    }
    document.json = value.to_string();
}

/// The same for a checkpoint on its way to another form.
pub(super) fn portable(portable: &mut Portable) -> Result<Vec<String>> {
    let mut left_out = Vec::new();
    if let Some(files) = &mut portable.files {
        let failed = Error::io("read", "a file of the checkpoint");
        let out = redact_entries(&mut files.entries).map_err(failed)?;
        files.whole &= out.is_empty();
        left_out.extend(out);
    }
    if let Some(git) = &mut portable.git {
        let files = git.worktrees.iter_mut().filter_map(|one| one.files.take()).count();
        if git.bundle.take().is_some() || files > 0 {
            left_out.push(format!("git: {BY}: git's objects are not searched for secrets"));
        }
    }
    for database in &mut portable.databases {
        if database.dump.take().is_some() {
            let name = &database.name;
            left_out.push(format!("{name}: {BY}: databases are not searched for secrets"));
        }
    }
    let words = portable.description.iter_mut().chain(&mut portable.environment);
    for words in words.chain(&mut portable.tags) {
        *words = redact::text(words).into_owned();
    }
    redact_values(&mut portable.metadata);
    portable.partial.extend(left_out.iter().cloned());
    // The form's own document may hold what was just taken out.
    portable.document = None;
    Ok(left_out)
}

fn redact_entries(entries: &mut BTreeMap<RelPath, File>) -> io::Result<Vec<String>> {
    let mut left_out = Vec::new();
    let mut failure = None;
    entries.retain(|path, file| {
        let mut search = Search::new(path);
        let read = file.content.open().and_then(|mut reader| io::copy(&mut reader, &mut search));
        match read.map(|_| search.finish()) {
            Ok(None) => true,
            Ok(Some(kind)) => {
                left_out.push(format!("{path} ({BY}: {kind})"));
                false
            }
            Err(error) => {
                failure.get_or_insert(error);
                true
            }
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(left_out),
    }
}
