//! Which command lines destroy something, and what they reach.
//!
//! A line is read (`plain`, `grammar`), unwrapped (`sudo`, `sh -c`, `xargs`, `find -exec`) and
//! held against the rules of `shell/rules.toml`. Those rules are data; this module only carries them
//! out. Hooks and `rappel guard` ask [`verdict`].
//!
//! Not guaranteed: that every destructive command is known. A script, a program or an alias may do
//! anything. The hooks therefore save before every shell call; the verdict only decides how the
//! checkpoint is labelled, and what it holds beyond the captured files.

mod commits;
mod glob;
mod grammar;
mod plain;
mod rules;
mod sql;
mod steps;
mod targets;
mod word;

use std::collections::HashMap;
use std::path::Path;

use rappel::DestructiveCommand;

use glob::is_like;
pub use rules::Reach;
use rules::{Arguments, RULES, Rule, Wrapper};
use steps::{Command, Folder, Script, Step};
use targets::Findings;
use word::Word;

/// Commands that run commands are followed so deep.
const DEEPEST: usize = 8;
/// A line of a person has so many commands at most; what comes after them is not judged.
const MOST_STEPS: usize = 20_000;

/// Shells, which hand their variables on to what they run.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "zsh", "ash"];

/// The exported variables that a command finds.
pub type Environment = HashMap<String, String>;

/// What a command line does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As far as anybody can tell, it destroys nothing.
    Harmless,
    /// It destroys ignored files if a commit that it goes to tracks them, and nothing else.
    /// [`rappel::Rappel::resolve_commits`] finds out.
    Perhaps(DestructiveCommand),
    /// It destroys something.
    Destructive {
        /// What, as the engine takes it.
        operation: DestructiveCommand,
        /// The kinds of state that it reaches.
        reaches: Vec<Reach>,
    },
}

impl Verdict {
    /// What it destroys, if it does or may.
    pub fn operation(self) -> Option<DestructiveCommand> {
        match self {
            Self::Harmless => None,
            Self::Perhaps(operation) | Self::Destructive { operation, .. } => Some(operation),
        }
    }
}

/// What a line would do that runs in `folder`. The file system is asked whether files exist, because
/// `mv` and `>` destroy only those; nothing else is looked at and nothing is run.
///
/// A line that does not fit the grammar, or is too long or too deep to be read, is also judged word
/// by word: each name of a destructive command in it counts, with targets that nobody knows.
pub fn verdict(line: &str, folder: &Path) -> Verdict {
    verdict_in(line, folder, Environment::default())
}

/// The same where it is known what variables the line will find.
pub fn verdict_in(line: &str, folder: &Path, environment: Environment) -> Verdict {
    let mut findings = Findings::within(environment.into());
    judge_line(line, Some(folder.into()), &mut findings, 0);
    findings.verdict(line)
}

/// The same for a command whose words are known, as a program gets them.
pub fn verdict_of_words(words: &[String], folder: &Path, environment: Environment) -> Verdict {
    let mut findings = Findings::within(environment.into());
    let command = Command {
        words: words.iter().map(|word| Word::known(word)).collect(),
        input: None,
        folder: Some(folder.into()),
    };
    judge(&command, &mut findings, 0);
    findings.verdict(&words.join(" "))
}

fn judge_line(line: &str, folder: Folder, findings: &mut Findings, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    let script = read(line, folder, &findings.environment.clone());
    for step in script.steps.iter().take(MOST_STEPS) {
        match step {
            Step::Run(command) => judge(command, findings, depth),
            Step::Truncate { file, folder } => {
                if findings.add_existing([file], folder) {
                    findings.say("overwrites files", &[Reach::Files]);
                }
            }
        }
    }
    if !script.understood {
        judge_by_words(line, findings);
    }
}

/// The steps of a line: most lines are plain, and the grammar reads the others.
fn read(line: &str, folder: Folder, environment: &Environment) -> Script {
    let plain = match line.len() > grammar::LONGEST {
        true => None,
        false => plain::read(line, &folder, environment),
    };
    plain.unwrap_or_else(|| grammar::read(line, folder, environment))
}

