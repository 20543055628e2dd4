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
    verdict(line, folder) != Verdict::Harmless
}

#[test]
fn every_rule_finds_its_lines_and_spares_the_others() {
    let folder = folder();
    let rules = RULES.all.iter().map(|rule| (&rule.names, &rule.destroys, &rule.spares));
    let wrappers = RULES.wrappers.iter().map(|one| (&one.names, &one.destroys, &one.spares));
    let mut wrong = Vec::new();
    for (names, destroys, spares) in rules.chain(wrappers) {
        assert!(!destroys.is_empty(), "no line for {names:?}");
        let missed = destroys.iter().filter(|line| !is_destructive(line, folder.path()));
        wrong.extend(missed.map(|line| format!("not found: {line}")));
        let flagged = spares.iter().filter(|line| is_destructive(line, folder.path()));
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
    let long = format!("echo {}; rm notes.txt", "a".repeat(super::script::LONGEST));
    for line in [&deep, &long] {
        let found = verdict(line, folder.path()).operation().unwrap();
        assert!(!found.unknown.is_empty() && found.files.is_empty(), "{found:?}");
    }
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
