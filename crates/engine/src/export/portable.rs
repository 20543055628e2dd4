//! A checkpoint of ours in the words that all forms share.

use std::collections::BTreeMap;
use std::sync::Arc;

use rappel_capture::databases::{dump, sqlite};
use rappel_capture::git::{LACKS, State, transfer};
use rappel_formats::portable::{
    Content, Database, File, Files, Git, Knowledge, KnowledgeDocument, Session, Worktree,
};
use rappel_formats::{Form, Portable};
use rappel_store::Store;
use rappel_store::index::CheckpointRow;
use rappel_store::sink::Source;
use rappel_store::tree;
use rappel_types::agents::SessionPart;
use rappel_types::database::{DatabaseKind, DatabasePart};
use rappel_types::git::{GitPart, RepositoryPart};
use rappel_types::knowledge::{Document, KnowledgePart};
use rappel_types::manifest::{FilesPart, PartialReason};
use rappel_types::{Facet, Manifest, Node, ObjectId, RelPath};

use super::contents::{Made, Stored, scratch};
use crate::error::{Error, Result};
use crate::rappel::{Rappel, open_store};

impl Rappel {
    /// Everything that a checkpoint holds and a form may carry. Contents stay in the store until somebody
    /// reads them.
    pub(crate) fn portable(&self, row: &CheckpointRow) -> Result<Portable> {
        // Contents outlive this call, so they have a store of their own.
        let store = Arc::new(open_store(&self.options)?);
        self.portable_over(&store, row)
    }

    /// The same for one of many, which share a store.
    pub(crate) fn portable_over(
        &self,
        store: &Arc<Store>,
        row: &CheckpointRow,
    ) -> Result<Portable> {
        let manifest = self.view(row)?.manifest;
        let id = manifest.id.to_string();
        let mut one = Portable::new(id, manifest.created_at, manifest.trigger);
        one.parent = manifest.parent.as_ref().map(ToString::to_string);
        one.description.clone_from(&manifest.description);
        one.tags.clone_from(&manifest.tags);
        one.environment.clone_from(&manifest.environment);
        one.session.clone_from(&manifest.session_id);
        one.partial = manifest.partial_reasons.iter().map(sentence).collect();
        let running = manifest.mid_operation.iter();
        one.partial.extend(running.map(|call| format!("a tool call was running: {call}")));
        one.metadata.clone_from(&manifest.metadata);
        one.process = manifest.process.as_ref().and_then(|process| {
            Some((process.get("rss")?.as_u64()?, process.get("heap_used")?.as_u64()?))
        });
        if let Some(part) = &manifest.files {
            let whole = !manifest.partial_reasons.iter().any(|one| one.facet == Facet::Files);
            let mut files = files(store, part, &manifest.workspace.root, &mut one.left_out)?;
            files.whole = whole;
            let agents = manifest.agents.iter();
            files.state_dirs = agents.flat_map(|agents| agents.state_dirs.clone()).collect();
            one.files = Some(files);
        }
        if let Some(part) = &manifest.git {
            one.git = self.portable_git(store, part, &manifest, &mut one)?;
        }
        let databases = manifest.databases.iter();
        one.databases = databases.map(|part| database(store, part)).collect();
        one.sessions = self.portable_sessions(&manifest)?;
        if let Some(part) = &manifest.knowledge {
            one.knowledge = Some(knowledge(store, part, manifest.files.as_ref())?);
        }
        if manifest.agents.as_ref().is_some_and(|agents| agents.transcripts.is_some()) {
            one.left_out.push("the transcripts of agents".to_owned());
        }
        if manifest.agents.as_ref().is_some_and(|agents| !agents.connected.is_empty()) {
            one.left_out.push("what a program's own systems gave".to_owned());
        }
        if !manifest.variables.is_empty() {
            one.left_out.push("environment variables".to_owned());
        }
        Ok(one)
    }

