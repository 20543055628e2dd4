//! opencode's files for `/rappel/NAME`.
//!
//! The plugin answers such a command before the model is asked. opencode pastes the user's words
//! into a file's text and then runs what looks like a shell line in the result, the user's words
//! included. So the file has no shell line, and takes only the words from the 99th on: nothing that
//! a user types is ever pasted.

use crate::caller::Caller;
use crate::owned;
use crate::typed::Slash;

/// The file of a command.
pub fn file(slash: &Slash, _: &Caller, _: &str) -> String {
    // JSON's texts are YAML's too.
    let about = match slash.arguments {
        "" => slash.about.to_owned(),
        arguments => format!("{}: {arguments}", slash.about),
    };
    let about = serde_json::Value::from(about);
    let rest = format!(
        "description: {about}\n\
         ---\n\
         The user typed the command `/rappel/{}`. Rappel's plugin for opencode answers it without a model, so this \
         text means that the plugin is not active. Tell the user in one sentence to run `rappel status` in a \
         terminal, which says what to do, and to start opencode again. Call no tool.$99\n",
        slash.name
    );
    owned::sealed("---\n", &rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::SLASHES;

    #[test]
    fn no_file_takes_the_users_words_or_runs_anything() {
        for slash in SLASHES {
            let text = file(slash, &Caller::on_path(), "");
            assert!(!text.contains("$ARGUMENTS") && !text.contains("!`"), "{text}");
            // Without any placeholder opencode would append the words.
            assert_eq!(text.matches('$').count(), 1, "{text}");
            assert!(text.trim_end().ends_with("$99"));
        }
    }
}
