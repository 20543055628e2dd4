//! The skill, in the form that all agents share (`NAME/SKILL.md`): when to save and what to record.

use crate::caller::Caller;
use crate::owned;

/// The file of the skill.
pub const FILE: &str = "SKILL.md";

/// Its text.
pub fn text(caller: &Caller) -> String {
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
    use super::*;
    use crate::caller::Program;
    use crate::owned::{Owner, owner};

    #[test]
    fn the_skill_is_short() {
        let caller = Caller::new(Program::At("/usr/bin/rappel".into()), None).unwrap();
        let text = text(&caller);
        assert!(text.lines().count() <= 60, "{}", text.lines().count());
        assert!(text.starts_with("---\n# rappel integrate "));
        assert_eq!(owner(&text), Owner::Rappel);
        assert!(text.contains("`/usr/bin/rappel`") && !text.contains("{program}"));
    }
}
