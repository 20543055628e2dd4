//! Rappel's MCP server among those of Claude Code: registered, taken out, looked for.
//!
//! Claude keeps servers in three places: `.mcp.json` of a project for everyone who has it, and
//! `~/.claude.json` for the user, for all projects (`mcpServers`) or for one
//! (`projects.ROOT.mcpServers`).

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::handlers::{Caller, NotText, Program, Scope};
use super::integrate::{Changes, IntegrateError};
use crate::files;
use crate::json_text::{Document, Unfit};

/// What Claude calls the server.
pub const NAME: &str = "rappel";
const SERVERS: &str = "mcpServers";

/// Where a server of a scope is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    /// The file.
    pub file: PathBuf,
    /// The objects on the way to the servers, outermost first.
    way: Vec<String>,
}

impl Registry {
    /// The place of a scope. `user` is Claude's own file for the user.
    pub fn new(scope: Scope, root: &Path, user: &Path) -> Result<Self, NotText> {
        let text = || root.to_str().ok_or_else(|| NotText(root.to_owned()));
        let (file, way) = match scope {
            Scope::Shared => (root.join(".mcp.json"), vec![]),
            Scope::User => (user.to_owned(), vec![]),
            Scope::Local => (user.to_owned(), vec!["projects".to_owned(), text()?.to_owned()]),
        };
        Ok(Self { file, way: way.into_iter().chain([SERVERS.to_owned()]).collect() })
    }

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

/// How Claude starts the server.
fn entry(caller: &Caller) -> Value {
    let program = match caller.program() {
        Program::At(path) => path.to_string_lossy().into_owned(),
        Program::OnPath => NAME.to_owned(),
    };
    let mut arguments = vec!["mcp".to_owned()];
    if let Some(home) = caller.home() {
        arguments.extend(["--home".to_owned(), home.to_string_lossy().into_owned()]);
    }
    json!({"type": "stdio", "command": program, "args": arguments})
}

/// Whether an entry of our name starts our server.
fn is_ours(entry: &Value) -> bool {
    let program = entry["command"].as_str().map(Path::new).and_then(Path::file_name);
    program.is_some_and(|name| name == NAME) && entry["args"][0] == "mcp"
}

/// Registers the server. An entry of the user's own that has the same name is kept.
pub fn register(registry: &Registry, caller: &Caller) -> Result<Changes, IntegrateError> {
    let mut changes = Changes::default();
    let wanted = entry(caller);
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
                if kept || there == wanted {
                    return Ok::<_, IntegrateError>(text.map(str::to_owned));
                }
                remove_from(&mut document, &place).map_err(registry.unfit())?;
                place = registry.found(&document).map_err(registry.unfit())?.0;
            }
            document.add_member(&place, NAME, &wanted).map_err(registry.unfit())?;
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
        let rest = document.value(&document.root());
        is_left = rest != json!({SERVERS: {}});
        Ok(is_left.then(|| document.finish().0))
    })?;
    match (changed, is_left) {
        (true, true) => changes.written.push(registry.file.clone()),
        (true, false) => changes.removed.push(registry.file.clone()),
        (false, _) => {}
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> Caller {
        Caller::new(Program::At("/opt/rappel".into()), None).unwrap()
    }

    fn read(path: &Path) -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn each_scope_has_its_place_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (root, user) = (folder.path().join("project"), folder.path().join(".claude.json"));
        std::fs::create_dir(&root).unwrap();
        let before = "{\n  \"numStartups\": 3,\n  \"projects\": {\"/other\": {\"x\": 1}}\n}\n";
        std::fs::write(&user, before).unwrap();
        for scope in [Scope::Local, Scope::User, Scope::Shared] {
            let registry = Registry::new(scope, &root, &user).unwrap();
            assert_eq!(register(&registry, &caller()).unwrap().written.len(), 1);
            assert!(register(&registry, &caller()).unwrap().is_empty());
        }
        let found = read(&user);
        let key = root.to_str().unwrap();
        assert_eq!(found["mcpServers"]["rappel"]["args"], json!(["mcp"]));
        assert_eq!(found["projects"][key]["mcpServers"]["rappel"]["command"], "/opt/rappel");
        assert_eq!(found["projects"]["/other"], json!({"x": 1}));
        assert_eq!(read(&root.join(".mcp.json"))["mcpServers"]["rappel"]["type"], "stdio");
        for scope in [Scope::Local, Scope::User, Scope::Shared] {
            let registry = Registry::new(scope, &root, &user).unwrap();
            assert!(!unregister(&registry).unwrap().is_empty());
            assert!(unregister(&registry).unwrap().is_empty());
        }
        assert!(!root.join(".mcp.json").exists());
        assert_eq!(read(&user)["numStartups"], 3);
        assert!(!std::fs::read_to_string(&user).unwrap().contains("rappel\""));
    }

    #[test]
    fn a_server_of_the_user_with_our_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("user.json");
        let text = r#"{"mcpServers": {"rappel": {"command": "mine", "args": []}}}"#;
        std::fs::write(&user, text).unwrap();
        let registry = Registry::new(Scope::User, folder.path(), &user).unwrap();
        assert_eq!(register(&registry, &caller()).unwrap().kept, std::slice::from_ref(&user));
        assert!(unregister(&registry).unwrap().is_empty());
        assert_eq!(std::fs::read_to_string(&user).unwrap(), text);
    }

    #[test]
    fn a_moved_program_is_registered_anew() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("user.json");
        let registry = Registry::new(Scope::User, folder.path(), &user).unwrap();
        register(&registry, &caller()).unwrap();
        let moved = Caller::new(Program::At("/usr/bin/rappel".into()), None).unwrap();
        assert_eq!(register(&registry, &moved).unwrap().written, std::slice::from_ref(&user));
        assert_eq!(read(&user)["mcpServers"]["rappel"]["command"], "/usr/bin/rappel");
    }
}
