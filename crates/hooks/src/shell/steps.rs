//! What a line would do, step by step, and what two readers of lines share: `grammar`, which reads
//! every line, and `plain`, which reads most lines faster. Nothing here knows what a command does.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use super::Environment;
use super::word::{Builder, Word};

/// A folder that commands run in; `None` where only the run will tell.
pub(super) type Folder = Option<Rc<Path>>;

/// What a line would do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub steps: Vec<Step>,
    /// All of it fits the grammar.
    pub understood: bool,
}

/// One thing that a line would do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It runs a command.
    Run(Command),
    /// It opens a file for writing and empties it.
    Truncate { file: Word, folder: Folder },
}

/// A command with its words, the name first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub words: Vec<Word>,
    /// What it reads from its standard input, where the line says so.
    pub input: Option<String>,
    pub folder: Folder,
}

/// The values that a variable may have; `None` where nobody knows.
pub(super) type Values = Option<Vec<String>>;

/// A line as far as a reader has come.
pub(super) struct Progress<'a> {
    pub folder: Folder,
    pub variables: HashMap<String, Values>,
    pub script: Script,
    /// What the last command writes, where that is plain.
    pub output: Option<String>,
    environment: &'a Environment,
}

impl<'a> Progress<'a> {
    pub fn new(folder: Folder, environment: &'a Environment) -> Self {
        let script = Script { steps: Vec::new(), understood: true };
        Self { folder, variables: HashMap::new(), script, output: None, environment }
    }

    /// Adds a redirection to a file.
    pub fn redirect(&mut self, operator: &str, file: Word) {
        let is_number = || file.text().is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let truncates = matches!(operator, ">" | ">|" | "&>") || operator == ">&" && !is_number();
        if truncates {
            self.script.steps.push(Step::Truncate { file, folder: self.folder.clone() });
        }
    }

    /// Adds a command. Its first `own` words stand in front of its redirections.
    pub fn run(&mut self, words: Vec<Word>, own: usize, input: Option<&str>) {
        self.output = output(&words[..own], input);
        if self.follow(&words) {
            return;
        }
        let (input, folder) = (input.map(str::to_owned), self.folder.clone());
        self.script.steps.push(Step::Run(Command { words, input, folder }));
    }

    /// Follows `cd`. Returns whether the command is one of its kind.
    fn follow(&mut self, words: &[Word]) -> bool {
        let name = words.first().and_then(Word::text);
        let Some(name @ ("cd" | "pushd" | "popd")) = name else { return false };
        let mut operands = words[1..].iter().filter(|word| !word.raw.starts_with("--"));
        self.folder = match operands.next().map(Word::text) {
            Some(Some(to)) if name != "popd" && to != "-" && !to.starts_with('~') => {
                let to = Path::new(to);
                match self.folder.take() {
                    Some(folder) => Some(folder.join(to).into()),
                    None => to.is_absolute().then(|| to.into()),
                }
            }
            _ => None,
        };
        true
    }

    /// Adds the value of a variable to a word.
    pub fn add_variable(&self, name: &str, word: &mut Builder) {
        match (name, self.variables.get(name)) {
            (_, Some(Some(values))) => word.push_any(values),
            ("PWD", None) => match self.folder.as_ref().and_then(|folder| folder.to_str()) {
                Some(folder) => word.push(folder),
                None => word.push_unknown(),
            },
            // As `~`: a place outside any workspace.
            ("HOME", None) => word.push("~"),
            (_, None) => match self.environment.get(name).filter(|value| is_one_word(value)) {
                Some(value) => word.push(value),
                None => word.push_unknown(),
            },
            _ => word.push_unknown(),
        }
    }
}

/// What a command writes, where that is plain: `echo`, `printf`, and `cat` of a text.
fn output(words: &[Word], input: Option<&str>) -> Option<String> {
    let (name, arguments) = words.split_first()?;
    match name.text()? {
        "echo" | "printf" => {
            let texts = arguments.iter().flat_map(|word| word.values.iter());
            Some(texts.map(String::as_str).collect::<Vec<_>>().join(" "))
        }
        "cat" if arguments.iter().all(|word| word.text() == Some("-")) => input.map(str::to_owned),
        _ => None,
    }
}

/// Whether a shell leaves a value as it is, quoted or not.
fn is_one_word(value: &str) -> bool {
    !value.contains(|c: char| c.is_whitespace() || c.is_control() || "*?[".contains(c))
}
