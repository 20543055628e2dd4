//! Bringing back objects. They only add to a repository. A file of objects that git cannot read makes
//! room for what it held, and is kept aside.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gix_index::hash::{Kind, ObjectId as Oid};
use rappel_store::Error as StoreError;
use rappel_store::held;
use rappel_store::sink::Source;
use rappel_types::git::RepositoryPlan;

use super::super::bundles::{Known, bytes_of};
use super::super::create;
use super::super::program::{Git, Trouble};
use super::super::stand_in::StandIn;
use super::super::state::State;
use super::{GitDrive, path_of, trouble};
use crate::restore::Result;

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
        let mut aside = Aside { folder, width, count: 0 };
        let packs = objects.join("pack");
        let again = || look(&git, state, source, plan.objects);
        let mut looked = again();
        if matches!(looked, Err(Trouble::Failed(_))) {
            // A folder in the place of an object stops git, whatever it is asked.
            aside.take_folders(&objects)?;
            looked = again();
        }
        if matches!(looked, Err(Trouble::Failed(_))) {
            aside.take_packs(&packs, Some(&git))?;
            looked = again();
        }
        let (mut missing, complains) = looked.map_err(|words| trouble(&words))?;
        if !missing.is_empty() {
            let before = aside.count;
            aside.take_loose(&objects, &missing)?;
            aside.take_packs(&packs, complains.then_some(&git))?;
            if aside.count > before {
                missing = again().map_err(|words| trouble(&words))?.0;
            }
        }
        let known = Known::of(&state.bundles, width, source);
        let wanted: BTreeSet<usize> = missing.iter().filter_map(|oid| known.find(oid)).collect();
        let promised = !wanted.is_empty() && create::is_partial_clone(&git);
        for at in wanted {
            create::unpack(&git, &state.bundles[at], promised, source)?;
        }
        if aside.count > 0 {
            self.warnings.push(format!(
                "git could not read {} of its files of objects; they are kept in {}",
                aside.count,
                aside.folder.display()
            ));
        }
        Ok(())
    }
}

/// Where files of objects are kept that git cannot read.
struct Aside {
    folder: PathBuf,
    /// How long objects' names are.
    width: usize,
    count: usize,
}

impl Aside {
    fn take(&mut self, path: &Path) -> Result<()> {
        std::fs::create_dir_all(&self.folder).map_err(StoreError::io("create", &self.folder))?;
        let name = path.strip_prefix(path.ancestors().nth(2).unwrap_or(path)).unwrap_or(path);
        let name: Vec<&[u8]> = name.iter().map(OsStrExt::as_bytes).collect();
        let to = self.folder.join(std::ffi::OsStr::from_bytes(&name.join(&b'-')));
        std::fs::rename(path, &to).map_err(StoreError::io("rename", path))?;
        self.count += 1;
        Ok(())
    }

    /// Folders where objects have to be.
    fn take_folders(&mut self, objects: &Path) -> Result<()> {
        for folder in entries(objects).filter(|at| at.file_name().is_some_and(|n| n.len() == 2)) {
            for at in entries(&folder).filter(|at| at.is_dir()) {
                self.take(&at)?;
            }
        }
        self.take_packs(&objects.join("pack"), None)
    }

    /// Loose objects that are there and yet missing.
    fn take_loose(&mut self, objects: &Path, missing: &BTreeSet<Oid>) -> Result<()> {
        for oid in missing {
            let hex = oid.to_string();
            let path = objects.join(&hex[..2]).join(&hex[2..]);
            if path.symlink_metadata().is_ok() {
                self.take(&path)?;
            }
        }
        Ok(())
    }

    /// Packs that are not what their indexes say. One that has no index yet may be on its way. With
    /// `git`, that reads all of them.
    fn take_packs(&mut self, folder: &Path, git: Option<&Git<'_>>) -> Result<()> {
        let before = self.count;
        let is_index = |at: &PathBuf| at.extension().is_some_and(|end| end == "idx");
        for index in entries(folder).filter(is_index).collect::<Vec<_>>() {
            let reads = |git: &Git<'_>| {
                let Some(path) = index.to_str() else { return true };
                !matches!(git.ask(&["verify-pack", path], b""), Err(Trouble::Failed(_)))
            };
            if is_whole(&index, self.width) && git.is_none_or(reads) {
                continue;
            }
            for end in ["pack", "rev", "bitmap", "mtimes", "promisor", "keep", "idx"] {
                let path = index.with_extension(end);
                if path.symlink_metadata().is_ok() {
                    self.take(&path)?;
                }
            }
        }
        let all = folder.join("multi-pack-index");
        if self.count > before && all.symlink_metadata().is_ok() {
            self.take(&all)?;
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Whether a pack begins as packs do and ends as its index says. What is between is left to git.
fn is_whole(index: &Path, width: usize) -> bool {
    let ends = |path: &Path, from_end: usize| -> std::io::Result<([u8; 4], Vec<u8>)> {
        let (mut begin, mut name) = ([0; 4], vec![0; width]);
        let file = held::open(path)?;
        let end = file.metadata()?.len().saturating_sub(from_end as u64);
        file.read_exact_at(&mut begin, 0)?;
        file.read_exact_at(&mut name, end)?;
        Ok((begin, name))
    };
    match (ends(&index.with_extension("pack"), width), ends(index, 2 * width)) {
        (Ok((begin, name)), Ok((magic, said))) => {
            // Indexes of the first version begin with a table that begins with a small number.
            begin == *b"PACK" && (magic == *b"\xfftOc" || magic[0] == 0) && name == said
        }
        _ => false,
    }
}
