//! Claude's files for `/rappel:NAME`.
//!
//! Where the prompt's hook runs, it answers such a command before Claude looks at the file. The
//! file is for where it does not run. Claude pastes the user's words into the shell block as text,
//! so they stand in a here-document that expands nothing and ends with a word that nobody can
//! guess.

use crate::caller::Caller;
use crate::owned;
use crate::typed::Slash;

/// The file of a command.
pub fn file(slash: &Slash, caller: &Caller, delimiter: &str) -> String {
    // JSON's texts are YAML's too.
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let verb = slash.verb();
    let mut rest = format!("description: {}\n", text(slash.about));
    if !slash.arguments.is_empty() {
        rest.push_str(&format!("argument-hint: {}\n", text(slash.arguments)));
    }
    let allowed = text(&format!("Bash({} {verb}:*)", caller.word()));
    let line = caller.line(&format!("{verb} --typed {}", slash.name));
    rest.push_str(&format!(
        "allowed-tools: {allowed}\n\
         disable-model-invocation: true\n\
         ---\n\
         ```!\n\
         {line} <<'{delimiter}'\n\
         $ARGUMENTS\n\
         {delimiter}\n\
         ```\n\
         \n\
         Above is what Rappel answered to the user's command `/rappel:{}`. It is done. Repeat the answer unchanged in a \
         code block. Do nothing else: call no tool, and add no word of your own.\n",
        slash.name
    ));
    owned::sealed("---\n", &rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Program;
    use crate::owned::{Owner, delimiter, delimiter_of, owner};
    use crate::typed::SLASHES;

    fn caller(path: &str) -> Caller {
        Caller::new(Program::At(path.into()), None).unwrap()
    }

    #[test]
    fn each_file_allows_one_verb_and_is_hidden_from_the_model() {
        for slash in SLASHES {
            let text = file(slash, &caller("/usr/bin/rappel"), &delimiter());
            let rule = format!("allowed-tools: \"Bash(/usr/bin/rappel {}:*)\"\n", slash.verb());
            assert!(text.contains(&rule), "{text}");
            assert!(text.contains("disable-model-invocation: true\n"));
            assert_eq!(text.matches("Bash(").count(), 1);
            assert_eq!(owner(&text), Owner::Rappel);
        }
    }

    #[test]
    fn the_delimiter_is_long_random_and_found_again() {
        let (one, other) = (delimiter(), delimiter());
        assert_ne!(one, other);
        assert_eq!(one.len(), 39);
        let text = file(&SLASHES[0], &caller("/it's/rappel"), &one);
        assert_eq!(delimiter_of(&text), Some(one.as_str()));
        assert_eq!(delimiter_of("<<'END'"), None);
    }

    /// The shell block of a file, with what the user typed pasted in as Claude does.
    fn block(text: &str, words: &str) -> String {
        let (_, block) = text.split_once("```!\n").unwrap();
        let (block, _) = block.split_once("\n```\n").unwrap();
        block.replace("$ARGUMENTS", words)
    }

    #[test]
    fn the_users_words_arrive_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("it's rappel");
        std::fs::write(&program, "#!/bin/sh\necho \"$@\" >&2\nexec cat\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let canary = folder.path().join("canary");
        let text = file(&SLASHES[0], &caller(program.to_str().unwrap()), &delimiter());
        for words in [
            "",
            "a b",
            "\"x\" 'y",
            "a\nb\n",
            "\\",
            "$HOME ${x} \\$x",
            "EOF",
            "END\nRAPPEL_\nRAPPEL_0",
            "```",
            "é \t ",
            "$(touch CANARY)",
            "`touch CANARY`",
            "'; touch CANARY; '",
            "x\n; touch CANARY\n",
            "> CANARY",
            "<<'X'",
        ] {
            let words = words.replace("CANARY", canary.to_str().unwrap());
            let line = block(&text, &words);
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{words}\n"));
            assert_eq!(output.stderr, b"undo --typed undo\n");
            assert!(!canary.exists(), "{words}");
        }
    }
}
