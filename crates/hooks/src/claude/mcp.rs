//! Rappel's MCP server among those of Claude Code.
//!
//! Claude keeps servers in three places: `.mcp.json` of a project for everyone who has it, and
//! `~/.claude.json` for the user, for all projects (`mcpServers`) or for one
//! (`projects.ROOT.mcpServers`).

use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};

use crate::caller::{Caller, NotText};
use crate::files;
use crate::integrate::Place;
use crate::json_text::{Document, Edits, Unfit};
use crate::scope::Scope;
use crate::servers::{self, Format, Registry};

const SERVERS: &str = "mcpServers";

/// Where the server of a scope is registered.
pub fn registry(place: &Place) -> Result<Registry, NotText> {
    // Claude's file for the user stands beside its usual folder, and in one that was chosen.
    let user = &place.user;
    let usual = user.path.parent().filter(|_| !user.is_chosen);
    at(place.scope, &place.root, &usual.unwrap_or(&user.path).join(".claude.json"))
}

/// The place of a scope. `user` is Claude's own file for the user.
fn at(scope: Scope, root: &Path, user: &Path) -> Result<Registry, NotText> {
    let text = || root.to_str().ok_or_else(|| NotText(root.to_owned()));
    let (file, mut way) = match scope {
        Scope::Shared => (root.join(".mcp.json"), vec![]),
        Scope::User => (user.to_owned(), vec![]),
        Scope::Local => (user.to_owned(), vec!["projects".to_owned(), text()?.to_owned()]),
    };
    way.push(SERVERS.to_owned());
    // One file may have servers of two scopes.
    let name = format!("{}#{}", file.display(), way.join("#"));
    Ok(Registry { file, name, mode: files::PRIVATE, format: Box::new(Members { way }), entry })
}

/// How Claude starts the server.
fn entry(caller: &Caller) -> Value {
    let (program, arguments) = (caller.program().as_text(), servers::arguments(caller));
    json!({"type": "stdio", "command": program, "args": arguments})
}

/// A member for each server.
#[derive(Debug)]
struct Members {
    /// The objects on the way to the servers, and that of the servers itself, outermost first.
    way: Vec<String>,
}

impl Members {
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

    /// What is the value of the innermost object on the way, from a depth on.
    fn from(&self, depth: usize, inner: Value) -> Value {
        self.way[depth..].iter().rev().fold(inner, |inner, name| json!({ name: inner }))
    }
}

impl Format for Members {
    fn get(&self, text: &str) -> Result<Option<Value>, Unfit> {
        let document = Document::new(text.to_owned())?;
        let (place, depth) = self.found(&document)?;
        if depth < self.way.len() {
            return Ok(None);
        }
        Ok(document.member(&place, servers::NAME)?.map(|there| document.value(&there)))
    }

    fn add(&self, text: &str, entry: &Value) -> Result<(String, Edits), Unfit> {
        let mut document = Document::new(text.to_owned())?;
        let (place, depth) = self.found(&document)?;
        match self.way.get(depth) {
            None => document.add_member(&place, servers::NAME, entry)?,
            Some(name) => {
                let value = self.from(depth + 1, json!({(servers::NAME): entry}));
                document.add_member(&place, name, &value)?;
            }
        }
        Ok(document.finish())
    }

    fn remove(&self, text: &str) -> Result<String, Unfit> {
        let mut document = Document::new(text.to_owned())?;
        let (place, depth) = self.found(&document)?;
        let members = match depth == self.way.len() {
            true => document.members(&place)?,
            false => Vec::new(),
        };
        match members.iter().position(|member| member.name == servers::NAME) {
            Some(number) => document.remove(&place, number)?,
            None => return Ok(text.to_owned()),
        }
        Ok(document.finish().0)
    }

