//! Rappel's MCP server among those of Codex: a table at the end of a `config.toml`, which is edited
//! as text so that everything else in it stays as it is.
//!
//! Codex gives its servers a clean environment, so a home that the user chose goes along.

use std::ops::Range;

use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::caller::{Caller, NotText};
use crate::files;
use crate::integrate::Place;
use crate::json_text::{Edits, Unfit};
use crate::servers::{self, Format, Registry};

const FILE: &str = "config.toml";
const SERVERS: &str = "mcp_servers";
const BOM: char = '\u{feff}';

/// Where the server of a scope is registered.
#[allow(clippy::unnecessary_wraps, reason = "other agents' places may have no name in text")]
pub fn registry(place: &Place) -> Result<Registry, NotText> {
    Ok(Registry {
        file: place.folder.join(FILE),
        name: FILE.to_owned(),
        mode: files::PRIVATE,
        format: Box::new(Tables),
        entry,
    })
}

/// How Codex starts the server.
fn entry(caller: &Caller) -> Value {
    let mut entry = json!({"command": caller.program().as_text(), "args": ["mcp"]});
    if let Some(home) = caller.other_home() {
        entry["env"] = json!({(servers::HOME): home.to_string_lossy()});
    }
    entry
}

/// A table for each server.
#[derive(Debug)]
struct Tables;

impl Format for Tables {
    fn get(&self, text: &str) -> Result<Option<Value>, Unfit> {
        let table: toml::Table =
            text.trim_start_matches(BOM).parse().map_err(|error| no_toml(text, &error))?;
        let entry = table.get(SERVERS).and_then(|servers| servers.get(servers::NAME));
        Ok(entry.map(|entry| serde_json::to_value(entry).unwrap_or_default()))
    }

    fn add(&self, text: &str, entry: &Value) -> Result<(String, Edits), Unfit> {
        if let Some(problem) = closed(text)? {
            return Err(problem);
        }
        let newline = newline(text);
        let gap = match () {
            () if text.trim_start_matches(BOM).is_empty() => String::new(),
            () if text.ends_with('\n') => newline.to_owned(),
            () => newline.repeat(2),
        };
        let block = format!("{gap}{}", block(entry, newline));
        let after = format!("{text}{block}");
        // What cannot be added to by a table is found here.
        self.get(&after)?;
        Ok((after, Edits::cut(text.len(), block.len())))
    }

    fn remove(&self, text: &str) -> Result<String, Unfit> {
        let rest = without(text, &statements(text)?);
        self.get(&rest)?;
        Ok(rest)
    }

    fn is_blank(&self, text: &str) -> bool {
        text.trim_start_matches(BOM).trim().is_empty()
    }
}

/// The table that starts the server.
fn block(entry: &Value, newline: &str) -> String {
    let rank = |key: &str| ["command", "args", "env"].iter().position(|one| *one == key);
    let mut fields: Vec<_> = entry.as_object().into_iter().flatten().collect();
    fields.sort_by_key(|(key, _)| rank(key).unwrap_or(usize::MAX));
    let mut block = format!("[{SERVERS}.{}]{newline}", servers::NAME);
    for (key, value) in fields {
        // TOML has no `null`, and no entry that was read from it has one.
        let Ok(value) = toml::Value::try_from(value) else { continue };
        let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        let key = match !key.is_empty() && key.chars().all(is_bare) {
            true => key.clone(),
            false => toml::Value::from(key.as_str()).to_string(),
        };
        block.push_str(&format!("{key} = {value}{newline}"));
    }
    block
}

/// As the first line of a text ends.
fn newline(text: &str) -> &'static str {
    match text.split_inclusive('\n').next() {
        Some(line) if line.ends_with("\r\n") => "\r\n",
        _ => "\n",
    }
}

fn no_toml(text: &str, error: &toml::de::Error) -> Unfit {
    let at = error.span().map_or(0, |span| span.start) + bom(text);
    Unfit { line: line(text, at), problem: format!("this is no TOML: {}", error.message()) }
}

