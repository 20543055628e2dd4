//! What an imported checkpoint is called here. Its own id, unless that could be read as something
//! else or is taken; then `FORM-ID`, and if that is taken too, `FORM-ID-xxxx`.

use rappel_formats::Form;
use rappel_store::ambient;
use rappel_types::CheckpointId;
use rappel_types::id::BASE32;

/// The longest part of an id that is kept, so that there is room for the rest of the name.
const KEPT_MAX: usize = 80;

/// A name that is not taken.
pub(super) fn name<E>(
    form: Form,
    id: &str,
    is_taken: &mut dyn FnMut(&CheckpointId) -> Result<bool, E>,
) -> Result<CheckpointId, E> {
    if let Some(own) = as_it_is(id)
        && !is_taken(&own)?
    {
        return Ok(own);
    }
    let kept: String = id.chars().map(legal).take(KEPT_MAX).collect();
    let with_form = format!("{form}-{kept}");
    loop {
        let random = ambient::random();
        let letters = (0..4).map(|at| char::from(BASE32[(random >> (at * 5) & 31) as usize]));
        let letters: String = letters.collect();
        for text in [with_form.clone(), format!("{with_form}-{letters}")] {
            // The form's name begins it and all letters are legal, so that it is always an id.
            if let Ok(name) = text.parse::<CheckpointId>()
                && !is_taken(&name)?
            {
                return Ok(name);
            }
        }
    }
}

/// The id itself, if a reference could mean nothing else by it.
fn as_it_is(id: &str) -> Option<CheckpointId> {
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    let is_odd = is_number || id == "latest" || id.starts_with('-');
    id.parse().ok().filter(|_| !is_odd)
}

fn legal(letter: char) -> char {
    match letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.') {
        true => letter,
        false => '-',
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn named(form: Form, id: &str, taken: &[&str]) -> String {
        let mut is_taken = |id: &CheckpointId| Ok::<_, Infallible>(taken.contains(&id.as_str()));
        name(form, id, &mut is_taken).unwrap().to_string()
    }

    #[test]
    fn an_id_is_kept_if_it_can_mean_nothing_else() {
        assert_eq!(named(Form::Loki, "cp-20260101-120000", &[]), "cp-20260101-120000");
        assert_eq!(named(Form::Aiwg, "001", &[]), "aiwg-001");
        assert_eq!(named(Form::Caf, "latest", &[]), "caf-latest");
        assert_eq!(named(Form::Caf, "-x", &[]), "caf--x");
    }

    #[test]
    fn a_taken_id_gets_the_form_in_front_and_then_letters_behind() {
        assert_eq!(named(Form::Loki, "cp-1", &["cp-1"]), "loki-cp-1");
        let third = named(Form::Loki, "cp-1", &["cp-1", "loki-cp-1"]);
        assert!(third.starts_with("loki-cp-1-") && third.len() == "loki-cp-1-".len() + 4);
    }

    #[test]
    fn whatever_an_id_holds_the_name_is_one() {
        assert_eq!(named(Form::Caf, "a/../b c", &[]), "caf-a-..-b-c");
        assert_eq!(named(Form::Caf, "", &[]), "caf-");
        let long = named(Form::Caf, &"é".repeat(500), &[]);
        assert!(long.parse::<CheckpointId>().is_ok(), "{long}");
    }
}
