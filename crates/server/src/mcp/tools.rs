//! The tools: what each is for, in words for a model, and what it takes and gives.

use std::sync::Arc;

use rappel::answers::{self, schemas};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{IN_WORDS, Refused, Replied};
use super::caller::Call;
use super::{changing, input, looking};

/// A tool, and what does its work.
pub struct Entry {
    pub tool: Tool,
    run: Box<Run>,
}

type Run = dyn Fn(JsonObject, &Call) -> Replied + Send + Sync;

impl Entry {
    /// Does the work. It blocks.
    pub fn run(&self, arguments: JsonObject, call: &Call) -> Replied {
        (self.run)(arguments, call)
    }
}

/// What a tool may do to the world.
#[derive(Clone, Copy)]
enum Effect {
    /// It looks.
    Reads,
    /// It adds something, and takes nothing away.
    Adds,
    /// It can change and delete files.
    Changes,
}

fn entry<I, O>(
    (name, title): (&'static str, &str),
    effect: Effect,
    description: &'static str,
    run: fn(I, &Call) -> Replied,
) -> Entry
where
    I: DeserializeOwned + JsonSchema + 'static,
    O: JsonSchema,
{
    let annotations = ToolAnnotations::with_title(title)
        .read_only(matches!(effect, Effect::Reads))
        .destructive(matches!(effect, Effect::Changes))
        .idempotent(matches!(effect, Effect::Reads))
        .open_world(false);
    let tool = Tool::new(name, description, taken::<I>())
        .with_title(title)
        .with_raw_output_schema(given::<O>())
        .with_annotations(annotations);
    let run = Box::new(move |arguments: JsonObject, call: &Call| {
        let input = serde_json::from_value(Value::Object(arguments))
            .map_err(|error| Refused::usage(format!("{name}: {error}")))?;
        run(input, call)
    });
    Entry { tool, run }
}

/// The schema of arguments: in one piece, since not every client follows references.
fn taken<T: JsonSchema>() -> Arc<JsonObject> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    object(settings.into_generator().into_root_schema_for::<T>().to_value())
}

/// The schema of an answer, without its words: `docs/schema/answers.json` has them.
fn given<T: JsonSchema>() -> Arc<JsonObject> {
    let settings = schemas::settings().with(|settings| settings.meta_schema = None);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    without_words(&mut schema, false);
    if let Value::Object(fields) = &mut schema {
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        properties[IN_WORDS] = json!({"type": "string"});
    }
    object(schema)
}

/// Takes descriptions and titles out; a property of such a name stays.
fn without_words(schema: &mut Value, is_names: bool) {
    match schema {
        Value::Object(fields) => {
            if !is_names {
                fields.remove("description");
                fields.remove("title");
            }
            for (name, field) in fields {
                let names = !is_names && (name == "properties" || name == "$defs");
                without_words(field, names);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without_words(item, false)),
        _ => {}
    }
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(fields) => Arc::new(fields),
        _ => Arc::default(),
    }
}

