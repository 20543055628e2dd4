//! Making a database that is not there, as it was when it was dumped.

use std::time::Duration;

use rappel_types::Advice;
use rappel_types::database::{DatabaseDefinition, DatabaseGrant, DatabaseSetting};

use super::super::error::{Error, Result};
use super::program::Programs;
use super::session::{Session, literal};

/// Settings that are lists of names. The server keeps them quoted, and takes them one by one.
const LISTS: [&str; 6] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];

/// Makes the database that the address names, empty. Tells what could not be made as it was.
pub fn create(programs: &Programs, definition: Option<&DatabaseDefinition>) -> Result<Vec<String>> {
    let Some(name) = programs.address.database() else {
        return Err(Error::Unavailable("the URL does not say which database is meant".to_owned()));
    };
    let mut refused = None;
    for other in ["postgres", "template1"] {
        let address = programs.address.with_database(other);
        let there = Programs { address, ..programs.clone() };
        let mut session = Session::open(&there)?;
        match create_from(&mut session, name, definition) {
            Err(error @ Error::Absent(_)) => refused = Some(error),
            other => return other,
        }
    }
    refused.map_or_else(|| Ok(Vec::new()), Err)
}

fn create_from(
    session: &mut Session,
    name: &str,
    definition: Option<&DatabaseDefinition>,
) -> Result<Vec<String>> {
    // A server that says nothing at all is given up here.
    session.ask("SELECT 1;")?;
    let Some(definition) = definition else {
        session.ask_long(&format!("CREATE DATABASE {};", identifier(name)))?;
        return Ok(Vec::new());
    };
    let mut notes = make(session, name, definition)?;
    for setting in &definition.settings {
        if let Err(reason) = set(session, name, setting)? {
            notes.push(format!("its setting {} is not made again: {reason}", setting.name));
        }
    }
    if let Some(comment) = &definition.comment {
        let statement =
            format!("COMMENT ON DATABASE {} IS {};", identifier(name), literal(comment));
        if let Err(code) = attempt(session, &statement)? {
            notes.push(format!("its comment is not made again (error {code})"));
        }
    }
    if let Some(place) = &definition.tablespace {
        let statement =
            format!("ALTER DATABASE {} SET TABLESPACE {};", identifier(name), identifier(place));
        if let Err(code) = attempt(session, &statement)? {
            notes.push(format!("it is not in its tablespace {place} again (error {code})"));
        }
    }
    if let Some(grants) = &definition.grants {
        notes.extend(grant(session, name, grants)?);
    }
    Ok(notes)
}

/// Grants what was granted and nothing else. Tells what the server refuses.
fn grant(session: &mut Session, name: &str, grants: &[DatabaseGrant]) -> Result<Vec<String>> {
    let name = identifier(name);
    let mut notes = Vec::new();
    // By itself it grants something to everybody.
    if let Err(code) = attempt(session, &format!("REVOKE ALL ON DATABASE {name} FROM PUBLIC;"))? {
        notes.push(format!("what everybody may do with it is as in a new one (error {code})"));
    }
    for DatabaseGrant { role, privilege, grantable } in grants {
        // It is a word of the server's, and comes from a manifest.
        if !privilege.chars().all(|c| c.is_ascii_uppercase() || c == ' ') {
            continue;
        }
        let to = role.as_deref().map_or_else(|| "PUBLIC".to_owned(), identifier);
        let option = if *grantable { " WITH GRANT OPTION" } else { "" };
        let statement = format!("GRANT {privilege} ON DATABASE {name} TO {to}{option};");
        if let Err(code) = attempt(session, &statement)? {
            notes.push(format!("{privilege} is not granted to {to} again (error {code})"));
        }
    }
    Ok(notes)
}

