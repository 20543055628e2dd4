//! The graph of checkpoints, drawn with a few characters.

use rappel::{Timeline, TimelineEntry};
use rappel_types::{Timestamp, time};

use super::checkpoint::{folded, from};
use super::shorten;
use crate::output::{Paint, clean};

/// The longest title.
const TITLE: usize = 60;

/// The graph, two lines for each checkpoint and one where lines meet.
pub fn graph(timeline: &Timeline, now: Timestamp, paint: Paint) -> String {
    let mut text = String::new();
    if timeline.folded_since > 0 {
        text.push_str(&format!("{}\n", paint.faint(&folded(timeline.folded_since, "since"))));
    }
    for entry in &timeline.checkpoints {
        if !entry.joins.is_empty() {
            text.push_str(&format!("{}\n", meeting(entry)));
        }
        let here =
            if entry.current { format!("  {}", paint.good("(here)")) } else { String::new() };
        let title = entry.title().map(|title| {
            let first = title.trim().lines().next().unwrap_or_default();
            format!("  {}", shorten(&clean(first), TITLE))
        });
        let id = paint.id(&entry.id);
        // The number of an imported one would name another checkpoint.
        let number = match entry.lineage {
            None => format!(" {}", paint.faint(&format!("#{}", entry.sequence))),
            Some(_) => String::new(),
        };
        let columns = columns(entry, if entry.holds_files { '*' } else { 'o' });
        text.push_str(&format!("{columns}  {id}{number}{}{here}\n", title.unwrap_or_default()));
        let below = columns_below(entry);
        text.push_str(&format!("{below}  {}\n", paint.faint(&facts(entry, now).join(" · "))));
    }
    text
}

fn facts(entry: &TimelineEntry, now: Timestamp) -> Vec<String> {
    let mut facts = vec![time::age(now, entry.created_at)];
    facts.push(clean(&entry.trigger));
    facts.extend(entry.lineage.as_ref().map(from));
    facts.extend(entry.branch.as_deref().map(|branch| format!("on {}", clean(branch))));
    facts.extend(entry.session_id.as_deref().map(|session| format!("session {}", clean(session))));
    facts.extend((entry.folded > 0).then(|| folded(entry.folded, "before")));
    facts.extend(entry.tags.iter().map(|tag| format!("#{}", clean(tag))));
    facts
}

/// The columns beside a checkpoint, with its own mark.
fn columns(entry: &TimelineEntry, mark: char) -> String {
    let last = entry.passing.iter().copied().chain([entry.lane]).max().unwrap_or(0);
    let column = |lane: usize| match lane {
        _ if lane == entry.lane => mark,
        _ if entry.passing.contains(&lane) => '|',
        _ => ' ',
    };
    let columns: Vec<String> = (0..=last).map(|lane| column(lane).to_string()).collect();
    columns.join(" ")
}

/// The columns below its first line: its own goes on if it follows something.
fn columns_below(entry: &TimelineEntry) -> String {
    columns(entry, if entry.parent.is_some() { '|' } else { ' ' })
}

/// The line on which others end in a checkpoint's own: `|/`, or `|_|/` past others.
fn meeting(entry: &TimelineEntry) -> String {
    let mut line: Vec<char> = columns(entry, '|').chars().collect();
    for joined in &entry.joins {
        let (from, to) = (2 * entry.lane + 1, 2 * joined - 1);
        line.resize(line.len().max(to + 1), ' ');
        for place in &mut line[from..to] {
            if *place == ' ' {
                *place = '_';
            }
        }
        line[to] = '/';
    }
    line.iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(lane: usize, joins: &[usize], passing: &[usize]) -> TimelineEntry {
        TimelineEntry {
            id: "chk_1".into(),
            sequence: 1,
            parent: None,
            created_at: Timestamp::from_millis(0),
            trigger: "manual".into(),
            description: None,
            tags: Vec::new(),
            session_id: None,
            branch: None,
            holds_files: true,
            current: false,
            folded: 0,
            lane,
            joins: joins.to_vec(),
            passing: passing.to_vec(),
            lineage: None,
        }
    }

    #[test]
    fn lines_meet() {
        assert_eq!(meeting(&entry(0, &[1], &[])), "|/");
        assert_eq!(meeting(&entry(0, &[2], &[1])), "|_|/");
        assert_eq!(meeting(&entry(0, &[1, 2], &[])), "|/_/");
        assert_eq!(meeting(&entry(1, &[2], &[0, 3])), "| |/  |");
        assert_eq!(columns(&entry(1, &[], &[0, 3]), '*'), "| *   |");
    }
}