    /// A checkpoint that was imported is called in its own form as it was called there, and has its
    /// own document again.
    pub(super) fn back_to_origin(
        &self,
        row: &CheckpointRow,
        form: Form,
        one: &mut Portable,
    ) -> Result<()> {
        let manifest = self.store.manifest(row)?;
        let Some(origin) = manifest.origin.as_ref().filter(|from| from.format == form.as_str())
        else {
            return Ok(());
        };
        one.document = self.origin_document(&manifest)?;
        one.id.clone_from(&origin.id);
        one.parent.clone_from(&origin.parent);
        one.session.clone_from(&origin.session);
        let prefix = format!("{form}.{}:", manifest.workspace.id);
        for session in &mut one.sessions {
            if let Some(there) = session.id.strip_prefix(&prefix) {
                session.id = there.to_owned();
            }
        }
        Ok(())
    }

    fn portable_git(
        &self,
        store: &Arc<Store>,
        part: &GitPart,
        manifest: &Manifest,
        one: &mut Portable,
    ) -> Result<Option<Git>> {
        for nested in &part.nested {
            one.left_out.push(format!("the repository in {}", nested.path));
        }
        if part.root.key.is_empty() {
            return Ok(None);
        }
        let root = &part.root;
        if let Some(operation) = &root.operation {
            one.left_out.push(format!("the {operation} that is under way in git"));
        }
        let mut worktrees = Vec::new();
        for worktree in &root.worktrees {
            let files = worktree.files.as_ref();
            let files = files.map(|part| files_of(store, part, worktree, &mut one.left_out));
            worktrees.push(Worktree {
                name: worktree.name.clone(),
                branch: worktree.branch.clone(),
                commit: worktree.commit.clone(),
                path: worktree.path.clone(),
                files: files.transpose()?,
            });
        }
        Ok(Some(Git {
            branch: root.branch.clone(),
            commit: root.commit.clone(),
            dirty_files: root.dirty_files.clone(),
            staged: root.staged.clone(),
            modified: root.modified.clone(),
            untracked: root.untracked.clone(),
            worktrees,
            bundle: self.portable_bundle(store, part, manifest, one)?,
        }))
    }

    /// The bundle of the repository at the root, if it can be one.
    fn portable_bundle(
        &self,
        store: &Arc<Store>,
        part: &GitPart,
        manifest: &Manifest,
        one: &mut Portable,
    ) -> Result<Option<Arc<dyn Content>>> {
        let states = State::load(self.source(), part)?;
        let Some(state) = states.into_iter().find(|state| state.path.is_none()) else {
            return Ok(None);
        };
        if !has_commits(&state, &part.root) {
            return Ok(None);
        }
        let reasons = manifest.partial_reasons.iter().filter(|one| one.facet == Facet::Git);
        let lacks = reasons.map(|one| &one.reason).find(|reason| reason.starts_with(LACKS));
        let obstacle = transfer::obstacle(&state).map(str::to_owned).or_else(|| lacks.cloned());
        if let Some(obstacle) = obstacle {
            one.left_out.push(format!("git's history: {obstacle}"));
            return Ok(None);
        }
        let held = store.clone();
        let bundle = Made::new(store, None, move |file| {
            let folder = tempfile::tempdir_in(scratch(&held)?)?;
            let out = folder.path().join("bundle");
            let work = folder.path().join("work");
            std::fs::create_dir(&work)?;
            let made = transfer::write_bundle(&state, &work, &*held, &out);
            made.map_err(|trouble| std::io::Error::other(trouble.to_string()))?;
            let mut bundle = rappel_store::held::open(&out)?;
            std::io::copy(&mut bundle, file).map(drop)
        });
        Ok(Some(Arc::new(bundle)))
    }

    fn portable_sessions(&self, manifest: &Manifest) -> Result<Vec<Session>> {
        let parts = manifest.agents.iter().flat_map(|agents| &agents.sessions);
        let states = self.states_in(manifest, u64::MAX)?;
        let session = |(part, found): (&SessionPart, crate::StateAt)| Session {
            id: part.id.to_string(),
            conversation_id: part.conversation_id.clone(),
            assistant_session_id: part.assistant_session_id.clone(),
            provider: part.provider.clone(),
            task: found.state.task.clone(),
            status: part.status,
            started_at: found.state.started_at,
            state: found.state,
        };
        Ok(parts.zip(states).map(session).collect())
    }
}