fn line(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

fn bom(text: &str) -> usize {
    text.len() - text.trim_start_matches(BOM).len()
}

type Key<'text> = Spanned<DeString<'text>>;
type Item<'text> = Spanned<DeValue<'text>>;

fn parse(text: &str) -> Result<DeTable<'_>, Unfit> {
    let parsed = DeTable::parse(&text[bom(text)..]).map_err(|error| no_toml(text, &error))?;
    Ok(parsed.into_inner())
}

fn member<'table, 'text>(
    table: &'table DeTable<'text>,
    name: &str,
) -> Option<(&'table Key<'text>, &'table Item<'text>)> {
    table.iter().find(|(key, _)| key.get_ref().as_ref() == name)
}

/// Whether a table stands as a value after its name: `servers = { }`.
fn is_inline(text: &str, key: &Key<'_>, value: &Item<'_>) -> bool {
    value.span().start > key.span().start && text[bom(text)..][value.span()].starts_with('{')
}

/// Why no server can be added to a text by a table of its own.
fn closed(text: &str) -> Result<Option<Unfit>, Unfit> {
    let table = parse(text)?;
    let Some((key, value)) = member(&table, SERVERS) else { return Ok(None) };
    let problem = match value.get_ref() {
        DeValue::Table(_) if is_inline(text, key, value) => {
            "is written in braces, and no table can be added to it"
        }
        DeValue::Table(_) => return Ok(None),
        _ => "is not a table",
    };
    let line = line(text, key.span().start + bom(text));
    Ok(Some(Unfit { line, problem: format!("{SERVERS:?} {problem}") }))
}

/// Where the entry of our name stands: the heads of its tables, and its keys with their values.
/// Nothing where it shares a line with others.
fn statements(text: &str) -> Result<Vec<Range<usize>>, Unfit> {
    let table = parse(text)?;
    let mut found = Vec::new();
    if let Some((key, value)) = member(&table, SERVERS)
        && let DeValue::Table(servers) = value.get_ref()
        && !is_inline(text, key, value)
        && let Some((key, value)) = member(servers, servers::NAME)
    {
        gather(key, value, &mut found);
    }
    let bom = bom(text);
    let mut found: Vec<_> = found.into_iter().map(|it| it.start + bom..it.end + bom).collect();
    found.sort_by_key(|place| place.start);
    Ok(found)
}

fn gather(key: &Key<'_>, value: &Item<'_>, found: &mut Vec<Range<usize>>) {
    let (name, place) = (key.span(), value.span());
    // The place of a table is its head, which has its name in it. One that has no head of its own,
    // since others name it on their way, has the place of that name.
    let (is_head, is_implied) = (place.start < name.start, place == name);
    match value.get_ref() {
        DeValue::Table(table) if is_head || is_implied => {
            found.extend(is_head.then_some(place));
            table.iter().for_each(|(key, value)| gather(key, value, found));
        }
        DeValue::Array(tables) if is_head => {
            for one in tables {
                found.push(one.span());
                let members = one.get_ref().as_table().into_iter().flat_map(DeTable::iter);
                members.for_each(|(key, value)| gather(key, value, found));
            }
        }
        _ => found.push(name.start..place.end),
    }
}

/// A text without these statements, and without the blank line that sets the first of them off.
/// Comments stay.
fn without(text: &str, statements: &[Range<usize>]) -> String {
    let mut rest = String::new();
    let mut from = 0;
    for (number, statement) in statements.iter().enumerate() {
        let line = text[..statement.start].rfind('\n').map_or(bom(text), |end| end + 1);
        let line = line.max(from);
        let mut before = &text[from..line];
        if number == 0 {
            let shorter = strip_newline(before);
            let is_blank_line = |shorter: &&str| shorter.is_empty() || shorter.ends_with('\n');
            before = shorter.filter(is_blank_line).unwrap_or(before);
        }
        rest.push_str(before);
        let after = text[statement.end..].trim_start_matches([' ', '\t']);
        let newline = match () {
            () if after.starts_with("\r\n") => 2,
            () => usize::from(after.starts_with('\n')),
        };
        from = text.len() - after.len() + newline;
    }
    rest.push_str(&text[from..]);
    rest
}

