//! Rappel's MCP server among those of opencode: `mcp.rappel` in a configuration file, which may have
//! comments.

use serde_json::{Value, json};

use super::jsonc;
use crate::caller::{Caller, NotText};
use crate::files;
use crate::integrate::Place;
use crate::json_text::{Document, Edits, Unfit};
use crate::scope::Scope;
use crate::servers::{self, Format, Registry};

const SERVERS: &str = "mcp";
const COMMAND: &str = "command";
const SCHEMA: &str = "https://opencode.ai/config.json";

/// Where the server of a scope is registered. A project's own folder has a file for the user's own
/// things; that of the project itself is for everyone.
#[allow(clippy::unnecessary_wraps, reason = "other agents' places may have no name in text")]
pub fn registry(place: &Place) -> Result<Registry, NotText> {
    // The project's own folder is no agent's, so its record is filed with the agent's.
    let (folder, above) = match place.scope {
        Scope::Shared => (&place.root, "../"),
        Scope::Local | Scope::User => (&place.folder, ""),
    };
    // Of the two names, the one that the user has.
    let with_comments = "opencode.jsonc";
    let is_there = folder.join(with_comments).exists();
    let name = if is_there { with_comments } else { "opencode.json" };
    Ok(Registry {
        file: folder.join(name),
        name: format!("{above}{name}"),
        mode: files::ORDINARY,
        format: Box::new(Members),
        entry,
    })
}

/// How opencode starts the server.
fn entry(caller: &Caller) -> Value {
    let mut command = vec![caller.program().as_text()];
    command.extend(servers::arguments(caller));
    json!({"type": "local", COMMAND: command})
}

/// A member for each server.
#[derive(Debug)]
struct Members;

impl Format for Members {
    fn get(&self, text: &str) -> Result<Option<Value>, Unfit> {
        jsonc::get(text, SERVERS, servers::NAME)
    }

    fn add(&self, text: &str, entry: &Value) -> Result<(String, Edits), Unfit> {
        jsonc::add(text, SERVERS, servers::NAME, entry)
    }

    fn remove(&self, text: &str) -> Result<String, Unfit> {
        jsonc::remove(text, SERVERS, servers::NAME)
    }

    fn new_file(&self, entry: &Value) -> Result<String, Unfit> {
        let new = json!({"$schema": SCHEMA, SERVERS: {(servers::NAME): entry}});
        Ok(format!("{}\n", serde_json::to_string_pretty(&new).unwrap_or_default()))
    }

    /// Only the command ever changes, and comments beside it stay.
    fn replace(&self, text: &str, entry: &Value) -> Result<Option<String>, Unfit> {
        let document = Document::new(jsonc::without_comments(text))?;
        let mut place = document.root();
        for name in [SERVERS, servers::NAME, COMMAND] {
            match document.member(&place, name)? {
                Some(inner) => place = inner,
                None => return Ok(None),
            }
        }
        let mut after = text.to_owned();
        after.replace_range(place, &entry[COMMAND].to_string());
        Ok(Some(after).filter(|after| self.get(after).is_ok_and(|it| it.as_ref() == Some(entry))))
    }

    /// What is empty stays.
    fn is_blank(&self, _: &str) -> bool {
        false
    }
}