/// Makes it with its owner and locale, or without what the server does not allow or know.
fn make(session: &mut Session, name: &str, definition: &DatabaseDefinition) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let (mut owner, mut locale) = (true, true);
    loop {
        // Only this template takes any encoding and locale, and a dump is relative to it.
        let mut statement = format!(
            "CREATE DATABASE {} TEMPLATE template0 ENCODING {}",
            identifier(name),
            literal(&definition.encoding)
        );
        if owner {
            statement.push_str(&format!(" OWNER {}", identifier(&definition.owner)));
        }
        if locale {
            statement.push_str(&locale_of(definition));
        }
        statement.push(';');
        // Takes as long as the server's disk does.
        session.try_to(&statement);
        match outcome(session.hear(None)?.unwrap_or_default()) {
            Ok(()) => return Ok(notes),
            Err(code) if code == "42704" && owner => {
                return Err(Error::Refused {
                    message: format!(
                        "it belonged to the role {}, which the server does not have",
                        definition.owner
                    ),
                    advice: vec![Advice::plain(format!(
                        "CREATE ROLE {}",
                        identifier(&definition.owner)
                    ))],
                });
            }
            Err(code) if code == "42501" && owner => {
                owner = false;
                notes.push(format!(
                    "it belonged to {}, to whom the user may not give it",
                    definition.owner
                ));
            }
            // One that it does not know, or, as older servers, not even how to be told of it.
            Err(code) if matches!(code.as_str(), "42809" | "22023" | "42601") && locale => {
                locale = false;
                let collate = &definition.collate;
                notes.push(format!("the server does not have its collation {collate}"));
            }
            // Asked again, it says in words why not.
            Err(_) => {
                session.ask_long(&statement)?;
                return Ok(notes);
            }
        }
    }
}

fn locale_of(definition: &DatabaseDefinition) -> String {
    let mut text = format!(
        " LC_COLLATE {} LC_CTYPE {}",
        literal(&definition.collate),
        literal(&definition.ctype)
    );
    let word = match definition.provider.as_deref() {
        Some("icu") => "icu ICU_LOCALE",
        Some("builtin") => "builtin BUILTIN_LOCALE",
        _ => return text,
    };
    if let Some(locale) = &definition.locale {
        text.push_str(&format!(" LOCALE_PROVIDER {word} {}", literal(locale)));
    }
    text
}

/// Makes a setting, or says why not.
fn set(session: &mut Session, name: &str, setting: &DatabaseSetting) -> Result<Result<(), String>> {
    let Some(value) = &setting.value else {
        return Ok(Err("it looks like a secret, which no checkpoint keeps".to_owned()));
    };
    let whose = match &setting.role {
        Some(role) => format!("ROLE {} IN DATABASE", identifier(role)),
        None => "DATABASE".to_owned(),
    };
    let parts: Vec<_> = setting.name.split('.').map(identifier).collect();
    let values = match LISTS.contains(&setting.name.as_str()) {
        true => list(value),
        false => vec![value.clone()],
    };
    let values: Vec<_> = values.iter().map(|value| literal(value)).collect();
    let statement = format!(
        "ALTER {whose} {} SET {} TO {};",
        identifier(name),
        parts.join("."),
        values.join(", ")
    );
    let made = attempt(session, &statement)?;
    Ok(made.map_err(|code| format!("the server refuses it (error {code})")))
}

/// Carries out a statement, or gives the error's code.
fn attempt(session: &mut Session, statement: &str) -> Result<Result<(), String>> {
    session.try_to(statement);
    Ok(outcome(session.answer(Duration::ZERO)?))
}

/// How a statement ended that was tried.
fn outcome(mut answer: Vec<String>) -> Result<(), String> {
    let code = answer.pop().unwrap_or_default();
    if code == "00000" { Ok(()) } else { Err(code) }
}

/// The names of a list, without their quotes.
pub(super) fn list(text: &str) -> Vec<String> {
    let (mut names, mut name, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '"' if quoted && rest.next_if_eq(&'"').is_some() => name.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => names.push(std::mem::take(&mut name)),
            next if next.is_whitespace() && !quoted => {}
            next => name.push(next),
        }
    }
    names.push(name);
    names
}

/// A name as SQL has it.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names() {
        assert_eq!(list(r#""$user", public"#), ["$user", "public"]);
        assert_eq!(list(r#""a ""b"", c",d"#), [r#"a "b", c"#, "d"]);
        assert_eq!(list(r#""""#), [""]);
    }

    #[test]
    fn names_in_statements() {
        assert_eq!(identifier(r#"a"; \! x"#), r#""a""; \! x""#);
    }
}
