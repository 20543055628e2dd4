//! The JSON schema of every answer, by name.
//!
//! `docs/schema/answers.json` holds them, and tests hold real answers against them. A face with a
//! description of its own (OpenAPI, MCP) gives its own generator.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{
    AgentAnswer, AtAnswer, BisectAbortAnswer, CopyAnswer, DecisionsAnswer, DeleteAnswer,
    DoctorAnswer, ExportAnswer, FileContent, GitHooksAnswer, LineAnswer, LokiSaveAnswer,
    PruneAnswer, RecordAnswer, RemovedAnswer, ReplayExitAnswer, ReplayOverview, ReplayStep,
    ResumeAnswer, RevokedAnswer, SaveAnswer, SessionAnswer, SessionShowAnswer, SessionsAnswer,
    ShowAnswer, SystemdAnswer, UndeleteAnswer, UndoAnswer, UnusableStatus,
};

/// Settings for what is written: a field that may be left out is not required, and no description
/// links into the source.
pub fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(plain))
}

/// Turns a link of the source's documentation into the name that it shows.
fn plain(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description")
        && text.contains("[`")
    {
        *text = text.replace("[`", "`").replace("`]", "`");
    }
}

/// The schema of every answer, under the name of its command. What they share is among the
/// generator's definitions.
pub fn all(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
    fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
    let g = generator;
    vec![
        ("adopt", of::<crate::Adopted>(g)),
        ("at", of::<AtAnswer>(g)),
        ("bisect", of::<crate::Bisected>(g)),
        ("bisect-abort", of::<BisectAbortAnswer>(g)),
        ("cat", of::<FileContent>(g)),
        ("checkpoint", of::<crate::Checkpoint>(g)),
        ("checkpoint-create-loki", of::<LokiSaveAnswer<'_>>(g)),
        ("delete", of::<DeleteAnswer<'_>>(g)),
        ("diff", of::<crate::Diff>(g)),
        ("doctor", of::<DoctorAnswer<'_>>(g)),
        ("export", of::<ExportAnswer<'_>>(g)),
        ("find", of::<crate::Found>(g)),
        ("gc", of::<crate::GcReport>(g)),
        ("import", of::<crate::Imported>(g)),
        ("init", of::<crate::Initialised>(g)),
        ("integrate-agent", of::<AgentAnswer<'_>>(g)),
        ("integrate-git", of::<GitHooksAnswer<'_>>(g)),
        ("integrate-remove", of::<RemovedAnswer<'_>>(g)),
        ("integrate-systemd", of::<SystemdAnswer<'_>>(g)),
        ("list", of::<crate::Listing>(g)),
        ("log", of::<crate::FileLog>(g)),
        ("prune", of::<PruneAnswer<'_>>(g)),
        ("recall", of::<rappel_types::agents::brief::Brief>(g)),
        ("record", of::<RecordAnswer<'_>>(g)),
        ("record-line", of::<LineAnswer<'_>>(g)),
        ("recover", of::<crate::Unfinished>(g)),
        ("recover-done", of::<crate::Recovered>(g)),
        ("recover-set-aside", of::<crate::SetAside>(g)),
        ("recover-steps", of::<crate::RecoveryPoint>(g)),
        ("replay", of::<ReplayOverview<'_>>(g)),
        ("replay-exit", of::<ReplayExitAnswer>(g)),
        ("replay-step", of::<ReplayStep<'_>>(g)),
        ("report", of::<crate::Report>(g)),
        ("restore", of::<crate::RestoreReport>(g)),
        ("restore-to", of::<CopyAnswer<'_>>(g)),
        ("save", of::<SaveAnswer<'_>>(g)),
        ("session", of::<SessionAnswer<'_>>(g)),
        ("session-list", of::<SessionsAnswer<'_>>(g)),
        ("session-resume", of::<ResumeAnswer<'_>>(g)),
        ("session-show", of::<SessionShowAnswer<'_>>(g)),
        ("show", of::<ShowAnswer<'_>>(g)),
        ("stats", of::<crate::Stats>(g)),
        ("status", of::<crate::Status>(g)),
        ("status-short", of::<Option<crate::LastSaved>>(g)),
        ("status-unusable", of::<UnusableStatus>(g)),
        ("timeline", of::<crate::Timeline>(g)),
        ("trust", of::<crate::Trust>(g)),
        ("trust-list", of::<DecisionsAnswer<'_>>(g)),
        ("trust-revoke", of::<RevokedAnswer>(g)),
        ("undelete", of::<UndeleteAnswer<'_>>(g)),
        ("undo", of::<UndoAnswer<'_>>(g)),
        ("verify", of::<crate::VerifyReport>(g)),
        ("verify-repair", of::<crate::RepairReport>(g)),
        ("workspaces", of::<Vec<crate::KnownWorkspace>>(g)),
    ]
}

/// One document with the schema of each answer under `answers`, and what they share under `$defs`.
pub fn document() -> Value {
    let mut generator = settings().into_generator();
    let answers: Map<String, Value> = all(&mut generator)
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema.into()))
        .collect();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The JSON answers of Rappel",
        "description": "Each answer's schema is at `#/answers/NAME`, where NAME is the command and, where it has several answers, which one.",
        "answers": answers,
        "$defs": definitions,
    })
}
