//! A command line as the commands that it would run, in order. Tree-sitter's grammar of bash reads
//! it; nothing here knows what a command does.
//!
//! Control flow is flattened: both branches of an `if`, the body of a loop and of a function count
//! as run once. Variables are followed where a literal is assigned in the same line, folders where
//! `cd` names one; whatever else decides is unknown.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tree_sitter::{Node, Parser};

use super::Environment;
use super::word::{Builder, Word};

/// A longer line is not read.
pub(super) const LONGEST: usize = 1 << 20;
/// Nodes that lie deeper in each other are not read.
const DEEPEST: usize = 150;

/// A folder that commands run in; `None` where only the run will tell.
pub(super) type Folder = Option<PathBuf>;

/// What a line would do.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub steps: Vec<Step>,
    /// All of it fits the grammar.
    pub understood: bool,
}

/// One thing that a line would do.
#[derive(Debug)]
pub(super) enum Step {
    /// It runs a command.
    Run(Command),
    /// It opens a file for writing and empties it.
    Truncate { file: Word, folder: Folder },
}

/// A command with its words, the name first.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub words: Vec<Word>,
    /// What it reads from its standard input, where the line says so.
    pub input: Option<String>,
    pub folder: Folder,
}

/// Reads a line that would run in `folder`. Never fails: a line that does not fit the grammar gives
/// the commands that do.
pub(super) fn read(line: &str, folder: Folder, environment: &Environment) -> Script {
    if line.len() > LONGEST {
        return Script::default();
    }
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
        return Script::default();
    }
    let Some(tree) = parser.parse(line, None) else { return Script::default() };
    let root = tree.root_node();
    let mut reader = Reader {
        line,
        folder,
        variables: HashMap::new(),
        environment,
        script: Script { steps: Vec::new(), understood: !root.has_error() },
    };
    reader.statement(root, None, 0);
    reader.script
}

/// The values that a variable may have; `None` where nobody knows.
type Values = Option<Vec<String>>;

struct Reader<'a> {
    line: &'a str,
    folder: Folder,
    variables: HashMap<String, Values>,
    environment: &'a Environment,
    script: Script,
}

impl<'a> Reader<'a> {
    fn source(&self, node: Node<'_>) -> &'a str {
        self.line.get(node.byte_range()).unwrap_or_default()
    }

    /// Reads a node that holds commands, or is one. `input` is what it reads from its standard input.
    fn statement(&mut self, node: Node<'_>, input: Option<&str>, depth: usize) {
        if depth > DEEPEST {
            self.script.understood = false;
            return;
        }
        match node.kind() {
            "command" => self.command(node, input, &[], depth),
            "redirected_statement" => self.redirected(node, input, depth),
            "pipeline" => self.pipeline(node, input, depth),
            "list" => self.list(node, input, depth),
            "variable_assignment" => self.assignment(node, depth),
            "for_statement" => self.for_loop(node, depth),
            "subshell" | "command_substitution" | "process_substitution" => {
                let before = (self.folder.clone(), self.variables.clone());
                self.children(node, input, depth);
                (self.folder, self.variables) = before;
            }
            // Text, with substitutions at most.
            "heredoc_body" | "heredoc_start" | "heredoc_end" | "comment" => {
                self.substitutions(node, depth);
            }
            _ => self.children(node, input, depth),
        }
    }

    fn children(&mut self, node: Node<'_>, input: Option<&str>, depth: usize) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.statement(child, input, depth + 1);
        }
    }

    /// `a && b || c` is a chain to the left, as long as the line.
    fn list(&mut self, node: Node<'_>, input: Option<&str>, depth: usize) {
        let mut chain = Vec::new();
        let mut rest = Some(node);
        while let Some(list) = rest.take() {
            let mut cursor = list.walk();
            let mut parts: Vec<Node<'_>> = list.named_children(&mut cursor).collect();
            if parts.first().is_some_and(|first| first.kind() == "list") {
                rest = Some(parts.remove(0));
            }
            chain.extend(parts.into_iter().rev());
        }
        for part in chain.into_iter().rev() {
            self.statement(part, input, depth + 1);
        }
    }

