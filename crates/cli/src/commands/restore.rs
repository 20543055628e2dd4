//! `rappel restore`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rappel::answers::CopyAnswer;
use rappel::{ErrorKind, Rappel, RestoreOptions, RestoreReport};
use rappel_types::agents::SessionId;
use rappel_types::path::escape;
use rappel_types::plan::Conflict;
use rappel_types::reference::Base;
use rappel_types::{CheckpointId, Facet, Reference};
use serde::Serialize;

use super::{lost_hooks, patch, undo};
use crate::errors::{Exit, Failure, Result};
use crate::output::Paint;
use crate::process::{Context, quote};
use crate::{confirm, face, progress, values};

/// Go back to a checkpoint
///
/// Rappel saves the present first. It overwrites or deletes nothing that this save does not hold,
/// and `rappel undo` takes the restore back. On a terminal it shows the plan and asks; elsewhere it
/// needs --confirm.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel restore latest
  rappel restore latest~2 --dry-run
  rappel restore chk_20261115_143022 --yes
  rappel restore \"@{10 minutes ago}\" -- src/auth
  rappel restore latest --except notes.md
  rappel restore 42 --patch
  rappel restore latest --only databases
  rappel restore latest --database app
  rappel restore latest --to /tmp/as-it-was")]
pub struct Args {
    /// Which checkpoint
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub reference: Option<Reference>,
    #[command(flatten)]
    pub how: How,
    /// Also set back the conversation of this session, if it only went on since
    #[arg(long, value_name = "SESSION")]
    pub conversation: Option<SessionId>,
}

/// What `restore`, `undo` and `redo` take in common.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct How {
    /// Show the plan and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Restore without asking
    #[arg(short = 'y', long, visible_alias = "yes")]
    pub confirm: bool,
    /// Restore only if the plan still has this hash
    #[arg(long, value_name = "HASH")]
    pub plan: Option<String>,
    /// Restore only these facets: files, git, databases, agents, knowledge
    #[arg(long, value_name = "FACETS", value_delimiter = ',', value_parser = values::facet)]
    pub only: Vec<Facet>,
    /// Do not restore these facets
    #[arg(long, value_name = "FACETS", value_delimiter = ',', value_parser = values::facet)]
    pub skip: Vec<Facet>,
    /// Restore only this file or folder; repeatable
    #[arg(long = "path", value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Keep this file or folder as it is; repeatable
    #[arg(long, value_name = "PATH", conflicts_with_all = ["paths", "plain_paths"])]
    pub except: Vec<OsString>,
    /// Delete branches and other refs that were made after the checkpoint
    #[arg(long)]
    pub prune_refs: bool,
    /// Also restore this work tree, or `all`; a missing one is restored even without this flag;
    /// repeatable
    #[arg(long = "worktree", value_name = "NAME")]
    pub worktrees: Vec<String>,
    /// Restore only this database; repeatable
    #[arg(long = "database", value_name = "NAME", conflicts_with_all = ["paths", "plain_paths"])]
    pub databases: Vec<String>,
    /// Disconnect other programs from a database that they lock
    #[arg(long)]
    pub terminate_connections: bool,
    /// End the processes of other agents that work in this workspace
    #[arg(long)]
    pub terminate_sessions: bool,
    /// Restore this database although it is on another machine; repeatable
    #[arg(long = "allow-remote-database", value_name = "NAME")]
    pub allow_remote_databases: Vec<String>,
    /// Also restore databases whose dump is older than the checkpoint
    #[arg(long)]
    pub allow_stale: bool,
    /// Run a database's dump although it came from elsewhere
    #[arg(long)]
    pub trust_dump: bool,
    /// Restore the data of this [[command]] even if its present data cannot be saved first;
    /// repeatable
    #[arg(long = "allow-unsaved", value_name = "NAME")]
    pub allow_unsaved: Vec<String>,
    /// Choose the changes one by one, on a terminal
    #[arg(long, conflicts_with_all = ["dry_run", "confirm"])]
    pub patch: bool,
    /// Write the checkpoint's files to DIR (new or empty); the workspace is not touched
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "plan", "patch"])]
    pub to: Option<PathBuf>,
    /// The same as --path
    #[arg(last = true, value_name = "PATH")]
    pub plain_paths: Vec<OsString>,
}

