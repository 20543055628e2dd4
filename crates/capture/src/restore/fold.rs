//! Names that a file system may take for one and the same.

/// A name in the form in which names that differ only in case are equal.
///
/// Not guaranteed: that names are told apart which a file system takes for equal by other rules
/// (accents composed and decomposed). Those are noticed where they are created, because the second
/// one is already there.
pub fn folded(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) => text.chars().flat_map(char::to_lowercase).collect::<String>().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

/// A name that differs from `name` only in case; `None` if it has no letters to change.
pub fn other_case(name: &[u8]) -> Option<Vec<u8>> {
    let swapped: Vec<u8> =
        name.iter()
            .map(|b| {
                if b.is_ascii_lowercase() { b.to_ascii_uppercase() } else { b.to_ascii_lowercase() }
            })
            .collect();
    (swapped != name).then_some(swapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_and_nothing_else() {
        assert_eq!(folded("ÄÖ.Txt".as_bytes()), folded("äö.tXT".as_bytes()));
        assert_ne!(folded(b"a\xffB"), folded(b"a\xfeb"));
        assert_eq!(folded(b"a\xffB"), folded(b"A\xffb"));
        assert_eq!(other_case(b"ReadMe").unwrap(), b"rEADmE");
        assert_eq!(other_case(b"123"), None);
    }
}
