//! The rules of `rules.toml`: which commands destroy, and which ones run other commands.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::word::Word;

const TEXT: &str = include_str!("rules.toml");

/// All rules, by the names of commands.
pub(super) static RULES: LazyLock<Rules> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "the file is part of the program, and a test reads it")]
    Rules::read(TEXT).expect("rules.toml is well formed")
});

/// What a command reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// Files.
    Files,
    /// Git's state: commits, branches, stashes.
    Git,
    /// Databases.
    Databases,
    /// Something that no checkpoint holds: other machines, containers, the system.
    Outside,
}

/// Where a command names the files that it destroys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Targets {
    /// Nowhere.
    #[default]
    None,
    /// Its operands.
    Operands,
    /// Its operands but for the first, which is a script, unless an option gives the script.
    BehindScript,
    /// Its operands that exist; without one of them the rule does not apply.
    Existing,
    /// The operands that are there, folders too. The rule does not apply if none is.
    Present,
    /// The last operand, or the file in it that a source overwrites. It has to exist.
    Destination,
    /// The last operand.
    Last,
    /// `of=FILE`.
    Of,
    /// The folder's untracked files, and with `-x` or `-X` those that git ignores.
    Clean,
    /// The value of one of `target_options`. It has to exist.
    Value,
}

/// Where a command of git names the commits whose files it writes into the work tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Commits {
    /// Nowhere.
    #[default]
    None,
    /// The first operand before `--`.
    First,
    /// All operands.
    All,
    /// All operands, the parents of each, and every commit of a range.
    Picked,
    /// All operands, and every commit from the first to the second, or to `HEAD`.
    Replayed,
    /// A stash: its name or its number.
    Stash,
    /// A stash behind the name of a new branch, and the commit that it was made on.
    StashBehindName,
    /// A remote, and a branch of it that is fetched first.
    Fetched,
    /// The same, and every commit from there to `HEAD`.
    FetchedAndReplayed,
    /// None, but those of remotes are others once it has run.
    Fetches,
}

/// One kind of command that destroys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    /// What it is called, without its folder.
    pub names: Vec<String>,
    /// Capitals do not matter.
    #[serde(default)]
    pub fold: bool,
    /// Its first operands: `drop|clear` is either.
    #[serde(default)]
    pub words: Vec<String>,
    /// One of these options is there.
    #[serde(default)]
    pub options: Vec<String>,
    /// None of these is.
    #[serde(default)]
    pub unless: Vec<String>,
    /// These options take the next word.
    #[serde(default)]
    pub values: Vec<String>,
    /// One of its further operands is like one of these.
    #[serde(default)]
    pub operands: Vec<String>,
    /// Options whose value is SQL that has to destroy; `operand` and `input` mean those.
    #[serde(default)]
    pub sql: Vec<String>,
    /// The same for program text, which has to hold one of `calls`.
    #[serde(default)]
    pub code: Vec<String>,
    #[serde(default)]
    pub calls: Vec<String>,
    #[serde(default)]
    pub targets: Targets,
    #[serde(default)]
    pub target_options: Vec<String>,
    /// With one of these options it copies folders.
    #[serde(default)]
    pub recursive: Vec<String>,
    /// Options whose value is the folder that it works in.
    #[serde(default)]
    pub folder: Vec<String>,
    #[serde(default)]
    pub commits: Commits,
    /// The commit, if no operand names one.
    #[serde(default)]
    pub otherwise: Option<String>,
    /// Options whose value is one more commit.
    #[serde(default)]
    pub commit_options: Vec<String>,
    /// It destroys nothing but ignored files that one of its commits tracks.
    #[serde(default)]
    pub perhaps: bool,
    #[serde(default)]
    pub reaches: Vec<Reach>,
    /// What it does, for people.
    pub says: String,
    /// Lines that it has to find.
    #[serde(default)]
    #[cfg_attr(not(test), allow(dead_code, reason = "tests read them"))]
    pub destroys: Vec<String>,
    /// Lines that look alike and destroy nothing.
    #[serde(default)]
    #[cfg_attr(not(test), allow(dead_code, reason = "tests read them"))]
    pub spares: Vec<String>,
}

