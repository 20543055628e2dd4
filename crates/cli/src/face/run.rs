//! What a supervised run came to.

use rappel::types::agents::payload::CommandExit;
use rappel::{Captured, MemorySamples, describe_exit};
use rappel_types::agents::SessionId;
use rappel_types::duration::format_duration;
use rappel_types::size::{format_size, thousands};

use super::{Fields, capitalised, count};
use crate::output::{Paint, clean};

/// How many checkpoints and files are named.
const NAMED: usize = 10;
/// How wide the chart is.
const CHART: usize = 40;

/// What is known of a run.
pub struct Run<'a> {
    /// Its session.
    pub session: &'a SessionId,
    /// How the command ended.
    pub exit: &'a CommandExit,
    /// How long it ran.
    pub duration_ms: u64,
    /// Its checkpoints.
    pub captured: &'a [Captured],
    /// The files that changed.
    pub files_modified: &'a [String],
    /// Its memory over time.
    pub memory: &'a MemorySamples,
    /// What the agent's requests cost, where that is known.
    pub tokens: Option<u64>,
    /// The command that goes back to its beginning.
    pub go_back: Option<String>,
}

/// The summary of a run.
pub fn summary(run: &Run<'_>, paint: Paint) -> String {
    let mut fields = Fields::new(paint);
    fields.add("Session", paint.id(run.session.as_str()));
    fields.add("Duration", format_duration(run.duration_ms));
    let number = run.captured.len() as u64;
    fields.add("Checkpoints", count(number, "checkpoint", "checkpoints"));
    fields.add("Modified", modified(run.files_modified));
    if let Some(peak) = run.memory.peak() {
        let chart = chart(&run.memory.columns(CHART));
        let (rss, heap) = (format_size(peak.rss), format_size(peak.heap_used));
        fields.add("Memory", format!("{chart}  peak {rss} (anonymous {heap})"));
    }
    fields.add_some("Tokens", run.tokens.map(thousands));
    fields.add_some("Go back", run.go_back.as_deref().map(clean));
    let end = capitalised(&describe_exit(run.exit));
    let head = match run.exit.code {
        Some(0) => paint.good(&end),
        _ => paint.bad(&end),
    };
    format!("{head}\n{}{}", fields.lines(), checkpoints(run.captured, paint))
}

/// Each checkpoint and what it added.
fn checkpoints(captured: &[Captured], paint: Paint) -> String {
    let mut text = String::new();
    let left_out = captured.len().saturating_sub(NAMED);
    for (place, one) in captured.iter().enumerate() {
        // The first one, and then the last ones.
        if place == 1 && left_out > 0 {
            text.push_str(&format!("    … {} more\n", thousands(left_out as u64)));
        }
        if place > 0 && place <= left_out {
            continue;
        }
        let changed = count(one.changed as u64, "path changed", "paths changed");
        let partial = if one.missing.is_empty() { "" } else { ", incomplete" };
        text.push_str(&format!(
            "    {}  {}: {changed}, {} stored{partial}\n",
            paint.id(one.checkpoint.as_str()),
            one.trigger,
            format_size(one.cost.new_bytes),
        ));
    }
    text
}

/// How many files, and the first of them.
pub fn modified(files: &[String]) -> String {
    let number = count(files.len() as u64, "file", "files");
    if files.is_empty() {
        return number;
    }
    let named: Vec<String> = files.iter().take(NAMED).map(|file| clean(file)).collect();
    let more = if files.len() > NAMED { " …" } else { "" };
    format!("{number}: {}{more}", named.join(", "))
}

/// A line of bars, the highest one being the highest value.
fn chart(columns: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = columns.iter().copied().max().unwrap_or(0).max(1);
    let bar = |value: &u64| {
        let height = (u128::from(*value) * 7).div_ceil(highest.into());
        BARS[usize::try_from(height).unwrap_or(7).min(7)]
    };
    columns.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_peak_at_the_top() {
        assert_eq!(chart(&[0, 50, 100]), "▁▅█");
        assert_eq!(chart(&[]), "");
        assert_eq!(chart(&[u64::MAX, 0]), "█▁");
    }
}
