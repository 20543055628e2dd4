//! The folders that are left out where no git says what to ignore.
//!
//! Conservative on purpose: a name is on the list only if nobody keeps work of their own under it,
//! or if a file beside or inside the folder proves what it is. `dist`, `build`, `vendor`, `bin` and
//! the like are therefore captured.

/// Names that only tools give to folders: dependencies, caches and output that a command makes
/// again.
pub const BY_NAME: [&str; 22] = [
    "node_modules",
    "bower_components",
    ".venv",
    "__pycache__",
    "__pypackages__",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".ipynb_checkpoints",
    ".gradle",
    ".terraform",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".turbo",
    ".parcel-cache",
    ".angular",
    ".direnv",
    ".dart_tool",
    ".zig-cache",
];

/// A name that is left out only where a file proves what the folder is.
struct Marked {
    name: &'static str,
    /// One of these beside the folder proves it.
    beside: &'static [&'static str],
    /// One of these inside the folder proves it.
    inside: &'static [&'static str],
}

const MARKED: [Marked; 5] = [
    Marked { name: "target", beside: &["Cargo.toml", "pom.xml"], inside: &["CACHEDIR.TAG"] },
    Marked { name: "venv", beside: &[], inside: &["pyvenv.cfg"] },
    Marked { name: "env", beside: &[], inside: &["pyvenv.cfg"] },
    Marked { name: "_build", beside: &["mix.exs"], inside: &[] },
    Marked { name: "deps", beside: &["mix.exs"], inside: &[] },
];

/// Whether the list leaves out every folder called `name`.
pub(crate) fn by_name(name: &[u8]) -> bool {
    BY_NAME.iter().any(|known| known.as_bytes() == name)
}

/// Whether `name` is one that needs a proof.
pub(crate) fn needs_proof(name: &[u8]) -> bool {
    MARKED.iter().any(|marked| marked.name.as_bytes() == name)
}

/// Whether the folder at `path` is proven to be one of those; `exists` answers for any path.
pub(crate) fn proven(path: &[u8], exists: &dyn Fn(&[u8]) -> bool) -> bool {
    let start = path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    let Some(marked) = MARKED.iter().find(|marked| marked.name.as_bytes() == &path[start..]) else {
        return false;
    };
    let beside = marked.beside.iter().map(|name| [&path[..start], name.as_bytes()].concat());
    let inside = marked.inside.iter().map(|name| [path, b"/", name.as_bytes()].concat());
    beside.chain(inside).any(|proof| exists(&proof))
}

/// Whether the folder at `path` is one of dependencies, caches or output that a command makes again;
/// `exists` answers for any path.
pub fn is_build_folder(path: &[u8], exists: &dyn Fn(&[u8]) -> bool) -> bool {
    let start = path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    by_name(&path[start..]) || proven(path, exists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_name_needs_a_proof() {
        let with = |found: &'static [&'static str]| {
            move |path: &[u8]| found.iter().any(|known| known.as_bytes() == path)
        };
        assert!(by_name(b"node_modules") && !by_name(b"target") && !by_name(b"build"));
        assert!(needs_proof(b"target") && !needs_proof(b"node_modules"));
        assert!(proven(b"a/target", &with(&["a/Cargo.toml"])));
        assert!(proven(b"target", &with(&["Cargo.toml"])));
        assert!(proven(b"a/target", &with(&["a/target/CACHEDIR.TAG"])));
        assert!(!proven(b"a/target", &with(&["Cargo.toml"])));
        assert!(proven(b"venv", &with(&["venv/pyvenv.cfg"])));
        assert!(!proven(b"venv", &with(&["pyvenv.cfg"])));
        assert!(!proven(b"src", &|_| true));
    }
}
