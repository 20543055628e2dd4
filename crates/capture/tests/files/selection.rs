//! Which files belong to a checkpoint.

use rappel_capture::Error;
use rappel_capture::files::Identity;
use rappel_types::manifest::Facet;

use crate::project::{Project, git, path};

#[test]
fn without_git_all_but_known_output_folders_is_taken() {
    let project = Project::new();
    project
        .write("src/main.rs", "")
        .write(".env", "")
        .write(".gitignore", "*.log\n")
        .write("a.log", "")
        .write("build/x", "")
        .write("dist/x", "")
        .write("vendor/x", "")
        .write("node_modules/m/index.js", "")
        .write("web/node_modules/m/index.js", "")
        .write("__pycache__/a.pyc", "")
        .write("crate/Cargo.toml", "")
        .write("crate/target/debug/x", "")
        .write("photos/target/x", "")
        .write("cached/target/CACHEDIR.TAG", "")
        .write("venv/pyvenv.cfg", "")
        .write("op/venv/notes", "");
    assert_eq!(
        project.taken(),
        [
            ".env",
            ".gitignore",
            "a.log",
            "build/x",
            "crate/Cargo.toml",
            "dist/x",
            "op/venv/notes",
            "photos/target/x",
            "src/main.rs",
            "vendor/x",
        ]
    );
    assert!(!project.fresh().rules.git);
}

#[test]
fn a_file_called_like_an_output_folder_is_a_file() {
    let project = Project::new();
    project.write("node_modules", "").write("target", "").write("Cargo.toml", "");
    assert_eq!(project.taken(), ["Cargo.toml", "node_modules", "target"]);
}

#[test]
fn a_proof_that_appears_later_counts() {
    let mut project = Project::new();
    project.write("venv/bin/python", "");
    project.settle();
    project.save_checked();
    assert!(project.tree.contains_key(&path("venv/bin/python")));
    project.settle();
    project.write("venv/pyvenv.cfg", "");
    project.settle();
    project.save_checked();
    assert!(project.tree.is_empty());
}

#[test]
fn in_git_its_rules_decide_and_nothing_else() {
    let project = Project::with_git();
    project
        .write(".gitignore", "*.log\n/out/\n!keep.log\n")
        .write("a.log", "")
        .write("keep.log", "")
        .write("out/x", "")
        .write("sub/out/x", "")
        .write("sub/.gitignore", "!b.log\n")
        .write("sub/b.log", "")
        .write("sub/c.log", "")
        .write("node_modules/x", "")
        .write(".git/info/exclude", "secret\n")
        .write("sub/secret", "");
    assert_eq!(
        project.taken(),
        [".gitignore", "keep.log", "node_modules/x", "sub/.gitignore", "sub/b.log", "sub/out/x"]
    );
    assert!(project.fresh().rules.git);
}

#[test]
fn a_negated_file_below_an_ignored_folder_stays_ignored() {
    let project = Project::with_git();
    project
        .write(".gitignore", "out/\n!out/keep\n")
        .write("out/keep", "")
        .write("out/.gitignore", "!*\n");
    assert_eq!(project.taken(), [".gitignore"]);
}

#[test]
fn what_is_tracked_is_taken_although_it_is_ignored() {
    let mut project = Project::with_git();
    project
        .write(".gitignore", "*.log\nout/\n")
        .write("a.log", "")
        .write("b.log", "")
        .write("out/deep/tracked", "")
        .write("out/deep/not", "")
        .write("out/other/not", "");
    project.git(&["add", "-f", "a.log", "out/deep/tracked"]);
    project.settle();
    project.save_checked();
    assert_eq!(project.taken(), [".gitignore", "a.log", "out/deep/tracked"]);
    project.settle();
    project.git(&["add", "-f", "b.log", "out/other/not"]);
    project.git(&["rm", "-q", "--cached", "a.log"]);
    project.save_checked();
    assert_eq!(project.taken(), [".gitignore", "b.log", "out/deep/tracked", "out/other/not"]);
}

#[test]
fn a_file_that_is_tracked_and_comes_back_is_taken_again() {
    let mut project = Project::with_git();
    project.write(".gitignore", "*.log\n").write("x.log", "1").write("y.log", "");
    project.git(&["add", "-f", "x.log"]);
    project.settle();
    project.save_checked();
    project.remove("x.log");
    project.save_checked();
    assert!(!project.tree.contains_key(&path("x.log")));
    project.settle();
    project.write("x.log", "2");
    project.save_checked();
    assert_eq!(project.text("x.log"), "2");
}

