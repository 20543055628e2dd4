//! The first checkpoint at which a command fails, and what is known of it.

use rappel::{Bisected, Culprit};
use rappel_types::{Timestamp, time};

use super::{Fields, count, shorten, title};
use crate::output::{Paint, clean};

/// So many tool calls are named, the newest.
const CALLS: usize = 5;
/// The longest prompt or call.
const LONGEST: usize = 160;

/// All but the diff.
pub fn found(found: &Bisected, now: Timestamp, paint: Paint) -> String {
    let Culprit { checkpoint, session, prompt, tool_calls, diff } = &found.culprit;
    let manifest = &checkpoint.manifest;
    let named = title(checkpoint).map(|title| format!("  {title}")).unwrap_or_default();
    let age = time::age(now, manifest.created_at);
    let id = paint.id(manifest.id.as_str());
    let head = paint.strong("First bad checkpoint:");
    let mut text = format!("{head} {id}{named}  ({age})\n");
    let mut fields = Fields::new(paint);
    fields.add("Last good", paint.id(found.last_good.as_str()));
    fields.add_some("Session", session.as_ref().map(ToString::to_string));
    let words = |text: &str| shorten(&clean(text.trim()), LONGEST);
    fields.add_some("Prompt", prompt.as_deref().map(|prompt| format!("\"{}\"", words(prompt))));
    let earlier = tool_calls.len().saturating_sub(CALLS);
    for (at, call) in tool_calls.iter().skip(earlier).enumerate() {
        let label = if at == 0 { "Tool calls" } else { "" };
        fields.add(label, format!("{}: {}", clean(&call.tool), words(&call.text)));
    }
    if earlier > 0 {
        fields.add("", format!("and {} before", count(earlier as u64, "call", "calls")));
    }
    let runs = count(found.tested.len() as u64, "run", "runs");
    let among = count(found.candidates as u64, "checkpoint", "checkpoints");
    fields.add("Tested", format!("{runs} among {among}"));
    for skipped in &found.skipped {
        fields.add("Untested", paint.id(skipped.as_str()));
    }
    if !found.skipped.is_empty() {
        fields.add("", "The fault may have come with one of these.");
    }
    fields.add("Changed", clean(&diff.summary));
    for line in super::diff::others(diff) {
        fields.add("", line);
    }
    fields.add("Go back", format!("rappel restore {} (to the last good one)", found.last_good));
    text.push_str(&fields.lines());
    text
}