fn strip_newline(text: &str) -> Option<&str> {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Program;

    fn ours() -> Value {
        let home = Some("/a \"home\"".into());
        entry(&Caller::new(Program::At("/opt/it's/rappel".into()), home).unwrap())
    }

    fn added(text: &str) -> String {
        let (after, reverse) = Tables.add(text, &ours()).unwrap();
        assert_eq!(reverse.apply(&after).as_deref(), Some(text));
        assert_eq!(Tables.get(&after).unwrap(), Some(ours()), "{after}");
        after
    }

    #[test]
    fn the_table_is_toml_and_comes_out_again() {
        let others = "# mine\nmodel = \"x\"\r\n\n[mcp_servers.other]\ncommand = \"y\"\n";
        for text in [others, "", "\u{feff}", "\u{feff}a = 1\n", "a = 1\r\n[b]\r\nc = 2\r\n"] {
            assert_eq!(Tables.remove(&added(text)).unwrap(), text);
            assert_eq!(Tables.remove(text).unwrap(), text);
        }
        assert!(!added("a = 1\r\n").replace("\r\n", "").contains('\n'));
        assert_eq!(Tables.remove(&added("a = 1")).unwrap(), "a = 1\n");
    }

    #[test]
    fn only_the_statements_of_the_entry_go() {
        let with = "a = \"\"\"\n[mcp_servers.rappel]\nb\n\"\"\"\n\n# before\n\n\
            [ mcp_servers . \"rappel\" ] # head\n  # first\n\tcommand = 'x' # key\nargs = [\n  # in\n  'mcp',\n]\n\
            tools.one.mode = 1\n\n# after\n[mcp_servers.rappel.env] \nA = '1'\n# last\n\
            [[mcp_servers.rappel.more]]\nx = [[1]]\n[[mcp_servers.rappel.more]]\n\
            [tui]\ny = 1\n[mcp_servers.rappel.tools.two]\nmode = 2";
        let rest = "a = \"\"\"\n[mcp_servers.rappel]\nb\n\"\"\"\n\n# before\n\
            # head\n  # first\n# key\n\n# after\n# last\n[tui]\ny = 1\n";
        assert_eq!(Tables.remove(with).unwrap(), rest);
        for (with, rest) in [
            ("mcp_servers.rappel.command = 'x'\na = 1\n", "a = 1\n"),
            ("[mcp_servers]\nrappel = { command = 'x' }\nb = { }\n", "[mcp_servers]\nb = { }\n"),
            ("[mcp_servers.rappel.env]\nA = '1'\n[c]\n", "[c]\n"),
        ] {
            assert!(Tables.get(with).unwrap().is_some(), "{with}");
            assert_eq!(Tables.remove(with).unwrap(), rest);
        }
        let in_one_line = "a = 1\nmcp_servers = { rappel = { command = 'x' }, b = {} }\n";
        assert!(Tables.get(in_one_line).unwrap().is_some());
        assert_eq!(Tables.remove(in_one_line).unwrap(), in_one_line);
    }

    #[test]
    fn what_cannot_be_added_to_is_refused_with_its_line() {
        let refused = |text: &str| Tables.add(text, &ours()).unwrap_err().to_string();
        assert!(refused("a = 1\nb = \n").starts_with("line 2: this is no TOML"));
        assert!(refused("a = 1\nmcp_servers = {}\n").starts_with("line 2: \"mcp_servers\" is"));
        assert!(refused("mcp_servers = 1\n").ends_with("is not a table"));
        assert!(refused("[[mcp_servers]]\n").ends_with("is not a table"));
        added("mcp_servers.other.command = 'x'\n");
        added("[mcp_servers]\nother.command = 'x'\n");
    }
}
