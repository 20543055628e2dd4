//! The patches of a recovery point: what leads from its commit to its files with git alone.

use rappel_capture::git::{Place, patches};
use rappel_store::tree;
use rappel_types::git::RepositoryPart;
use rappel_types::{Manifest, Node, RelPath};

use crate::changes::take_out_unheld;
use crate::error::Result;
use crate::rappel::Rappel;
use crate::restore::RecordedRules;

impl Rappel {
    /// The patches from `commit` to a checkpoint's files, and what they lack, for people.
    pub(super) fn patches(
        &self,
        manifest: &Manifest,
        repository: &RepositoryPart,
        commit: &str,
    ) -> Result<(Vec<String>, Option<String>)> {
        let lacks = |reason: String| {
            Ok((Vec::new(), Some(format!("there are no patches, only the checkpoint: {reason}"))))
        };
        let Some(place) = Place::find(&self.root, &self.options.environment) else {
            return lacks("the repository is gone".into());
        };
        let held = match patches::held(&place, commit) {
            Ok(held) => held,
            Err(trouble) => return lacks(format!("{commit}: {trouble}")),
        };
        let paths = self.differing(manifest, repository, &held)?;
        match patches::make(&place, commit, &paths, self.source()) {
            Ok(patches) => {
                let nested = manifest.git.iter().flat_map(|git| &git.nested);
                let nested: Vec<String> = nested.map(|one| one.path.to_string()).collect();
                let without = match nested.is_empty() {
                    true => None,
                    false => Some(format!(
                        "the patches leave out the repositories in {}; the checkpoint holds them",
                        nested.join(", ")
                    )),
                };
                Ok((patches, without))
            }
            Err(trouble) => lacks(trouble.to_string()),
        }
    }

    /// The paths of the repository at the root that may differ from a commit, with what the
    /// checkpoint has there.
    fn differing(
        &self,
        manifest: &Manifest,
        repository: &RepositoryPart,
        held: &patches::Held,
    ) -> Result<Vec<(RelPath, Option<Node>)>> {
        let Some(files) = &manifest.files else { return Ok(Vec::new()) };
        let nested: Vec<&RelPath> =
            manifest.git.iter().flat_map(|git| &git.nested).map(|one| &one.path).collect();
        let elsewhere = |path: &RelPath| {
            let above = nested.iter().copied().chain(&held.submodules);
            above.into_iter().any(|folder| path.is_within(folder))
        };
        // A list that was cut says nothing of the paths that it lacks.
        let all = repository.unlisted > 0;
        let dirty = |path: &RelPath| all || repository.dirty_files.binary_search(path).is_ok();
        let mut found = Vec::new();
        let mut present = std::collections::HashSet::new();
        for entry in tree::read(self.source(), &files.tree)? {
            if matches!(entry.node, Node::Directory { .. }) || elsewhere(&entry.path) {
                continue;
            }
            if dirty(&entry.path) || !held.files.contains(&entry.path) {
                found.push((entry.path.clone(), Some(entry.node)));
            }
            present.insert(entry.path);
        }
        let rules = RecordedRules::of(self.source(), files)?;
        let databases: Vec<&str> =
            manifest.databases.iter().filter_map(|one| one.location.as_deref()).collect();
        let gone = held.files.iter().filter(|path| {
            dirty(path)
                && !present.contains(*path)
                && !elsewhere(path)
                && rules.selects(path, false)
                && !databases.contains(&path.to_string().as_str())
        });
        let mut gone: Vec<tree::Change> = gone
            .map(|path| tree::Change {
                path: path.clone(),
                old: Some(Node::Symlink { target: Vec::new() }),
                new: None,
            })
            .collect();
        take_out_unheld(&mut gone, manifest);
        found.extend(gone.into_iter().map(|change| (change.path, None)));
        Ok(found)
    }
}