    fn pipeline(&mut self, node: Node<'_>, input: Option<&str>, depth: usize) {
        let mut cursor = node.walk();
        let mut input = input.map(str::to_owned);
        for stage in node.named_children(&mut cursor) {
            self.statement(stage, input.as_deref(), depth + 1);
            input = self.output_of(stage, input.as_deref());
        }
    }

    /// What a command writes, where that is plain: `echo`, `printf`, and `cat` of a text.
    fn output_of(&mut self, stage: Node<'_>, input: Option<&str>) -> Option<String> {
        let (command, input) = match stage.kind() {
            "redirected_statement" => {
                let text = self.heredoc(stage).or_else(|| input.map(str::to_owned));
                (stage.child_by_field_name("body")?, text)
            }
            _ => (stage, input.map(str::to_owned)),
        };
        if command.kind() != "command" {
            return None;
        }
        let words = self.words_of(command, 0);
        let (name, arguments) = words.split_first()?;
        match name.text()? {
            "echo" | "printf" => {
                let texts = arguments.iter().flat_map(|word| word.values.iter());
                Some(texts.map(String::as_str).collect::<Vec<_>>().join(" "))
            }
            "cat" if arguments.iter().all(|word| word.text() == Some("-")) => input,
            _ => None,
        }
    }

    fn heredoc(&self, statement: Node<'_>) -> Option<String> {
        let mut cursor = statement.walk();
        let mut here = statement
            .named_children(&mut cursor)
            .filter(|child| matches!(child.kind(), "heredoc_redirect" | "herestring_redirect"));
        here.find_map(|redirect| self.text_of_redirect(redirect))
    }

    /// The text of a here document or here string, as it stands.
    fn text_of_redirect(&self, redirect: Node<'_>) -> Option<String> {
        let mut cursor = redirect.walk();
        let mut parts = redirect.named_children(&mut cursor);
        match redirect.kind() {
            "heredoc_redirect" => {
                let body = parts.find(|part| part.kind() == "heredoc_body")?;
                Some(self.source(body).to_owned())
            }
            _ => {
                let word = parts.next()?;
                let text = self.source(word);
                Some(text.trim_matches(['"', '\'']).to_owned())
            }
        }
    }

    fn redirected(&mut self, node: Node<'_>, input: Option<&str>, depth: usize) {
        let text = self.heredoc(node);
        let input = text.as_deref().or(input);
        let (mut more, mut after) = (Vec::new(), Vec::new());
        let mut cursor = node.walk();
        let redirects: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for redirect in &redirects {
            match redirect.kind() {
                "file_redirect" => more.extend(self.redirect(*redirect, depth)),
                "heredoc_redirect" => {
                    let mut cursor = redirect.walk();
                    for part in redirect.named_children(&mut cursor) {
                        match part.kind() {
                            "file_redirect" => more.extend(self.redirect(part, depth)),
                            "heredoc_body" => self.substitutions(part, depth),
                            "heredoc_start" | "heredoc_end" | "file_descriptor" => {}
                            kind if is_word(kind) => more.push(self.word(part, depth)),
                            // `<<EOF | psql`, `<<EOF && rm x`: it stands in front of the text.
                            _ => after.push(part),
                        }
                    }
                }
                _ => {}
            }
        }
        let body = node.child_by_field_name("body");
        match body {
            Some(body) if body.kind() == "command" => self.command(body, input, &more, depth),
            Some(body) => self.statement(body, input, depth + 1),
            None => {}
        }
        let passed = match body {
            Some(body) => self.output_of(body, input),
            None => None,
        };
        for part in after {
            self.statement(part, passed.as_deref(), depth + 1);
        }
    }

