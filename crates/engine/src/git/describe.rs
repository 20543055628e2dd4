//! What a restore of repositories does, in words for people.

use rappel_capture::git::program::Git;
use rappel_types::git::RefMove;
use rappel_types::{Action, ActionKind, Facet, RelPath};

/// How many commits that a branch leaves behind are named.
const TITLES: usize = 10;

/// What moving a ref means, and the commits that it leaves behind.
pub(super) struct Said {
    pub text: String,
    pub titles: Vec<String>,
}

/// What moving a ref means: `back 3 commits to abc123d`.
pub(super) fn describe(step: &RefMove, git: &Git<'_>) -> Said {
    let plain = |text: String| Said { text, titles: Vec::new() };
    let (old, new) = match (&step.old, &step.new) {
        (Some(old), Some(new)) => (old, new),
        (None, Some(new)) => return plain(format!("created at {}", short(new))),
        (Some(old), None) => return plain(format!("deleted, it was at {}", short(old))),
        (None, None) => return plain("unchanged".into()),
    };
    if new.starts_with("ref: ") || old.starts_with("ref: ") {
        return plain(format!("from {} to {}", short(old), short(new)));
    }
    let range = format!("{old}...{new}");
    let counted = git.ask(&["rev-list", "--left-right", "--count", &range], b"").ok();
    let counted = counted.and_then(|text| {
        let text = String::from_utf8(text).ok()?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    let commits =
        |number: u64| if number == 1 { "1 commit".into() } else { format!("{number} commits") };
    let to = short(new);
    let text = match counted {
        Some((0, 0)) => format!("to {to}"),
        Some((lost, 0)) => format!("back {} to {to}", commits(lost)),
        Some((0, gained)) => format!("forward {} to {to}", commits(gained)),
        Some((lost, gained)) => {
            format!("to {to}, leaving {} and regaining {}", commits(lost), commits(gained))
        }
        None => format!("from {} to {to}", short(old)),
    };
    let limit = format!("--max-count={TITLES}");
    let left = git.ask(&["log", "--format=%h %s", &limit, &format!("{new}..{old}")], b"");
    let titles = left.map(|text| {
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().map(str::to_owned).collect()
    });
    Said { text, titles: titles.unwrap_or_default() }
}

pub(super) fn shown(step: &RefMove, said: &str) -> Action {
    let action = match (&step.old, &step.new) {
        (None, _) => ActionKind::Create,
        (_, None) => ActionKind::Delete,
        _ => ActionKind::Overwrite,
    };
    let (path, reason) = (step.name.clone(), said.to_owned());
    Action { facet: Facet::Git, action, path, reason, old: None, new: None }
}

/// A value as people read it.
fn short(value: &str) -> String {
    match value.strip_prefix("ref: ") {
        Some(name) => name.strip_prefix("refs/heads/").unwrap_or(name).to_owned(),
        None => value.get(..7).unwrap_or(value).to_owned(),
    }
}

pub(super) fn short_name(name: &RelPath) -> String {
    let text = name.to_string();
    for prefix in ["refs/heads/", "refs/tags/", "refs/remotes/", "refs/"] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return rest.to_owned();
        }
    }
    text
}

pub(super) fn named(path: Option<&RelPath>) -> String {
    match path {
        Some(path) => format!("the repository {path}"),
        None => "the repository".to_owned(),
    }
}
