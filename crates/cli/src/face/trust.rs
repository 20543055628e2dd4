//! What a `rappel.toml` would run or reach.

use std::fmt::Write;

use rappel::{Answer, Decision, Trust, TrustEntry, TrustFile, TrustState, Wanted};
use rappel_types::size::format_size;
use rappel_types::{Timestamp, time};

use super::shorten;
use crate::output::{Paint, clean};
use crate::process::quote;

/// The longest line of a script that is shown whole.
const LINE_MAX: usize = 200;

/// Everything that the user should see before saying yes.
pub fn text(trust: &Trust, paint: Paint) -> String {
    let mut text = String::new();
    for one in &trust.entries {
        let state = match one.state {
            TrustState::Allowed => "allowed",
            TrustState::Refused => "refused",
            TrustState::Nothing | TrustState::New => "new",
        };
        let version = paint.faint(short(&one.hash));
        _ = writeln!(text, "{}  {version}  ({state})", paint.strong(&clean(&one.entry.name)));
        text.push_str(&wanted(&one.entry, paint));
        for file in &one.entry.files {
            text.push_str(&script(file, paint));
        }
        text.push('\n');
    }
    if let Some(hash) = &trust.hash {
        _ = writeln!(text, "Hash  {}", paint.id(hash));
    }
    text
}

/// Enough of a hash to tell two versions of one thing apart.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn wanted(entry: &TrustEntry, paint: Paint) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        _ = writeln!(text, "  {} {}", paint.faint(&format!("{label:9}")), clean(value));
    };
    match &entry.what {
        Wanted::Command { capture, restore } => {
            line("capture", &words(capture));
            line("restore", &words(restore));
            line("run in", &entry.folder);
        }
        Wanted::Tools { tools, connection } => {
            line("tools", &format!("{} pg_dump … (and psql)", words(tools)));
            line("server", connection);
            line("run in", &entry.folder);
        }
        Wanted::Password { connection } => {
            line("server", connection);
            line("is sent", "PGPASSWORD, which is for every server");
        }
        Wanted::Sqlite { path } => line("file", &format!("{path} (outside the workspace)")),
        Wanted::Export { format, place, sqlite } => {
            if let (Some(format), Some(place)) = (format, place) {
                line("writes", &format!("checkpoints in the form of {format} to {place}"));
            }
            if let Some(sqlite) = sqlite {
                line("writes", &format!("the database {sqlite}"));
            }
        }
        other => line("wants", &format!("{other:?}")),
    }
    text
}

/// A command line as a shell would be given it, so that every byte of it is seen.
fn words(line: &[String]) -> String {
    line.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" ")
}

fn shown(word: &str) -> String {
    if !word.contains(char::is_control) {
        return quote(word);
    }
    let escaped = word.chars().map(|c| match c {
        '\\' | '\'' => format!("\\{c}"),
        '\n' => "\\n".to_owned(),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

fn script(file: &TrustFile, paint: Paint) -> String {
    let path = clean(&file.path);
    if let Some(leads_to) = &file.leads_to {
        return format!("  {path} leads to {}\n", clean(leads_to));
    }
    let bytes = format_size(file.shown.bytes);
    if file.shown.lines.is_empty() {
        return format!("  {path}: {bytes}, not shown because it is not text\n");
    }
    let mut text = format!("  {path}: {bytes}\n");
    for line in &file.shown.lines {
        // A tab is no trick.
        let line = clean(&line.replace('\t', "    "));
        _ = writeln!(text, "  {} {}", paint.faint("|"), shorten(&line, LINE_MAX));
    }
    if file.shown.more {
        _ = writeln!(text, "  {} … more lines, not shown", paint.faint("|"));
    }
    text
}

/// What the user decided, a few lines each.
pub fn decisions(all: &[Decision], now: Timestamp, paint: Paint) -> String {
    let mut text = String::new();
    for one in all {
        let answer = match one.answer {
            Answer::Allowed => "allowed",
            Answer::Refused => "refused",
        };
        let name = paint.strong(&clean(&one.about.name));
        let version = one.about.hash();
        let version = paint.faint(short(&version));
        _ = writeln!(text, "{name}  {version}  ({answer} {})", time::age(now, one.at));
        text.push_str(&wanted(&one.about, paint));
        for file in &one.about.files {
            _ = writeln!(text, "  {} {}", paint.faint("script   "), clean(&file.path));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_shown_to_the_byte() {
        let line = ["sh", "-c", "a\nb", "a\\nb", "it's", "", "\u{1b}[2J"].map(str::to_owned);
        assert_eq!(words(&line), r"sh -c $'a\nb' 'a\nb' 'it'\''s' '' $'\u001b[2J'");
    }
}
