//! Commands, flags and exit codes belong to the command line. No string of the crates below it
//! holds one: what they advise is data (`rappel_types::Advice`), and each face words it.

#![allow(clippy::unwrap_used, reason = "tests may")]

use std::path::{Path, PathBuf};

/// The crates that know no face.
const CRATES: [&str; 4] = ["types", "store", "capture", "engine"];

/// Strings that look like ours and are not: what begins hashed bytes or a file, the example of a
/// command in the `rappel.toml` that is written, and how agents are taken up again.
const ALLOWED: [(&str, &str); 7] = [
    ("capture/src/restore/plan.rs", r"rappel plan 1\n"),
    ("engine/src/trust/entry.rs", r"rappel trust entry 1\n"),
    ("engine/src/trust/entry.rs", r"rappel trust 1\n"),
    ("types/src/config.rs", r#"\"--eval\""#),
    ("engine/src/agents/recall.rs", "--resume"),
    ("engine/src/agents/recall.rs", "--session"),
    ("engine/src/doctor.rs", "--version"),
];

/// Where git and the programs of PostgreSQL are run: a string there that is nothing but a flag is
/// an argument of theirs.
const RUNS_PROGRAMS: [&str; 6] = [
    "capture/src/git/",
    "capture/src/databases/postgres",
    "engine/src/git/",
    "engine/src/operation/commits.rs",
    "engine/src/destructive/commits.rs",
    "engine/src/workspace.rs",
];

/// A string literal: its line, and what stands between its quotes.
struct Literal {
    line: usize,
    text: String,
}

/// The string literals of a source, without those of comments and of its test module.
fn literals(source: &str) -> Vec<Literal> {
    let source = match source.find("#[cfg(test)]\nmod tests {") {
        Some(end) => &source[..end],
        None => source,
    };
    let bytes = source.as_bytes();
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        // A character, not a lifetime.
        if bytes[at] == b'\'' {
            let escaped = bytes.get(at + 1) == Some(&b'\\');
            let end =
                rest[1..].char_indices().skip(1 + usize::from(escaped)).find(|(_, c)| *c == '\'');
            match end {
                Some((end, _)) if end <= 12 && (escaped || rest[1..=end].chars().count() == 1) => {
                    at += end + 2;
                }
                _ => at += 1,
            }
            continue;
        }
        let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
        let is_raw = rest.starts_with('r')
            && bytes.get(at + 1 + hashes) == Some(&b'"')
            && (at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() && bytes[at - 1] != b'b'));
        let (start, end) = if is_raw {
            let start = at + hashes + 2;
            let close = format!("\"{}", "#".repeat(hashes));
            (start, start + source[start..].find(&close).unwrap_or(0))
        } else if bytes[at] == b'"' {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            (at + 1, end)
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let line = source[..start].matches('\n').count() + 1;
        found.push(Literal { line, text: source[start..end].to_owned() });
        at = end + 1 + if is_raw { hashes } else { 0 };
    }
    found
}

/// The command, flag or exit code that a string holds.
fn word_of_the_command_line(text: &str, commands: &[String]) -> Option<String> {
    for (at, _) in text.match_indices("rappel ") {
        let before = text[..at].chars().next_back();
        let word: String =
            text[at + 7..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        let is_command = commands.contains(&word) || text[at + 7..].starts_with("-C");
        if is_command && before.is_none_or(|c| !c.is_alphanumeric() && c != '/') {
            return Some(format!("rappel {word}"));
        }
    }
    for (at, _) in text.match_indices("--") {
        let before = text[..at].chars().next_back();
        let flag: String =
            text[at + 2..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        let begins = flag.starts_with(|c: char| c.is_ascii_lowercase());
        if begins && before.is_none_or(|c| !c.is_alphanumeric() && c != '-') {
            return Some(format!("--{flag}"));
        }
    }
    let lower = text.to_lowercase();
    let codes = [
        "exits with ",
        "exit status ",
        "exit 1",
        "exit 2",
        "exit 3",
        "exit 4",
        "exit 5",
        "exit 6",
        "exit 7",
    ];
    codes.iter().find(|words| lower.contains(**words)).map(ToString::to_string)
}

/// Whether a string is one argument of a program, or what git's patches begin with.
fn is_an_argument(text: &str) -> bool {
    let one_word = text.starts_with("--") && !text.contains(' ');
    let format = text.starts_with("--format=%") || text.starts_with("--batch-check=%");
    one_word || format || text == "diff --git "
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The commands of the command line, by their files.
fn commands(crates: &Path) -> Vec<String> {
    let files = std::fs::read_dir(crates.join("cli/src/commands")).unwrap();
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let names: Vec<String> = files.map(|entry| name(entry.unwrap().path())).collect();
    assert!(names.iter().any(|name| name == "save") && names.len() > 40, "{names:?}");
    names
}

#[test]
fn no_words_of_the_command_line_stand_below_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let commands = commands(crates);
    let (mut wrong, mut looked_at) = (Vec::new(), 0);
    for name in CRATES {
        let mut files = Vec::new();
        sources(&crates.join(name).join("src"), &mut files);
        for path in files {
            let shown = path.strip_prefix(crates).unwrap().to_str().unwrap().to_owned();
            if shown.ends_with("/tests.rs") || shown.contains("/tests/") {
                continue;
            }
            for literal in literals(&std::fs::read_to_string(&path).unwrap()) {
                looked_at += 1;
                let Some(word) = word_of_the_command_line(&literal.text, &commands) else {
                    continue;
                };
                let allowed =
                    |(file, words): &(&str, &str)| shown == *file && literal.text.contains(words);
                let is_argument = RUNS_PROGRAMS.iter().any(|place| shown.starts_with(place))
                    && is_an_argument(&literal.text);
                if !is_argument && !ALLOWED.iter().any(allowed) {
                    wrong.push(format!("{shown}:{}: {word}: {:?}", literal.line, literal.text));
                }
            }
        }
    }
    assert!(looked_at > 5_000, "only {looked_at} strings were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_the_search_finds_and_what_it_leaves() {
    let commands = ["save".to_owned(), "restore".to_owned()];
    let found = |text: &str| word_of_the_command_line(text, &commands);
    assert_eq!(found("see `rappel save`").as_deref(), Some("rappel save"));
    assert_eq!(found("rappel -C {root} list").as_deref(), Some("rappel -"));
    assert_eq!(found("leave it out with --skip").as_deref(), Some("--skip"));
    assert_eq!(found("that is exit 7").as_deref(), Some("exit 7"));
    for fine in ["rappel.toml", "what rappel holds", "a -- b", "well--known", "exit code {code}"] {
        assert_eq!(found(fine), None, "{fine}");
    }
    let source =
        "// \"--no\"\nlet a = '\"'; let b: &'static str = \"--a \\\" b\"; r#\"--c\"#; '\\''";
    let texts: Vec<_> = literals(source).into_iter().map(|one| (one.line, one.text)).collect();
    assert_eq!(texts, [(2, "--a \\\" b".to_owned()), (2, "--c".to_owned())]);
}