    /// A redirection to a file. The grammar takes words behind the file for further files; they are
    /// arguments of the command.
    fn redirect(&mut self, node: Node<'_>, depth: usize) -> Vec<Word> {
        let mut operator = "";
        let mut words = Vec::new();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "file_descriptor" => {}
                kind if is_word(kind) => {
                    self.substitutions(child, depth);
                    words.push(self.word(child, depth));
                }
                kind => operator = kind,
            }
        }
        if words.is_empty() {
            return words;
        }
        let file = words.remove(0);
        let is_number = file.text().is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let truncates = matches!(operator, ">" | ">|" | "&>") || operator == ">&" && !is_number;
        if truncates {
            self.script.steps.push(Step::Truncate { file, folder: self.folder.clone() });
        }
        words
    }

    fn command(&mut self, node: Node<'_>, input: Option<&str>, more: &[Word], depth: usize) {
        let mut words = Vec::new();
        let mut own = None;
        let mut cursor = node.walk();
        let mut bare = None;
        for child in node.children(&mut cursor) {
            match child.kind() {
                // It counts for this command alone.
                "variable_assignment" => self.substitutions(child, depth),
                "file_redirect" => words.extend(self.redirect(child, depth)),
                "herestring_redirect" => {
                    self.substitutions(child, depth);
                    own = self.text_of_redirect(child);
                }
                "subshell" => bare = Some(child),
                kind if is_word(kind) || kind == "command_name" => {
                    self.substitutions(child, depth);
                    words.push(self.word(child, depth));
                }
                _ => {}
            }
        }
        words.extend_from_slice(more);
        if let Some(subshell) = bare {
            self.statement(subshell, None, depth + 1);
        }
        self.step_into(&words);
        let input = own.or_else(|| input.map(str::to_owned));
        let folder = self.folder.clone();
        if matches!(words.first().and_then(Word::text), Some("cd" | "pushd" | "popd")) {
            return;
        }
        self.script.steps.push(Step::Run(Command { words, input, folder }));
    }

    /// The words of a command, without a look at what they run.
    fn words_of(&mut self, node: Node<'_>, depth: usize) -> Vec<Word> {
        let mut cursor = node.walk();
        let words: Vec<Node<'_>> = node
            .children(&mut cursor)
            .filter(|child| is_word(child.kind()) || child.kind() == "command_name")
            .collect();
        words.into_iter().map(|child| self.word(child, depth)).collect()
    }

    /// Follows `cd`.
    fn step_into(&mut self, words: &[Word]) {
        let Some(name) = words.first().and_then(Word::text) else { return };
        let mut operands = words[1..].iter().filter(|word| !word.raw.starts_with("--"));
        match (name, operands.next().map(Word::text)) {
            ("cd" | "pushd", Some(Some(to))) if to != "-" && !to.starts_with('~') => {
                self.folder = self.folder.take().map(|folder| folder.join(to)).or_else(|| {
                    let to = Path::new(to);
                    to.is_absolute().then(|| to.to_owned())
                });
            }
            ("cd" | "pushd" | "popd", _) => self.folder = None,
            _ => {}
        }
    }

    fn assignment(&mut self, node: Node<'_>, depth: usize) {
        let Some(name) = node.child_by_field_name("name") else { return };
        let name = self.source(name).to_owned();
        let value = node.child_by_field_name("value");
        let adds = self.source(node).get(name.len()..).is_some_and(|rest| rest.starts_with("+="));
        let values = match value {
            None => Some(vec![String::new()]),
            Some(value) if is_word(value.kind()) && !adds => {
                self.substitutions(value, depth);
                let word = self.word(value, depth);
                (!word.unknown && !word.pattern).then_some(word.values)
            }
            Some(value) => {
                self.substitutions(value, depth);
                None
            }
        };
        self.variables.insert(name, values);
    }

    fn for_loop(&mut self, node: Node<'_>, depth: usize) {
        let mut cursor = node.walk();
        let parts: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let mut values = Some(Vec::new());
        let (mut name, mut after_in) = (None, false);
        for part in parts {
            match part.kind() {
                "variable_name" => name = Some(self.source(part).to_owned()),
                "in" => after_in = true,
                "do_group" => {
                    if let Some(name) = name.take() {
                        let known = values
                            .take()
                            .filter(|values: &Vec<String>| after_in && !values.is_empty());
                        self.variables.insert(name, known);
                    }
                    self.children(part, None, depth + 1);
                }
                kind if is_word(kind) => {
                    self.substitutions(part, depth);
                    let word = self.word(part, depth);
                    values = values.filter(|_| !word.unknown && !word.pattern).map(|mut all| {
                        all.extend(word.values);
                        all
                    });
                }
                _ => {}
            }
        }
    }

    /// Reads the commands that a word runs to become what it is: `$(…)`, `<(…)`, backquotes.
    fn substitutions(&mut self, node: Node<'_>, depth: usize) {
        if depth > DEEPEST {
            self.script.understood = false;
            return;
        }
        match node.kind() {
            "command_substitution" | "process_substitution" => {
                self.statement(node, None, depth + 1);
            }
            _ => {
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    self.substitutions(child, depth + 1);
                }
            }
        }
    }

    fn word(&mut self, node: Node<'_>, depth: usize) -> Word {
        let mut builder = Builder::new();
        self.add(node, &mut builder, depth);
        builder.finish(self.source(node))
    }

    /// Adds a part of a word.
    fn add(&mut self, node: Node<'_>, word: &mut Builder, depth: usize) {
        if depth > DEEPEST {
            self.script.understood = false;
            return word.push_unknown();
        }
        match node.kind() {
            "command_name" | "concatenation" => {
                let mut cursor = node.walk();
                let parts: Vec<Node<'_>> = node.children(&mut cursor).collect();
                for part in parts {
                    self.add(part, word, depth + 1);
                }
            }
            "string" | "translated_string" => self.add_string(node, word, depth),
            "raw_string" => word.push(self.source(node).trim_matches('\'')),
            "ansi_c_string" => {
                let text = self.source(node);
                let inner = text.strip_prefix("$'").and_then(|text| text.strip_suffix('\''));
                match inner {
                    Some(inner) if !inner.contains('\\') => word.push(inner),
                    _ => word.push_unknown(),
                }
            }
            "simple_expansion" | "expansion" => self.add_variable(node, word),
            "command_substitution" | "process_substitution" | "arithmetic_expansion" => {
                word.push_unknown();
            }
            _ => word.push_unquoted(self.source(node)),
        }
    }

    /// A text in double quotes: what stands between its expansions is taken as it is.
    fn add_string(&mut self, node: Node<'_>, word: &mut Builder, depth: usize) {
        let mut cursor = node.walk();
        let parts: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let range = node.byte_range();
        let open =
            self.line[range.clone()].find('"').map_or(range.start, |at| range.start + at + 1);
        let close = range.end.saturating_sub(1).max(open);
        let mut at = open;
        for part in parts.iter().filter(|part| {
            matches!(
                part.kind(),
                "simple_expansion" | "expansion" | "command_substitution" | "arithmetic_expansion"
            )
        }) {
            let part_range = part.byte_range();
            word.push(&unescape(self.line.get(at..part_range.start).unwrap_or_default()));
            self.add(*part, word, depth + 1);
            at = part_range.end;
        }
        word.push(&unescape(self.line.get(at..close).unwrap_or_default()));
    }

    fn add_variable(&mut self, node: Node<'_>, word: &mut Builder) {
        let text = self.source(node);
        let name = text.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
        match (name, self.variables.get(name)) {
            (_, Some(Some(values))) => {
                let values = values.clone();
                word.push_any(&values);
            }
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

/// Whether a shell leaves a value as it is, quoted or not.
fn is_one_word(value: &str) -> bool {
    !value.contains(|c: char| c.is_whitespace() || c.is_control() || "*?[".contains(c))
}

/// Escapes in double quotes.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some('"' | '\\' | '$' | '`')) => plain.extend(characters.next()),
            ('\\', Some('\n')) => _ = characters.next(),
            _ => plain.push(character),
        }
    }
    plain
}

fn is_word(kind: &str) -> bool {
    matches!(
        kind,
        "word"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "concatenation"
            | "number"
            | "simple_expansion"
            | "expansion"
            | "arithmetic_expansion"
            | "brace_expression"
            | "command_substitution"
            | "process_substitution"
            | "extglob_pattern"
            | "regex"
    )
}