/// A command that runs another one.
#[allow(clippy::struct_excessive_bools, reason = "each is a key of the rules' file")]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wrapper {
    pub names: Vec<String>,
    /// Its first operands.
    #[serde(default)]
    pub words: Vec<String>,
    #[serde(default)]
    pub values: Vec<String>,
    /// With one of these options of its own it runs nothing.
    #[serde(default)]
    pub unless: Vec<String>,
    /// So many operands come before the command.
    #[serde(default)]
    pub skip: usize,
    /// The command is one text: the value of one of these options.
    #[serde(default)]
    pub line: Vec<String>,
    /// The command is one text: all operands together.
    #[serde(default)]
    pub joined: bool,
    /// It reads commands from its standard input.
    #[serde(default)]
    pub input: bool,
    /// It gives the command words that nobody knows yet.
    #[serde(default)]
    pub adds: bool,
    /// The command runs somewhere else.
    #[serde(default)]
    pub elsewhere: bool,
    #[serde(default)]
    #[cfg_attr(not(test), allow(dead_code, reason = "tests read them"))]
    pub destroys: Vec<String>,
    #[serde(default)]
    #[cfg_attr(not(test), allow(dead_code, reason = "tests read them"))]
    pub spares: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Rule>,
    wrapper: Vec<Wrapper>,
}

/// All of them.
pub(super) struct Rules {
    pub all: Vec<Rule>,
    pub wrappers: Vec<Wrapper>,
    by_name: HashMap<String, OfName>,
    wrapper_by_name: HashMap<String, Vec<usize>>,
}

/// The rules for one name, as numbers in `all`.
#[derive(Default)]
struct OfName {
    /// Those that apply whatever the first operand is.
    any: Vec<usize>,
    /// The others, by each first operand that they ask for: `git` has dozens of rules, and few are
    /// about one command.
    by_operand: HashMap<String, Vec<usize>>,
}

impl Rules {
    fn read(text: &str) -> Result<Self, toml::de::Error> {
        let File { rule: all, wrapper: wrappers } = toml::from_str(text)?;
        let mut by_name: HashMap<String, OfName> = HashMap::new();
        for (at, rule) in all.iter().enumerate() {
            for name in &rule.names {
                let of_name = by_name.entry(name.clone()).or_default();
                match rule.words.first().filter(|_| !rule.fold) {
                    None => of_name.any.push(at),
                    Some(first) => {
                        for one in first.split('|') {
                            of_name.by_operand.entry(one.to_owned()).or_default().push(at);
                        }
                    }
                }
            }
        }
        let mut wrapper_by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, wrapper) in wrappers.iter().enumerate() {
            for name in &wrapper.names {
                wrapper_by_name.entry(name.clone()).or_default().push(at);
            }
        }
        Ok(Self { all, wrappers, by_name, wrapper_by_name })
    }

    /// The rules for commands of this name that may apply to these arguments, in their order.
    pub fn of(&self, name: &str, arguments: &[Word]) -> impl Iterator<Item = &Rule> {
        let mut found = self.numbers(name, arguments);
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            let folded = self.numbers(&name.to_ascii_lowercase(), arguments);
            found.extend(folded.into_iter().filter(|at| self.all[*at].fold));
        }
        found.into_iter().map(|at| &self.all[at])
    }

    fn numbers(&self, name: &str, arguments: &[Word]) -> Vec<usize> {
        let Some(of_name) = self.by_name.get(name) else { return Vec::new() };
        let mut found = of_name.any.clone();
        if !of_name.by_operand.is_empty() {
            let texts = arguments.iter().filter_map(Word::text);
            found.extend(texts.filter_map(|text| of_name.by_operand.get(text)).flatten());
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// What a command of this name may run.
    pub fn wrappers_of(&self, name: &str) -> impl Iterator<Item = &Wrapper> {
        let found = self.wrapper_by_name.get(name);
        found.into_iter().flatten().map(|at| &self.wrappers[*at])
    }
}

/// The arguments of a command, told apart by what its options take.
pub(super) struct Arguments<'a> {
    all: &'a [Word],
    values: &'a [String],
    /// Where in `all` the operands are.
    pub operands: Vec<usize>,
    /// Where `--` stands.
    dashes: usize,
}

impl<'a> Arguments<'a> {
    pub fn of(all: &'a [Word], values: &'a [String]) -> Self {
        let mut operands = Vec::new();
        let mut at = 0;
        let mut dashes = all.len();
        while let Some(word) = all.get(at) {
            let text = word.start();
            if text == "--" {
                dashes = at;
                operands.extend(at + 1..all.len());
                break;
            }
            match text.starts_with('-') && text.len() > 1 {
                true if values.iter().any(|value| takes_next(text, value)) => at += 1,
                true => {}
                false => operands.push(at),
            }
            at += 1;
        }
        Self { all, values, operands, dashes }
    }

