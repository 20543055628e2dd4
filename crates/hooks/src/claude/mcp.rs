//! Rappel's MCP server among those of Claude Code.
//!
//! Claude keeps servers in three places: `.mcp.json` of a project for everyone who has it, and
//! `~/.claude.json` for the user, for all projects (`mcpServers`) or for one
//! (`projects.ROOT.mcpServers`).

use std::path::Path;

use serde_json::{Value, json};

use crate::caller::{Caller, NotText};
use crate::integrate::{Changes, IntegrateError, Place};
use crate::records::Records;
use crate::scope::Scope;
use crate::servers::{self, Registry};

const SERVERS: &str = "mcpServers";

/// Registers the server.
pub fn register(place: &Place, caller: &Caller, _: &Records) -> Result<Changes, IntegrateError> {
    servers::register(&registry(place)?, &entry(caller))
}

/// Takes the server out.
pub fn unregister(place: &Place, _: Option<&Records>) -> Result<Changes, IntegrateError> {
    match registry(place) {
        Ok(registry) => servers::unregister(&registry),
        // Such a folder cannot be registered.
        Err(_) => Ok(Changes::default()),
    }
}

fn registry(place: &Place) -> Result<Registry, NotText> {
    // Claude's file for the user stands beside its usual folder, and in one that was chosen.
    let user = &place.user;
    let usual = user.path.parent().filter(|_| !user.is_chosen);
    at(place.scope, &place.root, &usual.unwrap_or(&user.path).join(".claude.json"))
}

/// The place of a scope. `user` is Claude's own file for the user.
fn at(scope: Scope, root: &Path, user: &Path) -> Result<Registry, NotText> {
    let text = || root.to_str().ok_or_else(|| NotText(root.to_owned()));
    let (file, way) = match scope {
        Scope::Shared => (root.join(".mcp.json"), vec![]),
        Scope::User => (user.to_owned(), vec![]),
        Scope::Local => (user.to_owned(), vec!["projects".to_owned(), text()?.to_owned()]),
    };
    Ok(Registry { file, way: way.into_iter().chain([SERVERS.to_owned()]).collect() })
}

/// How Claude starts the server.
fn entry(caller: &Caller) -> Value {
    let (program, arguments) = (caller.program().as_text(), servers::arguments(caller));
    json!({"type": "stdio", "command": program, "args": arguments})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Program;

    fn register(registry: &Registry, caller: &Caller) -> Result<Changes, IntegrateError> {
        servers::register(registry, &entry(caller))
    }

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
            let registry = at(scope, &root, &user).unwrap();
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
            let registry = at(scope, &root, &user).unwrap();
            assert!(!servers::unregister(&registry).unwrap().is_empty());
            assert!(servers::unregister(&registry).unwrap().is_empty());
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
        let registry = at(Scope::User, folder.path(), &user).unwrap();
        assert_eq!(register(&registry, &caller()).unwrap().kept, std::slice::from_ref(&user));
        assert!(servers::unregister(&registry).unwrap().is_empty());
        assert_eq!(std::fs::read_to_string(&user).unwrap(), text);
    }

    #[test]
    fn a_moved_program_is_registered_anew() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("user.json");
        let registry = at(Scope::User, folder.path(), &user).unwrap();
        register(&registry, &caller()).unwrap();
        let moved = Caller::new(Program::At("/usr/bin/rappel".into()), None).unwrap();
        assert_eq!(register(&registry, &moved).unwrap().written, std::slice::from_ref(&user));
        assert_eq!(read(&user)["mcpServers"]["rappel"]["command"], "/usr/bin/rappel");
    }
}
