//! How many ordinary lines are flagged, and how many destructive ones are found, by files of lines.

#![allow(clippy::print_stdout, reason = "the counts are the report")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use rappel_hooks::shell::{Verdict, verdict};

/// Lines of a fixture, and those of them that are flagged as destructive.
fn count(name: &str) -> (usize, Vec<String>) {
    let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")).collect();
    let is_flagged = |line: &str| match verdict(&line.replace('⏎', "\n"), folder.path()) {
        Verdict::Harmless => false,
        // It gets a checkpoint of its own if nobody knows which commit it goes to.
        Verdict::Perhaps(operation) => !operation.unknown.is_empty(),
        Verdict::Destructive { .. } => true,
    };
    let flagged: Vec<String> =
        lines.iter().filter(|line| is_flagged(line)).map(ToString::to_string).collect();
    println!("{name}: {} of {} lines are flagged", flagged.len(), lines.len());
    (lines.len(), flagged)
}

#[test]
fn few_ordinary_lines_are_flagged() {
    let (lines, flagged) = count("ordinary.txt");
    assert!(lines >= 2000, "{lines} lines");
    assert!(flagged.len() * 100 < lines * 3, "{} of {lines}: {flagged:#?}", flagged.len());
}

/// Lines by an author who has not seen the rules: whoever adds them puts them into these files.
#[test]
fn lines_by_another_author_are_counted_by_themselves() {
    let (ordinary, flagged) = count("blind-ordinary.txt");
    assert!(flagged.len() * 100 <= ordinary * 3, "{} of {ordinary}: {flagged:#?}", flagged.len());
    let (destructive, found) = count("blind-destructive.txt");
    // What is missed is reported, and no reason to fit the rules to the lines. Far fewer would mean
    // that a rule broke.
    assert!(found.len() * 100 >= destructive * 80, "{} of {destructive}", found.len());
}
