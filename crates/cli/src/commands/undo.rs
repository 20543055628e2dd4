//! `rappel undo`.

use rappel::answers::UndoAnswer;
use rappel::{ErrorKind, Rappel, RestoreReport, SessionView, Step};
use rappel_types::Facet;
use rappel_types::agents::SessionId;

use super::restore::{self, How};
use super::{lost_hooks, patch};
use crate::errors::{Failure, Result};
use crate::face;
use crate::output::clean_lines;
use crate::process::{self, Context};
use crate::progress;

/// Take back the last restore, or go back one checkpoint
///
/// If the last thing that happened is a restore, undo reverses just what that restore touched,
/// without asking. Otherwise undo restores the nearest earlier checkpoint that differs from now, and
/// asks first. Another undo goes further back; `rappel redo` goes forward.
///
/// --prompt goes back to before your last prompt to an agent. If that prompt changed nothing, neither
/// does this. The agent's conversation stays as it is, unless you add --conversation.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(after_help = "\
Examples:
  rappel undo
  rappel undo --dry-run
  rappel undo --path src/auth --confirm
  rappel undo --overwrite
  rappel undo --prompt
  rappel undo --prompt --conversation --session claude:7d1c")]
pub struct Args {
    #[command(flatten)]
    pub step: StepArgs,
    /// Go back to before the last prompt of the asking agent, or of --session
    #[arg(long)]
    pub prompt: bool,
    /// Set the agent's conversation back too
    #[arg(long, requires = "prompt")]
    pub conversation: bool,
    /// The session whose last prompt is meant
    #[arg(long, value_name = "ID", requires = "prompt")]
    pub session: Option<SessionId>,
}

/// What undo and redo have in common.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct StepArgs {
    #[command(flatten)]
    pub how: How,
    /// Also take back paths that were edited since
    #[arg(long)]
    pub overwrite: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    if args.prompt {
        return undo_prompt(args, context);
    }
    let rappel = context.open()?;
    let overwrite = args.step.overwrite;
    let step = progress::watch(context, "Comparing", || rappel.next_undo_over(overwrite))?;
    take("undo", &step, &args.step, &rappel, context)
}

/// To before the last prompt of a session, whose words are shown: to be edited and sent again.
fn undo_prompt(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let asking = context.asking_session(args.session.as_ref(), &rappel)?;
    let session = rappel.session_prompted(asking.as_ref())?;
    let stays = args.conversation && keeps_conversations(&rappel.session(&session)?);
    let conversation = args.conversation && !stays;
    let undone =
        progress::watch(context, "Comparing", || rappel.next_undo_prompt(&session, conversation))?;
    let view = rappel.session(&undone.session)?;
    let at_work = rappel.is_in_conversation(&view)?;
    let mut step = args.step.clone();
    // What the agent has in memory it would write over whatever is put back.
    if (!args.conversation || at_work || stays) && step.how.only.is_empty() {
        step.how.skip.push(Facet::Agents);
    }
    if let Some(other) = &undone.other {
        context.output.warning(&format!("session {other} has worked here since"));
    }
    let flag = if args.conversation { " --conversation" } else { "" };
    let words = format!("undo --prompt{flag} --session {}", undone.session);
    let name = view.assistant_session_id.as_ref().filter(|_| conversation && !at_work);
    let rewound: Vec<String> = name.cloned().into_iter().collect();
    let exit = take_words(("undo", &words), &undone.step, &step, rewound, &rappel, context)?;
    if context.output.json || context.output.quiet {
        return Ok(exit);
    }
    context.output.answer(|out| {
        for one in &undone.ignored {
            let files = face::count(one.paths.len() as u64, "path", "paths");
            writeln!(out, "{files} that git ignores did not come back. To restore them:")?;
            let paths: Vec<String> =
                one.paths.iter().map(|path| process::quote(&path.to_string())).collect();
            let restore = format!("restore {} -- {}", one.checkpoint, paths.join(" "));
            writeln!(out, "  {}", context.suggest(&restore))?;
        }
        writeln!(out, "The prompt was:\n{}", clean_lines(&undone.prompt))?;
        if stays {
            writeln!(out, "{CONVERSATION_STAYS}")?;
        } else if args.conversation && at_work {
            writeln!(out, "The agent is still at work, so its conversation stays. After you have left it, type:")?;
            let restore = format!(
                "restore {} --only agents --conversation {} --confirm",
                undone.step.to, undone.session
            );
            writeln!(out, "  {}", context.suggest(&restore))?;
        }
        if args.conversation && let Some(command) = rappel::resume_command(&view) {
            writeln!(out, "  {}", command.join(" "))?;
        }
        if args.conversation && at_work && view.provider.as_deref() == Some("codex") {
            writeln!(out, "{CODEX_KEEPS}")?;
        }
        Ok(())
    })?;
    Ok(exit)
}

/// What the user is told where a conversation cannot be set back.
pub(super) const CONVERSATION_STAYS: &str = "\
opencode keeps its conversations in a database that Rappel does not change, so this one stays as it is.
To go on from before that prompt, type /fork in opencode and choose the prompt. Or go on here: with your
next prompt the model is told what was undone.";

/// What the user is told of Codex's server.
const CODEX_KEEPS: &str = "Codex keeps a session for about a minute after you have left it.";