impl How {
    fn all_paths(&self) -> impl Iterator<Item = &OsString> {
        self.paths.iter().chain(&self.plain_paths)
    }

    /// As the engine takes it.
    pub fn options(&self, context: &Context, root: &Path) -> Result<RestoreOptions> {
        Ok(RestoreOptions {
            paths: context.paths(root, self.all_paths())?,
            except: context.paths(root, self.except.iter())?,
            only: (!self.only.is_empty()).then(|| self.only.iter().copied().collect()),
            skip: self.skip.iter().copied().collect(),
            expected: self.plan.clone(),
            prune_refs: self.prune_refs,
            worktrees: self.worktrees.clone(),
            only_databases: self.databases.clone(),
            terminate_connections: self.terminate_connections,
            allow_remote_databases: self.allow_remote_databases.clone(),
            allow_stale: self.allow_stale,
            trust_dump: self.trust_dump,
            allow_unsaved: self.allow_unsaved.clone(),
            terminate_sessions: self.terminate_sessions,
            rewound: Vec::new(),
            own_session: context.named_session(None)?,
        })
    }

    /// The command that goes through with it, with the flags that decide what it does.
    pub fn confirm_with(&self, words: &str, context: &Context) -> String {
        let mut command = format!("{words} --confirm");
        for (flag, facets) in [("--only", &self.only), ("--skip", &self.skip)] {
            if !facets.is_empty() {
                let names: Vec<_> = facets.iter().map(|facet| facet.as_str()).collect();
                command.push_str(&format!(" {flag} {}", names.join(",")));
            }
        }
        for path in self.all_paths() {
            command.push_str(&format!(" --path {}", quote(&as_written(path))));
        }
        for path in &self.except {
            command.push_str(&format!(" --except {}", quote(&as_written(path))));
        }
        for name in &self.worktrees {
            command.push_str(&format!(" --worktree {}", quote(name)));
        }
        for name in &self.databases {
            command.push_str(&format!(" --database {}", quote(name)));
        }
        for name in &self.allow_remote_databases {
            command.push_str(&format!(" --allow-remote-database {}", quote(name)));
        }
        for name in &self.allow_unsaved {
            command.push_str(&format!(" --allow-unsaved {}", quote(name)));
        }
        for (given, flag) in [
            (self.prune_refs, "--prune-refs"),
            (self.terminate_connections, "--terminate-connections"),
            (self.terminate_sessions, "--terminate-sessions"),
            (self.allow_stale, "--allow-stale"),
            (self.trust_dump, "--trust-dump"),
        ] {
            if given {
                command.push_str(&format!(" {flag}"));
            }
        }
        context.suggest(&command)
    }
}

/// A path as it can be written again: text as it was, other bytes escaped.
fn as_written(path: &OsStr) -> String {
    path.to_str().map_or_else(|| escape(path.as_bytes()), str::to_owned)
}

/// A checkpoint by its id, whatever it was called.
pub fn exactly(id: &CheckpointId) -> Reference {
    Reference::new(Base::Id(id.clone()))
}

pub fn run(args: &Args, context: &Context) -> Result {
    go(args, context)
        .map_err(|failure| context.or_a_path(failure, "restore latest", [args.reference.as_ref()]))
}

