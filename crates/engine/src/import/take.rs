//! One checkpoint that was read, as a manifest and its objects. What it holds may be anything: paths
//! that a workspace never has are left out, and a checkpoint that makes no sense is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rappel_formats::Form;
use rappel_formats::portable::{File, Files, Knowledge, Portable};
use rappel_store::sink::{Role, Sink, Source};
use rappel_store::{Writer, content, tree};
use rappel_types::config::DEFAULT_MAX_FILE_SIZE;
use rappel_types::knowledge::{Document, KnowledgePart};
use rappel_types::manifest::{
    Cost, FilesPart, MANIFEST_VERSION, OriginPart, PartialReason, SelectionRules, Skipped,
    WorkspacePart,
};
use rappel_types::{CheckpointId, Entry, Facet, FacetState, Manifest, Node, ObjectId, RelPath};

use super::git::Bundles;
use crate::error::{Error, Result};
use crate::lineage::Lineage;
use crate::rappel::Rappel;

/// The longest target of a link.
const LINK_MAX: u64 = 4096;
/// What folders get of which nobody knows more.
const FOLDER_MODE: u32 = 0o755;
/// Documents of a form that are larger are not kept.
const DOCUMENT_MAX: usize = 16 << 20;

/// Why a checkpoint is not taken.
pub(super) enum Failed {
    /// It is left out, for this reason.
    Skipped(String),
    /// The whole import fails.
    Import(Error),
}

impl<E: Into<Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Import(error.into())
    }
}

/// A checkpoint whose files and documents are in the run.
pub(super) struct Taken {
    /// Of all that was read, so that the same checkpoint is known again.
    pub digest: String,
    files: Option<TakenFiles>,
    document: Option<ObjectId>,
}

struct TakenFiles {
    tree: ObjectId,
    count: u64,
    bytes: u64,
    skipped: Vec<Skipped>,
}

impl Rappel {
    /// Puts the files and the document of a checkpoint into the run.
    pub(super) fn take_portable(
        &self,
        writer: &Writer<'_>,
        portable: &Portable,
    ) -> Result<Taken, Failed> {
        let mut digest = Digest::new(portable);
        let files = match &portable.files {
            Some(files) => Some(self.take_files(writer, files, &mut digest)?),
            None => None,
        };
        digest.add_rest(portable)?;
        let document = match &portable.document {
            Some(document) => {
                let json = serde_json::to_vec(document)
                    .map_err(|error| Failed::Skipped(format!("its document: {error}")))?;
                let fits = json.len() <= DOCUMENT_MAX;
                fits.then(|| writer.put(Role::Structure, &json, None)).transpose()?
            }
            None => None,
        };
        Ok(Taken { digest: digest.finish(), files, document })
    }

    fn take_files(
        &self,
        writer: &Writer<'_>,
        files: &Files,
        digest: &mut Digest,
    ) -> Result<TakenFiles, Failed> {
        let mut entries = Vec::with_capacity(files.entries.len());
        let mut skipped = Vec::new();
        let mut folders = BTreeSet::new();
        for (path, file) in &files.entries {
            let node = match refused(path, file) {
                Some(reason) => {
                    skipped.push(Skipped { path: path.clone(), reason: reason.into() });
                    continue;
                }
                None => take_file(writer, file)
                    .map_err(|failed| failed.at(&format!("{path} cannot be read")))?,
            };
            digest.add(path.as_bytes());
            match &node {
                Node::File { mode, size, content } => {
                    digest.add(format!("{mode:o} {size} {content:?}").as_bytes());
                }
                Node::Symlink { target } => digest.add(target),
                Node::Directory { .. } => {}
            }
            folders.extend(path.ancestors());
            entries.push(Entry { path: path.clone(), node });
        }
        if let Some(below) = entries.iter().find(|entry| folders.contains(&entry.path)) {
            return Err(Failed::Skipped(format!("{} is a file and a folder", below.path)));
        }
        entries.extend(
            folders
                .into_iter()
                .map(|path| Entry { node: Node::Directory { mode: self.mode_of(&path) }, path }),
        );
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let tree = tree::write(writer, &entries)?;
        let sizes = entries.iter().filter_map(|entry| match &entry.node {
            Node::File { size, .. } => Some(*size),
            Node::Symlink { target } => Some(target.len() as u64),
            Node::Directory { .. } => None,
        });
        let add = |(count, bytes): (u64, u64), size| (count + 1, bytes.saturating_add(size));
        let (count, bytes) = sizes.fold((0, 0), add);
        Ok(TakenFiles { tree, count, bytes, skipped })
    }

