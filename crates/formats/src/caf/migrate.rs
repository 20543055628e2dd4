//! The shape that CAF's code writes, as the shape that CAF documents. Both say version `0.0.1`.
//!
//! A migration is a pure function from one document to the next. A later version adds one here,
//! and golden files on both sides of it.

use serde_json::{Map, Value, json};

/// The same document in the documented shape. One that has it already is given back as it is.
/// Nothing is lost: fields that have no place there stay, those of a container that is no object
/// there under `unplaced`.
pub fn documented(mut document: Value) -> Value {
    let Some(snapshot) = document.get_mut("snapshot").and_then(Value::as_object_mut) else {
        return document;
    };
    let mut unplaced = Map::new();
    thoughts(snapshot, &mut unplaced);
    context(snapshot);
    tools(snapshot);
    progress(snapshot);
    if !unplaced.is_empty() {
        snapshot.insert("unplaced".into(), Value::Object(unplaced));
    }
    let step = snapshot.get("progress").and_then(|progress| progress.get("step_number")).cloned();
    if let (Some(step), Some(document)) = (step, document.as_object_mut())
        && !document.contains_key("metadata")
    {
        document.insert("metadata".into(), json!({"step_number": step}));
    }
    document
}

/// `thought_chain.steps` becomes `thought_chain`.
fn thoughts(snapshot: &mut Map<String, Value>, unplaced: &mut Map<String, Value>) {
    let Some(Value::Object(chain)) = snapshot.get_mut("thought_chain") else { return };
    let mut chain = std::mem::take(chain);
    let mut steps = chain.remove("steps").unwrap_or_else(|| json!([]));
    for step in steps.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        rename(step, "timestamp", "created_at");
        rename(step, "parent", "parent_id");
    }
    if !chain.is_empty() {
        unplaced.insert("thought_chain".into(), Value::Object(chain));
    }
    snapshot.insert("thought_chain".into(), steps);
}

/// `context.messages` becomes `context.history`.
fn context(snapshot: &mut Map<String, Value>) {
    if let Some(Value::Object(context)) = snapshot.get_mut("context") {
        rename(context, "messages", "history");
    }
}

/// The calls of `pending`, `running`, `completed` and `failed` become `calls`, each with its
/// `status`; how they ended becomes `results`.
fn tools(snapshot: &mut Map<String, Value>) {
    let Some(Value::Object(tools)) = snapshot.get_mut("tool_state") else { return };
    if tools.contains_key("calls") {
        return;
    }
    let (mut calls, mut results) = (Vec::new(), Map::new());
    for status in ["pending", "running", "completed", "failed"] {
        for mut call in listed(tools.remove(status)) {
            let Some(fields) = call.as_object_mut() else { continue };
            fields.entry("status").or_insert_with(|| status.into());
            if let ("completed" | "failed", Some(Value::String(id))) = (status, fields.get("id")) {
                let id = id.clone();
                let mut take = |name: &str| fields.remove(name).unwrap_or_default();
                let result = json!({
                    "success": status == "completed",
                    "result": take("result"),
                    "error": take("error"),
                });
                results.insert(id, result);
            }
            calls.push(call);
        }
    }
    tools.insert("calls".into(), calls.into());
    tools.entry("results").or_insert_with(|| Value::Object(results));
}

/// The items of a list, or of an object that has them by id.
fn listed(of: Option<Value>) -> Vec<Value> {
    match of {
        Some(Value::Array(items)) => items,
        Some(Value::Object(items)) => items
            .into_iter()
            .map(|(id, mut item)| {
                if let Some(fields) = item.as_object_mut() {
                    fields.entry("id").or_insert_with(|| id.into());
                }
                item
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// `iterations_completed` is the number of the step where none is given, and stays; totals that
/// are not given are counted.
fn progress(snapshot: &mut Map<String, Value>) {
    let count = |of: Option<&Value>| of.and_then(Value::as_array).map_or(0, Vec::len);
    let thoughts = count(snapshot.get("thought_chain"));
    let calls = count(snapshot.get("tool_state").and_then(|tools| tools.get("calls")));
    let Some(Value::Object(progress)) = snapshot.get_mut("progress") else { return };
    let Some(done) = progress.get("iterations_completed").cloned() else { return };
    progress.entry("step_number").or_insert(done);
    progress.entry("total_thoughts").or_insert_with(|| thoughts.into());
    progress.entry("total_tool_calls").or_insert_with(|| calls.into());
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if !fields.contains_key(to)
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}
