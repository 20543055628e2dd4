//! Rappel's MCP server among those of an agent that keeps them in a JSON file: registered, taken
//! out, looked for.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::files;
use crate::integrate::{Changes, IntegrateError};
use crate::json_text::{Document, Unfit};

/// What agents call the server.
pub const NAME: &str = "rappel";

/// Where a server of a scope is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    /// The file.
    pub file: PathBuf,
    /// The objects on the way to the servers, and that of the servers itself, outermost first.
    pub way: Vec<String>,
}

impl Registry {
    fn unfit(&self) -> impl Fn(Unfit) -> IntegrateError {
        let path = self.file.clone();
        move |unfit| IntegrateError::Unfit { path: path.clone(), unfit }
    }

    /// The object of the servers, or the innermost one on the way to it, and how far that is.
    fn found(&self, document: &Document) -> Result<(Range<usize>, usize), Unfit> {
        let mut place = document.root();
        for (depth, name) in self.way.iter().enumerate() {
            match document.member(&place, name)? {
                Some(next) => place = next,
                None => return Ok((place, depth)),
            }
        }
        Ok((place, self.way.len()))
    }
}

/// The arguments with which the server is started.
pub fn arguments(caller: &Caller) -> Vec<String> {
    let mut arguments = vec!["mcp".to_owned()];
    if let Some(home) = caller.home() {
        arguments.extend(["--home".to_owned(), home.to_string_lossy().into_owned()]);
    }
    arguments
}

/// Whether an entry of our name starts our server. Agents name the program and its arguments apart,
/// or in one list.
pub fn is_ours(entry: &Value) -> bool {
    let (program, first) = match &entry["command"] {
        Value::Array(words) => (words.first(), words.get(1)),
        program => (Some(program), entry["args"].get(0)),
    };
    let program = program.and_then(Value::as_str).map(Path::new).and_then(Path::file_name);
    program.is_some_and(|name| name == NAME) && first.is_some_and(|first| first == "mcp")
}

/// Registers the server. An entry of the user's own that has the same name is kept.
pub fn register(registry: &Registry, wanted: &Value) -> Result<Changes, IntegrateError> {
    let mut changes = Changes::default();
    let mut kept = false;
    let changed = files::update(&registry.file, files::PRIVATE, |text| {
        let mut document =
            Document::new(text.unwrap_or_default().to_owned()).map_err(registry.unfit())?;
        let (mut place, depth) = registry.found(&document).map_err(registry.unfit())?;
        let mut missing = registry.way[depth..].iter().rev();
        let mut value = json!({NAME: wanted});
        if depth == registry.way.len() {
            let there = document.member(&place, NAME).map_err(registry.unfit())?;
            if let Some(there) = there {
                let there = document.value(&there);
                kept = !is_ours(&there);
                if kept || there == *wanted {
                    return Ok::<_, IntegrateError>(text.map(str::to_owned));
                }
                remove_from(&mut document, &place).map_err(registry.unfit())?;
                place = registry.found(&document).map_err(registry.unfit())?.0;
            }
            document.add_member(&place, NAME, wanted).map_err(registry.unfit())?;
            return Ok(Some(document.finish().0));
        }
        // The innermost missing object holds the server; the outermost is added.
        let mut name = missing.next().cloned().unwrap_or_default();
        for outer in missing {
            value = json!({ (name.clone()): value });
            name.clone_from(outer);
        }
        document.add_member(&place, &name, &value).map_err(registry.unfit())?;
        Ok(Some(document.finish().0))
    })?;
    if changed {
        changes.written.push(registry.file.clone());
    }
    if kept {
        changes.kept.push(registry.file.clone());
    }
    Ok(changes)
}

fn remove_from(document: &mut Document, servers: &Range<usize>) -> Result<(), Unfit> {
    let members = document.members(servers)?;
    match members.iter().position(|member| member.name == NAME) {
        Some(number) => document.remove(servers, number),
        None => Ok(()),
    }
}

/// Takes the server out. A file of which nothing else is left goes too, if it is a project's.
pub fn unregister(registry: &Registry) -> Result<Changes, IntegrateError> {
    let mut changes = Changes::default();
    let mut is_left = true;
    let changed = files::update(&registry.file, files::PRIVATE, |text| {
        let Some(given) = text else { return Ok::<_, IntegrateError>(None) };
        let mut document = Document::new(given.to_owned()).map_err(registry.unfit())?;
        let (place, depth) = registry.found(&document).map_err(registry.unfit())?;
        let there = match depth == registry.way.len() {
            true => document.member(&place, NAME).map_err(registry.unfit())?,
            false => None,
        };
        if !there.is_some_and(|there| is_ours(&document.value(&there))) {
            return Ok(Some(given.to_owned()));
        }
        remove_from(&mut document, &place).map_err(registry.unfit())?;
        let mut empty = json!({});
        for name in registry.way.iter().rev() {
            empty = json!({ name: empty });
        }
        is_left = document.value(&document.root()) != empty;
        Ok(is_left.then(|| document.finish().0))
    })?;
    match (changed, is_left) {
        (true, true) => changes.written.push(registry.file.clone()),
        (true, false) => changes.removed.push(registry.file.clone()),
        (false, _) => {}
    }
    Ok(changes)
}
