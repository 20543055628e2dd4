//! What somebody asks to be recorded, before it has a place in the journal: read from what people and programs
//! give, freed of secrets, and within limits.

use serde_json::{Map, Value};

use super::event::{Body, EventError};
use crate::{Timestamp, redact};

/// How much of a command's output is kept.
pub const PREVIEW_MAX: usize = 4 << 10;
/// The most that one event may say.
pub const TEXT_MAX: usize = 4 << 20;
/// How deep values may be nested: a state holds them deeper than an event does, and both must be read again.
const DEPTH_MAX: usize = 64;
/// No request counts more tokens.
const TOKENS_MAX: u64 = 1_000_000_000_000;
/// How long an id may be.
const ID_MAX: usize = 128;

/// Texts in these fields are what was said; the others are ids and names.
const SAID: [&str; 15] = [
    "text",
    "content",
    "arguments",
    "result",
    "error",
    "command",
    "stdout_preview",
    "stderr_preview",
    "value",
    "answer",
    "reason",
    "output",
    "task",
    "working_dir",
    "progress",
];

/// Texts without which an event says nothing.
const NEEDED: [&str; 8] = ["text", "content", "command", "tool", "name", "key", "answer", "for"];

/// Something to record.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// When it happened; now if it does not say.
    pub at: Option<Timestamp>,
    /// What the thing it makes should be called; a short id is made up otherwise.
    pub id: Option<String>,
    /// What happened.
    pub body: Body,
}

impl From<Body> for NewEvent {
    fn from(body: Body) -> Self {
        Self { at: None, id: None, body }
    }
}

impl NewEvent {
    /// Reads one line of `record --stdin`: `{"kind": "note", "text": "…"}`, with the names of the command line's
    /// flags, or those of the journal.
    pub fn parse(line: &str) -> Result<Self, EventError> {
        let bad = |what: &str| EventError(what.to_owned());
        let json: Value =
            serde_json::from_str(line).map_err(|error| EventError(format!("not JSON: {error}")))?;
        let Value::Object(mut fields) = json else { return Err(bad("a JSON object is expected")) };
        let Some(Value::String(kind)) = fields.remove("kind") else {
            return Err(bad("`kind` says what is recorded: \"note\", \"thought\", \"tool\" …"));
        };
        let at = match fields.remove("at") {
            None | Some(Value::Null) => None,
            Some(Value::String(at)) => {
                Some(at.parse().map_err(|error| EventError(format!("at: {error}")))?)
            }
            Some(_) => return Err(bad("`at` is a time as RFC 3339 text")),
        };
        let id = match fields.remove("id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id),
            Some(_) => return Err(bad("`id` is a text")),
        };
        choose(&kind, &fields)?;
        let (kind, id) = spelled_out(&kind, id, &mut fields);
        if !Body::KINDS.contains(&kind.as_str()) {
            let kinds = SPOKEN.join(", ");
            return Err(EventError(format!("unknown kind {kind:?}; there are {kinds}")));
        }
        if OURS.contains(&kind.as_str()) {
            return Err(EventError(format!("{kind:?} is not recorded by hand")));
        }
        let fields = Value::Object(fields);
        let body = Body::parse(&kind, &fields.to_string()).map_err(|EventError(words)| {
            // Where in a line that we wrote ourselves says nothing.
            EventError(words.split(" at line ").next().unwrap_or_default().to_owned())
        })?;
        let known = body.to_value();
        let passed_over = |(name, value): &(&String, &Value)| {
            known.get(name.as_str()).is_none() && !says_nothing(value)
        };
        if let Some((name, _)) = fields.as_object().into_iter().flatten().find(passed_over) {
            return Err(EventError(format!("{kind}: {name:?} is not one of its fields")));
        }
        Ok(Self { at, id, body })
    }

