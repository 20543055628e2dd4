//! What somebody meant who made a slip of the pen.

/// The known name that `name` is most likely a slip of.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if name.len() > 40 {
        return None;
    }
    known
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters to insert, delete, replace or exchange with their neighbour to get from one
/// word to the other.
fn distance(from: &str, to: &str) -> usize {
    let letters = |word: &str| -> Vec<char> { word.to_lowercase().chars().collect() };
    let (from, to) = (letters(from), letters(to));
    // The last two rows of the table: an exchange looks two letters back.
    let mut earlier: Vec<usize> = Vec::new();
    let mut before: Vec<usize> = (0..=to.len()).collect();
    for (line, a) in from.iter().enumerate() {
        let mut row = vec![line + 1; to.len() + 1];
        for (column, b) in to.iter().enumerate() {
            let replaced = before[column] + usize::from(a != b);
            row[column + 1] = replaced.min(before[column + 1] + 1).min(row[column] + 1);
            let exchanged = line > 0 && column > 0 && *a == to[column - 1] && from[line - 1] == *b;
            if exchanged && a != b {
                row[column + 1] = row[column + 1].min(earlier[column - 1] + 1);
            }
        }
        earlier = std::mem::replace(&mut before, row);
    }
    before[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_one_letter_too_few_too_many_wrong_or_in_the_wrong_order() {
        let known = ["list", "save", "status", "restore", "log"];
        for (slip, meant) in [
            ("lst", Some("list")),
            ("lsit", Some("list")),
            ("savve", Some("save")),
            ("stauts", Some("status")),
            ("retsore", Some("restore")),
            ("Save", Some("save")),
            ("xyzzy", None),
            ("", None),
        ] {
            assert_eq!(nearest(slip, known), meant, "{slip:?}");
        }
    }
}
