//! What a restore is asked to do.

use std::collections::BTreeSet;

use rappel_capture::restore::Scope;
use rappel_types::Advice;
use rappel_types::agents::SessionId;
use rappel_types::{Facet, RelPath};

use crate::databases::DatabaseWish;
use crate::error::{Error, Result};
use crate::git::GitWish;

/// What to restore.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct RestoreOptions {
    /// Only these paths and what lies below them; empty is all.
    pub paths: Vec<RelPath>,
    /// Leave these paths and what lies below them as they are.
    pub except: Vec<RelPath>,
    /// Only these facets, if given.
    pub only: Option<BTreeSet<Facet>>,
    /// Not these facets.
    pub skip: BTreeSet<Facet>,
    /// Carry it out only if the plan is still this one.
    pub expected: Option<String>,
    /// Delete refs that were made after the checkpoint.
    pub prune_refs: bool,
    /// Other work trees to restore, by name; `all` is every one.
    pub worktrees: Vec<String>,
    /// Only these databases, by name, and nothing else unless `only` asks for it; empty is all.
    pub only_databases: Vec<String>,
    /// Disconnect others from databases that they hold.
    pub terminate_connections: bool,
    /// Databases on other machines that may be restored, by name.
    pub allow_remote_databases: Vec<String>,
    /// Restore databases too that were older than the checkpoint.
    pub allow_stale: bool,
    /// Run dumps that came from elsewhere.
    pub trust_dump: bool,
    /// Commands to restore even where what they hold now cannot be saved, by name.
    pub allow_unsaved: Vec<String>,
    /// End the processes of other sessions that are running.
    pub terminate_sessions: bool,
    /// What agents call the sessions whose conversations go back although they only went on.
    pub rewound: Vec<String>,
    /// The session that asks: it is never ended.
    pub own_session: Option<SessionId>,
}

impl RestoreOptions {
    pub(crate) fn wants(&self, facet: Facet) -> bool {
        let asked = match &self.only {
            Some(only) => only.contains(&facet),
            None => self.only_databases.is_empty() || facet == Facet::Databases,
        };
        asked && !self.skip.contains(&facet)
    }

    /// Whether only some of it is asked for.
    pub fn is_partial(&self) -> bool {
        self.only.is_some()
            || !self.paths.is_empty()
            || !self.except.is_empty()
            || !self.skip.is_empty()
            || !self.only_databases.is_empty()
    }

    /// What to do about repositories; paths are about files alone.
    pub(crate) fn git(&self) -> Option<GitWish> {
        (self.wants(Facet::Git) && self.paths.is_empty()).then(|| GitWish {
            prune: self.prune_refs,
            worktrees: self.worktrees.clone(),
            ..GitWish::default()
        })
    }

    /// What to do about databases; paths are about files alone.
    pub(crate) fn databases(&self) -> Option<DatabaseWish> {
        let only = |facet| self.only.as_ref().is_some_and(|only| only.contains(&facet));
        (self.wants(Facet::Databases) && self.paths.is_empty()).then(|| DatabaseWish {
            allow_stale: self.allow_stale
                || only(Facet::Databases)
                || !self.only_databases.is_empty(),
            only: self.only_databases.clone(),
            allow_remote: self.allow_remote_databases.clone(),
            terminate_connections: self.terminate_connections,
            trust_dump: self.trust_dump,
            with_files: self.wants(Facet::Files),
            allow_unsaved: self.allow_unsaved.clone(),
            ..DatabaseWish::default()
        })
    }

    /// Every path that is named.
    pub(super) fn named_paths(&self) -> impl Iterator<Item = &RelPath> {
        self.paths.iter().chain(&self.except)
    }

    /// Facets that are not built yet cannot be asked for.
    pub(super) fn check_facets(&self) -> Result<()> {
        if !self.paths.is_empty() && !self.except.is_empty() {
            return Err(Error::Usage {
                message: "paths to restore and paths to keep are named; name one kind".into(),
                advice: Vec::new(),
            });
        }
        if let (Some(name), false) = (self.only_databases.first(), self.wants(Facet::Databases)) {
            return Err(Error::Usage {
                message: format!("database {name} is asked for, and databases are left out"),
                advice: vec![Advice::AskForDatabases],
            });
        }
        let files = self.wants(Facet::Files) || self.wants(Facet::Knowledge);
        if files || self.git().is_some() || self.databases().is_some() || self.agents().is_some() {
            return Ok(());
        }
        Err(Error::Usage {
            message: "there is nothing to restore: this version restores files, git, databases, agents and knowledge"
                .into(),
            advice: vec![Advice::AskForAllFacets],
        })
    }

    pub(super) fn scope(&self) -> Scope {
        match (self.paths.is_empty(), self.except.is_empty()) {
            (false, _) => Scope::Paths(self.paths.clone()),
            (true, false) => Scope::Except(self.except.clone()),
            (true, true) => Scope::All,
        }
    }
}
