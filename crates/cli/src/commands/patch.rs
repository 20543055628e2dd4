//! `rappel restore --patch`: picking changes one by one. No command of its own.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use rappel::{Choice, PathHunks, Rappel, RestoreOptions};
use rappel_types::{ActionKind, Reference, RelPath};

use super::restore;
use crate::errors::{Exit, Failure, Result};
use crate::face;
use crate::output::{Paint, clean};
use crate::process::Context;

/// What a person says to one hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    /// This and all others of the file.
    All,
    /// Neither this nor the others of the file.
    Done,
    /// Nothing more at all.
    Quit,
}

const QUESTION: &str = "Take this back [y,n,a,d,q,?]? ";
const EXPLANATION: &str = "\
y - take this back
n - leave it as it is
a - take this and all further ones of this file back
d - leave this and all further ones of this file
q - ask nothing more; what was chosen so far is taken back
";

/// Asks about every hunk and restores what was chosen.
pub fn run(
    reference: &Reference,
    options: &RestoreOptions,
    rappel: &Rappel,
    context: &Context,
) -> Result {
    if !context.can_ask() {
        return Err(Failure::usage(
            "--patch asks about every change and needs a terminal",
            "choose files with --path instead",
        ));
    }
    let (report, hunks) = rappel.hunks(reference, options)?;
    let mut ask = |text: &str| ask(text, context.output.paint_stderr());
    let chosen = choose(&hunks, &mut ask)?;
    if chosen.is_empty() {
        context.output.tell("Nothing was chosen; nothing was changed.");
        return Ok(Exit::Done);
    }
    context.stop_cleanly();
    let reference = restore::exactly(&report.checkpoint);
    let options = RestoreOptions { expected: Some(report.plan), ..options.clone() };
    let report = rappel.restore_chosen(&reference, &options, &chosen)?;
    let verb = if restore::did_something(&report) { "Restored" } else { "Restore" };
    let id = context.output.paint().id(report.checkpoint.as_str());
    let head = format!("{verb} parts of {id}");
    restore::tell(&head, &report, &report, "undo", context)
}

/// Goes through the hunks. What is not chosen is not in the map.
fn choose(
    paths: &[PathHunks],
    ask: &mut dyn FnMut(&str) -> Result<Answer>,
) -> Result<BTreeMap<RelPath, Choice>> {
    let mut chosen = BTreeMap::new();
    'paths: for path in paths {
        if path.hunks.is_empty() {
            match ask(&whole(path))? {
                Answer::Yes | Answer::All => _ = chosen.insert(path.path.clone(), Choice::All),
                Answer::No | Answer::Done => {}
                Answer::Quit => break,
            }
            continue;
        }
        let mut taken = Vec::new();
        for (place, hunk) in path.hunks.iter().enumerate() {
            match ask(&format!("{}\n{hunk}", path.path))? {
                Answer::Yes => taken.push(place),
                Answer::No => {}
                Answer::All => {
                    taken.extend(place..path.hunks.len());
                    break;
                }
                Answer::Done => break,
                Answer::Quit => {
                    insert(&mut chosen, path, taken);
                    break 'paths;
                }
            }
        }
        insert(&mut chosen, path, taken);
    }
    Ok(chosen)
}

/// All hunks of a path are the path as a whole, its mode included.
fn insert(chosen: &mut BTreeMap<RelPath, Choice>, path: &PathHunks, taken: Vec<usize>) {
    if taken.len() == path.hunks.len() {
        chosen.insert(path.path.clone(), Choice::All);
    } else if !taken.is_empty() {
        chosen.insert(path.path.clone(), Choice::Hunks(taken));
    }
}

fn whole(path: &PathHunks) -> String {
    let what = match path.action {
        ActionKind::Create => "would be new",
        ActionKind::Delete => "would be deleted",
        ActionKind::Overwrite | ActionKind::Skip => "would be replaced as a whole",
    };
    format!("{} {what}", path.path)
}

fn ask(text: &str, paint: Paint) -> Result<Answer> {
    let mut stderr = io::stderr().lock();
    let unreadable =
        |error: io::Error| Failure::failed(format!("cannot ask on the terminal: {error}"));
    for line in text.lines() {
        let line = line.split('\t').map(clean).collect::<Vec<_>>().join("\t");
        writeln!(stderr, "{}", face::diff::coloured(&line, paint)).map_err(unreadable)?;
    }
    loop {
        write!(stderr, "{}", paint.strong(QUESTION)).map_err(unreadable)?;
        stderr.flush().map_err(unreadable)?;
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).map_err(unreadable)? == 0 {
            return Ok(Answer::Quit);
        }
        match line.trim() {
            "y" | "yes" => return Ok(Answer::Yes),
            "n" | "no" => return Ok(Answer::No),
            "a" => return Ok(Answer::All),
            "d" => return Ok(Answer::Done),
            "q" => return Ok(Answer::Quit),
            _ => write!(stderr, "{EXPLANATION}").map_err(unreadable)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str, hunks: usize) -> PathHunks {
        PathHunks {
            path: name.parse().unwrap(),
            action: ActionKind::Overwrite,
            hunks: (0..hunks).map(|n| format!("hunk {n}")).collect(),
        }
    }

    fn chosen(paths: &[PathHunks], answers: &[Answer]) -> Vec<(String, Choice)> {
        let mut answers = answers.iter().copied();
        let chosen = choose(paths, &mut |_| Ok(answers.next().unwrap())).unwrap();
        assert_eq!(answers.next(), None, "every answer is asked for");
        chosen.into_iter().map(|(path, choice)| (path.to_string(), choice)).collect()
    }

    #[test]
    fn hunks_are_chosen_one_by_one() {
        use Answer::{All, Done, No, Quit, Yes};
        let two = [path("a", 3), path("b", 0)];
        let some = |hunks: &[usize]| Choice::Hunks(hunks.to_vec());
        assert_eq!(chosen(&two, &[Yes, No, Yes, No]), [("a".into(), some(&[0, 2]))]);
        assert_eq!(
            chosen(&two, &[No, All, Yes]),
            [("a".into(), some(&[1, 2])), ("b".into(), Choice::All)]
        );
        assert_eq!(chosen(&two, &[All, Quit]), [("a".into(), Choice::All)]);
        assert_eq!(chosen(&two, &[Yes, Done, No]), [("a".into(), some(&[0]))]);
        assert_eq!(chosen(&two, &[Yes, Quit]), [("a".into(), some(&[0]))]);
        assert_eq!(chosen(&two, &[No, No, No, No]), []);
    }
}
