//! Claude's files for `/rappel:NAME`, and the skill.
//!
//! Where the prompt's hook runs, it answers such a command before Claude looks at the file. The
//! file is for where it does not run. Claude pastes the user's words into the shell block as text,
//! so they stand in a here-document that expands nothing and ends with a word that nobody can
//! guess.

use super::handlers::Caller;
use crate::owned;
use crate::typed::Slash;

const DELIMITER: &str = "RAPPEL_";

/// A word that nobody types.
pub fn delimiter() -> String {
    let random = rappel::ambient::random;
    format!("{DELIMITER}{:016x}{:016x}", random(), random())
}

/// The delimiter that a file has.
pub fn delimiter_of(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("<<'")?;
    after.split_once('\'').map(|(word, _)| word).filter(|word| word.starts_with(DELIMITER))
}

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

/// The skill: when to save and what to record.
pub fn skill(caller: &Caller) -> String {
    let program = format!(
        "If the shell does not find `rappel`, it is `{}`.{}",
        caller.word(),
        match caller.flags() {
            "" => String::new(),
            flags => format!(" Add `{}` to every command.", flags.trim()),
        }
    );
    let text = include_str!("skill.md").replace("{program}", &program);
    let (head, rest) = text.split_at("---\n".len());
    owned::sealed(head, &rest.replace("\n\n\n", "\n\n"))
}

/// Keeps git from listing what only this user has.
pub fn git_ignore() -> String {
    owned::sealed("", "*\n")
}

#[cfg(test)]
mod tests {
    use super::super::handlers::Program;
    use super::*;
    use crate::owned::{Owner, owner};
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

    #[test]
    fn the_skill_is_short() {
        let text = skill(&caller("/usr/bin/rappel"));
        assert!(text.lines().count() <= 60, "{}", text.lines().count());
        assert!(text.starts_with("---\n# rappel integrate "));
        assert_eq!(owner(&text), Owner::Rappel);
        assert!(text.contains("`/usr/bin/rappel`") && !text.contains("{program}"));
    }
}