/// Every tool.
pub fn all() -> Vec<Entry> {
    vec![
        entry::<input::Save, answers::SaveAnswer<'_>>(
            ("save", "Make a checkpoint"),
            Effect::Adds,
            "Make a checkpoint of the whole workspace: files, git, databases and what this session \
             knows. Use it before something risky (a refactoring, a migration, deleting files) and \
             when a step works. It takes milliseconds and changes nothing in the workspace, so save \
             rather too often. It does not commit to git. If nothing changed in the last minute, \
             the answer is the checkpoint that is there. Tell the user the message, not the id.",
            changing::save,
        ),
        entry::<input::List, rappel::Listing>(
            ("list", "List checkpoints"),
            Effect::Reads,
            "List checkpoints of this workspace, newest first. Use it to find the one to compare \
             with or to go back to. To search by what happened, use `find`.",
            looking::list,
        ),
        entry::<input::Show, answers::ShowAnswer<'_>>(
            ("show", "Show a checkpoint"),
            Effect::Reads,
            "Show what one checkpoint holds; with `files` its paths, with `state` what its sessions \
             knew. It does not print the content of files: `diff` shows what changed in them.",
            looking::show,
        ),
        entry::<input::Diff, rappel::Diff>(
            ("diff", "Compare"),
            Effect::Reads,
            "Show what changed between a checkpoint and now, or between two checkpoints: files with \
             their lines, git, databases, and what was learnt. Use it before you restore, and to \
             find out what broke something that worked. It sees untracked files too, which \
             `git diff` does not.",
            looking::diff,
        ),
        entry::<input::Restore, changing::Restored<'_>>(
            ("restore", "Go back to a checkpoint"),
            Effect::Changes,
            "Bring the workspace back to a checkpoint. Two calls: without `plan` it changes nothing \
             and answers with the plan and its hash; with that hash in `plan`, and the same other \
             arguments, it does exactly that plan, or refuses if the workspace has changed \
             meanwhile. The present is saved first, so `undo` brings it back. Ask the user before \
             you confirm, unless they asked for this. With `paths` only those files go back. It \
             never ends your own session, keeps what you recorded (unless `only` names `agents`) \
             and does not set this conversation back: read the files that the answer names again, \
             and tell the user what came back and what did not.",
            changing::restore,
        ),
        entry::<input::Undo, changing::Restored<'_>>(
            ("undo", "Take the last restore back"),
            Effect::Changes,
            "Take the last restore back; call it again to go further back; `redo` goes forward. If \
             the last restore is the last thing that happened, it is done at once. Otherwise the \
             answer is a plan: show it to the user and call again with its hash in `plan`. Files \
             that were edited since are kept and listed, unless `overwrite` is given.",
            changing::undo,
        ),
        entry::<input::At, answers::AtAnswer>(
            ("at", "What was known then"),
            Effect::Reads,
            "Tell what a session knew at a moment: hypotheses, beliefs, gaps, approaches, notes. \
             Use it to see why something was done, or what was already ruled out. Give one of \
             `when`, `checkpoint`, `event` or `tag`.",
            looking::at,
        ),
        entry::<input::Recall, rappel::types::agents::brief::Brief>(
            ("recall", "Remember this session"),
            Effect::Reads,
            "Tell what this session was to do, what it found out and ruled out, what is open, and \
             what it did last. Call it first whenever your context was compacted or you do not \
             remember how you got here. It tells only what was recorded: by hooks, by `record`, or \
             in the transcript.",
            looking::recall,
        ),
        entry::<input::Find, rappel::Found>(
            ("find", "Find by what happened"),
            Effect::Reads,
            "Find the checkpoints where a tool was called, a text was said, or a file changed. Use \
             it for questions such as \"when did we last touch the parser?\". Several conditions \
             must all hold.",
            looking::find,
        ),
        entry::<input::Report, rappel::Report>(
            ("report", "What a session did"),
            Effect::Reads,
            "Tell what a session did, prompt by prompt: files changed, commands that failed, checks, \
             tokens, time. Use it to sum up the work for the user.",
            looking::report,
        ),
        entry::<input::Record, answers::RecordAnswer<'_>>(
            ("record", "Record what you know"),
            Effect::Adds,
            "Record something that must survive a compaction or a crash: a hypothesis and its \
             status, evidence for or against it, a belief, a gap and its answer, a verification, \
             an approach, a note. The answer's id names it in later calls. Record a hypothesis \
             when you begin to test it, and its outcome when you know it: `recall` then keeps you \
             from testing it twice. Secrets are taken out. If no session is known, one begins.",
            changing::record,
        ),
        entry::<input::Export, answers::ExportAnswer<'_>>(
            ("export", "Write a checkpoint out"),
            Effect::Adds,
            "Write a checkpoint to a file, for another machine or another tool. Use it only if the \
             user asks. The file holds the user's files: tell the user where it is, and suggest \
             `redact` if it is to be given away. It does not replace files that are there.",
            changing::export,
        ),
    ]
}