    /// The same without secrets and with previews cut to their size. An event that says too much is refused.
    pub fn cleaned(mut self) -> Result<Self, EventError> {
        if let Some(id) = &self.id
            && (id.is_empty() || id.len() > ID_MAX || id.chars().any(char::is_control))
        {
            return Err(EventError(format!("an id has 1 to {ID_MAX} characters")));
        }
        if let Body::Unknown { .. } = self.body {
            return Ok(self);
        }
        let json = self.body.to_value();
        if json.to_string().len() > TEXT_MAX {
            let limit = TEXT_MAX >> 20;
            return Err(EventError(format!(
                "an event says at most {limit} MiB; keep the rest in a file"
            )));
        }
        for name in NEEDED {
            if json
                .get(name)
                .is_some_and(|text| text.as_str().is_some_and(|it| it.trim().is_empty()))
            {
                return Err(EventError(format!("{}: its {name} is empty", self.body.kind())));
            }
        }
        if let Body::Tokens(tokens) = &self.body {
            let counts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write];
            if counts == [0; 4] {
                return Err(EventError("tokens: none are counted".into()));
            }
            // Sums of them must be numbers too.
            if counts.iter().any(|count| *count > TOKENS_MAX) {
                return Err(EventError(format!("tokens: one request has at most {TOKENS_MAX}")));
            }
        }
        if matches!(&self.body, Body::Code(code) if code.paths.iter().all(|path| path.trim().is_empty()))
        {
            return Err(EventError("code: its paths are empty".into()));
        }
        if depth(&json) > DEPTH_MAX {
            let message = format!("an event nests values at most {DEPTH_MAX} deep");
            return Err(EventError(message));
        }
        let Value::Object(mut fields) = json else { return Ok(self) };
        let mut changed = false;
        for (name, field) in &mut fields {
            let before = field.clone();
            match SAID.contains(&name.as_str()) {
                true => redact::value(field),
                // An id may look like chance; a token does not look like an id.
                false => redact::tokens(field),
            }
            changed |= *field != before;
        }
        // `context-set` names its value itself.
        if let (Some(Value::String(key)), Some(value)) =
            (fields.get("key").cloned(), fields.get_mut("value"))
        {
            let mut named = Value::Object(Map::from_iter([(key.clone(), value.take())]));
            redact::value(&mut named);
            *value = named.get_mut(&key).map(Value::take).unwrap_or_default();
            changed = true;
        }
        if changed {
            self.body = Body::parse(self.body.kind(), &Value::Object(fields).to_string())?;
        }
        if let Some(id) = &mut self.id {
            let mut value = Value::String(std::mem::take(id));
            redact::tokens(&mut value);
            value.as_str().unwrap_or_default().clone_into(id);
        }
        // Cut last: half a secret would not be known as one.
        if let Body::Command(command) = &mut self.body {
            clip(&mut command.stdout_preview);
            clip(&mut command.stderr_preview);
        }
        Ok(self)
    }
}

/// Kinds that only Rappel itself writes.
const OURS: [&str; 8] = [
    "checkpoint",
    "session-started",
    "restored",
    "contradiction",
    "contradiction-cleared",
    "transcript",
    "session-ended",
    "taken-over",
];

/// Kinds by the names that people give them.
const SPOKEN: [&str; 16] = [
    "thought",
    "tool",
    "hypothesis",
    "evidence",
    "belief",
    "gap",
    "verification",
    "branch",
    "note",
    "prompt",
    "command",
    "context",
    "progress",
    "tokens",
    "compaction",
    "code",
];

/// Refuses what says one thing and its opposite, or neither where one must be said.
fn choose(kind: &str, fields: &Map<String, Value>) -> Result<(), EventError> {
    let is = |name: &str, value: bool| fields.get(name) == Some(&Value::Bool(value));
    let (yes, no) = match kind {
        "evidence" => ("supports", "refutes"),
        "verification" => ("passed", "failed"),
        "tool" | "tool-finished" => {
            let failed = fields.get("error").is_some_and(|error| !error.is_null());
            return match failed && is("success", true) {
                true => Err(EventError(format!("{kind}: a call with an error is no success"))),
                false => Ok(()),
            };
        }
        _ => return Ok(()),
    };
    match (is(yes, true) || is(no, false), is(no, true) || is(yes, false)) {
        (true, false) | (false, true) => Ok(()),
        _ => Err(EventError(format!("{kind}: say either \"{yes}\": true or \"{no}\": true"))),
    }
}