/// Whether a session's agent keeps its conversations where nothing of ours sets them back.
pub(super) fn keeps_conversations(view: &SessionView) -> bool {
    view.provider.as_deref() == Some("opencode")
}

/// That a conversation cannot be set back while its agent would write over it.
pub(super) fn still_at_work(view: &SessionView) -> Failure {
    let hint = match view.provider.as_deref() {
        Some("codex") => format!("leave it first. {CODEX_KEEPS}"),
        _ => "leave it first, then try again".into(),
    };
    // Nothing of ours sees it go, so the user says so.
    let hint = match view.process {
        Some(_) => hint,
        None => format!("{hint}. If it is gone already: rappel session end {}", view.id),
    };
    let message = format!("the agent of session {} is still at work", view.id);
    Failure { kind: ErrorKind::Busy, message, hint: Some(hint) }
}

/// Carries out an undo or redo and says which, and to what moment.
pub(super) fn take(
    verb: &str,
    step: &Step,
    args: &StepArgs,
    rappel: &Rappel,
    context: &Context,
) -> Result {
    take_words((verb, verb), step, args, Vec::new(), rappel, context)
}

/// The same, with the words that ask for it, and the conversations that go back.
fn take_words(
    (verb, words): (&str, &str),
    step: &Step,
    args: &StepArgs,
    rewound: Vec<String>,
    rappel: &Rappel,
    context: &Context,
) -> Result {
    let mut options = args.how.options(context, rappel.root())?;
    options.rewound = rewound;
    if let Some(folder) = &args.how.to {
        return restore::copy_out(&restore::exactly(&step.to), &options, folder, rappel, context);
    }
    if args.how.patch {
        return patch::run(&restore::exactly(&step.to), &options, rappel, context);
    }
    let back = if verb == "undo" { "redo" } else { "undo" };
    let plan_head = words_before(verb, step, rappel, context);
    if args.how.dry_run || (step.asks && !args.how.confirm) {
        let mut report = progress::watch(context, "Comparing", || {
            rappel.plan_step(step, args.overwrite, &options)
        })?;
        face::advice::word_report(&mut report);
        report.warnings.extend(lost_hooks::foreseen(&report, rappel, context));
        let overwrite = if args.overwrite { " --overwrite" } else { "" };
        let words = format!("{words}{overwrite}");
        report.confirm_with = Some(args.how.confirm_with(&words, context));
        let answer = UndoAnswer { step, report: &report };
        let approved = restore::approve(&plan_head, &answer, &report, back, &args.how, context)?;
        if let Some(exit) = approved {
            return Ok(exit);
        }
        options.expected = Some(report.plan);
    }
    context.stop_cleanly();
    let hooks = lost_hooks::present(rappel, context);
    let mut report =
        progress::watch(context, "Comparing", || rappel.step(step, args.overwrite, &options))?;
    face::advice::word_report(&mut report);
    report.warnings.extend(lost_hooks::lost(&hooks, rappel, context));
    if restore::did_something(&report) {
        report.warnings.extend(restore::rewound(&options.rewound, rappel, context)?);
    }
    let answer = UndoAnswer { step, report: &report };
    let head = match restore::did_something(&report) {
        true => words_after(verb, step, &report, options.is_partial(), rappel, context),
        false => plan_head,
    };
    restore::tell(&head, &answer, &report, back, context)
}

/// `Undo the restore of "first"  chk_…  (2 hours ago), back to what was saved at 2026-11-15
/// 18:26:03`: what a step would do.
fn words_before(verb: &str, step: &Step, rappel: &Rappel, context: &Context) -> String {
    let verb = face::capitalised(verb);
    let named = |id| restore::named(id, rappel, context);
    let text = match (&step.restored, &step.undone) {
        (Some(id), _) if step.is_rest => format!("{verb} the rest of the restore of {}", named(id)),
        (Some(id), _) => format!("{verb} the restore of {}", named(id)),
        (None, Some(id)) => format!("{verb}: take back the undo to {}", named(id)),
        (None, None) => return format!("{verb}: go back to {}", named(&step.to)),
    };
    format!(
        "{text}, back to what was saved at {}",
        face::checkpoint::local(step.moment, &context.zone())
    )
}

/// `Undone: the restore of "first"  chk_…  (2 hours ago)`, and what holds now: what a step has done.
/// Where a part was left out, no sentence says that all is as it was. Nothing is said of what the
/// restore did not touch: the user may have changed that since.
fn words_after(
    verb: &str,
    step: &Step,
    report: &RestoreReport,
    is_partial: bool,
    rappel: &Rappel,
    context: &Context,
) -> String {
    let done = if verb == "undo" { "Undone" } else { "Redone" };
    let named = |id| restore::named(id, rappel, context);
    let text = match (&step.restored, &step.undone) {
        (Some(id), None) if step.is_rest => {
            format!("{done}: the rest of the restore of {}", named(id))
        }
        (Some(id), None) => format!("{done}: the restore of {}", named(id)),
        (Some(id), Some(_)) => return format!("{done}: back to {}", named(id)),
        (None, Some(id)) => format!("{done}: the undo to {} is taken back", named(id)),
        (None, None) => return format!("{done}: back to {}", named(&step.to)),
    };
    let is_whole = !is_partial && !step.is_rest && report.conflicts.is_empty();
    match is_whole && report.summary.files.skip == 0 {
        true => format!("{text}\nEverything that it changed is as it was before."),
        false => text,
    }
}
