//! Bringing back objects. They only add to a repository.

use std::collections::BTreeSet;
use std::path::Path;

use gix_index::hash::ObjectId as Oid;

use super::super::bundles::{Known, bytes_of};
use super::super::create;
use super::super::program::Git;
use super::super::state::State;
use super::trouble;
use crate::restore::Result;

/// Brings back what the repository lacks of a state's objects.
pub fn bring_objects(
    git_dir: &Path,
    state: &State,
    source: &dyn rappel_store::sink::Source,
) -> Result<()> {
    let git = Git::at(git_dir);
    // A bundle's name is a hash of the kind that names its objects.
    let Some(width) = state.bundles.first().map(|bundle| bundle.name.len() / 2) else {
        return Ok(());
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
