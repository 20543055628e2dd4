//! Handles for a program that lives: a [`Home`] and the [`Workspace`]s in it.
//!
//! They say where to look and remember nothing that was seen there. [`Workspace::now`] looks: it
//! reads configuration, identity and history as a new process would, and gives a [`Rappel`] for one
//! operation. So two operations at once are as safe as two processes.

use std::path::PathBuf;

use rappel_store::index::{Of, Order, Wanted};
use rappel_store::operation::Operation;
use rappel_store::{Keeper, ambient, disk, held};
use rappel_types::WorkspaceId;
use rappel_types::path::escape;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::events::{self, Events, Watcher};
use crate::rappel::{OpenOptions, Rappel, open_store, store_options};
use crate::workspace;

/// One home and all that a process knows about itself. Cheap to clone.
#[derive(Clone)]
pub struct Home {
    options: std::sync::Arc<OpenOptions>,
}

/// One root in a home. Cheap to clone.
#[derive(Clone)]
pub struct Workspace {
    home: Home,
    place: Place,
}

/// Which workspace is meant.
#[derive(Debug, Clone)]
enum Place {
    /// The one at this folder.
    Folder(PathBuf),
    /// The one with this id, or that was last seen at this path.
    Named(String),
}

/// A workspace that the home remembers.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KnownWorkspace {
    /// Its id.
    pub id: WorkspaceId,
    /// The folder that it was last seen in.
    pub root: String,
    /// The folder's name.
    pub name: String,
    /// Whether that folder is still there.
    pub exists: bool,
    /// How many checkpoints it has.
    pub checkpoints: u64,
    /// The workspace that it was imported into, if it came from elsewhere.
    pub lineage_of: Option<WorkspaceId>,
}

impl Home {
    /// The home that `options` name. Their root is a folder to begin with: see [`Home::here`].
    pub fn new(mut options: OpenOptions) -> Self {
        options.keeper = Some(Keeper::new(&options.home, store_options(&options)));
        Self { options: std::sync::Arc::new(options) }
    }

    /// Where its data lies.
    pub fn folder(&self) -> &std::path::Path {
        &self.options.home
    }

    /// Whether it has been made, and not deleted since.
    pub fn is_there(&self) -> bool {
        self.options.home.join("format").exists()
    }

    /// The workspace that the options of [`Home::new`] mean.
    pub fn here(&self) -> Workspace {
        let place = match &self.options.workspace {
            Some(named) => Place::Named(named.clone()),
            None => Place::Folder(self.options.root.clone()),
        };
        Workspace { home: self.clone(), place }
    }

    /// The workspace at a folder.
    pub fn at(&self, folder: impl Into<PathBuf>) -> Workspace {
        Workspace { home: self.clone(), place: Place::Folder(folder.into()) }
    }

    /// The workspace with this id, or that was last seen at this path. Whether there is one is
    /// found out by [`Workspace::now`].
    pub fn named(&self, named: impl Into<String>) -> Workspace {
        Workspace { home: self.clone(), place: Place::Named(named.into()) }
    }

    /// The token that programs of other users have to show a server of this home. The first call
    /// makes it, and only the home's owner can read it.
    pub fn token(&self) -> Result<String> {
        let store = open_store(&self.options)?;
        let path = store.home().root().join("token");
        // Asked before it is read: another server may make it at any moment.
        let is_there = path.exists();
        if let Some(token) = self.present_token() {
            return Ok(token);
        }
        let secret = ambient::secret().map_err(Error::io("make a token for", &path))?;
        let token = secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if is_there {
            // It was cut or spoilt.
            disk::replace(store.disk(), &path, token.as_bytes())?;
            return Ok(token);
        }
        // Of several servers that start at once, the first one's token counts.
        let own = path.with_extension(token.split_at(8).0);
        disk::replace(store.disk(), &own, token.as_bytes())?;
        let linked = std::fs::hard_link(&own, &path);
        let removed = std::fs::remove_file(&own);
        match linked {
            Ok(()) => removed.map(|()| token).map_err(Error::io("remove", own)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => self.token(),
            Err(error) => Err(Error::io("make", path)(error)),
        }
    }

    /// The token as it is now, if there is one.
    pub fn present_token(&self) -> Option<String> {
        let text = held::read_to_string(self.options.home.join("token")).ok()?;
        Some(text.trim().to_owned()).filter(|text| is_token(text))
    }

    /// What happened in the home after a position: see [`crate::events::events`].
    pub fn events(&self, since: Option<&str>, limit: usize) -> Result<Events> {
        events::events(&open_store(&self.options)?, since, limit)
    }

    /// The position behind everything that has happened so far.
    pub fn events_end(&self) -> Result<String> {
        events::events_end(&open_store(&self.options)?)
    }

    /// Tells when any process writes to the home.
    pub fn watcher(&self) -> Watcher {
        Watcher::new(&self.options.home)
    }

    /// Every workspace that the home remembers, lineages included.
    pub fn workspaces(&self) -> Result<Vec<KnownWorkspace>> {
        let store = open_store(&self.options)?;
        let records = store.look_up(workspace::records)?;
        let all = |id| Wanted::all(Of::One(id), Order::Number);
        let mut found = Vec::with_capacity(records.len());
        for record in records {
            let root = workspace::root_of(&record).unwrap_or_default();
            let name = root.file_name().unwrap_or(root.as_os_str());
            found.push(KnownWorkspace {
                id: record.id,
                name: escape(name.as_encoded_bytes()),
                exists: record.lineage_of.is_none() && workspace::is_alive(&record),
                checkpoints: store.look_up(|index| index.count(&all(record.id)))? as u64,
                lineage_of: record.lineage_of,
                root: record.root,
            });
        }
        Ok(found)
    }
}

/// 32 digits of base 16: a file that was cut or spoilt is no token.
fn is_token(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Workspace {
    /// The home that it is in.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The workspace as it is at this moment, for one operation that nobody watches.
    pub fn now(&self) -> Result<Rappel> {
        self.now_for(Operation::default())
    }

    /// The same for an operation that can be stopped, and whose progress is watched.
    pub fn now_for(&self, operation: Operation) -> Result<Rappel> {
        let options = OpenOptions { operation, ..(*self.home.options).clone() };
        Rappel::open(match &self.place {
            Place::Folder(root) => OpenOptions { root: root.clone(), workspace: None, ..options },
            Place::Named(named) => OpenOptions { workspace: Some(named.clone()), ..options },
        })
    }
}
