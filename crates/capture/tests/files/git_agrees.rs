//! Git itself is asked about random trees with random rules: it must agree about every path.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use rappel_types::{Node, RelPath};

use crate::project::{Project, leaves};

const NAMES: [&str; 12] =
    ["a", "b", "foo", "bar", "x.log", "y.log", "z.txt", "build", "Foo", "a b", "[x]", "é"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn file_path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..5).prop_map(|parts| parts.join("/"))
}

/// A component of a pattern: a name, or something that may match one.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => name(),
        1 => Just("*".to_owned()),
        1 => Just("**".to_owned()),
        1 => Just("*.log".to_owned()),
        1 => Just("f?o".to_owned()),
        1 => Just("[a-f]*".to_owned()),
        1 => Just("[!a]".to_owned()),
        1 => Just("[".to_owned()),
        1 => Just("b*r".to_owned()),
        1 => Just("\\[x\\]".to_owned()),
        1 => Just("[[:upper:]]oo".to_owned()),
        1 => Just("a\\ b".to_owned()),
        1 => Just("**o".to_owned()),
        1 => "[ab*?.\\]\\[!\\\\^-]{1,5}",
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec(part(), 1..4).prop_map(|parts| parts.join("/"));
    (any::<bool>(), prop::bool::weighted(0.3), parts, prop::bool::weighted(0.3), "( |  |\t|\r)?")
        .prop_map(|(negated, anchored, parts, folder, end)| {
            let mark = |on, text| if on { text } else { "" };
            let negated = mark(negated && !parts.is_empty(), "!");
            format!("{negated}{}{parts}{}{end}", mark(anchored, "/"), mark(folder, "/"))
        })
}

fn rules() -> impl Strategy<Value = String> {
    prop::collection::vec(pattern(), 0..6).prop_map(|lines| lines.join("\n"))
}

#[derive(Debug, Clone)]
struct Tree {
    files: BTreeSet<String>,
    ignore: Vec<(Option<String>, String)>,
    exclude: String,
    global: String,
    tracked: Vec<prop::sample::Index>,
    fold: bool,
}

fn tree() -> impl Strategy<Value = Tree> {
    let folder = prop::option::weighted(
        0.6,
        prop::collection::vec(name(), 1..3).prop_map(|parts| parts.join("/")),
    );
    (
        prop::collection::btree_set(file_path(), 1..40),
        prop::collection::vec((folder, rules()), 0..5),
        rules(),
        rules(),
        prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(files, ignore, exclude, global, tracked, fold)| Tree {
            files,
            ignore,
            exclude,
            global,
            tracked,
            fold,
        })
}

/// Makes the tree on the disk; paths that stand in each other's way are left out.
fn build(tree: &Tree) -> Project {
    let project = Project::with_git();
    let put = |path: &str, text: &str| {
        let path = project.root.join(path);
        let _ = std::fs::create_dir_all(path.parent().unwrap());
        let _ = std::fs::write(path, text);
    };
    for file in &tree.files {
        // Where case does not count for git, it loses sight of one of two names that differ in it.
        if !tree.fold || !file.contains("Foo") {
            put(file, "x");
        }
    }
    for (folder, text) in &tree.ignore {
        let folder = folder.as_ref().map(|folder| format!("{folder}/")).unwrap_or_default();
        if !tree.fold || !folder.contains("Foo") {
            put(&format!("{folder}.gitignore"), text);
        }
    }
    put(".git/info/exclude", &tree.exclude);
    put("../home/.config/git/ignore", &tree.global);
    if tree.fold {
        project.git(&["config", "core.ignoreCase", "true"]);
    }
    let files: Vec<_> = tree.files.iter().filter(|file| project.at(file).is_file()).collect();
    let pick = |at: &prop::sample::Index| (!files.is_empty()).then(|| *at.get(&files));
    let tracked: BTreeSet<_> = tree.tracked.iter().filter_map(pick).collect();
    for file in tracked {
        project.git(&["--literal-pathspecs", "add", "-f", "--", file]);
    }
    project
}

fn split(output: &[u8]) -> BTreeSet<String> {
    output
        .split(|&b| b == 0)
        .filter(|path| !path.is_empty())
        .map(|path| RelPath::new(path).unwrap().to_string())
        .collect()
}

/// Which of `paths` git's rules ignore, tracked or not.
fn ignored(project: &Project, paths: &[RelPath]) -> BTreeSet<String> {
    let mut child = Command::new("git")
        .current_dir(&project.root)
        .env("HOME", project.dir.path().join("home"))
        .env_remove("XDG_CONFIG_HOME")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["check-ignore", "--no-index", "--stdin", "-z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes: Vec<u8> = paths.iter().flat_map(|path| [path.as_bytes(), b"\0"].concat()).collect();
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    split(&output.stdout)
}

/// Every path below the root, but git's own.
fn all_paths(project: &Project) -> Vec<(RelPath, bool)> {
    let mut found = Vec::new();
    let mut open = vec![project.root.clone()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(&project.root).unwrap();
            if relative.starts_with(".git") {
                continue;
            }
            let relative = std::os::unix::ffi::OsStrExt::as_bytes(relative.as_os_str());
            found.push((RelPath::new(relative).unwrap(), path.is_dir()));
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn about_what_is_taken_and_what_would_be(tree in tree()) {
        let mut project = build(&tree);
        let listed = project.git(&["ls-files", "-co", "--exclude-standard", "-z"]);
        let scanned = project.save();
        let taken: BTreeSet<_> = leaves(&scanned).into_iter().collect();
        prop_assert_eq!(&taken, &split(&listed));

        let paths = all_paths(&project);
        let names: Vec<_> = paths.iter().map(|(path, _)| path.clone()).collect();
        let ignored = ignored(&project, &names);
        let selector = project.selector(&scanned);
        for (path, is_dir) in &paths {
            prop_assert_eq!(
                selector.selects(path, *is_dir),
                !ignored.contains(&path.to_string()),
                "{}", path
            );
        }
        // A folder is in the tree exactly if its content was looked at.
        for (path, node) in &scanned.changes {
            if matches!(node, Some(Node::Directory { .. })) {
                let holds_tracked = taken.iter().any(|file| file.starts_with(&format!("{path}/")));
                prop_assert!(selector.selects(path, true) || holds_tracked, "{}", path);
            }
        }
    }

    #[test]
    fn about_what_is_taken_after_its_rules_changed(before in tree(), after in tree()) {
        let mut project = build(&before);
        project.save();
        for (folder, text) in &after.ignore {
            let folder = folder.as_ref().map(|folder| format!("{folder}/")).unwrap_or_default();
            let _ = std::fs::write(project.at(format!("{folder}.gitignore")), text);
        }
        let _ = std::fs::write(project.at(".git/info/exclude"), &after.exclude);
        let files: Vec<_> = before.files.iter().filter(|file| project.at(file).is_file()).collect();
        let pick = |at: &prop::sample::Index| (!files.is_empty()).then(|| *at.get(&files));
        for file in after.tracked.iter().filter_map(pick) {
            project.git(&["--literal-pathspecs", "add", "-f", "--", file]);
        }
        project.save_checked();
        let listed = split(&project.git(&["ls-files", "-co", "--exclude-standard", "-z"]));
        let taken: BTreeSet<_> = project
            .tree
            .iter()
            .filter(|(_, node)| !matches!(node, Node::Directory { .. }))
            .map(|(path, _)| path.to_string())
            .collect();
        prop_assert_eq!(taken, listed);
    }
}