#[test]
fn every_version_of_the_index_is_understood() {
    for steps in [
        vec![vec!["update-index", "--index-version", "2"]],
        vec![vec!["update-index", "--index-version", "3"]],
        vec![vec!["update-index", "--index-version", "4"]],
        vec![vec!["update-index", "--split-index"], vec!["add", "-f", "late.log"]],
    ] {
        let project = Project::with_git();
        project
            .write(".gitignore", "*.log\n")
            .write("a.log", "")
            .write("late.log", "")
            .write("x", "");
        project.git(&["add", "-f", "a.log", "x"]);
        for step in &steps {
            project.git(step);
        }
        let mut expected = vec![".gitignore", "a.log", "x"];
        if steps.len() > 1 {
            expected.insert(2, "late.log");
        }
        assert_eq!(project.taken(), expected, "{steps:?}");
    }
}

#[test]
fn a_repository_with_sha256_is_understood() {
    let project = Project::new();
    project.git(&["init", "-q", "--object-format=sha256"]);
    project.write(".gitignore", "*.log\n").write("a.log", "").write("b.log", "");
    project.git(&["add", "-f", "a.log"]);
    assert_eq!(project.taken(), [".gitignore", "a.log"]);
}

#[test]
fn a_broken_index_makes_git_partial_and_nothing_fail() {
    let mut project = Project::with_git();
    project.write(".gitignore", "*.log\n").write("a.log", "").write("x", "");
    project.git(&["add", "-f", "a.log"]);
    project.settle();
    project.save_checked();
    project.write(".git/index", "DIRC but not really");
    for _ in 0..2 {
        let scanned = project.save();
        assert_eq!(scanned.partial.len(), 1, "{:?}", scanned.partial);
        assert_eq!(scanned.partial[0].facet, Facet::Git);
        assert!(scanned.partial[0].reason.contains("index"));
        // What was tracked before is kept until somebody knows better.
        assert!(project.tree.contains_key(&path("a.log")));
        project.settle();
    }
}

#[test]
fn the_users_own_excludes_count() {
    let project = Project::with_git();
    project.write("a.swp", "").write("b.tmp", "").write("c.bak", "").write("x", "");
    let home = project.dir.path().join("home");
    std::fs::create_dir_all(home.join(".config/git")).unwrap();
    std::fs::write(home.join(".config/git/ignore"), "*.swp\n").unwrap();
    assert_eq!(project.taken(), ["b.tmp", "c.bak", "x"]);
    std::fs::write(home.join("mine"), "*.tmp\n").unwrap();
    std::fs::write(home.join(".gitconfig"), "[core]\n excludesFile = ~/mine\n").unwrap();
    assert_eq!(project.taken(), ["a.swp", "c.bak", "x"]);
    std::fs::write(home.join("theirs"), "*.bak\n").unwrap();
    std::fs::write(home.join("more"), "[core]\n\texcludesfile = ~/theirs\n").unwrap();
    std::fs::write(home.join(".gitconfig"), "[include]\npath = more\n").unwrap();
    assert_eq!(project.taken(), ["a.swp", "b.tmp", "x"]);
    project.git(&["config", "core.excludesFile", "~/mine"]);
    assert_eq!(project.taken(), ["a.swp", "c.bak", "x"]);
}

