//! Files that are ours alone: each says so in a line of its own, with a checksum of the rest. One
//! that the user edited is the user's from then on.

const MARK: &str = "# rappel integrate ";
/// The same in a script whose comments begin in another way.
const SCRIPT_MARK: &str = "// rappel integrate ";

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

/// A script of ours whose comments begin with `//`; its first line says so.
pub fn sealed_script(rest: &str) -> String {
    let sum = checksum(&[rest]);
    format!("{SCRIPT_MARK}{sum}\n{rest}")
}

/// Whose a text is.
pub fn owner(text: &str) -> Owner {
    let sum_of = |line: &str| {
        line.strip_prefix(MARK)
            .or_else(|| line.strip_prefix(SCRIPT_MARK))
            .map(str::trim_end)
            .map(str::to_owned)
    };
    let mut lines = text.split_inclusive('\n');
    let line = lines.find_map(|line| Some((line, sum_of(line)?)));
    let is_ours = line.is_some_and(|(line, sum)| {
        let at = line.as_ptr().addr() - text.as_ptr().addr();
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

const DELIMITER: &str = "RAPPEL_";

/// A word that nobody types, for the end of what a user typed.
pub fn delimiter() -> String {
    let random = rappel::ambient::random;
    format!("{DELIMITER}{:016x}{:016x}", random(), random())
}

/// The delimiter that a file has.
pub fn delimiter_of(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("<<'")?;
    after.split_once('\'').map(|(word, _)| word).filter(|word| word.starts_with(DELIMITER))
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
        let script = sealed_script("export default 1\n");
        assert!(script.starts_with("// rappel integrate "));
        assert_eq!(owner(&script), Owner::Rappel);
        assert_eq!(owner(&script.replace('1', "2")), Owner::User);
    }
}