    /// The mode of a folder: as it is in the workspace, so that a restore leaves it alone.
    fn mode_of(&self, path: &RelPath) -> u32 {
        let place = self.root.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        let found = std::fs::symlink_metadata(place).ok().filter(std::fs::Metadata::is_dir);
        found.map_or(FOLDER_MODE, |found| found.mode() & 0o777)
    }

    /// Puts what else a checkpoint holds into the run, and into its manifest.
    pub(super) fn take_facets(
        &self,
        writer: &Writer<'_>,
        portable: &Portable,
        (scratch, bundles): (&Path, &mut Bundles),
        manifest: &mut Manifest,
    ) -> Result<()> {
        if let Some(git) = &portable.git {
            let (part, partial) = self.take_git(writer, git, scratch, bundles)?;
            // What is only said of git is no state that a restore could bring back.
            for (key, said) in [("git_branch", &git.branch), ("git_commit", &git.commit)] {
                if let (None, Some(said)) = (&part, said) {
                    manifest.metadata.entry(key.into()).or_insert_with(|| said.clone().into());
                }
            }
            let state = match (&part, partial.is_empty()) {
                (None, true) => FacetState::NotAsked,
                (part, _) => taken_or_failed(part.is_some()),
            };
            manifest.facets.insert(Facet::Git, state);
            manifest.git = part;
            manifest.partial_reasons.extend(partial);
        }
        if !portable.databases.is_empty() {
            let (parts, partial) = self.take_databases(writer, &portable.databases)?;
            manifest.facets.insert(Facet::Databases, taken_or_failed(!parts.is_empty()));
            manifest.databases = parts;
            for database in &mut manifest.databases {
                database.as_of.get_or_insert_with(|| manifest.id.clone());
            }
            manifest.partial_reasons.extend(partial);
        }
        if let Some(knowledge) = &portable.knowledge {
            manifest.knowledge = Some(take_knowledge(writer, knowledge)?);
            manifest.facets.insert(Facet::Knowledge, FacetState::Captured);
        }
        manifest.partial = !manifest.partial_reasons.is_empty();
        Ok(())
    }
}

fn taken_or_failed(taken: bool) -> FacetState {
    if taken { FacetState::Captured } else { FacetState::Failed }
}