#[test]
fn conditional_configuration_counts_where_its_condition_holds() {
    let project = Project::with_git();
    project.write("a.tmp", "").write("x", "");
    let home = project.dir.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("mine"), "*.tmp\n").unwrap();
    std::fs::write(home.join("more"), "[core]\n\texcludesfile = ~/mine\n").unwrap();
    for (condition, holds) in [
        ("gitdir:**/project/.git", true),
        ("gitdir:project/", true),
        ("gitdir/i:PROJECT/", true),
        ("gitdir:PROJECT/", false),
        ("gitdir:~/", false),
        ("onbranch:main", false),
    ] {
        let text = format!("[includeIf \"{condition}\"]\n\tpath = ~/more\n");
        std::fs::write(home.join(".gitconfig"), text).unwrap();
        let expected: &[&str] = if holds { &["x"] } else { &["a.tmp", "x"] };
        assert_eq!(project.taken(), expected, "{condition}");
        let listed = project.git(&["ls-files", "-o", "--exclude-standard"]);
        assert_eq!(String::from_utf8(listed).unwrap().lines().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_changed_exclude_file_is_noticed() {
    let mut project = Project::with_git();
    project.write("deep/er/a.swp", "").write("x", "");
    project.settle();
    project.save_checked();
    project.write(".git/info/exclude", "*.swp\n");
    project.save_checked();
    assert!(!project.tree.contains_key(&path("deep/er/a.swp")));
    let home = project.dir.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("mine"), "x\n").unwrap();
    project.git(&["config", "core.excludesFile", "~/mine"]);
    project.save_checked();
    assert!(!project.tree.contains_key(&path("x")));
    std::fs::write(home.join("mine"), "y\n").unwrap();
    project.save_checked();
    assert!(project.tree.contains_key(&path("x")));
}

#[test]
fn linked_worktrees_share_their_excludes_and_have_their_own_index() {
    let mut project = Project::with_git();
    project.write("a", "").write(".gitignore", "*.log\n");
    project.git(&["add", "."]);
    project.git(&["commit", "-qm", "x"]);
    project.write(".git/info/exclude", "secret\n");
    project.git(&["worktree", "add", "-q", "../linked"]);
    project.root = project.dir.path().join("linked");
    project.write("secret", "").write("t.log", "").write("u.log", "");
    project.git(&["add", "-f", "t.log"]);
    assert_eq!(project.taken(), [".gitignore", "a", "t.log"]);
}

#[test]
fn below_a_repositorys_root_its_rules_apply() {
    let mut project = Project::with_git();
    project
        .write(".gitignore", "*.log\n/pkg/app/gen\n")
        .write("pkg/.gitignore", "!keep.log\n")
        .write("pkg/app/gen/x", "")
        .write("pkg/app/a.log", "")
        .write("pkg/app/keep.log", "")
        .write("pkg/app/t.log", "")
        .write("pkg/app/node_modules/x", "")
        .write(".git/info/exclude", "secret\n")
        .write("pkg/app/secret", "");
    project.git(&["add", "-f", "pkg/app/t.log"]);
    project.root = project.at("pkg/app");
    assert_eq!(project.taken(), ["keep.log", "node_modules/x", "t.log"]);
    let scanned = project.fresh();
    let selector = project.selector(&scanned);
    for (name, selected) in
        [("gen", false), ("a.log", false), ("keep.log", true), ("secret", false), ("new/x", true)]
    {
        assert_eq!(selector.selects(&path(name), name == "gen"), selected, "{name}");
    }
}

#[test]
fn a_repository_that_ignores_the_workspace_has_no_say() {
    let mut project = Project::with_git();
    project
        .write(".gitignore", "/scratch/\n*.log\n")
        .write("scratch/mine/a.log", "")
        .write("scratch/mine/node_modules/x", "");
    project.root = project.at("scratch/mine");
    assert_eq!(project.taken(), ["a.log"]);
    assert!(!project.fresh().rules.git);
}

#[test]
fn nested_repositories_have_their_own_rules() {
    let mut project = Project::with_git();
    project.write(".gitignore", "*.log\nvendor/\n").write("a.log", "");
    for nested in ["lib", "vendor/hidden"] {
        let root = project.at(nested);
        std::fs::create_dir_all(&root).unwrap();
        git(&root, project.dir.path(), &["init", "-q"]);
    }
    project
        .write("lib/.gitignore", "*.tmp\n")
        .write("lib/a.log", "")
        .write("lib/b.tmp", "")
        .write("lib/t.tmp", "")
        .write("lib/.git/info/exclude", "private\n")
        .write("lib/private", "")
        .write("vendor/hidden/x", "");
    git(&project.at("lib"), project.dir.path(), &["add", "-f", "t.tmp"]);
    project.settle();
    let scanned = project.save_checked();
    assert_eq!(project.taken(), [".gitignore", "lib/.gitignore", "lib/a.log", "lib/t.tmp"]);
    let fresh = project.fresh();
    let selector = project.selector(&fresh);
    assert!(selector.selects(&path("lib/new.log"), false));
    assert!(!selector.selects(&path("lib/private"), false));
    assert!(!selector.selects(&path("lib/new.tmp"), false));
    assert!(!selector.selects(&path("new.log"), false));
    drop(selector);
    drop(scanned);
    // Without its repository the folder obeys the outer one.
    project.remove("lib/.git");
    project.save_checked();
    assert!(!project.tree.contains_key(&path("lib/a.log")));
}

#[test]
fn submodules_are_captured_like_folders() {
    let project = Project::with_git();
    let origin = project.dir.path().join("origin");
    std::fs::create_dir(&origin).unwrap();
    git(&origin, project.dir.path(), &["init", "-q"]);
    std::fs::write(origin.join("file"), "x").unwrap();
    std::fs::write(origin.join(".gitignore"), "*.log\n").unwrap();
    git(&origin, project.dir.path(), &["add", "."]);
    git(&origin, project.dir.path(), &["commit", "-qm", "x"]);
    project.git(&["submodule", "--quiet", "add", origin.to_str().unwrap(), "mods/sub"]);
    project.write("mods/sub/a.log", "").write("mods/sub/new", "");
    // Even where the outer repository ignores the place, a submodule is tracked.
    project.write(".gitignore", "/mods/\n");
    assert_eq!(
        project.taken(),
        [".gitignore", ".gitmodules", "mods/sub/.gitignore", "mods/sub/file", "mods/sub/new"]
    );
}

#[test]
fn rappelignore_beats_git_in_both_directions() {
    let mut project = Project::with_git();
    project
        .write(".gitignore", "*.log\ndata/\n")
        .write(".rappelignore", "!data/\n!important.log\n*.big\n")
        .write("sub/.rappelignore", "!small.big\n")
        .write("sub/small.big", "")
        .write("x.big", "")
        .write("tracked.big", "")
        .write("data/blob", "")
        .write("data/y.log", "")
        .write("important.log", "")
        .write("other.log", "");
    project.git(&["add", "-f", "tracked.big"]);
    project.settle();
    project.save_checked();
    assert_eq!(
        project.taken(),
        [
            ".gitignore",
            ".rappelignore",
            "data/blob",
            "important.log",
            "sub/.rappelignore",
            "sub/small.big",
        ]
    );
}

#[test]
fn include_beats_ignoring_and_exclude_beats_include() {
    let mut project = Project::with_git();
    project.config.include =
        vec![".env".into(), "data/blob.bin".into(), "logs".into(), "deep/*/keep/**".into()];
    project.config.exclude = vec!["tmp/**".into(), "*.secret".into()];
    project
        .write(".gitignore", ".env\ndata/\nlogs/\nnode_modules/\ndeep/\n")
        .write(".rappelignore", "logs\n")
        .write(".env", "")
        .write("app/.env", "")
        .write("node_modules/m/.env", "")
        .write("data/blob.bin", "")
        .write("data/other.bin", "")
        .write("logs/a/b.log", "")
        .write("logs/a.secret", "")
        .write("deep/one/keep/x", "")
        .write("deep/one/drop/x", "")
        .write("tmp/x", "")
        .write("tracked.secret", "");
    project.git(&["add", "-f", "tracked.secret"]);
    project.settle();
    project.save_checked();
    assert_eq!(
        project.taken(),
        [
            ".env",
            ".gitignore",
            ".rappelignore",
            "app/.env",
            "data/blob.bin",
            "deep/one/keep/x",
            "logs/a/b.log",
        ]
    );
    project.config.exclude.push("[".into());
    let Err(Error::BadGlob { key: "exclude", glob, .. }) = project.try_scan(None, None) else {
        panic!("a bad glob is an error")
    };
    assert_eq!(glob, "[");
}

#[test]
fn a_changed_configuration_is_noticed() {
    let mut project = Project::with_git();
    project.write(".gitignore", ".env\n").write("deep/er/.env", "").write("x", "1234");
    project.settle();
    project.save_checked();
    project.config.include = vec![".env".into()];
    project.save_checked();
    assert!(project.tree.contains_key(&path("deep/er/.env")));
    project.config.max_file_size = 3;
    // Rule files are needed to understand the rest, so their size does not count.
    let scanned = project.save_checked();
    assert_eq!(scanned.skipped.iter().map(|s| s.path.to_string()).collect::<Vec<_>>(), ["x"]);
    assert!(scanned.skipped[0].reason.contains("larger than 3 B"));
}

#[test]
fn nothing_named_git_is_ever_taken() {
    let mut project = Project::new();
    project
        .write(".GIT/config", "")
        .write("a/.git ", "")
        .write("a/git~1/x", "")
        .write("a/.g\u{200c}it", "")
        .write("a/.gitx", "")
        .write("b/.git", "gitdir: /nowhere\n")
        .write("b/x", "");
    project.also = vec![path("a/.git "), path(".GIT/config")];
    project.config.include = vec![".git*".into(), "*".into()];
    assert_eq!(project.taken(), ["a/.gitx", "b/x"]);
    project.settle();
    for _ in 0..2 {
        let skipped: Vec<_> =
            project.save_checked().skipped.into_iter().map(|s| s.path.to_string()).collect();
        assert_eq!(skipped, [".GIT", "a/.git ", "a/.g\u{200c}it", "a/git~1"]);
    }
}

#[test]
fn folders_are_excluded_by_what_they_are() {
    let mut project = Project::new();
    project
        .write("state/home/packs/1", "")
        .write("state/x", "")
        .write("stage.tmp", "")
        .write("y", "");
    project.settle();
    project.save_checked();
    project.excluded = vec![Identity::of(&project.at("state/home")).unwrap()];
    project.excluded_paths = vec![path("stage.tmp")];
    let scanned = project.save_checked();
    assert_eq!(project.taken(), ["state/x", "y"]);
    assert_eq!(scanned.rules.excluded_roots, [path("stage.tmp"), path("state/home")]);
    assert!(!project.tree.contains_key(&path("state/home")));
    let fresh = project.fresh();
    let selector = project.selector(&fresh);
    assert!(!selector.selects(&path("state/home/packs/2"), false));
    assert!(!selector.selects(&path("stage.tmp"), false));
    assert!(selector.selects(&path("state/z"), false));
    drop(selector);
    std::fs::rename(project.at("state/home"), project.at("elsewhere")).unwrap();
    let scanned = project.save_checked();
    assert_eq!(scanned.rules.excluded_roots, [path("elsewhere"), path("stage.tmp")]);
    project.excluded.clear();
    project.save_checked();
    assert!(project.tree.contains_key(&path("elsewhere/packs/1")));
}

#[test]
fn a_safety_scan_takes_what_it_is_asked_for() {
    let mut project = Project::with_git();
    project.config.exclude = vec!["tmp/**".into()];
    project.config.max_file_size = 10;
    project
        .write(".gitignore", "out/\n*.log\n")
        .write("out/a/one", "1")
        .write("out/a/two", "2")
        .write("x.log", "")
        .write("y.log", "")
        .write("tmp/t", "")
        .write("big", "more than ten bytes");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        project.at("pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    project.settle();
    let normal = project.save_checked();
    assert_eq!(normal.skipped.len(), 2);
    project.also = ["out/a/one", "x.log", "tmp/t", "big", "pipe", "not/there"].map(path).to_vec();
    for _ in 0..2 {
        let safety = project.save_checked();
        let names: Vec<_> = project.tree.keys().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [".gitignore", "big", "out", "out/a", "out/a/one", "tmp", "tmp/t", "x.log"]
        );
        assert_eq!(safety.partial.len(), 1);
        assert_eq!(safety.partial[0].path, Some(path("pipe")));
        assert!(safety.skipped.is_empty());
    }
    project.also.clear();
    let after = project.save_checked();
    assert_eq!(after.skipped, normal.skipped);
    let names: Vec<_> = project.tree.keys().map(ToString::to_string).collect();
    assert_eq!(names, [".gitignore", "tmp"]);
}

#[test]
fn ignore_files_that_are_ignored_still_rule_and_are_kept_in_the_manifest() {
    let mut project = Project::with_git();
    project
        .write(".git/info/exclude", ".gitignore\n.rappelignore\n")
        .write("sub/.gitignore", b"*.log\ncaf\xe9\n")
        .write("sub/.rappelignore", "*.tmp\n")
        .write("sub/a.log", "")
        .write("sub/b.tmp", "")
        .write("sub/x", "");
    project.settle();
    project.save_checked();
    assert_eq!(project.taken(), ["sub/x"]);
    let fresh = project.fresh();
    let selector = project.selector(&fresh);
    for (name, selected) in [
        ("sub/n.log", false),
        ("sub/n.tmp", false),
        ("n.log", true),
        ("sub/n", true),
        (r"sub/caf\xe9", false),
    ] {
        assert_eq!(selector.selects(&name.parse().unwrap(), false), selected, "{name}");
    }
    drop(selector);
    // They are watched although they are not captured.
    project.settle();
    project.write("sub/.gitignore", "*.lag\n");
    project.save_checked();
    assert!(project.tree.contains_key(&path("sub/a.log")));
}
