//! Repositories that are gone or damaged, as far as that is cheap to notice: what status, save,
//! doctor and a plan say of it.

use rappel_capture::git::memo::RepositoryMemo;
use rappel_capture::git::refs::Target;
use rappel_capture::git::{Place, State, folder_of, packs};
use rappel_types::git::GitPart;
use rappel_types::{Advice, Remark};
use rappel_types::{CheckpointId, RelPath};

use super::describe::named;
use super::plan::GitPlanned;
use crate::error::Result;
use crate::rappel::Rappel;

/// So many refs are looked at.
const REFS: usize = 256;

/// What a save says when the repository is gone that the last one held.
pub(crate) fn gone(checkpoint: &CheckpointId) -> Remark {
    let advice = Advice::RestoreGit { checkpoint: Some(checkpoint.to_string()), plan_only: false };
    Remark::new(format!("the git repository is gone; {checkpoint} holds it"), advice)
}

impl Rappel {
    /// Repositories of a checkpoint whose folders are there without them, in words.
    pub(crate) fn lost_repositories(
        &self,
        then: &GitPart,
        found: &[Option<RelPath>],
    ) -> Vec<String> {
        let lost = then.repositories().map(|(path, _)| path).filter(|path| {
            let is_known = found.iter().any(|one| one.as_ref() == *path);
            !is_known && folder_of(&self.root, *path).is_dir()
        });
        lost.map(|path| {
            let there = folder_of(&self.root, path).join(".git").symlink_metadata().is_ok();
            let what = if there { "cannot be read any more" } else { "is gone" };
            format!("{} {what}", named(path))
        })
        .collect()
    }

    /// Packs that are not as they were, all of them read.
    pub(crate) fn damaged_packs(&self) -> Result<Vec<String>> {
        let Some(id) = self.workspace_id() else { return Ok(Vec::new()) };
        let Some(memo) = self.load_memo(id)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for known in &memo.repositories {
            let folder = folder_of(&self.root, known.path.as_ref());
            let Some(place) = Place::find(&folder, &self.options.environment) else { continue };
            let looked = packs::look(&place.common_dir, place.hash, &known.packs, u64::MAX);
            let name = named(known.path.as_ref());
            found.extend(looked.spoilt.iter().map(|pack| format!("{name}: {pack} is damaged")));
        }
        Ok(found)
    }
}

impl GitPlanned {
    /// Objects come back where a pack is damaged, or the file of what a ref leads to.
    pub(super) fn plan_damaged(
        &mut self,
        there: &State,
        place: &Place,
        known: Option<&RepositoryMemo>,
    ) {
        let Some(one) = self.plan.repositories.last_mut() else { return };
        let known = known.map_or(&[][..], |known| &known.packs);
        let looked = packs::look(&place.common_dir, place.hash, known, u64::MAX);
        let objects = there.refs.values().filter_map(|target| match target {
            Target::Object(oid) => Some(oid),
            Target::Symbolic(_) => None,
        });
        let torn = objects.take(REFS).filter(|oid| packs::is_torn(&place.common_dir, oid)).count();
        if looked.spoilt.is_empty() && torn == 0 {
            return;
        }
        let prefix = there.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
        let told = !std::mem::replace(&mut one.objects, true);
        let come = "objects come back that git lacks or cannot read";
        for pack in &looked.spoilt {
            self.details.push(format!("{prefix}{pack}: damaged; {come}"));
        }
        if told && looked.spoilt.is_empty() {
            self.details.push(format!("{prefix}what a ref leads to is torn; {come}"));
        }
    }
}