/// Whether both readers see the same in a line, for fuzzing. In a longer line the grammar may lie too
/// deep to be read.
pub(crate) fn readers_agree(line: &str) -> bool {
    let environment = Environment::default();
    let plain = plain::read(line, &None, &environment).filter(|_| line.len() < 300);
    plain.is_none_or(|plain| plain == grammar::read(line, None, &environment))
}

/// Without a grammar: each word that is the name of a command begins one.
fn judge_by_words(line: &str, findings: &mut Findings) {
    let mut rough = Findings::default();
    for part in line.split(['\n', ';', '|', '&', '(', ')', '{', '}', '`']).take(MOST_STEPS) {
        let words: Vec<Word> = part
            .split_whitespace()
            .take(64)
            .map(|word| Word::known(word.trim_matches(['"', '\''])))
            .collect();
        for start in 0..words.len().min(4) {
            let words = words[start..].to_vec();
            judge(&Command { words, input: None, folder: None }, &mut rough, DEEPEST - 1);
        }
    }
    findings.take_roughly(rough, line);
}

fn judge(command: &Command, findings: &mut Findings, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    let Some((first, arguments)) = command.words.split_first() else { return };
    let name = name_of(first);
    if name == "find" || name == "gfind" {
        judge_find(command, arguments, findings, depth);
    }
    for wrapper in RULES.wrappers_of(name) {
        unwrap(wrapper, command, arguments, findings, depth);
    }
    for rule in RULES.of(name, arguments) {
        apply(rule, command, arguments, findings);
    }
}

/// The name of a command, without its folder and its ending.
fn name_of(word: &Word) -> &str {
    let text = word.start();
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default();
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
}

/// Judges what a wrapper runs.
fn unwrap(
    wrapper: &Wrapper,
    command: &Command,
    words: &[Word],
    findings: &mut Findings,
    depth: usize,
) {
    let values: Vec<String> = wrapper.values.iter().chain(&wrapper.line).cloned().collect();
    let arguments = Arguments::of(words, &values);
    if !arguments.begin_with(&wrapper.words, false)
        || wrapper.unless.iter().any(|option| arguments.has_first(option))
    {
        return;
    }
    // Another program than a shell may run it with other variables, as another user.
    let is_shell = command.words.first().is_some_and(|word| SHELLS.contains(&name_of(word)));
    let mut inner = match is_shell {
        true => Findings::within(findings.environment.clone()),
        false => Findings::default(),
    };
    let folder = || command.folder.clone();
    let before = wrapper.words.len() + wrapper.skip;
    let texts = wrapper.line.iter().flat_map(|option| arguments.values_of(option));
    let mut lines: Vec<String> = texts.map(|word| word.start().to_owned()).collect();
    if lines.is_empty() && wrapper.joined {
        let rest = arguments.rest(before).filter_map(|word| word.values.first().cloned());
        lines.push(rest.collect::<Vec<_>>().join(" "));
    }
    if wrapper.input && lines.is_empty() && arguments.operand(0).is_none() {
        lines.extend(command.input.clone());
    }
    for line in &lines {
        judge_line(line, folder(), &mut inner, depth + 1);
    }
    if wrapper.line.is_empty() && !wrapper.joined {
        // `env A=b cmd`, `sudo A=b cmd`: what sets a variable is no command.
        let is_setting = |word: &Word| {
            word.start().split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            })
        };
        let start = arguments.operands.iter().skip(before).find(|at| !is_setting(&words[**at]));
        if let Some(start) = start {
            let mut words = words[*start..].to_vec();
            if wrapper.adds {
                words.push(Word {
                    values: vec![String::new()],
                    unknown: true,
                    pattern: false,
                    raw: "what it is given".into(),
                });
            }
            let run = Command { words, input: command.input.clone(), folder: folder() };
            judge(&run, &mut inner, depth + 1);
        }
    }
    if wrapper.elsewhere {
        inner.move_elsewhere(command.words.first().map_or("", Word::start));
    }
    findings.take(inner);
}