impl Taken {
    /// The manifest, but for its name, its place and what facets besides the files hold.
    pub fn manifest(&self, portable: &Portable, lineage: &Lineage, form: Form) -> Manifest {
        let mut facets: BTreeMap<Facet, FacetState> =
            Facet::ALL.into_iter().map(|facet| (facet, FacetState::NotAsked)).collect();
        let mut partial_reasons: Vec<PartialReason> =
            portable.partial.iter().map(|reason| about_all(reason.clone())).collect();
        let root = portable.files.as_ref().map(|files| files.root.clone());
        let files = self.files.as_ref().map(|files| {
            facets.insert(Facet::Files, FacetState::Captured);
            files.part(portable.git.is_some())
        });
        if portable.files.as_ref().is_some_and(|files| !files.whole) {
            partial_reasons.push(about_all("not all files are in it".into()));
        }
        if portable.process.is_some() {
            facets.insert(Facet::Process, FacetState::Captured);
        }
        let process = portable
            .process
            .map(|(rss, heap_used)| serde_json::json!({ "rss": rss, "heap_used": heap_used }));
        let name = root.as_deref().and_then(|root| root.rsplit('/').next()).unwrap_or_default();
        Manifest {
            version: MANIFEST_VERSION,
            id: CheckpointId::new(portable.created_at, 0),
            sequence: 0,
            parent: None,
            created_at: portable.created_at,
            trigger: portable.trigger,
            description: portable.description.clone(),
            tags: portable.tags.clone(),
            environment: portable.environment.clone(),
            variables: BTreeMap::new(),
            session_id: None,
            workspace: WorkspacePart {
                id: lineage.workspace,
                name: name.to_owned(),
                root: root.clone().unwrap_or_else(|| lineage.place.clone()),
            },
            facets,
            partial: !partial_reasons.is_empty(),
            partial_reasons,
            mid_operation: Vec::new(),
            interrupted_restore: false,
            files,
            git: None,
            databases: Vec::new(),
            agents: None,
            knowledge: None,
            process,
            metadata: portable.metadata.clone(),
            origin: Some(OriginPart {
                format: form.as_str().to_owned(),
                id: portable.id.clone(),
                parent: portable.parent.clone(),
                session: portable.session.clone(),
                root,
                digest: self.digest.clone(),
                document: self.document,
            }),
            cost: Cost::default(),
        }
    }

    /// Counts what changed since the checkpoint that this one follows.
    pub fn count_changes(
        &self,
        source: &dyn Source,
        parent: Option<ObjectId>,
        manifest: &mut Manifest,
    ) -> Result<()> {
        let (Some(files), Some(part)) = (&self.files, &mut manifest.files) else { return Ok(()) };
        let Some(parent) = parent else {
            part.added = part.count;
            return Ok(());
        };
        if parent == files.tree {
            return Ok(());
        }
        for change in tree::diff(source, &parent, &files.tree)? {
            let is_folder = |node: &Option<Node>| matches!(node, Some(Node::Directory { .. }));
            match (&change.old, &change.new) {
                (old, new) if is_folder(old) || is_folder(new) => {}
                (None, _) => part.added += 1,
                (_, None) => part.deleted += 1,
                _ => part.modified += 1,
            }
        }
        Ok(())
    }
}

/// Something missing that nobody can place: nothing is deleted anywhere.
fn about_all(reason: String) -> PartialReason {
    PartialReason::new(Facet::Files, None, reason)
}

impl TakenFiles {
    fn part(&self, git: bool) -> FilesPart {
        FilesPart {
            tree: self.tree,
            count: self.count,
            bytes: self.bytes,
            added: 0,
            modified: 0,
            deleted: 0,
            skipped: self.skipped.clone(),
            // Nobody recorded the rules. These are the ones that our own saves begin with.
            rules: SelectionRules {
                git,
                max_file_size: DEFAULT_MAX_FILE_SIZE,
                ..SelectionRules::default()
            },
        }
    }
}

/// Why a path is left out, if so.
fn refused(path: &RelPath, file: &File) -> Option<&'static str> {
    if path.components().any(|name| name.eq_ignore_ascii_case(b".git")) {
        return Some("it is git's own");
    }
    (file.is_link && file.content.len() > LINK_MAX).then_some("no link leads that far")
}

fn take_file(writer: &Writer<'_>, file: &File) -> Result<Node, Failed> {
    let unread = |error: io::Error| Failed::Skipped(error.to_string());
    let mut reader = Noting { inner: file.content.open().map_err(unread)?, failed: None };
    if file.is_link {
        let mut target = Vec::new();
        (&mut reader).take(LINK_MAX).read_to_end(&mut target).map_err(unread)?;
        return match target.is_empty() || target.contains(&0) {
            true => Err(Failed::Skipped("a link that leads nowhere".into())),
            false => Ok(Node::Symlink { target }),
        };
    }
    let stored = content::store(writer, &mut reader, file.content.len(), None);
    match (stored, reader.failed) {
        (_, Some(error)) => Err(unread(error)),
        (Err(error), None) => Err(error.into()),
        (Ok((content, size)), None) => {
            // A foreign file gets no rights that its owner does not have.
            Ok(Node::File { mode: file.mode & 0o777, size, content })
        }
    }
}

