//! Rappel's MCP server among those of Codex: a table at the end of a `config.toml`, which is edited
//! as text so that everything else in it stays as it is.
//!
//! Codex gives its servers a clean environment, so a home that the user chose goes along.

use std::path::PathBuf;

use crate::caller::Caller;
use crate::files;
use crate::integrate::{Changes, IntegrateError, Place};
use crate::json_text::{Edits, Unfit};
use crate::records::{Records, Settings, checksum};
use crate::servers;

const FILE: &str = "config.toml";
const TABLE: &str = "[mcp_servers.rappel]";
const BELOW: &str = "[mcp_servers.rappel.";

/// Registers the server. An entry of the user's own that has the same name is kept.
pub fn register(
    place: &Place,
    caller: &Caller,
    records: &Records,
) -> Result<Changes, IntegrateError> {
    let file = place.folder.join(FILE);
    let mut changes = Changes::default();
    let mut kept = false;
    let mut record = records.of(&place.folder);
    let changed = files::update(&file, files::PRIVATE, |text| {
        let given = text.unwrap_or_default();
        kept = is_the_users(given, &file)?;
        let block = block(caller);
        if kept || given.contains(&block) {
            return Ok(text.map(str::to_owned));
        }
        let before = without(given, &file)?;
        let gap = match () {
            () if before.is_empty() => "",
            () if before.ends_with('\n') => "\n",
            () => "\n\n",
        };
        let after = format!("{before}{gap}{block}");
        // A list of servers in one line cannot be added to.
        parse(&after, &file)?;
        let existed = text.is_some() && !(before.is_empty() && was_made(&record, given));
        let reverse = Edits::cut(before.len(), gap.len() + block.len());
        let done = Settings { existed, checksum: checksum(&after), reverse };
        record.agent = Some(place.vendor.name.to_owned());
        record.settings.insert(FILE.to_owned(), done);
        records.keep(&record)?;
        Ok::<_, IntegrateError>(Some(after))
    })?;
    if changed {
        changes.written.push(file.clone());
    }
    if kept {
        changes.kept.push(file);
    }
    Ok(changes)
}

/// Whether the file was made by us, as far as is remembered.
fn was_made(record: &crate::records::Record, text: &str) -> bool {
    let remembered = record.settings.get(FILE);
    remembered.is_some_and(|one| !one.existed) || text.is_empty()
}

/// Takes the server out. A file that was ours goes too.
pub fn unregister(place: &Place, records: Option<&Records>) -> Result<Changes, IntegrateError> {
    let file = place.folder.join(FILE);
    let mut changes = Changes::default();
    let mut record = records.map(|records| records.of(&place.folder));
    let remembered = record.as_mut().and_then(|record| record.settings.remove(FILE));
    let mut is_left = true;
    let changed = files::update(&file, files::PRIVATE, |text| {
        let Some(given) = text else { return Ok(None) };
        let after = match remembered.as_ref().and_then(|one| one.before(given)) {
            Some(before) => before,
            None if is_the_users(given, &file)? => Some(given.to_owned()),
            None => {
                let rest = without(given, &file)?;
                let was_ours = rest.trim().is_empty()
                    && rest != given
                    && remembered.as_ref().is_none_or(|one| !one.existed);
                (!was_ours).then_some(rest)
            }
        };
        is_left = after.is_some();
        Ok::<_, IntegrateError>(after)
    })?;
    match (changed, is_left) {
        (true, true) => changes.written.push(file),
        (true, false) => changes.removed.push(file),
        (false, _) => {}
    }
    if let (Some(records), Some(record)) = (records, record) {
        records.keep(&record)?;
    }
    Ok(changes)
}

/// The table that starts the server.
fn block(caller: &Caller) -> String {
    let text = |text: &str| toml::Value::from(text).to_string();
    let mut block =
        format!("{TABLE}\ncommand = {}\nargs = [\"mcp\"]\n", text(&caller.program().as_text()));
    if let Some(home) = caller.other_home() {
        let home = text(&home.to_string_lossy());
        block.push_str(&format!("env = {{ RAPPEL_HOME = {home} }}\n"));
    }
    block
}

fn parse(text: &str, file: &std::path::Path) -> Result<toml::Table, IntegrateError> {
    text.trim_start_matches('\u{feff}').parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let problem = format!("this is no TOML: {}", error.message());
        IntegrateError::Unfit { path: PathBuf::from(file), unfit: Unfit { line, problem } }
    })
}

/// Whether a file has a server of our name that is not ours.
fn is_the_users(text: &str, file: &std::path::Path) -> Result<bool, IntegrateError> {
    let table = parse(text, file)?;
    let entry = table.get("mcp_servers").and_then(|servers| servers.get(servers::NAME));
    let entry = entry.and_then(|entry| serde_json::to_value(entry).ok());
    Ok(entry.is_some_and(|entry| !servers::is_ours(&entry)))
}

/// A text without our table, and without what the user added below it.
fn without(text: &str, file: &std::path::Path) -> Result<String, IntegrateError> {
    let (mut rest, mut is_ours) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        let head = line.trim_start();
        if head.starts_with('[') {
            let starts = head.starts_with(TABLE) || head.starts_with(BELOW);
            if starts && !is_ours {
                // The line that sets it off from what is before.
                let blank = rest.strip_suffix('\n').filter(|rest| rest.ends_with('\n'));
                rest.truncate(blank.unwrap_or(&rest).len());
            }
            is_ours = starts;
        }
        if !is_ours {
            rest.push_str(line);
        }
    }
    parse(&rest, file)?;
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Program;

    fn caller() -> Caller {
        Caller::new(Program::At("/opt/it's/rappel".into()), Some("/a \"home\"".into())).unwrap()
    }

    #[test]
    fn the_table_is_toml_and_comes_out_again() {
        let file = PathBuf::from("config.toml");
        let parsed = parse(&block(&caller()), &file).unwrap();
        let server = &parsed["mcp_servers"]["rappel"];
        assert_eq!(server["command"].as_str(), Some("/opt/it's/rappel"));
        assert_eq!(server["env"]["RAPPEL_HOME"].as_str(), Some("/a \"home\""));
        assert!(!is_the_users(&block(&caller()), &file).unwrap());
        let others = "# mine\nmodel = \"x\"\r\n\n[mcp_servers.other]\ncommand = \"y\"\n";
        let with = format!("{others}\n{}\n[tui]\na = 1\n", block(&caller()));
        assert_eq!(without(&with, &file).unwrap(), format!("{others}[tui]\na = 1\n"));
        assert_eq!(without(others, &file).unwrap(), others);
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_line() {
        let file = PathBuf::from("config.toml");
        let refused = |text: &str| parse(text, &file).unwrap_err().to_string();
        assert!(refused("a = 1\nb = \n").contains("line 2"), "{}", refused("a = 1\nb = \n"));
        let one_line = format!("mcp_servers = {{}}\n{}", block(&caller()));
        assert!(parse(&one_line, &file).is_err());
    }
}
