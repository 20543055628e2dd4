//! Restoring by hunks: some of the lines of a file, not all of them.

use std::collections::BTreeMap;

use rappel_store::content;
use rappel_store::sink::Sink;
use rappel_types::{Action, ActionKind, Facet, Node, Plan, Reference, RelPath};
use similar::TextDiff;

use crate::error::Result;
use crate::rappel::Rappel;
use crate::restore::{Course, Limit, RestoreOptions, RestoreReport};

/// Lines of context around a hunk.
const CONTEXT: usize = 3;

/// What can be chosen of one path.
#[derive(Debug, Clone)]
pub struct PathHunks {
    /// Which.
    pub path: RelPath,
    /// What happens to it as a whole.
    pub action: ActionKind,
    /// Its hunks as text; empty where it can only be taken as a whole (new and deleted files, links,
    /// binary files).
    pub hunks: Vec<String>,
}

/// What was chosen of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// All of it.
    All,
    /// These hunks, by their place.
    Hunks(Vec<usize>),
}

impl Rappel {
    /// What restoring a checkpoint would change, hunk by hunk, with the plan that it belongs to.
    pub fn hunks(
        &self,
        reference: &Reference,
        options: &RestoreOptions,
    ) -> Result<(RestoreReport, Vec<PathHunks>)> {
        let report = self.plan_restore(reference, &files_only(options))?;
        let root = rappel_store::beneath::Root::open(&self.root, self.options.disk.clone())?;
        let mut found = Vec::new();
        for action in &report.full_plan.actions {
            if action.action == ActionKind::Skip {
                continue;
            }
            let hunks = match lines(action) {
                true => {
                    let old = crate::diff::present_text(&root, &action.path, action.old.as_ref());
                    let new = self.stored_text(action.new.as_ref())?;
                    old.zip(new).map(|(old, new)| hunk_texts(&old, &new)).unwrap_or_default()
                }
                false => Vec::new(),
            };
            found.push(PathHunks { path: action.path.clone(), action: action.action, hunks });
        }
        Ok((report, found))
    }

    /// Restores what was chosen. `options.expected` should be the plan that the choice was made
    /// from: hunks are counted in it.
    pub fn restore_chosen(
        &self,
        reference: &Reference,
        options: &RestoreOptions,
        chosen: &BTreeMap<RelPath, Choice>,
    ) -> Result<RestoreReport> {
        let target = self.own_target(reference, options)?;
        let options = &files_only(options);
        let expected = options.expected.clone();
        // Contents that were put together from both sides have to be in the store before the plan
        // can name them. The plan is the same one that the choice was made from, or it is refused.
        let report = self.plan_restore(reference, options)?;
        let mixed = self.mix(&report.full_plan, chosen)?;
        let narrow = |plan: Plan| Ok(narrowed(plan, chosen, &mixed));
        let limit = Limit::Options(options);
        let course = Course { narrow: &narrow, ..Course::restore(expected.as_deref()) };
        self.go_to(&target, &limit, &course)
    }

    /// Stores the content of every path of which only some hunks were chosen.
    fn mix(
        &self,
        plan: &Plan,
        chosen: &BTreeMap<RelPath, Choice>,
    ) -> Result<BTreeMap<RelPath, Node>> {
        let root = rappel_store::beneath::Root::open(&self.root, self.options.disk.clone())?;
        let writer = self.store.begin()?;
        let mut mixed = BTreeMap::new();
        for action in plan.actions.iter().filter(|action| lines(action)) {
            let Some(Choice::Hunks(hunks)) = chosen.get(&action.path) else { continue };
            let old = crate::diff::present_text(&root, &action.path, action.old.as_ref());
            let new = self.stored_text(action.new.as_ref())?;
            let (Some(old), Some(new), Some(Node::File { mode, .. })) = (old, new, &action.old)
            else {
                continue;
            };
            let text = take(&old, &new, hunks);
            let sink: &dyn Sink = &writer;
            let length = text.len() as u64;
            let (content, size) = content::store(sink, &mut text.as_bytes(), length, None)?;
            mixed.insert(action.path.clone(), Node::File { mode: *mode, size, content });
        }
        writer.commit(|_| Ok(Vec::new()))?;
        Ok(mixed)
    }
}

/// Hunks are picked from files; everything else stays as it is.
fn files_only(options: &RestoreOptions) -> RestoreOptions {
    let mut options = options.clone();
    options.skip.extend([Facet::Git, Facet::Databases]);
    options
}

/// Whether an action replaces a file by a file, so that its lines can be told apart.
fn lines(action: &Action) -> bool {
    matches!(
        (&action.old, &action.new),
        (Some(Node::File { content: old, .. }), Some(Node::File { content: new, .. })) if old != new
    )
}

fn narrowed(
    plan: Plan,
    chosen: &BTreeMap<RelPath, Choice>,
    mixed: &BTreeMap<RelPath, Node>,
) -> Plan {
    let actions = plan.actions.into_iter().filter_map(|mut action| {
        match chosen.get(&action.path) {
            _ if action.action == ActionKind::Skip => {}
            Some(Choice::All) => {}
            Some(Choice::Hunks(_)) => action.new = Some(mixed.get(&action.path)?.clone()),
            // A folder is made for what was chosen in it.
            None if matches!(action.new, Some(Node::Directory { .. }))
                && action.old.is_none()
                && chosen.keys().any(|path| path.is_within(&action.path)) => {}
            None => return None,
        }
        Some(action)
    });
    Plan { actions: actions.collect(), ..plan }
}

fn hunk_texts(old: &str, new: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(old, new);
    let mut unified = diff.unified_diff();
    unified.context_radius(CONTEXT).iter_hunks().map(|hunk| hunk.to_string()).collect()
}

/// The old text with the chosen hunks replaced by the new one's lines.
fn take(old: &str, new: &str, chosen: &[usize]) -> String {
    let diff = TextDiff::from_lines(old, new);
    let mut text = String::with_capacity(old.len().max(new.len()));
    let mut at = 0;
    let old_lines: Vec<&str> = diff.iter_old_slices().collect();
    let new_lines: Vec<&str> = diff.iter_new_slices().collect();
    for (number, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        for op in group {
            let (old_range, new_range) = (op.old_range(), op.new_range());
            text.extend(old_lines[at..old_range.start].iter().copied());
            at = old_range.end;
            if chosen.contains(&number) {
                text.extend(new_lines[new_range].iter().copied());
            } else {
                text.extend(old_lines[old_range].iter().copied());
            }
        }
    }
    text.extend(old_lines[at..].iter().copied());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_hunks_are_taken_and_others_left() {
        let old: String = (0..40).map(|n| format!("line {n}\n")).collect();
        let new =
            old.replace("line 3\n", "line three\n").replace("line 30\n", "line thirty\nmore\n");
        assert_eq!(hunk_texts(&old, &new).len(), 2);
        assert_eq!(take(&old, &new, &[]), old);
        assert_eq!(take(&old, &new, &[0, 1]), new);
        assert_eq!(take(&old, &new, &[0]), old.replace("line 3\n", "line three\n"));
        assert_eq!(take(&old, &new, &[1]), old.replace("line 30\n", "line thirty\nmore\n"));
    }
}