fn go(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let mut options = args.how.options(context, rappel.root())?;
    let Some(mut reference) = args.reference.clone() else { return Err(which(&rappel, context)) };
    if let Some(named) = &args.conversation {
        let view = rappel.session(&rappel.find_session(named)?)?;
        rappel.require_conversation(&reference, &view.id, &options)?;
        if undo::keeps_conversations(&view) {
            context.output.warning(undo::CONVERSATION_STAYS);
        } else if rappel.is_in_conversation(&view)? && !args.how.dry_run {
            return Err(undo::still_at_work(&view));
        } else {
            options.rewound.extend(view.assistant_session_id);
        }
    }
    if let Some(folder) = &args.how.to {
        return copy_out(&reference, &options, folder, &rappel, context);
    }
    if args.how.patch {
        return patch::run(&reference, &options, &rappel, context);
    }
    if !args.how.confirm || args.how.dry_run {
        let mut report =
            progress::watch(context, "Comparing", || rappel.plan_restore(&reference, &options))?;
        face::advice::word_report(&mut report);
        report.warnings.extend(lost_hooks::foreseen(&report, &rappel, context));
        report.confirm_with =
            Some(args.how.confirm_with(&format!("restore {}", report.checkpoint), context));
        let head = head("Restore", &report.checkpoint, &rappel, context);
        if let Some(exit) = approve(&head, &report, &report, "undo", &args.how, context)? {
            return Ok(exit);
        }
        if !options.terminate_sessions
            && !rappel.running_agents(options.own_session.as_ref())?.is_empty()
        {
            options.terminate_sessions = context.can_ask()
                && confirm::ask("Other agents are at work here. End their processes first?")?;
        }
        // What was shown, whatever `latest` means by now.
        reference = exactly(&report.checkpoint);
        options.expected = Some(report.plan);
    }
    context.stop_cleanly();
    let hooks = lost_hooks::present(&rappel, context);
    let mut report =
        progress::watch(context, "Comparing", || rappel.restore(&reference, &options))?;
    face::advice::word_report(&mut report);
    report.warnings.extend(lost_hooks::lost(&hooks, &rappel, context));
    if did_something(&report) {
        report.warnings.extend(rewound(&options.rewound, &rappel, context)?);
    }
    let head = head_after(&report, &rappel, context);
    tell(&head, &report, &report, "undo", context)
}

/// What the user should know of conversations that were set back, by what agents call them.
pub fn rewound(names: &[String], rappel: &Rappel, context: &Context) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    if names.is_empty() {
        return Ok(notes);
    }
    let known = rappel.sessions()?;
    let is_meant = |name: &Option<String>| name.as_ref().is_some_and(|name| names.contains(name));
    let mut providers: Vec<String> = known
        .into_iter()
        .filter(|view| is_meant(&view.assistant_session_id))
        .filter_map(|view| view.provider)
        .collect();
    providers.sort();
    providers.dedup();
    for vendor in providers.iter().filter_map(|provider| rappel_hooks::vendor(provider)) {
        notes.extend((vendor.rewound)(&context.agent_folder(vendor)?.path));
    }
    Ok(notes)
}

/// The head of what was done, or of what there was to do.
pub fn head_after(report: &RestoreReport, rappel: &Rappel, context: &Context) -> String {
    match did_something(report) {
        true => {
            let head = head("Restored", &report.checkpoint, rappel, context);
            context.output.paint().good(&head)
        }
        false => head("Restore", &report.checkpoint, rappel, context),
    }
}

/// Whether there was anything to restore.
pub fn did_something(report: &RestoreReport) -> bool {
    report.done.as_ref().is_some_and(|done| done.safety_checkpoint.is_some())
}

/// What is said to a restore that does not say to where.
fn which(rappel: &Rappel, context: &Context) -> Failure {
    let latest = Reference::new(Base::Latest);
    let hint = match rappel.show(&latest) {
        Ok(checkpoint) => format!(
            "{} goes to {}; {} shows the others",
            context.suggest("restore latest"),
            face::restore::target(&checkpoint, context.now(), Paint::PLAIN),
            context.suggest("list")
        ),
        Err(_) => format!("{} makes the first one", context.suggest("save")),
    };
    Failure::usage("restore goes back to a checkpoint; name one", hint)
}

/// `Restore "Before adding Stripe"  chk_…  (2 hours ago)`; no more than the id if that is all that
/// can be read, since what was done is told in any case.
fn head(verb: &str, id: &CheckpointId, rappel: &Rappel, context: &Context) -> String {
    format!("{verb} {}", named(id, rappel, context))
}

/// A checkpoint by its message, id and age.
pub fn named(id: &CheckpointId, rappel: &Rappel, context: &Context) -> String {
    let paint = context.output.paint();
    match rappel.show(&exactly(id)) {
        Ok(checkpoint) => face::restore::target(&checkpoint, context.now(), paint),
        Err(_) => paint.id(id.as_str()),
    }
}

