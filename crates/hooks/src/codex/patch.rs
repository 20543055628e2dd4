//! Which files a patch of Codex's `apply_patch` touches.

use std::path::Path;

/// What a line that names a file begins with.
const NAMING: [&str; 4] =
    ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// The files, by absolute path: those of a patch are named from the agent's folder on.
pub fn paths(patch: &str, folder: Option<&str>) -> Vec<String> {
    let named = patch
        .lines()
        .filter_map(|line| NAMING.iter().find_map(|naming| line.trim_start().strip_prefix(naming)));
    let whole = |path: &str| match folder {
        Some(folder) => Path::new(folder).join(path.trim()).to_string_lossy().into_owned(),
        None => path.trim().to_owned(),
    };
    named.map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_patch_is_named() {
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+*** Delete File: no\n\
                     *** Update File: /x/b.txt\n*** Move to: c d.txt\n@@\n-x\n+y\n\
                     *** Delete File: e.txt\n*** End Patch\n";
        let found = paths(patch, Some("/home/dev"));
        assert_eq!(found, ["/home/dev/a.txt", "/x/b.txt", "/home/dev/c d.txt", "/home/dev/e.txt"]);
        assert_eq!(paths("", None), Vec::<String>::new());
    }
}
