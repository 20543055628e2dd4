//! `rappel list`.

use std::ffi::OsString;

use rappel::ListFilter;
use rappel_types::{Trigger, When};

use crate::args::Limit;
use crate::errors::{Exit, Result};
use crate::face;
use crate::process::{Context, quote};
use crate::values;

/// List checkpoints, newest first
#[derive(Debug, Clone, Default, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(after_help = "\
Examples:
  rappel list
  rappel list -n 50 --tag green
  rappel list -- src/auth
  rappel list --since \"yesterday 14:00\"
  rappel list --all-workspaces
  rappel list --deleted
  rappel list --own
  rappel list --json | jq -r '.checkpoints[0].id'")]
pub struct Args {
    #[command(flatten)]
    pub limit: Limit,
    /// Only checkpoints with this tag
    #[arg(long)]
    pub tag: Option<String>,
    /// Only checkpoints of this agent session
    #[arg(long)]
    pub session: Option<String>,
    /// Only the first checkpoint that contains a call of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only the first checkpoint that contains a matching event
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// Only checkpoints that changed this file, or something in this folder
    #[arg(long, value_name = "PATH")]
    pub path: Option<OsString>,
    /// Only checkpoints with this trigger
    #[arg(long, value_parser = values::trigger)]
    pub trigger: Option<Trigger>,
    /// Only checkpoints made at this time or later
    #[arg(long, value_name = "WHEN", value_parser = values::when)]
    pub since: Option<When>,
    /// Only checkpoints made at this time or earlier
    #[arg(long, value_name = "WHEN", value_parser = values::when)]
    pub until: Option<When>,
    /// Also show state-only checkpoints; without this they are only counted
    #[arg(long)]
    pub all: bool,
    /// List the checkpoints of every workspace
    #[arg(long)]
    pub all_workspaces: bool,
    /// List deleted checkpoints that can still be brought back
    #[arg(long, conflicts_with_all = ["all", "all_workspaces"])]
    pub deleted: bool,
    /// Leave out checkpoints that were imported
    #[arg(long)]
    pub own: bool,
    /// The same as --path
    #[arg(last = true, value_name = "PATH", conflicts_with = "path")]
    pub plain_path: Option<OsString>,
}

impl Args {
    /// Whether only some of the checkpoints are asked for, or others than usual.
    pub fn has_filters(&self) -> bool {
        !filters(self).is_empty()
    }

    fn path(&self) -> Option<&OsString> {
        self.path.as_ref().or(self.plain_path.as_ref())
    }
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let path = context.paths(rappel.root(), args.path())?.pop();
    let listing = rappel.list(&ListFilter {
        limit: Some(args.limit.most()),
        after: None,
        tag: args.tag.clone(),
        trigger: args.trigger,
        since: args.since.as_ref().map(|when| context.moment(when)).transpose()?,
        until: args.until.as_ref().map(|when| context.moment_end(when)).transpose()?,
        session: args.session.clone(),
        tool: args.tool.clone(),
        text: args.text.clone(),
        path,
        all: args.all,
        all_workspaces: args.all_workspaces,
        deleted: args.deleted,
        own: args.own,
    })?;
    let output = context.output;
    face::checkpoint::warn_unreadable(&listing.unreadable, output);
    if output.json {
        output.answer_json(&listing)?;
        return Ok(Exit::Done);
    }
    output.page(|out| {
        if output.quiet {
            for checkpoint in &listing.checkpoints {
                writeln!(out, "{}", checkpoint.manifest.id)?;
            }
            return Ok(());
        }
        let folded = listing.folded_since > 0;
        if listing.checkpoints.is_empty() && listing.unreadable.is_empty() && !folded {
            return Ok(out.write_all(nothing(args, context, &rappel).as_bytes())?);
        }
        let paint = output.paint();
        let heading = if args.deleted { "Deleted checkpoints" } else { "Checkpoints" };
        let with_root = args.all_workspaces;
        let now = context.now();
        let text = face::checkpoint::list(heading, &listing, now, with_root, args.all, paint);
        out.write_all(text.as_bytes())?;
        if args.deleted {
            let back = context.suggest("undelete ID");
            writeln!(out, "\n{}", paint.faint(&format!("Bring one back with: {back}")))?;
        }
        if listing.total > listing.checkpoints.len() + listing.unreadable.len() {
            let more = context.suggest(&format!(
                "list {}{}",
                args.limit.get().saturating_mul(2),
                filters(args)
            ));
            writeln!(out, "\n{}", paint.faint(&format!("Show more: {more}")))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

/// What an empty list says.
fn nothing(args: &Args, context: &Context, rappel: &rappel::Rappel) -> String {
    if args.deleted {
        return "No deleted checkpoint can be brought back.\n".into();
    }
    if !filters(args).replace(" --all", "").is_empty() {
        let meant = args.tag.as_ref().and_then(|tag| rappel.nearest_tag(tag).ok().flatten());
        return format!(
            "No checkpoints match.\n{}See all of them with: {}\n",
            meant.map(|tag| format!("Did you mean --tag {}?\n", quote(&tag))).unwrap_or_default(),
            context.suggest("list")
        );
    }
    let other = rappel.other_history().map(|remark| face::advice::sentence(&remark));
    let other = other.map(|text| format!("{}\n", face::capitalised(&text)));
    format!(
        "No checkpoints of {} yet.\n{}Make the first one with: {}\n",
        rappel.root().display(),
        other.unwrap_or_default(),
        context.suggest("save \"Before I begin\"")
    )
}

/// The flags to repeat when more are asked for.
fn filters(args: &Args) -> String {
    let mut text = String::new();
    let values = [
        ("--tag", args.tag.clone()),
        ("--session", args.session.clone()),
        ("--tool", args.tool.clone()),
        ("--text", args.text.clone()),
        ("--path", args.path().map(|path| path.to_string_lossy().into_owned())),
        ("--trigger", args.trigger.map(|trigger| trigger.to_string())),
        ("--since", args.since.as_ref().map(ToString::to_string)),
        ("--until", args.until.as_ref().map(ToString::to_string)),
    ];
    for (flag, value) in values {
        if let Some(value) = value {
            text.push_str(&format!(" {flag} {}", quote(&value)));
        }
    }
    let switches = [
        ("--all", args.all),
        ("--all-workspaces", args.all_workspaces),
        ("--deleted", args.deleted),
        ("--own", args.own),
    ];
    for (flag, is_set) in switches {
        if is_set {
            text.push(' ');
            text.push_str(flag);
        }
    }
    text
}