/// Shows a plan and goes on (`None`) only if that is wanted: not in a dry run, not if it changes
/// nothing, not against a conflict, and not without a confirmation.
///
/// `answer` is the report, or what is answered around it, as JSON; `back` is the command that takes
/// it back.
pub fn approve(
    head: &str,
    answer: &impl Serialize,
    report: &RestoreReport,
    back: &str,
    how: &How,
    context: &Context,
) -> Result<Option<Exit>> {
    let output = context.output;
    let promise = format!("The present is saved first; `rappel {back}` brings it back.");
    if let Some(expected) = &how.plan
        && *expected != report.plan
    {
        let (expected, found) = (expected.clone(), report.plan.clone());
        return Err(rappel::Error::PlanChanged { expected, found }.into());
    }
    if output.json {
        output.answer_json(answer)?;
    } else {
        let text = format!("{head}\n{}", face::restore::plan(report, output));
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    let in_the_way = &report.full_plan.conflicts;
    if !in_the_way.is_empty() {
        return Err(Failure {
            kind: ErrorKind::Conflict,
            message: "something is in the way; nothing was changed".into(),
            hint: face::advice::hint(&rappel::way_out(in_the_way)),
        });
    }
    let confirm_with = report.confirm_with.as_deref().unwrap_or_default();
    if how.dry_run {
        if !output.json && !output.quiet && !report.full_plan.is_empty() {
            let text = format!("\n{promise}\nTo apply: {confirm_with}\n");
            output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
        }
        return would_leave(&report.conflicts).map(Some);
    }
    if report.full_plan.is_empty() {
        return Ok(Some(Exit::Done));
    }
    let confirmed = confirm::require(context, &format!("\n{promise} Go ahead?"), confirm_with)?;
    Ok(if confirmed { None } else { Some(confirm::DECLINED) })
}

/// Tells what was done. What was left as it is because somebody changed it is exit 7.
///
/// `answer` is the report, or what is answered around it, as JSON.
pub fn tell(
    head: &str,
    answer: &impl Serialize,
    report: &RestoreReport,
    back: &str,
    context: &Context,
) -> Result {
    let output = context.output;
    let done = report.done.as_ref();
    if output.json {
        output.answer_json(answer)?;
    } else if let (Some(done), false) = (done, output.quiet) {
        let paint = output.paint();
        let text = match did_something(report) {
            true => {
                let done = face::restore::done(head, report, done, output);
                let back = format!("Take it back with: {}\n", context.suggest(back));
                format!("{done}{}", paint.faint(&back))
            }
            false => format!("{head}\n{}", face::restore::plan(report, output)),
        };
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    let kept = done.map_or(&[][..], |done| &done.kept);
    // Where nothing was done, what was shown has them already.
    let warnings = if did_something(report) || output.quiet { &report.warnings[..] } else { &[] };
    face::restore::warn(warnings, kept, output);
    match report.conflicts.is_empty() {
        true => Ok(Exit::Done),
        false => Err(left(face::restore::conflicts(&report.conflicts))),
    }
}

/// The end of a dry run: as that of the run itself.
fn would_leave(conflicts: &[Conflict]) -> Result {
    match conflicts.is_empty() {
        true => Ok(Exit::Done),
        false => Err(left(face::restore::would_be_left(conflicts))),
    }
}

/// Something is left as it is because somebody changed it.
fn left(message: String) -> Failure {
    Failure { kind: ErrorKind::Conflict, message, hint: None }
}

/// `--to`: into a folder of its own.
pub fn copy_out(
    reference: &Reference,
    options: &RestoreOptions,
    folder: &Path,
    rappel: &Rappel,
    context: &Context,
) -> Result {
    let folder = context.absolute(folder);
    let id = rappel.resolve(reference, true)?.id;
    context.stop_cleanly();
    let copied =
        progress::watch(context, "Writing", || rappel.restore_to(&exactly(&id), &folder, options))?;
    let output = context.output;
    if output.json {
        output.answer_json(&CopyAnswer::new(&id, &folder, &copied))?;
        return Ok(Exit::Done);
    }
    if !output.quiet {
        let text = format!(
            "Wrote {} into {}: {}",
            output.paint().id(id.as_str()),
            folder.display(),
            face::restore::copied(&copied)
        );
        output.answer(|out| Ok(writeln!(out, "{text}")?))?;
    }
    for note in &copied.notes {
        output.note(note);
    }
    face::restore::warn(&copied.warnings, &[], output);
    Ok(Exit::Done)
}
