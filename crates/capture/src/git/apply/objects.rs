//! Bringing back objects. They only add to a repository. A file of objects that git cannot read makes
//! room for what it held, and is kept aside.

use std::collections::BTreeSet;

use gix_index::hash::{Kind, ObjectId as Oid};
use rappel_store::Error as StoreError;
use rappel_store::sink::Source;
use rappel_types::git::RepositoryPlan;

use super::super::bundles::{Known, bytes_of};
use super::super::create;
use super::super::program::{Git, Trouble};
use super::super::stand_in::StandIn;
use super::super::state::State;
use super::aside::Aside;
use super::{GitDrive, path_of, trouble};
use crate::restore::Result;
use crate::restore::steps::Way;

/// The length of an object's name in the bundles of a state: a bundle's name is a hash of the same kind.
fn width(state: &State) -> Option<usize> {
    state.bundles.first().map(|bundle| bundle.name.len() / 2)
}

/// Which objects of a state git cannot give. `deep` reads every one that lies by itself; otherwise
/// its beginning is enough.
pub fn lacking(
    git: &Git<'_>,
    state: &State,
    source: &dyn Source,
    deep: bool,
) -> Result<BTreeSet<Oid>, Trouble> {
    look(git, state, source, deep).map(|(missing, _)| missing)
}

/// The same, and whether git complained of what it has.
fn look(
    git: &Git<'_>,
    state: &State,
    source: &dyn Source,
    deep: bool,
) -> Result<(BTreeSet<Oid>, bool), Trouble> {
    let Some(width) = width(state) else { return Ok((BTreeSet::new(), false)) };
    let mut input = Vec::new();
    for bundle in &state.bundles {
        let list = bytes_of(source, &bundle.ids).unwrap_or_default();
        for name in list.chunks_exact(width).filter_map(|name| Oid::try_from(name).ok()) {
            input.extend_from_slice(name.to_string().as_bytes());
            input.push(b'\n');
        }
    }
    // Its kind is asked for so that git opens the object: a file of that name is not enough.
    let asked = ["cat-file", "--buffer", "--batch-check=%(objecttype)"];
    let (status, answer, words) = git.try_ask(&asked, &input)?;
    if !status.success() {
        return Err(Trouble::Failed(words));
    }
    let complains = !words.trim().is_empty();
    let lines = answer.split(|&b| b == b'\n');
    let missing = lines.filter_map(|line| line.strip_suffix(b" missing"));
    let mut found: BTreeSet<Oid> = missing.filter_map(|hex| Oid::from_hex(hex).ok()).collect();
    if deep {
        // A name that leads nowhere, so that no history is followed.
        let nothing = Oid::null(if width == 32 { Kind::Sha256 } else { Kind::Sha1 }).to_string();
        let only_loose = ["fsck", "--no-full", "--no-reflogs", "--no-dangling", "--no-progress"];
        let (_, _, words) = git.try_ask(&[&only_loose[..], &[&nothing]].concat(), b"")?;
        let corrupt = words.lines().filter(|line| line.contains("corrupt or missing"));
        let names = corrupt.filter_map(|line| line.strip_prefix("error: ")?.split(':').next());
        let known = Known::of(&state.bundles, width, source);
        let names = names.filter_map(|hex| Oid::from_hex(hex.as_bytes()).ok());
        found.extend(names.filter(|oid| known.find(oid).is_some()));
    }
    Ok((found, complains))
}

impl GitDrive<'_> {
    /// Brings back what the repository lacks of the objects of the state that is gone to.
    pub(super) fn objects(&mut self, plan: &RepositoryPlan) -> Result<()> {
        let Some(state) = self.state_of(plan) else { return Ok(()) };
        let (Some(width), source) = (width(state), self.job.source) else { return Ok(()) };
        let common = path_of(&plan.common_dir);
        let objects = common.join("objects");
        for folder in [objects.join("pack"), objects.join("info")] {
            std::fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
        }
        let stand_in;
        // Whatever became of HEAD since a restore was interrupted, objects are no reason to stop.
        let git = match plan.mends || plan.spoils || !self.fresh {
            true => {
                let hash = if width == 32 { Kind::Sha256 } else { Kind::Sha1 };
                let made = StandIn::new(&path_of(&plan.git_dir), &common, hash);
                stand_in = made.map_err(StoreError::io("stand in for", &common))?;
                stand_in.git()
            }
            false => Git::at(&common),
        };
        let folder = common.join(format!("rappel-spoilt-{}", self.header.id));
        let other = || self.other_state(plan);
        let held = || {
            let other = other();
            let bundles = [Some(state), other.as_ref()].into_iter().flatten();
            bundles.map(|state| Known::of(&state.bundles, width, source)).collect()
        };
        let mut aside = Aside { folder, width, count: 0, git, held: &held };
        let packs = objects.join("pack");
        if plan.objects {
            aside.take_packs(&packs, true)?;
        }
        let again = || look(&git, state, source, plan.objects);
        let mut looked = again();
        if matches!(looked, Err(Trouble::Failed(_))) {
            // A folder in the place of an object stops git, whatever it is asked.
            aside.take_folders(&objects)?;
            looked = again();
        }
        if matches!(looked, Err(Trouble::Failed(_))) {
            aside.take_packs(&packs, true)?;
            looked = again();
        }
        let (mut missing, complains) = looked.map_err(|words| trouble(&words))?;
        if !missing.is_empty() {
            let before = aside.count;
            aside.take_loose(&objects, &missing)?;
            aside.take_packs(&packs, complains)?;
            if aside.count > before {
                missing = again().map_err(|words| trouble(&words))?.0;
            }
        }
        bring_back(&git, state, &missing, width, source)?;
        if plan.objects || aside.count > 0 {
            // What stays as it is needs its objects too.
            if let Some(other) = other()
                && let Ok((missing, _)) = look(&git, &other, source, plan.objects)
            {
                aside.take_loose(&objects, &missing)?;
                bring_back(&git, &other, &missing, width, source)?;
            }
        }
        let (count, folder) = (aside.count, aside.folder);
        if count > 0 {
            self.warnings.push(format!(
                "git could not read {count} of its files of objects; they are kept in {}",
                folder.display()
            ));
        }
        Ok(())
    }

    /// The repository as it is on the side that is left.
    fn other_state(&self, plan: &RepositoryPlan) -> Option<State> {
        let other = match self.way {
            Way::Forward => &self.header.safety,
            Way::Backward => &self.header.target,
        };
        (self.job.states)(other).ok()?.into_iter().find(|state| state.path == plan.path)
    }
}

/// Gives git the bundles of a state that hold what it lacks.
fn bring_back(
    git: &Git<'_>,
    state: &State,
    missing: &BTreeSet<Oid>,
    width: usize,
    source: &dyn Source,
) -> Result<()> {
    let known = Known::of(&state.bundles, width, source);
    let wanted: BTreeSet<usize> = missing.iter().filter_map(|oid| known.find(oid)).collect();
    let promised = !wanted.is_empty() && create::is_partial_clone(git);
    for at in wanted {
        create::unpack(git, &state.bundles[at], promised, source)?;
    }
    Ok(())
}
