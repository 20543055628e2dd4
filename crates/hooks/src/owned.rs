//! Files that are ours alone: each says so in a line of its own, with a checksum of the rest. One
//! that the user edited is the user's from then on.

const MARK: &str = "# rappel integrate ";

/// Whose a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// As we wrote it, in this version or another one.
    Rappel,
    /// Somebody else's, or ours and edited since.
    User,
}

/// A text of ours: `head` and `rest`, and between them the line that says so.
pub fn sealed(head: &str, rest: &str) -> String {
    let sum = checksum(&[head, rest]);
    format!("{head}{MARK}{sum}\n{rest}")
}

/// Whose a text is.
pub fn owner(text: &str) -> Owner {
    let line = text.split_inclusive('\n').find(|line| line.starts_with(MARK));
    let is_ours = line.is_some_and(|line| {
        let at = line.as_ptr().addr() - text.as_ptr().addr();
        let sum = line.trim_end().trim_start_matches(MARK);
        checksum(&[&text[..at], &text[at + line.len()..]]) == sum
    });
    if is_ours { Owner::Rappel } else { Owner::User }
}

fn checksum(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_ours_until_somebody_edits_it() {
        let text = sealed("---\n", "description: x\n---\nbody\n");
        assert!(text.starts_with("---\n# rappel integrate "));
        assert_eq!(owner(&text), Owner::Rappel);
        assert_eq!(owner(&text.replace("body", "mine")), Owner::User);
        assert_eq!(owner(&format!("{text}more")), Owner::User);
        assert_eq!(owner(""), Owner::User);
        assert_eq!(owner("# rappel integrate \n"), Owner::User);
    }
}
