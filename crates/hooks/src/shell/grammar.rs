//! A command line as the commands that it would run, in order, as tree-sitter's grammar of bash
//! reads it.
//!
//! Control flow is flattened: both branches of an `if`, the body of a loop and of a function count
//! as run once. Variables are followed where a literal is assigned in the same line, folders where
//! `cd` names one; whatever else decides is unknown.

use std::borrow::Cow;

use tree_sitter::{Node, Parser};

use super::Environment;
use super::steps::{Folder, Progress, Script};
use super::word::{Builder, Word, unescape};

/// A longer line is not read.
pub(super) const LONGEST: usize = 1 << 20;
/// Nodes that lie deeper in each other are not read.
const DEEPEST: usize = 150;
/// A line with more pipes is not read: the grammar's time grows with their square.
const MOST_PIPES: usize = 500;

/// Reads a line that would run in `folder`. Never fails: a line that does not fit the grammar gives
/// the commands that do.
pub(super) fn read(line: &str, folder: Folder, environment: &Environment) -> Script {
    let has_many_pipes =
        |line: &str| line.bytes().filter(|byte| *byte == b'|').count() > MOST_PIPES;
    if line.len() > LONGEST || line.lines().any(has_many_pipes) {
        return Script::default();
    }
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
        return Script::default();
    }
    let Some(tree) = parser.parse(&*in_ascii(line), None) else { return Script::default() };
    let root = tree.root_node();
    let mut reader = Reader { line, progress: Progress::new(folder, environment) };
    reader.progress.script.understood = !root.has_error();
    reader.statement(root, None, 0);
    reader.progress.script
}

/// A line of the same length whose characters beyond ASCII are dots, which mean as little. The
/// grammar's own scanner looks such characters up in a table of 256 entries and crashes.
fn in_ascii(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return line.into();
    }
    line.bytes().map(|byte| if byte.is_ascii() { byte.into() } else { '.' }).collect()
}

struct Reader<'a> {
    line: &'a str,
    progress: Progress<'a>,
}

impl<'a> Reader<'a> {
    fn source(&self, node: Node<'_>) -> &'a str {
        self.line.get(node.byte_range()).unwrap_or_default()
    }

    /// Reads a node that holds commands, or is one. `input` is what it reads from its standard input.
    fn statement(&mut self, node: Node<'_>, input: Option<&str>, depth: usize) {
        if depth > DEEPEST {
            self.progress.script.understood = false;
            return;
        }
        match node.kind() {
            "command" => self.command(node, input, Vec::new(), depth),
            "redirected_statement" => self.redirected(node, input, depth),
            "pipeline" => {
                let mut cursor = node.walk();
                let stages: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                self.pipeline(&stages, input, depth);
            }
            "list" => {
                for part in Self::parts_of_list(node) {
                    self.statement(part, input, depth + 1);
                }
            }
            "variable_assignment" => self.assignment(node, depth),
            "for_statement" => self.for_loop(node, depth),
            "subshell" | "command_substitution" | "process_substitution" => {
                let before = (self.progress.folder.clone(), self.progress.variables.clone());
                self.children(node, input, depth);
                (self.progress.folder, self.progress.variables) = before;
            }
            // Text, with substitutions at most.
            "heredoc_body" | "heredoc_start" | "heredoc_end" | "comment" => {
                self.substitutions(node, depth);
            }
            _ => self.children(node, input, depth),
        }
        // What more than a command writes is not followed.
        if !matches!(node.kind(), "command" | "redirected_statement" | "pipeline") {
            self.progress.output = None;
        }
    }

    fn children(&mut self, node: Node<'_>, input: Option<&str>, depth: usize) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.statement(child, input, depth + 1);
        }
    }

    /// `a && b || c` is a chain to the left, as long as the line.
    fn parts_of_list(list: Node<'_>) -> Vec<Node<'_>> {
        let mut chain = Vec::new();
        let mut rest = Some(list);
        while let Some(list) = rest.take() {
            let mut cursor = list.walk();
            let mut parts: Vec<Node<'_>> = list.named_children(&mut cursor).collect();
            if parts.first().is_some_and(|first| first.kind() == "list") {
                rest = Some(parts.remove(0));
            }
            chain.extend(parts.into_iter().rev());
        }
        chain.reverse();
        chain
    }

    fn pipeline(&mut self, stages: &[Node<'_>], input: Option<&str>, depth: usize) {
        let mut input = input.map(str::to_owned);
        for stage in stages {
            self.statement(*stage, input.as_deref(), depth + 1);
            input = self.progress.output.clone();
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
        let mut cursor = node.walk();
        let parts: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let text = self.heredoc(node);
        match node.child_by_field_name("body") {
            Some(body) => self.redirect_last(body, &parts, (input, text.as_deref()), depth),
            None => _ = self.redirects(&parts, depth),
        }
    }

    /// Runs a statement whose last command has redirections. The grammar gives those of `a && b > c`
    /// and `a | b > c` to the whole.
    fn redirect_last(
        &mut self,
        body: Node<'_>,
        redirects: &[Node<'_>],
        (input, text): (Option<&str>, Option<&str>),
        depth: usize,
    ) {
        if depth > DEEPEST {
            self.progress.script.understood = false;
            return;
        }
        let mut cursor = body.walk();
        let parts: Vec<Node<'_>> = match body.kind() {
            "list" => Self::parts_of_list(body),
            "pipeline" => body.named_children(&mut cursor).collect(),
            _ => Vec::new(),
        };
        if let Some((last, first)) = parts.split_last() {
            let passed = match body.kind() {
                "pipeline" => {
                    self.pipeline(first, input, depth);
                    self.progress.output.take()
                }
                _ => {
                    for part in first {
                        self.statement(*part, input, depth + 1);
                    }
                    input.map(str::to_owned)
                }
            };
            return self.redirect_last(*last, redirects, (passed.as_deref(), text), depth + 1);
        }
        let (more, after) = self.redirects(redirects, depth);
        let input = text.or(input);
        match body.kind() {
            "command" => self.command(body, input, more, depth),
            _ => self.statement(body, input, depth + 1),
        }
        let passed = self.progress.output.take();
        for part in after {
            self.statement(part, passed.as_deref(), depth + 1);
        }
        self.progress.output = passed;
    }

    /// Reads redirections: the words behind them, and what stands behind the tag of a here document,
    /// as in `<<EOF | psql` and `<<EOF && rm x`.
    fn redirects<'t>(
        &mut self,
        redirects: &[Node<'t>],
        depth: usize,
    ) -> (Vec<Word>, Vec<Node<'t>>) {
        let (mut more, mut after) = (Vec::new(), Vec::new());
        for redirect in redirects {
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
                            _ => after.push(part),
                        }
                    }
                }
                _ => {}
            }
        }
        (more, after)
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
        self.progress.redirect(operator, file);
        words
    }

    fn command(&mut self, node: Node<'_>, input: Option<&str>, more: Vec<Word>, depth: usize) {
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
        let before_redirects = words.len();
        words.extend(more);
        if let Some(subshell) = bare {
            self.statement(subshell, None, depth + 1);
        }
        self.progress.run(words, before_redirects, own.as_deref().or(input));
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
        self.progress.variables.insert(name, values);
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
                        self.progress.variables.insert(name, known);
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
            self.progress.script.understood = false;
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
            self.progress.script.understood = false;
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
            "simple_expansion" | "expansion" => {
                let name = self.source(node).trim_start_matches('$');
                let name = name.trim_start_matches('{').trim_end_matches('}');
                self.progress.add_variable(name, word);
            }
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
