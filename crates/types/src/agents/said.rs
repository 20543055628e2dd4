//! What was said in an event: its texts, without its keys and ids.

use serde_json::Value;

use super::event::Body;

/// How much of a text stands before and behind what was looked for.
const AROUND: usize = 60;

impl Body {
    /// Every text of it, in order.
    pub fn texts(&self) -> Vec<String> {
        let mut said = Vec::new();
        let mut say = |text: &str| said.push(text.to_owned());
        match self {
            Self::SessionStarted(start) => start.task.iter().for_each(|text| say(text)),
            Self::SessionPaused(paused) => paused.reason.iter().for_each(|text| say(text)),
            Self::SessionEnded(ended) => ended.reason.iter().for_each(|text| say(text)),
            Self::Prompt(prompt) => say(&prompt.text),
            Self::Thought(thought) => say(&thought.content),
            Self::Tool(call) => {
                say(&call.tool);
                in_value(&call.arguments, &mut say);
                in_value(&call.result, &mut say);
                call.error.iter().for_each(|text| say(text));
            }
            Self::ToolStarted(call) => {
                say(&call.tool);
                in_value(&call.arguments, &mut say);
            }
            Self::ToolFinished(done) => {
                in_value(&done.result, &mut say);
                done.error.iter().for_each(|text| say(text));
            }
            Self::Hypothesis(hypothesis) => say(&hypothesis.text),
            Self::HypothesisUpdated(update) => {
                update.text.iter().chain(&update.reason).for_each(|text| say(text));
            }
            Self::Evidence(evidence) => say(&evidence.text),
            Self::Belief(belief) => say(&belief.text),
            Self::BeliefUpdated(update) => update.text.iter().for_each(|text| say(text)),
            Self::Gap(gap) => say(&gap.text),
            Self::GapFilled(filled) => say(&filled.answer),
            Self::Verification(verification) => {
                say(&verification.text);
                verification.output.iter().for_each(|text| say(text));
            }
            Self::BranchCreated(branch) => say(&branch.name),
            Self::BranchSwitched(branch) => say(&branch.name),
            Self::BranchMerged(branch) => {
                say(&branch.name);
                say(&branch.into);
            }
            Self::Note(note) => say(&note.text),
            Self::Command(command) => {
                say(&command.command);
                command.working_dir.iter().for_each(|text| say(text));
                say(&command.stdout_preview);
                say(&command.stderr_preview);
            }
            Self::ContextSet(set) | Self::ContextStateSet(set) => {
                say(&set.key);
                in_value(&set.value, &mut say);
            }
            Self::ContextUnset(unset) | Self::ContextStateUnset(unset) => say(&unset.key),
            Self::Progress(progress) => progress.text.iter().for_each(|text| say(text)),
            Self::Compaction(compaction) => compaction.text.iter().for_each(|text| say(text)),
            Self::Code(code) => code.paths.iter().for_each(|text| say(text)),
            Self::Unknown { data, .. } => {
                if let Ok(value) = serde_json::from_str(data) {
                    in_value(&value, &mut say);
                }
            }
            Self::SessionResumed(_)
            | Self::Restored(_)
            | Self::BeliefDependency(_)
            | Self::Tokens(_)
            | Self::Contradiction(_)
            | Self::ContradictionCleared(_)
            | Self::Checkpoint(_)
            | Self::Transcript(_)
            | Self::TakenOver(_) => {}
        }
        said.retain(|text| !text.is_empty());
        said
    }

    /// The place where it says `wanted`, whatever the case of its letters, with a few words around it.
    pub fn excerpt(&self, wanted: &str) -> Option<String> {
        let wanted: Vec<char> = lower(wanted);
        self.texts().iter().find_map(|text| excerpt(text, &wanted))
    }

    /// What it says first, in one line.
    pub fn opening(&self) -> String {
        // The name of a tool is told apart.
        let told = usize::from(matches!(self, Self::Tool(_) | Self::ToolStarted(_)));
        self.texts().get(told).map(|text| cut(text, 0, 2 * AROUND)).unwrap_or_default()
    }
}

/// The texts of a JSON value, without the keys of its objects.
fn in_value(value: &Value, say: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => say(text),
        Value::Array(items) => items.iter().for_each(|item| in_value(item, say)),
        Value::Object(fields) => fields.values().for_each(|field| in_value(field, say)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Each character in lower case; of one that becomes several, the first.
fn lower(text: &str) -> Vec<char> {
    text.chars().map(|char| char.to_lowercase().next().unwrap_or(char)).collect()
}

fn excerpt(text: &str, wanted: &[char]) -> Option<String> {
    let folded = lower(text);
    let at = match wanted.len() {
        0 => 0,
        length => folded.windows(length).position(|window| window == wanted)?,
    };
    Some(cut(text, at.saturating_sub(AROUND), at + wanted.len() + AROUND))
}

/// A part of a text on one line, with `…` where something was cut off.
fn cut(text: &str, from: usize, to: usize) -> String {
    let length = text.chars().count();
    let part: String = text.chars().skip(from).take(to - from).collect();
    let line = part.split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, behind) = (if from > 0 { "…" } else { "" }, if to < length { "…" } else { "" });
    format!("{before}{line}{behind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: &str, data: &str) -> Body {
        Body::parse(kind, data).unwrap()
    }

    #[test]
    fn keys_and_ids_are_not_said() {
        let call = body(
            "tool",
            r#"{"tool":"Bash","arguments":{"secret_key":"Cargo TEST"},"success":true}"#,
        );
        assert_eq!(call.excerpt("cargo test").as_deref(), Some("Cargo TEST"));
        assert_eq!(call.excerpt("secret_key"), None);
        assert_eq!(call.excerpt("success"), None);
        let evidence = body("evidence", r#"{"text":"slow","for":"hyp7","supports":true}"#);
        assert_eq!(evidence.excerpt("hyp7"), None);
        assert_eq!(evidence.excerpt("SLOW").as_deref(), Some("slow"));
    }

    #[test]
    fn letters_of_all_alphabets_have_two_cases() {
        let note = body("note", r#"{"text":"Größe ÄNDERN"}"#);
        assert_eq!(note.excerpt("ändern").as_deref(), Some("Größe ÄNDERN"));
        let long = format!("{} needle {}", "x".repeat(100), "y".repeat(100));
        let found = body("note", &format!(r#"{{"text":"{long}"}}"#)).excerpt("Needle").unwrap();
        assert!(found.starts_with("…x") && found.ends_with("y…") && found.contains("needle"));
    }
}
