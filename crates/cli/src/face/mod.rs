//! What people see: values of the engine as text. Nothing here decides or fetches anything.

pub mod advice;
pub mod agents;
pub mod bisect;
pub mod checkpoint;
pub mod databases;
pub mod diff;
pub mod diff_agents;
pub mod found;
pub mod git;
pub mod health;
pub mod loki;
pub mod prune;
pub mod recover;
pub mod replay;
pub mod report;
pub mod restore;
pub mod run;
pub mod saved;
pub mod timeline;
pub mod trust;
pub mod verify;

use rappel::Checkpoint;
use rappel_types::Trigger;
use rappel_types::knowledge::KnowledgePart;
use rappel_types::manifest::FilesPart;
pub use rappel_types::size::thousands;

use crate::output::{Paint, clean};

/// How many lines of a section are shown.
const NAMED: usize = 20;
/// The longest title that a line has room for.
const TITLE_MAX: usize = 100;

/// `1 file`, `2 files`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// What a checkpoint is called in one line: the user's words in quotes, or what made it.
pub fn title(checkpoint: &Checkpoint) -> Option<String> {
    let manifest = &checkpoint.manifest;
    match manifest.description.as_deref() {
        // Automatic ones describe themselves in a word for programs.
        Some(words) if !manifest.is_automatic() => {
            let mut lines = words.trim().lines();
            let first = lines.next().unwrap_or_default();
            let more = if lines.next().is_some() { " …" } else { "" };
            Some(format!("\"{}{more}\"", shorten(&clean(first), TITLE_MAX)))
        }
        _ if manifest.trigger == Trigger::Manual => None,
        _ => Some(manifest.trigger.label().to_owned()),
    }
}

/// A text that fits, with `…` where it was cut.
pub fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(max - 1).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// `42 documents in 2 projects`.
pub fn knowledge(part: &KnowledgePart) -> String {
    let documents = count(part.document_count, "document", "documents");
    match part.projects.len() as u64 {
        0 => documents,
        projects => format!("{documents} in {}", count(projects, "project", "projects")),
    }
}

/// `2 new, 10 changed`, or `unchanged`.
pub fn changes(files: &FilesPart) -> String {
    let counts = [(files.added, "new"), (files.modified, "changed"), (files.deleted, "deleted")];
    tally(&counts, "unchanged")
}

/// What there is of each kind, without those of which there is nothing.
pub fn tally(counts: &[(u64, &str)], nothing: &str) -> String {
    let parts: Vec<String> = counts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", thousands(*number)))
        .collect();
    if parts.is_empty() { nothing.to_owned() } else { parts.join(", ") }
}

/// A word as it begins a sentence.
pub fn capitalised(word: &str) -> String {
    let mut word = word.to_owned();
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    word
}

/// Lines under a heading, the first of them if they are many; nothing if there are none.
pub fn section(heading: &str, lines: &[String], paint: Paint) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", paint.strong(&format!("{heading}:")));
    for line in lines.iter().take(NAMED) {
        text.push_str(&format!("  {}\n", clean(line)));
    }
    if lines.len() > NAMED {
        let more = thousands((lines.len() - NAMED) as u64);
        text.push_str(&format!("  … and {more} more\n"));
    }
    text
}

/// Lines of a label and a value, the values below each other.
pub struct Fields {
    paint: Paint,
    rows: Vec<(String, String)>,
}

impl Fields {
    /// None yet.
    pub fn new(paint: Paint) -> Self {
        Self { paint, rows: Vec::new() }
    }

    /// One more.
    pub fn add(&mut self, label: &str, value: impl Into<String>) {
        self.rows.push((label.to_owned(), value.into()));
    }

    /// One more, if there is something to say.
    pub fn add_some(&mut self, label: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.add(label, value);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All of them, indented by two.
    pub fn lines(&self) -> String {
        let width = self.rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (label, value) in &self.rows {
            let padded = format!("{label:width$}");
            text.push_str(&format!("  {}  {value}\n", self.paint.faint(&padded)));
        }
        text
    }
}

/// What became of a file, a table or a database, in the words that every command uses.
pub fn change_word(change: &str) -> &str {
    match change {
        "added" => "new",
        "modified" => "changed",
        "removed" => "deleted",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(count(1, "file", "files"), "1 file");
        assert_eq!(count(7081, "file", "files"), "7,081 files");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shorten("häuser", 6), "häuser");
        assert_eq!(shorten("häuser", 4), "häu…");
        assert_eq!(shorten("a b", 2), "a…");
    }

    #[test]
    fn fields_line_up() {
        let mut fields = Fields::new(Paint::PLAIN);
        fields.add("Files", "3");
        fields.add_some("Nothing", None::<String>);
        fields.add("Skipped", "1");
        assert_eq!(fields.lines(), "  Files    3\n  Skipped  1\n");
    }
}