/// The command line's names for things, as the journal has them.
fn spelled_out(
    kind: &str,
    id: Option<String>,
    fields: &mut Map<String, Value>,
) -> (String, Option<String>) {
    let of = |kind: &str, fields: &mut Map<String, Value>, id: Option<String>| {
        if let Some(id) = id {
            fields.insert("of".into(), id.into());
        }
        (kind.to_owned(), None)
    };
    match kind {
        "thought" => {
            rename(fields, "text", "content");
            fields.entry("type").or_insert_with(|| "reasoning".into());
        }
        "tool" => {
            rename(fields, "name", "tool");
            rename(fields, "input", "arguments");
            rename(fields, "output", "result");
            let flag = |fields: &mut Map<String, Value>, name| {
                fields.remove(name) == Some(Value::Bool(true))
            };
            let (started, finished) = (flag(fields, "started"), flag(fields, "finished"));
            if started {
                return ("tool-started".into(), id);
            }
            let failed = fields.get("error").is_some_and(|error| !error.is_null());
            fields.entry("success").or_insert(Value::Bool(!failed));
            if finished {
                return of("tool-finished", fields, id);
            }
        }
        "tool-started" => rename(fields, "input", "arguments"),
        "tool-finished" => {
            rename(fields, "output", "result");
            let failed = fields.get("error").is_some_and(|error| !error.is_null());
            fields.entry("success").or_insert(Value::Bool(!failed));
            return of(kind, fields, id);
        }
        "hypothesis" if id.is_some() && !fields.contains_key("text") => {
            return of("hypothesis-updated", fields, id);
        }
        "belief" if id.is_some() && fields.contains_key("depends_on") => {
            if let Some(on) = fields.remove("depends_on") {
                fields.insert("on".into(), on);
            }
            return of("belief-dependency", fields, id);
        }
        "belief" if id.is_some() && !fields.contains_key("text") => {
            return of("belief-updated", fields, id);
        }
        "gap" if fields.contains_key("filled") => {
            if let Some(answer) = fields.remove("filled") {
                fields.insert("answer".into(), answer);
            }
            return of("gap-filled", fields, id);
        }
        "hypothesis-updated" | "belief-updated" | "belief-dependency" | "gap-filled" => {
            return of(kind, fields, id);
        }
        "evidence" => denied(fields, "refutes", "supports"),
        "verification" => denied(fields, "failed", "passed"),
        "command" => {
            rename(fields, "dir", "working_dir");
            rename(fields, "stdout", "stdout_preview");
            rename(fields, "stderr", "stderr_preview");
        }
        "progress" => rename(fields, "step", "step_number"),
        "branch" => {
            if let Some(into) = fields.remove("merge_into") {
                fields.insert("into".into(), into);
                return ("branch-merged".into(), None);
            }
            return ("branch-created".into(), None);
        }
        "context" => {
            let state = fields.remove("state") == Some(Value::Bool(true));
            let unset = fields.contains_key("unset");
            rename(fields, "unset", "key");
            let kind = match (state, unset) {
                (false, false) => "context-set",
                (false, true) => "context-unset",
                (true, false) => "context-state-set",
                (true, true) => "context-state-unset",
            };
            return (kind.into(), None);
        }
        _ => {}
    }
    (kind.to_owned(), id)
}

