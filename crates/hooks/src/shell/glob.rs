//! The shell's patterns for names.

/// Whether `text` is like `pattern`, in which `*` is anything; capitals do not matter.
pub(super) fn is_like(text: &str, pattern: &str) -> bool {
    matches_glob(text.to_ascii_lowercase().as_bytes(), pattern.to_ascii_lowercase().as_bytes())
}

/// Whether a name matches a pattern of the shell: `*`, `?`, `[…]`.
pub(super) fn matches_glob(text: &[u8], pattern: &[u8]) -> bool {
    // Where the last `*` stands, and how much of the text it has taken.
    let (mut at, mut place, mut star) = (0, 0, None);
    while at < text.len() {
        match pattern.get(place) {
            Some(b'*') => {
                star = Some((place, at));
                place += 1;
                continue;
            }
            Some(b'?') => {
                at += 1;
                place += 1;
                continue;
            }
            Some(b'[') => {
                let found = class(&pattern[place..], text[at]);
                let (fits, length) = found.unwrap_or((text[at] == b'[', 1));
                if fits {
                    at += 1;
                    place += length;
                    continue;
                }
            }
            Some(byte) if *byte == text[at] => {
                at += 1;
                place += 1;
                continue;
            }
            _ => {}
        }
        let Some((behind, taken)) = star else { return false };
        star = Some((behind, taken + 1));
        at = taken + 1;
        place = behind + 1;
    }
    pattern[place..].iter().all(|byte| *byte == b'*')
}

/// Whether `byte` is in the class that `pattern` begins with, and how long that is.
fn class(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if negated { 2 } else { 1 };
    let end = pattern.iter().skip(start + 1).position(|one| *one == b']')? + start + 1;
    let inside = &pattern[start..end];
    let mut fits = false;
    let mut at = 0;
    while at < inside.len() {
        match (inside.get(at + 1), inside.get(at + 2)) {
            (Some(b'-'), Some(last)) => {
                fits |= (inside[at]..=*last).contains(&byte);
                at += 3;
            }
            _ => {
                fits |= inside[at] == byte;
                at += 1;
            }
        }
    }
    Some((fits != negated, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_the_shell() {
        let fits = |text: &str, pattern: &str| matches_glob(text.as_bytes(), pattern.as_bytes());
        assert!(fits("a.log", "*.log") && fits("abc", "a?c") && fits("a1", "a[0-9]"));
        assert!(!fits("a.txt", "*.log") && !fits("ab", "a") && !fits("ax", "a[!x]"));
        assert!(fits("aXbXc", "*X*c") && fits("", "*") && fits("a[", "a["));
    }
}
