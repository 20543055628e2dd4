//! Rappel's MCP server among those that an agent keeps in a file: registered, taken out, and told
//! from a server of the user's that has the same name. How the file keeps servers is a [`Format`].
//!
//! An entry is ours if a record says that we wrote it, or if it equals what we would write. A file
//! that has no entry of ours is never written by a removal.

use std::fmt::Debug;
use std::path::PathBuf;

use serde_json::Value;

use crate::caller::Caller;
use crate::files;
use crate::integrate::{Changes, IntegrateError, Place};
use crate::json_text::{Edits, Unfit};
use crate::records::{Record, Records, Settings};

/// What agents call the server.
pub const NAME: &str = "rappel";
/// The environment variable with the home, for agents that clean the environment.
pub const HOME: &str = "RAPPEL_HOME";

type Result<T, E = IntegrateError> = std::result::Result<T, E>;

/// How a file keeps servers. Texts only; no disk.
pub trait Format: Debug {
    /// The entry of our name.
    fn get(&self, text: &str) -> Result<Option<Value>, Unfit>;

    /// Adds our entry to a text that has none of our name. Returns the text, and what brings back
    /// the one before.
    fn add(&self, text: &str, entry: &Value) -> Result<(String, Edits), Unfit>;

    /// Takes the entry of our name out. The text stays as it is where that is not possible.
    fn remove(&self, text: &str) -> Result<String, Unfit>;

    /// A file that has our entry alone.
    fn new_file(&self, entry: &Value) -> Result<String, Unfit> {
        self.add("", entry).map(|(text, _)| text)
    }

    /// Changes our entry where it stands, as far as the format can.
    fn replace(&self, _text: &str, _entry: &Value) -> Result<Option<String>, Unfit> {
        Ok(None)
    }

    /// Whether a text without our entry says nothing.
    fn is_blank(&self, text: &str) -> bool;
}

/// The arguments with which the server is started.
pub fn arguments(caller: &Caller) -> Vec<String> {
    let mut arguments = vec!["mcp".to_owned()];
    if let Some(home) = caller.home() {
        arguments.extend(["--home".to_owned(), home.to_string_lossy().into_owned()]);
    }
    arguments
}

/// By what an entry of our name is known to be ours.
#[derive(Debug, Clone)]
pub struct Known {
    /// What we wrote, as a record says.
    written: Option<Value>,
    /// What we would write, for a caller.
    entry: fn(&Caller) -> Value,
    /// How Rappel is called now, and by the hooks that are there.
    callers: Vec<Caller>,
}

impl Known {
    /// What is known of a file.
    pub fn new(
        written: Option<&Value>,
        entry: fn(&Caller) -> Value,
        callers: impl IntoIterator<Item = Caller>,
    ) -> Self {
        Self { written: written.cloned(), entry, callers: callers.into_iter().collect() }
    }

    /// Whether an entry is ours. To one that we wrote, the user or the agent may have added more.
    pub fn owns(&self, entry: &Value) -> bool {
        // A hook does not tell the home that the environment named.
        let home = entry["env"][HOME].as_str().map(PathBuf::from);
        let equals =
            |caller: &Caller| (self.entry)(&caller.clone().with_named_home(home.clone())) == *entry;
        self.written.as_ref().is_some_and(|written| has_all(entry, written))
            || self.callers.iter().any(equals)
    }

    /// What an entry of ours shall be now: as wanted, and with what was added to it since.
    pub fn renewed(&self, entry: &Value, wanted: &Value) -> Value {
        match self.written.as_ref().filter(|written| has_all(entry, written)) {
            Some(written) => with_additions(wanted, entry, written),
            None => wanted.clone(),
        }
    }
}

/// Whether everything that we wrote still stands in an entry.
fn has_all(entry: &Value, written: &Value) -> bool {
    match (entry, written) {
        (Value::Object(entry), Value::Object(written)) => written
            .iter()
            .all(|(key, value)| entry.get(key).is_some_and(|found| has_all(found, value))),
        (entry, written) => entry == written,
    }
}

/// What is wanted, with what an entry has besides what we wrote.
fn with_additions(wanted: &Value, entry: &Value, written: &Value) -> Value {
    let (Value::Object(wanted), Value::Object(entry)) = (wanted, entry) else {
        return wanted.clone();
    };
    let mut all = wanted.clone();
    for (key, found) in entry {
        match (wanted.get(key), written.get(key)) {
            (Some(value), Some(written)) => {
                all.insert(key.clone(), with_additions(value, found, written));
            }
            (None, None) => _ = all.insert(key.clone(), found.clone()),
            _ => {}
        }
    }
    Value::Object(all)
}

