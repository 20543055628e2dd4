//! The repository of a folder, as Codex finds it. It counts twice: Codex trusts a folder by its
//! repository too, and reads the hooks of a linked work tree in the main checkout.

use std::path::{Path, PathBuf};

use crate::files;
use crate::integrate::Place;
use crate::scope::Scope;

/// A folder of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// The folder that has `.git`.
    pub root: PathBuf,
    /// That of the main checkout, where this one is a linked work tree.
    pub main: Option<PathBuf>,
}

impl Checkout {
    /// The one that a folder is in.
    pub fn of(folder: &Path) -> Option<Self> {
        let root = folder.ancestors().find(|above| above.join(".git").exists())?;
        Some(Self { root: root.to_owned(), main: main(root) })
    }
}

/// The main checkout of a linked work tree, whose `.git` says
/// `gitdir: MAIN/.git/worktrees/NAME`. A submodule's says something else, and a bare repository has
/// no main checkout. Codex takes a work tree for linked only if the repository knows it: `gitdir`
/// there leads back.
fn main(root: &Path) -> Option<PathBuf> {
    let real = |path: PathBuf| std::fs::canonicalize(path).ok();
    let text = |path: &Path| files::read(path).ok().flatten();
    let link = root.join(".git");
    let own = real(root.join(text(&link)?.strip_prefix("gitdir:")?.trim()))?;
    let back = own.join(text(&own.join("gitdir"))?.trim());
    if real(back) != real(link) {
        return None;
    }
    let common = own.parent().filter(|all| all.ends_with("worktrees"))?.parent()?;
    common.parent().filter(|_| common.ends_with(".git")).map(Path::to_owned)
}

/// The folder in which Codex reads the hooks of a place, where that is not the place's own.
pub fn elsewhere(place: &Place) -> Option<PathBuf> {
    if place.scope == Scope::User {
        return None;
    }
    let checkout = Checkout::of(&place.root)?;
    let inside = place.root.strip_prefix(&checkout.root).ok()?;
    Some(checkout.main?.join(inside).join(place.vendor.layout.project))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_linked_work_tree_has_a_main_checkout_and_nothing_else_has() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        let write = |path: &str, text: &str| {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (own, tree) in [
            ("main/.git/worktrees/tree", "tree"),
            ("main/.git/modules/mod", "main/mod"),
            ("bare.git/worktrees/bare", "bare"),
        ] {
            write(&format!("{own}/gitdir"), &format!("{}/{tree}/.git\n", base.display()));
        }
        let of = |path: &str| Checkout::of(&base.join(path));
        write("tree/.git", &format!("gitdir: {}/main/.git/worktrees/tree\n", base.display()));
        fs::create_dir(base.join("tree/pkg")).unwrap();
        let linked = Checkout { root: base.join("tree"), main: Some(base.join("main")) };
        assert_eq!(of("tree/pkg"), Some(linked.clone()));
        write("tree/.git", "gitdir: ../main/.git/worktrees/tree\n");
        assert_eq!(of("tree"), Some(linked));
        // One that was moved is not known.
        write("moved/.git", "gitdir: ../main/.git/worktrees/tree\n");
        let alone = |path: &str| Some(Checkout { root: base.join(path), main: None });
        assert_eq!(of("moved"), alone("moved"));
        write("main/mod/.git", "gitdir: ../.git/modules/mod\n");
        assert_eq!(of("main/mod"), alone("main/mod"));
        write("bare/.git", "gitdir: ../bare.git/worktrees/bare\n");
        assert_eq!(of("bare"), alone("bare"));
        assert_eq!(of("main"), alone("main"));
    }
}
