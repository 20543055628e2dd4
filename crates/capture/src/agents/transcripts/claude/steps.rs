//! The newest part of a transcript's graph: which line belongs to which step, and which steps lie
//! on the way from the newest one to the root. Bounded, so that what is remembered stays small: going
//! back further than it reaches is not noticed as such.

use std::collections::{HashMap, HashSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::super::Out;

/// How many lines are remembered.
const LINES: usize = 512;
/// How many tool calls that did not come back yet.
const CALLS: usize = 128;

/// A line of the graph. Names are short hashes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    /// Its name.
    #[serde(rename = "i")]
    pub id: u64,
    /// The step it belongs to.
    #[serde(rename = "s")]
    pub step: u64,
    /// The step before that one, said by its first line.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub above: Option<u64>,
    /// Where it begins.
    #[serde(rename = "o")]
    pub at: u64,
    /// The nearest thought, its own or one above.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
    /// Whether the conversation went on without it.
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    pub abandoned: bool,
}

/// The steps of a transcript, as far as they are remembered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Steps {
    lines: VecDeque<Line>,
    /// The newest step.
    leaf: Option<u64>,
    /// Calls under way, with their steps.
    calls: VecDeque<(u64, u64)>,
}

impl Steps {
    /// Whether the line is there already.
    pub fn holds(&self, id: u64) -> bool {
        self.find(id).is_some()
    }

    /// The step of a line.
    pub fn of_line(&self, id: u64) -> Option<u64> {
        self.find(id).map(|line| line.step)
    }

    /// The step that a tool was called in.
    pub fn of_call(&self, call: u64) -> Option<u64> {
        self.calls.iter().rfind(|(known, _)| *known == call).map(|(_, step)| *step)
    }

    /// Notes a call of the newest line's step.
    pub fn call(&mut self, call: u64) {
        if let Some(line) = self.lines.back() {
            self.calls.push_back((call, line.step));
            if self.calls.len() > CALLS {
                self.calls.pop_front();
            }
        }
    }

    /// Adds a line below `parent` and returns the nearest thought above it. If it `leads`, it is one
    /// that the conversation goes on from.
    pub fn place(
        &mut self,
        mut line: Line,
        parent: Option<u64>,
        leads: bool,
        out: &mut Out<'_>,
    ) -> Option<String> {
        let parent = parent.and_then(|parent| self.find(parent));
        let (above, thought) = match parent {
            Some(parent) => (Some(parent.step), parent.thought.clone()),
            None => (None, None),
        };
        let step = line.step;
        let known = self.lines.iter().rfind(|other| other.step == step);
        line.abandoned = known.is_some_and(|other| other.abandoned);
        out.abandoned = line.abandoned;
        let is_new = known.is_none();
        if is_new {
            line.above = above.filter(|above| *above != step);
        }
        line.thought.clone_from(&thought);
        self.lines.push_back(line);
        if self.lines.len() > LINES {
            self.lines.pop_front();
        }
        // A result that comes late leads nowhere: the conversation is past it.
        if is_new && leads {
            self.lead(step, out);
        }
        thought
    }

    /// Sets the last thought of the newest line.
    pub fn think(&mut self, thought: Option<String>) {
        if let Some(line) = self.lines.back_mut() {
            line.thought = thought;
        }
    }

    /// Goes on from the line, unless that is where the conversation is anyway.
    pub fn go_to(&mut self, id: u64, out: &mut Out<'_>) {
        let Some(step) = self.of_line(id) else { return };
        if self.leaf.is_some_and(|leaf| !self.way_up(leaf).contains(&step)) {
            self.lead(step, out);
        }
    }

    fn find(&self, id: u64) -> Option<&Line> {
        self.lines.iter().rfind(|line| line.id == id)
    }

    /// The steps from one to the root, itself first, as far as they are remembered.
    fn way_up(&self, step: u64) -> Vec<u64> {
        let above: HashMap<u64, u64> =
            self.lines.iter().filter_map(|line| Some((line.step, line.above?))).collect();
        let mut way = vec![step];
        let mut seen = HashSet::from([step]);
        let mut next = above.get(&step);
        while let Some(step) = next.filter(|step| seen.insert(**step)) {
            way.push(*step);
            next = above.get(step);
        }
        way
    }

    /// Makes `step` the newest one: what is only above the old one is abandoned, what is only above
    /// the new one is not any more.
    fn lead(&mut self, step: u64, out: &mut Out<'_>) {
        let Some(old) = self.leaf.replace(step) else { return };
        if self.lines.back().is_some_and(|line| line.step == step && line.above == Some(old)) {
            return;
        }
        let new_way = self.way_up(step);
        let old_way = self.way_up(old);
        let Some(left) = old_way.iter().position(|step| new_way.contains(step)) else { return };
        let joined = new_way.iter().position(|step| *step == old_way[left]).unwrap_or_default();
        let (dropped, taken) = (&old_way[..left], &new_way[..joined]);
        for line in &mut self.lines {
            let abandoned = dropped.contains(&line.step);
            if (abandoned || taken.contains(&line.step)) && line.abandoned != abandoned {
                line.abandoned = abandoned;
                out.mark(line.at..line.at + 1, abandoned);
            }
        }
    }
}