/// Where the server of a scope is registered.
#[derive(Debug)]
pub struct Registry {
    /// The file.
    pub file: PathBuf,
    /// What the record of the agent's folder calls it.
    pub name: String,
    /// The mode of a new one.
    pub mode: u32,
    /// How it keeps servers.
    pub format: Box<dyn Format>,
    /// How the agent starts ours.
    pub entry: fn(&Caller) -> Value,
}

/// What a file becomes when the server is registered.
enum Registered {
    /// It has it already.
    Same,
    /// It has one of the user's.
    Kept,
    /// This text. The record of what was there before is nothing where the former one still holds.
    Text(String, Option<Settings>),
}

impl Registry {
    fn unfit(&self) -> impl Fn(Unfit) -> IntegrateError {
        let path = self.file.clone();
        move |unfit| IntegrateError::Unfit { path: path.clone(), unfit }
    }

    fn known(&self, record: Option<&Record>, callers: impl Iterator<Item = Caller>) -> Known {
        let written = record.and_then(|record| record.servers.get(&self.name));
        Known::new(written, self.entry, callers)
    }

    /// Says whether the server can be registered, and writes nothing. `hooks` is what the hooks call
    /// that are there.
    pub fn check(&self, caller: &Caller, hooks: Option<&Caller>, record: &Record) -> Result<()> {
        let known = self.known(Some(record), [Some(caller), hooks].into_iter().flatten().cloned());
        let text = files::read(&self.file)?;
        self.registered(text.as_deref(), caller, &known, record).map(drop)
    }

    /// Registers the server. An entry of the user's own that has the same name is kept.
    pub fn register(
        &self,
        place: &Place,
        caller: &Caller,
        hooks: Option<&Caller>,
        records: &Records,
    ) -> Result<Changes> {
        let mut record = records.of(&place.folder);
        record.agent = Some(place.vendor.name.to_owned());
        let known = self.known(Some(&record), [Some(caller), hooks].into_iter().flatten().cloned());
        let mut kept = false;
        let changed = files::update(&self.file, self.mode, |text| {
            let registered = self.registered(text, caller, &known, &record)?;
            kept = matches!(registered, Registered::Kept);
            let Registered::Text(after, settings) = registered else {
                return Ok::<_, IntegrateError>(text.map(str::to_owned));
            };
            record.servers.insert(self.name.clone(), (self.entry)(caller));
            if let Some(settings) = settings {
                record.settings.insert(self.name.clone(), settings);
            }
            records.keep(&record)?;
            Ok(Some(after))
        })?;
        let mut changes = Changes::default();
        if changed {
            changes.written.push(self.file.clone());
            changes.servers.push(self.file.clone());
        }
        if kept {
            changes.keep_server(self.file.clone());
        }
        Ok(changes)
    }

    fn registered(
        &self,
        text: Option<&str>,
        caller: &Caller,
        known: &Known,
        record: &Record,
    ) -> Result<Registered> {
        let mut wanted = (self.entry)(caller);
        let found = match text {
            Some(text) => self.format.get(text).map_err(self.unfit())?,
            None => None,
        };
        if let Some(found) = &found {
            if !known.owns(found) {
                return Ok(Registered::Kept);
            }
            wanted = known.renewed(found, &wanted);
            if wanted == *found {
                return Ok(Registered::Same);
            }
        }
        let remembered = record.settings.get(&self.name);
        let before = match text.map(|text| (text, remembered.and_then(|one| one.before(text)))) {
            None => None,
            Some((_, Some(before))) => before,
            Some((text, None)) if found.is_none() => Some(text.to_owned()),
            Some((text, None)) => {
                let replaced = self.format.replace(text, &wanted).map_err(self.unfit())?;
                if let Some(after) = replaced {
                    return Ok(Registered::Text(after, None));
                }
                let rest = self.format.remove(text).map_err(self.unfit())?;
                let was_made = remembered.is_some_and(|one| !one.existed);
                (!(was_made && self.format.is_blank(&rest))).then_some(rest)
            }
        };
        let (text, reverse) = match &before {
            Some(before) => self.format.add(before, &wanted).map_err(self.unfit())?,
            None => {
                let text = self.format.new_file(&wanted).map_err(self.unfit())?;
                (text, Edits::default())
            }
        };
        let settings = Settings::new(before.is_some(), &text, reverse);
        Ok(Registered::Text(text, Some(settings)))
    }