    /// Whether an option is there before the first operand, so that it is the command's own and not
    /// one of a command that it runs.
    pub fn has_first(&self, option: &str) -> bool {
        let end = self.operands.first().copied().unwrap_or(self.all.len());
        self.all[..end].iter().any(|word| self.is(word.start(), option))
    }

    pub fn operand(&self, number: usize) -> Option<&'a Word> {
        self.operands.get(number).map(|at| &self.all[*at])
    }

    /// The operands from this one on.
    pub fn rest(&self, number: usize) -> impl Iterator<Item = &'a Word> {
        self.operands.iter().skip(number).map(|at| &self.all[*at])
    }

    /// The operands from this one on, up to `--`.
    pub fn before_dashes(&self, number: usize) -> impl Iterator<Item = &'a Word> {
        let before = self.operands.iter().skip(number).take_while(|at| **at < self.dashes);
        before.map(|at| &self.all[*at])
    }

    /// The values of an option that stands before the first operand.
    pub fn first_values_of(&self, option: &str) -> Vec<Word> {
        let end = self.operands.first().copied().unwrap_or(self.all.len());
        Arguments::of(&self.all[..end], self.values).values_of(option)
    }

    /// Whether the first operands are these words.
    pub fn begin_with(&self, words: &[String], fold: bool) -> bool {
        words.iter().enumerate().all(|(number, wanted)| {
            let found = self.operand(number).and_then(Word::text);
            found.is_some_and(|found| {
                let mut either = wanted.split('|');
                either.any(|one| one == found || fold && one.eq_ignore_ascii_case(found))
            })
        })
    }

    /// Whether an option is there, be it among others behind one dash.
    pub fn has(&self, option: &str) -> bool {
        if option == "--" {
            return self.dashes < self.all.len();
        }
        self.all[..self.dashes].iter().any(|word| self.is(word.start(), option))
    }

    fn is(&self, text: &str, option: &str) -> bool {
        let Some(rest) = text.strip_prefix(option) else {
            return self.is_in_cluster(text, option)
                || text.eq_ignore_ascii_case(option) && option.len() > 2;
        };
        rest.is_empty() || rest.starts_with('=') || self.is_in_cluster(text, option)
    }

    fn is_in_cluster(&self, text: &str, option: &str) -> bool {
        let (Some(letter), Some(cluster)) = (letter_of(option), text.strip_prefix('-')) else {
            return false;
        };
        if cluster.starts_with('-') {
            return false;
        }
        for found in cluster.chars() {
            if found == letter {
                return true;
            }
            let takes = self.values.iter().any(|value| letter_of(value) == Some(found));
            if takes || !found.is_ascii_alphanumeric() {
                return false;
            }
        }
        false
    }

    /// The values of an option: the next word, or what stands behind `=`.
    pub fn values_of(&self, option: &str) -> Vec<Word> {
        let mut found = Vec::new();
        for (at, word) in self.all[..self.dashes].iter().enumerate() {
            let text = word.start();
            let behind = text.strip_prefix(option).and_then(|rest| rest.strip_prefix('='));
            if let Some(value) = behind {
                found.push(Word { values: vec![value.into()], ..word.clone() });
            } else if text == option || takes_next(text, option) {
                found.extend(self.all.get(at + 1).cloned());
            } else if let (Some(letter), false) = (letter_of(option), text.starts_with("--")) {
                // `-oFILE`
                let glued = text.strip_prefix('-').and_then(|rest| rest.strip_prefix(letter));
                if let Some(value) = glued.filter(|value| !value.is_empty()) {
                    found.push(Word { values: vec![value.into()], ..word.clone() });
                }
            }
        }
        found
    }
}

/// Whether `text` is this option, so that its value is the next word: `-c`, or `-lc`.
fn takes_next(text: &str, option: &str) -> bool {
    text == option
        || letter_of(option).is_some_and(|letter| {
            let cluster = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            cluster.is_some_and(|cluster| {
                cluster.len() <= 5
                    && cluster.ends_with(letter)
                    && cluster.chars().all(|one| one.is_ascii_alphabetic())
            })
        })
}

fn letter_of(option: &str) -> Option<char> {
    let mut characters = option.strip_prefix('-')?.chars();
    let letter = characters.next().filter(|letter| *letter != '-')?;
    characters.next().is_none().then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_clusters_up_to_one_that_takes_a_value() {
        let all = ["-pi", "-Mstrict", "x"].map(Word::known);
        let values = ["-M".to_owned()];
        let arguments = Arguments::of(&all, &values);
        assert!(arguments.has("-i") && arguments.has("-p") && !arguments.has("-s"));
        assert_eq!(arguments.operands, [2]);
    }
}