/// `find`: it removes what it finds, or runs a command for it.
fn judge_find(command: &Command, words: &[Word], findings: &mut Findings, depth: usize) {
    let is_start = |word: &&Word| !word.raw.starts_with(['-', '(', '!', '\\']);
    let skipped = words.iter().take_while(|word| {
        let text = word.start();
        matches!(text, "-H" | "-L" | "-P") || text.starts_with("-O")
    });
    let skipped = skipped.count();
    let starts: Vec<&Word> = words[skipped..].iter().take_while(is_start).collect();
    let here = Word::known(".");
    let starts = if starts.is_empty() { vec![&here] } else { starts };
    if words.iter().any(|word| word.text() == Some("-delete")) {
        findings.add(starts.iter().copied(), &command.folder);
        findings.say("removes files", &[Reach::Files]);
    }
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if !matches!(word.start(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let rest = &words[at..];
        let end = rest.iter().position(|word| matches!(word.start(), ";" | "+"));
        let run = rest[..end.unwrap_or(rest.len())].to_vec();
        let mut inner = Findings::default();
        let run = Command { words: run, input: None, folder: command.folder.clone() };
        judge(&run, &mut inner, depth + 1);
        if inner.is_destructive() {
            inner.forget_targets();
            findings.take(inner);
            findings.add(starts.iter().copied(), &command.folder);
        }
    }
}

/// Holds a command against a rule for its name.
fn apply(rule: &Rule, command: &Command, words: &[Word], findings: &mut Findings) {
    let arguments = Arguments::of(words, &rule.values);
    let depth = rule.words.len();
    let applies = arguments.begin_with(&rule.words, rule.fold)
        && (rule.options.is_empty() || rule.options.iter().any(|one| arguments.has(one)))
        && !rule.unless.iter().any(|one| arguments.has(one))
        && (rule.operands.is_empty() || has_operand(rule, &arguments, depth));
    if !applies || !destroys_by_text(rule, command, &arguments, depth) {
        return;
    }
    let folder = folder_of(rule, command, &arguments);
    findings.add_commits(rule, &arguments, depth, &folder);
    if rule.perhaps {
        return;
    }
    if findings.add_targets(rule, &arguments, depth, &folder) {
        findings.say(&rule.says, &rule.reaches);
    }
    if !rule.code.is_empty() {
        findings.say_unknown("what the program names");
    }
}

fn has_operand(rule: &Rule, arguments: &Arguments<'_>, depth: usize) -> bool {
    arguments.rest(depth).any(|word| {
        let mut values = word.values.iter();
        values.any(|value| rule.operands.iter().any(|pattern| is_like(value, pattern)))
    })
}

/// Whether the SQL or the program text that a rule asks for destroys something.
fn destroys_by_text(
    rule: &Rule,
    command: &Command,
    arguments: &Arguments<'_>,
    depth: usize,
) -> bool {
    if rule.sql.is_empty() && rule.code.is_empty() {
        return true;
    }
    let texts = |places: &[String]| -> Vec<String> {
        let mut texts = Vec::new();
        for place in places {
            match place.as_str() {
                "operand" => texts.extend(arguments.rest(depth).flat_map(|w| w.values.clone())),
                "input" => texts.extend(command.input.clone()),
                option => {
                    let values = arguments.values_of(option);
                    texts.extend(values.into_iter().flat_map(|word| word.values));
                }
            }
        }
        texts
    };
    texts(&rule.sql).iter().any(|text| sql::destroys(text))
        || texts(&rule.code).iter().any(|text| rule.calls.iter().any(|call| text.contains(call)))
}

/// The folder that a command works in: `git -C DIR`.
fn folder_of(rule: &Rule, command: &Command, arguments: &Arguments<'_>) -> Folder {
    let mut folder = command.folder.clone();
    for option in &rule.folder {
        // `git switch -C new` is no folder.
        for value in arguments.first_values_of(option) {
            folder = match (folder, value.text()) {
                (Some(folder), Some(to)) => Some(folder.join(to).into()),
                _ => None,
            };
        }
    }
    folder
}

#[cfg(test)]
mod tests;
