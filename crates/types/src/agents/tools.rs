//! Tools that do the same under other names: each agent calls its shell something else.

/// What a tool is commonly called, and what agents call it. Letter case makes no difference.
const EQUAL: [(&str, &[&str]); 9] = [
    (
        "Bash",
        &[
            // Codex, by version and by where it tells of it.
            "shell",
            "shell_command",
            "exec_command",
            "local_shell",
            "container.exec",
            // Gemini CLI.
            "run_shell_command",
        ],
    ),
    ("Edit", &["MultiEdit", "NotebookEdit", "apply_patch", "replace", "patch"]),
    ("Write", &["write_file", "apply_patch"]),
    ("Read", &["read_file", "read_many_files", "view_image"]),
    ("Grep", &["grep_search", "search_file_content"]),
    ("Glob", &["list", "list_directory"]),
    ("Agent", &["Task", "spawn_agent", "invoke_agent"]),
    ("WebFetch", &["web_fetch"]),
    ("WebSearch", &["web_search", "google_web_search"]),
];

/// The names of the tools that are meant by one: a common name means every agent's tool, any other
/// one means itself.
pub fn meant_by(name: &str) -> Vec<&str> {
    let equal = EQUAL.iter().find(|(common, _)| common.eq_ignore_ascii_case(name));
    std::iter::once(name).chain(equal.iter().flat_map(|(_, names)| names.iter().copied())).collect()
}

/// Whether a tool lets a subagent do something.
pub fn is_delegate(tool: &str) -> bool {
    meant_by("Agent").iter().any(|name| name.eq_ignore_ascii_case(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_name_means_every_agents_tool() {
        for shell in ["bash", "Bash", "exec_command", "run_shell_command"] {
            assert!(meant_by("Bash").iter().any(|name| name.eq_ignore_ascii_case(shell)));
        }
        assert!(meant_by("bash").contains(&"run_shell_command"));
        assert_eq!(meant_by("run_shell_command"), ["run_shell_command"]);
        assert!(is_delegate("invoke_agent") && is_delegate("task") && !is_delegate("Bash"));
    }

    #[test]
    fn no_name_is_a_common_one_and_means_another() {
        for (_, names) in EQUAL {
            for name in names {
                assert_eq!(meant_by(name), [*name]);
            }
        }
    }
}