fn sentence(reason: &PartialReason) -> String {
    match &reason.path {
        Some(path) => format!("{path}: {}", reason.reason),
        None => format!("{}: {}", reason.facet, reason.reason),
    }
}

/// Whether there is anything that a bundle could hold.
fn has_commits(state: &State, part: &RepositoryPart) -> bool {
    part.commit.is_some() || state.refs.keys().any(|name| name.as_bytes().starts_with(b"refs/"))
}

fn files_of(
    store: &Arc<Store>,
    part: &FilesPart,
    worktree: &rappel_types::git::WorktreePart,
    left_out: &mut Vec<String>,
) -> Result<Files> {
    files(store, part, &worktree.path, left_out)
}

/// The files of a tree.
fn files(
    store: &Arc<Store>,
    part: &FilesPart,
    root: &str,
    left_out: &mut Vec<String>,
) -> Result<Files> {
    let mut entries: BTreeMap<RelPath, File> = BTreeMap::new();
    let mut folders = Vec::new();
    for entry in tree::read(&**store, &part.tree)? {
        let file = match entry.node {
            Node::Directory { .. } => {
                folders.push(entry.path);
                continue;
            }
            Node::File { mode, size, content } => {
                let content = Arc::new(Stored { store: store.clone(), content, size });
                File { is_link: false, mode, modified: None, content }
            }
            Node::Symlink { target } => {
                File { is_link: true, mode: 0o777, modified: None, content: Arc::new(target) }
            }
        };
        entries.insert(entry.path, file);
    }
    let is_empty = |folder: &RelPath| {
        let next = entries.range(folder.clone()..).next();
        next.is_none_or(|(path, _)| !path.is_within(folder))
    };
    let empty = folders.iter().filter(|folder| is_empty(folder)).count();
    if empty > 0 {
        left_out.push("empty folders".to_owned());
    }
    let root = root.to_owned();
    Ok(Files { root, whole: true, state_dirs: Vec::new(), entries })
}

fn database(store: &Arc<Store>, part: &DatabasePart) -> Database {
    let (held, wanted) = (store.clone(), part.clone());
    let dump = Made::new(store, None, move |file| {
        let written = match wanted.kind {
            DatabaseKind::Sqlite => sqlite::write_to(&*held, &wanted, file),
            DatabaseKind::Postgres | DatabaseKind::Command => {
                dump::write_to(&*held, &dump::Stored::from(&wanted), file)
            }
        };
        written.map_err(std::io::Error::other)
    });
    Database {
        name: part.name.clone(),
        kind: part.kind,
        tables: part.tables.clone(),
        row_counts: part.row_counts.clone(),
        dump: Some(Arc::new(dump)),
    }
}

/// The index of the knowledge, with the hash of each document's content.
fn knowledge(
    store: &Arc<Store>,
    part: &KnowledgePart,
    files: Option<&FilesPart>,
) -> Result<Knowledge> {
    let bytes = store.get(&part.index)?;
    let documents: Vec<Document> = serde_json::from_slice(&bytes).map_err(|error| {
        Error::Damaged { message: format!("the index of the knowledge: {error}") }
    })?;
    let mut found = Vec::new();
    for document in documents {
        let hash = content_hash(store, &document, files)?;
        found.push(KnowledgeDocument {
            path: document.path,
            bytes: document.size,
            hash: hash.to_string(),
        });
    }
    Ok(Knowledge {
        projects: part.projects.clone(),
        document_count: part.document_count,
        documents: found,
    })
}

/// The hash of a document's content. A small one's object has it for its name.
fn content_hash(
    store: &Arc<Store>,
    document: &Document,
    files: Option<&FilesPart>,
) -> Result<ObjectId> {
    if document.size <= rappel_store::content::WHOLE_MAX as u64 {
        return Ok(document.hash);
    }
    let node = files.map(|part| tree::lookup(&**store, &part.tree, &document.path)).transpose()?;
    let Some(Some(Node::File { size, content, .. })) = node else { return Ok(document.hash) };
    let mut hasher = blake3::Hasher::new();
    rappel_store::content::write_to(&**store, &content, size, &mut hasher)?;
    Ok(ObjectId(*hasher.finalize().as_bytes()))
}