    /// A new file has nothing but the way.
    fn is_blank(&self, text: &str) -> bool {
        let found: Option<Value> = serde_json::from_str(text).ok();
        found.is_some_and(|found| found == self.from(0, json!({})))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Program;
    use crate::integrate::{Changes, UserFolder};
    use crate::records::Records;

    /// A project, a folder of the user's and a home of Rappel's.
    struct World {
        folder: tempfile::TempDir,
        records: Records,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("project")).unwrap();
            let records = Records::open(&folder.path().join("home")).unwrap();
            Self { folder, records }
        }

        fn place(&self, scope: Scope) -> Place {
            let user = UserFolder { path: self.folder.path().join(".claude"), is_chosen: false };
            Place::new(&crate::claude::VENDOR, scope, &self.folder.path().join("project"), &user)
        }

        fn user(&self) -> std::path::PathBuf {
            self.folder.path().join(".claude.json")
        }

        fn register(&self, scope: Scope, caller: &Caller) -> Changes {
            let place = self.place(scope);
            registry(&place).unwrap().register(&place, caller, None, &self.records).unwrap()
        }

        fn unregister(&self, scope: Scope) -> Changes {
            let place = self.place(scope);
            registry(&place).unwrap().unregister(&place, None, Some(&self.records)).unwrap()
        }
    }

    fn caller() -> Caller {
        Caller::new(Program::At("/opt/rappel".into()), None).unwrap()
    }

    fn read(path: &Path) -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn each_scope_has_its_place_and_the_rest_stays() {
        let world = World::new();
        let (root, user) = (world.folder.path().join("project"), world.user());
        let before = "{\n  \"numStartups\": 3,\n  \"projects\": {\"/other\": {\"x\": 1}}\n}\n";
        std::fs::write(&user, before).unwrap();
        for scope in [Scope::Local, Scope::User, Scope::Shared] {
            assert_eq!(world.register(scope, &caller()).written.len(), 1);
            assert!(world.register(scope, &caller()).is_empty());
        }
        let found = read(&user);
        let key = root.to_str().unwrap();
        assert_eq!(found["mcpServers"]["rappel"]["args"], json!(["mcp"]));
        assert_eq!(found["projects"][key]["mcpServers"]["rappel"]["command"], "/opt/rappel");
        assert_eq!(found["projects"]["/other"], json!({"x": 1}));
        assert_eq!(read(&root.join(".mcp.json"))["mcpServers"]["rappel"]["type"], "stdio");
        for scope in [Scope::Local, Scope::User, Scope::Shared] {
            assert!(!world.unregister(scope).is_empty());
            assert!(world.unregister(scope).is_empty());
        }
        assert!(!root.join(".mcp.json").exists());
        assert_eq!(read(&user)["numStartups"], 3);
        assert!(!std::fs::read_to_string(&user).unwrap().contains("rappel\""));
    }

    #[test]
    fn a_server_of_the_user_with_our_name_stays() {
        let world = World::new();
        let user = world.user();
        for entry in [
            json!({"command": "mine", "args": []}),
            json!({"type": "stdio", "command": "rappel", "args": ["mcp"], "env": {"A": "1"}}),
        ] {
            let text = json!({"mcpServers": {"rappel": entry}}).to_string();
            std::fs::write(&user, &text).unwrap();
            let changes = world.register(Scope::User, &caller());
            assert_eq!(changes.kept, std::slice::from_ref(&user));
            assert!(world.unregister(Scope::User).is_empty());
            assert_eq!(std::fs::read_to_string(&user).unwrap(), text);
        }
    }

    #[test]
    fn a_moved_program_is_registered_anew() {
        let world = World::new();
        world.register(Scope::User, &caller());
        let moved = Caller::new(Program::At("/usr/bin/rappel".into()), None).unwrap();
        assert_eq!(world.register(Scope::User, &moved).written, [world.user()]);
        assert_eq!(read(&world.user())["mcpServers"]["rappel"]["command"], "/usr/bin/rappel");
    }
}
