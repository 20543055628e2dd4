//! `rappel integrate AGENT` on the disk: hooks, command files and skill put in place, taken away,
//! and looked for. What they are is said by each vendor's module.
//!
//! A [`Place`] says where files are, `plan` what they shall hold, `apply` writes them, and `found`
//! looks for those that are there.

mod apply;
mod found;
mod place;
mod plan;

use std::path::PathBuf;

use crate::Vendor;
use crate::caller::NotText;
use crate::files::FileError;
use crate::json_text::Unfit;

pub use apply::{Changes, Extras, install, remove, unregister};
pub use found::{Called, Installed, installed};
pub use place::{Commands, Hooks, Layout, Place, Servers, UserFolder};

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum IntegrateError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A settings file is not what its vendor's documentation describes.
    #[error("{}, {unfit}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Where, and what is the matter.
        unfit: Unfit,
    },
    /// A path cannot be written to a settings file.
    #[error(transparent)]
    NotText(#[from] NotText),
    /// The agent reads the hooks of this place elsewhere.
    #[error(
        "{} reads no hooks of a linked work tree: it reads those of {}",
        vendor.title,
        folder.display()
    )]
    Elsewhere {
        /// Which agent.
        vendor: &'static Vendor,
        /// Where it reads them.
        folder: PathBuf,
    },
    /// A link leads out of the folder.
    #[error("{} leads out of {}", path.display(), folder.display())]
    Outside {
        /// What leads out.
        path: PathBuf,
        /// Of which folder.
        folder: PathBuf,
    },
}

type Result<T, E = IntegrateError> = std::result::Result<T, E>;
