//! Each rule against its own lines, and the table of lines with their verdicts.

use std::path::Path;

use tempfile::TempDir;

use super::rules::RULES;
use super::{Reach, Verdict, verdict};

/// The folder that all lines run in.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    for name in ["notes.txt", "other.txt", "src/main.rs"] {
        std::fs::write(folder.path().join(name), "text\n").unwrap();
    }
    folder
}

fn is_destructive(line: &str, folder: &Path) -> bool {
    matches!(verdict(line, folder), Verdict::Destructive { .. })
}

#[test]
fn every_rule_finds_its_lines_and_spares_the_others() {
    let folder = folder();
    let rules = RULES.all.iter();
    let rules = rules.map(|rule| (&rule.names, &rule.destroys, &rule.spares, rule.perhaps));
    let wrappers = RULES.wrappers.iter().map(|one| (&one.names, &one.destroys, &one.spares, false));
    let mut wrong = Vec::new();
    for (names, destroys, spares, perhaps) in rules.chain(wrappers) {
        assert!(!destroys.is_empty(), "no line for {names:?}");
        let is_found = |line: &&String| match perhaps {
            true => verdict(line, folder.path()) != Verdict::Harmless,
            false => is_destructive(line, folder.path()),
        };
        let missed = destroys.iter().filter(|line| !is_found(line));
        wrong.extend(missed.map(|line| format!("not found: {line}")));
        let flagged = spares.iter().filter(|line| is_found(line));
        wrong.extend(flagged.map(|line| format!("flagged: {line}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A line of `verdicts.txt`, as it is judged: `files git`, and the names of files behind `:`.
fn judged(line: &str, folder: &Path) -> String {
    let Verdict::Destructive { operation, reaches } = verdict(line, folder) else {
        return "-".into();
    };
    let reaches: Vec<&str> = reaches
        .iter()
        .map(|reach| match reach {
            Reach::Files => "files",
            Reach::Git => "git",
            Reach::Databases => "databases",
            Reach::Outside => "outside",
        })
        .collect();
    let shown = |path: &Path| match path.strip_prefix(folder) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => path.display().to_string(),
    };
    let mut named: Vec<String> = operation.files.iter().map(|path| shown(path)).collect();
    named.extend(operation.ignored.iter().map(|path| format!("ignored in {}", shown(path))));
    named.extend((!operation.unknown.is_empty()).then(|| "?".to_owned()));
    match named.is_empty() {
        true => reaches.join(" "),
        false => format!("{}: {}", reaches.join(" "), named.join(", ")),
    }
}

#[test]
fn the_table_of_verdicts_holds() {
    let folder = folder();
    let table = include_str!("../../fixtures/verdicts.txt");
    let mut wrong = Vec::new();
    let mut count = 0;
    for row in table.lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let (expected, line) = row.split_once(" | ").unwrap_or_else(|| panic!("no verdict: {row}"));
        count += 1;
        let line = line.replace("⏎", "\n");
        let found = judged(&line, folder.path());
        if found != expected.trim() {
            wrong.push(format!("{line}\n  expected {}\n  found    {found}", expected.trim()));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 150, "{count} lines");
}

#[test]
fn a_line_that_is_too_long_or_too_deep_is_judged_by_its_words() {
    let folder = folder();
    let deep = format!("{}rm notes.txt{}", "( ".repeat(3000), " )".repeat(3000));
    let long = format!("echo {}; rm notes.txt", "a".repeat(super::grammar::LONGEST));
    for line in [&deep, &long] {
        let found = verdict(line, folder.path()).operation().unwrap();
        assert!(!found.unknown.is_empty() && found.files.is_empty(), "{found:?}");
    }
    let piped = format!("rm notes.txt {}", "| (cat) ".repeat(501));
    let found = verdict(&piped, folder.path()).operation().unwrap();
    assert!(!found.unknown.is_empty() && found.files.is_empty(), "{found:?}");
    let harmless = format!("{}ls{}", "( ".repeat(3000), " )".repeat(3000));
    assert_eq!(verdict(&harmless, folder.path()), Verdict::Harmless);
}

#[test]
fn a_line_that_does_not_fit_the_grammar_is_judged_by_its_words_too() {
    let folder = folder();
    for line in ["if ; then rm notes.txt", "rm -rf build )) ((", "for x in; rm \"a"] {
        assert!(is_destructive(line, folder.path()), "{line}");
    }
    assert!(!is_destructive("if ; then ls ((", folder.path()));
}

#[test]
fn characters_beyond_ascii_are_letters_wherever_they_stand() {
    let folder = folder();
    for character in ['é', '\u{a0}', '中', '😀', '\u{10ffff}'] {
        for line in
            ["{C", "a {C,b}", "a {1C", "$C", "${C}", "<<C\nC", "C=C", "a <C", "[[ C =~ C ]]"]
        {
            let line = line.replace('C', &character.to_string());
            assert_eq!(verdict(&line, folder.path()), Verdict::Harmless, "{line}");
        }
        let line = format!("(rm a{character}b {{{character},c}})");
        let found = verdict(&line, folder.path()).operation().unwrap();
        let expected = [format!("a{character}b"), "c".into(), character.to_string()];
        let mut expected = expected.map(|name| folder.path().join(name));
        expected.sort();
        assert_eq!(found.files, expected);
    }
}

#[test]
fn the_files_that_a_copy_of_a_folder_overwrites_are_named() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("new/src/deep")).unwrap();
    for name in ["new/notes.txt", "new/src/main.rs", "new/src/deep/x", "new/fresh.txt"] {
        std::fs::write(at(name), "other\n").unwrap();
    }
    let named = |line: &str| verdict(line, folder.path()).operation().unwrap_or_default().files;
    assert_eq!(named("cp -r new/. ."), [at("notes.txt"), at("src/main.rs")]);
    assert_eq!(named("cp -a new/src ."), [at("src/main.rs")]);
    assert!(named("cp -r new copy").is_empty() && named("cp -r new src").is_empty());
}

#[test]
fn a_redirection_belongs_to_the_last_command_of_a_list_or_pipeline() {
    let folder = folder();
    for (line, file) in [
        ("cd src && echo x > main.rs", "src/main.rs"),
        ("(cd src && echo x > main.rs)", "src/main.rs"),
        ("cd src; ls | sort > main.rs", "src/main.rs"),
        ("(cd src; cd .. && ls | sort > notes.txt)", "notes.txt"),
    ] {
        let found = verdict(line, folder.path()).operation().unwrap();
        assert_eq!(found.files, [folder.path().join(file)], "{line}");
    }
    // Words behind the file are the last command's.
    let found = verdict("(ls | rm > log notes.txt)", folder.path()).operation().unwrap();
    assert_eq!(found.files, [folder.path().join("notes.txt")]);
    assert!(!is_destructive("cd nowhere && echo x > main.rs", folder.path()));
}

#[test]
fn the_commits_that_a_line_goes_to_are_told() {
    let folder = folder();
    let told = |line: &str| -> Vec<String> {
        let operation = verdict(line, folder.path()).operation().unwrap_or_default();
        let shown = operation.commits.iter().map(|one| match one.later {
            true => format!("{} later", one.name),
            false => one.name.clone(),
        });
        shown.chain(operation.unknown.iter().map(|word| format!("?{word}"))).collect()
    };
    for (line, expected) in [
        ("git reset --hard", &["HEAD"][..]),
        ("git reset --hard v1", &["v1"]),
        ("git checkout -", &["@{-1}"]),
        ("git checkout -b new origin/main", &["origin/main"]),
        ("git switch -C new main", &["main"]),
        ("git checkout main -- src", &["main"]),
        ("git restore -s v1 .", &["v1"]),
        ("git cherry-pick a..b", &["a", "a..b", "a^", "b", "b^"]),
        ("git stash pop 2", &["stash@{2}"]),
        ("git pull", &["@{upstream} later"]),
        ("git pull origin main", &["origin/main later"]),
        ("git pull . main", &["main"]),
        ("git pull --rebase", &["@{upstream} later", "@{upstream}..HEAD"]),
        ("git pull -r origin main", &["origin/main later", "origin/main..HEAD"]),
        ("git stash branch new", &["stash@{0}", "stash@{0}^"]),
        ("git stash branch new 2", &["stash@{2}", "stash@{2}^"]),
        ("git fetch; git merge origin/main", &["origin/main later"]),
        ("git checkout other && git reset --hard HEAD~1", &["HEAD~1 later", "other"]),
        ("git checkout \"$BRANCH\"", &["?\"$BRANCH\""]),
        ("ssh host git checkout main", &[]),
        ("git log main", &[]),
    ] {
        assert_eq!(told(line), expected, "{line}");
    }
}