    /// Takes the server out. A file that was made for it goes too.
    pub fn unregister(
        &self,
        place: &Place,
        hooks: Option<&Caller>,
        records: Option<&Records>,
    ) -> Result<Changes> {
        let mut record = records.map(|records| records.of(&place.folder));
        let known = self.known(record.as_ref(), hooks.into_iter().cloned());
        let mut changes = Changes::default();
        let remembered = record.as_mut().and_then(|record| record.settings.remove(&self.name));
        let written = record.as_mut().and_then(|record| record.servers.remove(&self.name));
        let is_recorded = remembered.is_some() || written.is_some();
        // What nobody remembers is not ours to complain about.
        if !is_recorded && !self.has_ours(&known) {
            return Ok(changes);
        }
        let (mut is_left, mut kept) = (true, false);
        let changed = files::update(&self.file, self.mode, |text| {
            let Some(given) = text else { return Ok::<_, IntegrateError>(None) };
            let found = self.format.get(given).map_err(self.unfit())?;
            let is_ours = found.as_ref().is_some_and(|found| known.owns(found));
            let exact = remembered.as_ref().filter(|_| is_ours).and_then(|one| one.before(given));
            let after = match exact {
                Some(before) => before,
                None if is_ours => {
                    let rest = self.format.remove(given).map_err(self.unfit())?;
                    let was_made = remembered.as_ref().is_none_or(|one| !one.existed);
                    let is_gone = rest != given && was_made && self.format.is_blank(&rest);
                    (!is_gone).then_some(rest)
                }
                None => Some(given.to_owned()),
            };
            is_left = after.is_some();
            kept = found.is_some() && after.as_deref() == Some(given);
            Ok(after)
        })?;
        match (changed, is_left) {
            (true, true) => changes.written.push(self.file.clone()),
            (true, false) => changes.removed.push(self.file.clone()),
            (false, _) => {}
        }
        if kept {
            changes.keep_server(self.file.clone());
        }
        if let (Some(records), Some(record)) = (records, record) {
            records.keep(&record)?;
        }
        Ok(changes)
    }

    fn has_ours(&self, known: &Known) -> bool {
        let text = files::read(&self.file).ok().flatten();
        let found = text.and_then(|text| self.format.get(&text).ok().flatten());
        found.is_some_and(|found| known.owns(&found))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::caller::Program;

    fn entry(caller: &Caller) -> Value {
        json!({"command": caller.program().as_text(), "args": arguments(caller)})
    }

    fn caller(path: &str) -> Caller {
        Caller::new(Program::At(path.into()), None).unwrap()
    }

    #[test]
    fn an_entry_is_ours_if_we_wrote_it_or_would_write_it() {
        let hooks = caller("/old/rappel");
        let known = Known::new(None, entry, [hooks.clone()]);
        assert!(known.owns(&entry(&hooks)));
        for other in [
            json!({"command": "rappel", "args": ["mcp"]}),
            json!({"command": "/old/rappel", "args": ["mcp"], "trust": true}),
            json!({"command": "/old/rappel", "args": ["mcp"], "env": {"RAPPEL_HOME": "/x"}}),
            json!({"command": "/old/rappel", "args": ["mcp", "--read-only"]}),
            json!("rappel"),
        ] {
            assert!(!known.owns(&other), "{other}");
        }
    }

    #[test]
    fn additions_to_an_entry_that_we_wrote_stay_with_it() {
        let written = json!({"command": "/old/rappel", "args": ["mcp"], "env": {"A": "1"}});
        let known = Known::new(Some(&written), entry, []);
        let mut edited = written.clone();
        edited["trust"] = json!(true);
        edited["env"]["B"] = json!("2");
        assert!(known.owns(&edited));
        let wanted = json!({"command": "/new/rappel", "args": ["mcp"], "env": {"A": "3"}});
        let renewed = known.renewed(&edited, &wanted);
        assert_eq!(
            renewed,
            json!({"command": "/new/rappel", "args": ["mcp"], "env": {"A": "3", "B": "2"}, "trust": true})
        );
        // What is no longer wanted goes, and what the user changed is the user's.
        let wanted = json!({"command": "/new/rappel", "args": ["mcp"]});
        assert_eq!(known.renewed(&written, &wanted), wanted);
        edited["command"] = json!("/mine/rappel");
        assert!(!known.owns(&edited));
    }
}
