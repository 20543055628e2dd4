//! The routes, by what they are about. Each file lists its endpoints first.

pub mod about;
pub mod checkpoints;
pub mod events;
pub mod files;
pub mod looking;
pub mod moving;
pub mod restore;
pub mod sessions;
pub mod upkeep;

use crate::describe::Endpoint;

/// Every endpoint of the API.
pub fn all() -> Vec<Endpoint> {
    let lists = [
        checkpoints::endpoints(),
        files::endpoints(),
        restore::endpoints(),
        looking::endpoints(),
        sessions::endpoints(),
        upkeep::endpoints(),
        moving::endpoints(),
        events::endpoints(),
        about::endpoints(),
    ];
    lists.into_iter().flatten().collect()
}
