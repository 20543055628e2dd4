//! Commands that search: an exit code of 1 says that nothing was found, not that they failed.

/// Programs that search.
const SEARCHES: [&str; 10] =
    ["grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "pgrep", "which", "locate"];
/// Git's own.
const OF_GIT: [&str; 2] = ["grep", "check-ignore"];

/// Whether a command ended with 1 because a search, its last part, found nothing.
pub(super) fn found_nothing(command: &str, exit_code: i32) -> bool {
    let last = command.trim_end().rsplit(['|', ';', '&', '\n']).next().unwrap_or_default();
    let is_assignment = |word: &&str| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let mut words = last.split_whitespace().skip_while(is_assignment);
    let program = words.next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let searches = match program {
        "git" => words.next().is_some_and(|verb| OF_GIT.contains(&verb)),
        program => SEARCHES.contains(&program),
    };
    exit_code == 1 && searches
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_found_nothing_is_told_from_a_failure() {
        for command in [
            "grep -rn foo src",
            "cd src && rg foo",
            "cat a.txt | grep foo",
            "LC_ALL=C /usr/bin/grep foo a.txt\n",
            "git grep foo",
        ] {
            assert!(found_nothing(command, 1), "{command}");
            assert!(!found_nothing(command, 2), "{command}: 2 is a failure of the search itself");
        }
        for command in
            ["grep foo a.txt && make", "make", "git commit -m grep", "", "echo grep; false"]
        {
            assert!(!found_nothing(command, 1), "{command}");
        }
    }
}