impl Failed {
    fn at(self, what: &str) -> Self {
        match self {
            Self::Skipped(reason) => Self::Skipped(format!("{what}: {reason}")),
            failed @ Self::Import(_) => failed,
        }
    }
}

/// Remembers that reading failed, so that this is not taken for a failure of the store.
struct Noting<'a> {
    inner: Box<dyn Read + 'a>,
    failed: Option<io::Error>,
}

impl Read for Noting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer);
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.failed = Some(io::Error::new(error.kind(), error.to_string()));
        }
        read
    }
}

fn take_knowledge(writer: &Writer<'_>, knowledge: &Knowledge) -> Result<KnowledgePart> {
    let documents: Vec<Document> = knowledge
        .documents
        .iter()
        .filter_map(|one| {
            let hash = one.hash.parse().ok()?;
            Some(Document { path: one.path.clone(), size: one.bytes, hash, title: None })
        })
        .collect();
    let first = |document: &Document| {
        let name = document.path.components().next()?;
        RelPath::new(name).ok()
    };
    let paths: BTreeSet<RelPath> = documents.iter().filter_map(first).collect();
    let json = serde_json::to_vec(&documents)
        .map_err(|error| Error::Damaged { message: format!("knowledge: {error}") })?;
    Ok(KnowledgePart {
        projects: knowledge.projects.clone(),
        document_count: knowledge.document_count,
        paths: paths.into_iter().collect(),
        index: writer.put(Role::Structure, &json, None)?,
    })
}

/// A hash over everything that was read of a checkpoint. It does not depend on how this version
/// keeps it, so that a later one knows it again.
struct Digest(blake3::Hasher);

impl Digest {
    fn new(portable: &Portable) -> Self {
        let mut digest = Self(blake3::Hasher::new());
        digest.add(portable.id.as_bytes());
        digest.add(&portable.created_at.as_millis().to_le_bytes());
        digest
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// What has not been read on the way: the form's own document, or else what was made of it; and
    /// the files beside it.
    fn add_rest(&mut self, portable: &Portable) -> Result<(), Failed> {
        match &portable.document {
            Some(document) => self.add(document.to_string().as_bytes()),
            None => {
                let states: Vec<_> = portable.sessions.iter().map(|one| &one.state).collect();
                let said = serde_json::json!([
                    portable.parent,
                    portable.trigger.as_str(),
                    portable.description,
                    portable.tags,
                    portable.session,
                    portable.metadata,
                    states,
                ]);
                self.add(said.to_string().as_bytes());
            }
        }
        let git = portable.git.iter();
        let bundles = git.clone().filter_map(|git| git.bundle.as_deref());
        let dumps = portable.databases.iter().filter_map(|database| database.dump.as_deref());
        for content in bundles.chain(dumps) {
            self.add_content(content)?;
        }
        let trees = git.flat_map(|git| &git.worktrees).filter_map(|tree| tree.files.as_ref());
        for (path, file) in trees.flat_map(|files| &files.entries) {
            self.add(path.as_bytes());
            self.add_content(&*file.content)?;
        }
        Ok(())
    }

    fn add_content(
        &mut self,
        content: &dyn rappel_formats::portable::Content,
    ) -> Result<(), Failed> {
        let unread = |error: io::Error| Failed::Skipped(error.to_string());
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut content.open().map_err(unread)?, &mut hasher).map_err(unread)?;
        self.add(hasher.finalize().as_bytes());
        Ok(())
    }

    /// As text. It is shorter than the name of an object, so that nobody takes it for one.
    fn finish(self) -> String {
        self.0.finalize().to_hex()[..32].to_owned()
    }
}