/// `"refutes": true` is `"supports": false`, and the other way round.
fn denied(fields: &mut Map<String, Value>, flag: &str, of: &str) {
    if let Some(Value::Bool(denied)) = fields.remove(flag) {
        fields.insert(of.to_owned(), (!denied).into());
    }
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

/// What a field that is left out says too.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn clip(text: &mut String) {
    if text.len() <= PREVIEW_MAX {
        return;
    }
    let cut = text.len() - PREVIEW_MAX;
    let end = (0..=PREVIEW_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.truncate(end);
    text.push_str(&format!("… ({cut} bytes more)"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(line: &str) -> Body {
        NewEvent::parse(line).unwrap().cleaned().unwrap().body
    }

    #[test]
    fn lines_have_the_names_of_the_command_line() {
        for (line, kind) in [
            (r#"{"kind":"note","text":"x"}"#, "note"),
            (r#"{"kind":"thought","text":"x"}"#, "thought"),
            (r#"{"kind":"tool","tool":"Bash","input":{"command":"ls"},"output":"a"}"#, "tool"),
            (r#"{"kind":"tool","tool":"Bash","input":{},"started":true}"#, "tool-started"),
            (r#"{"kind":"tool","id":"x1","finished":true,"error":"no"}"#, "tool-finished"),
            (r#"{"kind":"hypothesis","text":"x","confidence":0.4}"#, "hypothesis"),
            (r#"{"kind":"hypothesis","id":"h1","status":"rejected"}"#, "hypothesis-updated"),
            (
                r#"{"kind":"evidence","text":"x","for":"h1","refutes":true,"weight":0.8}"#,
                "evidence",
            ),
            (
                r#"{"kind":"belief","id":"b1","depends_on":"b2","as":"requires"}"#,
                "belief-dependency",
            ),
            (r#"{"kind":"gap","id":"g1","filled":"because"}"#, "gap-filled"),
            (r#"{"kind":"verification","text":"x","failed":true}"#, "verification"),
            (r#"{"kind":"branch","name":"b","switch":true}"#, "branch-created"),
            (r#"{"kind":"branch","name":"b","merge_into":"main"}"#, "branch-merged"),
            (r#"{"kind":"command","command":"ls","exit_code":0,"stdout":"a"}"#, "command"),
            (r#"{"kind":"progress","text":"x","step":3}"#, "progress"),
            (r#"{"kind":"context","key":"a","value":1}"#, "context-set"),
            (r#"{"kind":"context","unset":"a"}"#, "context-unset"),
            (r#"{"kind":"context","key":"a","value":1,"state":true}"#, "context-state-set"),
            (r#"{"kind":"context","unset":"a","state":true}"#, "context-state-unset"),
        ] {
            assert_eq!(body(line).kind(), kind, "{line}");
        }
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (line, word) in [
            ("x", "JSON"),
            ("[]", "object"),
            (r#"{"text":"x"}"#, "kind"),
            (r#"{"kind":"nonsense"}"#, "unknown kind"),
            (r#"{"kind":"note"}"#, "text"),
            (r#"{"kind":"hypothesis","text":"x","confidence":1.5}"#, "between 0 and 1"),
            (r#"{"kind":"restored"}"#, "by hand"),
            (r#"{"kind":"note","text":"x","colour":"red"}"#, "\"colour\" is not one of its fields"),
            (r#"{"kind":"note","text":" "}"#, "its text is empty"),
            (r#"{"kind":"thought","text":""}"#, "its content is empty"),
            (r#"{"kind":"tokens","model":"m"}"#, "none are counted"),
            (r#"{"kind":"tokens","input":9223372036854775807}"#, "at most"),
            (r#"{"kind":"code","paths":[]}"#, "its paths are empty"),
            (r#"{"kind":"evidence","text":"x","for":"h"}"#, "\"supports\": true or \"refutes\""),
            (
                r#"{"kind":"evidence","text":"x","for":"h","supports":true,"refutes":true}"#,
                "either",
            ),
            (r#"{"kind":"verification","text":"x","passed":true,"failed":true}"#, "either"),
            (r#"{"kind":"tool","tool":"x","success":true,"error":"no"}"#, "no success"),
        ] {
            let parsed = NewEvent::parse(line).and_then(NewEvent::cleaned);
            let error = parsed.unwrap_err().to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
    }

    #[test]
    fn secrets_do_not_reach_the_journal() {
        let note = body(r#"{"kind":"note","text":"use ghp_0123456789abcdefghijABCDEF"}"#);
        assert!(!format!("{note:?}").contains("ghp_"));
        let set = body(r#"{"kind":"context","key":"DB_PASSWORD","value":"x9"}"#);
        assert!(!format!("{set:?}").contains("x9"));
        let set = body(r#"{"kind":"context","key":"DB_PASSWORD","value":"x9","state":true}"#);
        assert!(!format!("{set:?}").contains("x9"));
        // An id is no secret, however random.
        let done =
            body(r#"{"kind":"tool","id":"toolu_01Zx81kQ0pLm29Vb3nTr7sWy64","finished":true}"#);
        assert!(format!("{done:?}").contains("toolu_01Zx81kQ0pLm29Vb3nTr7sWy64"));
    }

    #[test]
    fn a_secret_at_the_end_of_a_preview_is_not_cut_in_half() {
        let long = format!("{} ghp_0123456789abcdefghijABCDEF", "x ".repeat(PREVIEW_MAX / 2 - 5));
        let line =
            serde_json::json!({"kind": "command", "command": "x", "stdout": long}).to_string();
        assert!(!format!("{:?}", body(&line)).contains("ghp_"));
    }

    #[test]
    fn what_is_nested_too_deep_is_refused() {
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        let line = format!(r#"{{"kind":"tool","tool":"x","arguments":{deep}}}"#);
        assert!(NewEvent::parse(&line).unwrap().cleaned().is_err());
    }

    #[test]
    fn tokens_are_taken_out_of_names_too() {
        let line = r#"{"kind":"tool","tool":"sk-ant-api03-0123456789abcdefghij","input":{}}"#;
        assert!(!format!("{:?}", body(line)).contains("sk-ant"));
    }

    #[test]
    fn previews_are_cut_at_a_character() {
        let long = "é".repeat(PREVIEW_MAX);
        let line =
            serde_json::json!({"kind": "command", "command": "x", "stdout": long}).to_string();
        let Body::Command(command) = body(&line) else { panic!() };
        assert!(command.stdout_preview.len() < PREVIEW_MAX + 40);
        assert!(command.stdout_preview.ends_with("bytes more)"));
    }
}
