//! The plugin: one script without dependencies, which calls `rappel hook opencode`.

use serde_json::Value;

use crate::caller::{Caller, Program};
use crate::owned;
use crate::scope::Scope;

/// The end of the script's line that says what it calls.
pub const MARK: &str = "# rappel integrate opencode";
/// The environment variable with the folder that opencode works in, for our hook.
pub const FOLDER: &str = "RAPPEL_OPENCODE_FOLDER";
/// The one that tells the programs in opencode's shell what it calls its session.
pub const SESSION: &str = "RAPPEL_OPENCODE_SESSION";

const SCRIPT: &str = include_str!("plugin.js");
const PROGRAM: &str = "const PROGRAM = \"rappel\"\n";
const ARGUMENTS: &str = "const ARGUMENTS = [\"hook\", \"opencode\"]\n";
const AGAIN: &str = "const AGAIN = \"rappel integrate opencode\"\n";

/// The script for a scope.
pub fn text(caller: &Caller, scope: Scope) -> String {
    let mut words = vec!["hook".to_owned(), "opencode".to_owned()];
    let flag = scope.hook_flag().trim();
    words.extend((!flag.is_empty()).then(|| flag.to_owned()));
    if let Some(home) = caller.home() {
        words.extend(["--home".to_owned(), home.to_string_lossy().into_owned()]);
    }
    let program = match caller.program() {
        Program::At(path) => path.to_string_lossy().into_owned(),
        Program::OnPath => "rappel".to_owned(),
    };
    // JSON's texts are JavaScript's too.
    let program = format!("const PROGRAM = {}\n", Value::from(program));
    let words = format!("const ARGUMENTS = {}\n", Value::from(words));
    let again = format!("rappel integrate opencode{}", scope.flag());
    let again = format!("const AGAIN = {}\n", Value::from(again));
    let line = caller.safely(&format!("hook opencode{}", scope.hook_flag()), MARK);
    let script = SCRIPT.replacen(PROGRAM, &program, 1).replacen(ARGUMENTS, &words, 1);
    let script = script.replacen(AGAIN, &again, 1);
    owned::sealed_script(&format!("// {line}\n{script}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owned::{Owner, owner};

    #[test]
    fn the_script_calls_the_program_that_it_was_written_for() {
        let home = Some("/a b/home".into());
        let caller = Caller::new(Program::At("/opt/it's/rappel".into()), home).unwrap();
        for scope in Scope::ALL {
            let text = text(&caller, scope);
            assert_eq!(owner(&text), Owner::Rappel);
            assert!(text.contains("const PROGRAM = \"/opt/it's/rappel\"\n"));
            assert!(text.contains("\"--home\",\"/a b/home\"]\n"));
            assert!(text.contains(&format!("= \"rappel integrate opencode{}\"\n", scope.flag())));
            let line = text.lines().find(|line| line.ends_with(MARK)).unwrap();
            assert_eq!(Caller::of_line(line, MARK).as_ref(), Some(&caller));
            assert_eq!(Scope::of_line(line), scope);
        }
        let shared = text(&Caller::on_path(), Scope::Shared);
        assert!(shared.contains("const PROGRAM = \"rappel\"\n"));
        assert!(shared.contains("const ARGUMENTS = [\"hook\",\"opencode\",\"--shared\"]\n"));
    }

    #[test]
    fn the_script_and_this_module_use_the_same_names() {
        assert!(SCRIPT.contains(PROGRAM) && SCRIPT.contains(ARGUMENTS) && SCRIPT.contains(AGAIN));
        assert!(SCRIPT.contains(FOLDER) && SCRIPT.contains(SESSION));
    }
}
