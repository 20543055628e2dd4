//! Bringing back objects. They only add to a repository.

use std::collections::BTreeSet;

use gix_index::hash::{Kind, ObjectId as Oid};
use rappel_store::Error as StoreError;
use rappel_store::sink::Source;
use rappel_types::git::RepositoryPlan;

use super::super::bundles::{Known, bytes_of};
use super::super::create;
use super::super::program::Git;
use super::super::stand_in::StandIn;
use super::super::state::State;
use super::{path_of, trouble};
use crate::restore::Result;

/// Brings back what the repository lacks of a state's objects.
pub fn bring_objects(
    plan: &RepositoryPlan,
    state: &State,
    source: &dyn Source,
    fresh: bool,
) -> Result<()> {
    // A bundle's name is a hash of the kind that names its objects.
    let Some(width) = state.bundles.first().map(|bundle| bundle.name.len() / 2) else {
        return Ok(());
    };
    let common = path_of(&plan.common_dir);
    let stand_in;
    // Whatever became of HEAD since a restore was interrupted, objects are no reason to stop.
    let git = match plan.mends || plan.spoils || !fresh {
        true => {
            let hash = if width == 32 { Kind::Sha256 } else { Kind::Sha1 };
            let made = StandIn::new(&path_of(&plan.git_dir), &common, hash);
            stand_in = made.map_err(StoreError::io("stand in for", &common))?;
            stand_in.git()
        }
        false => Git::at(&common),
    };
    let mut input = Vec::new();
    for bundle in &state.bundles {
        let list = bytes_of(source, &bundle.ids).unwrap_or_default();
        for name in list.chunks_exact(width).filter_map(|name| Oid::try_from(name).ok()) {
            input.extend_from_slice(name.to_string().as_bytes());
            input.push(b'\n');
        }
    }
    let args = ["cat-file", "--buffer", "--batch-check=%(objectname)"];
    let answer = git.ask(&args, &input).map_err(|words| trouble(&words))?;
    let lines = answer.split(|&b| b == b'\n');
    let missing: BTreeSet<Oid> = lines
        .filter_map(|line| line.strip_suffix(b" missing"))
        .filter_map(|hex| Oid::from_hex(hex).ok())
        .collect();
    let known = Known::of(&state.bundles, width, source);
    let wanted: BTreeSet<usize> = missing.iter().filter_map(|oid| known.find(oid)).collect();
    let promised = !wanted.is_empty() && create::is_partial_clone(&git);
    for at in wanted {
        create::unpack(&git, &state.bundles[at], promised, source)?;
    }
    Ok(())
}
