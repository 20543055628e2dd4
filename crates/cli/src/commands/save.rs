//! `rappel save`.

use rappel::answers::SaveAnswer;
use rappel::types::agents::SessionId;
use rappel::{ErrorKind, Rappel, SaveOptions, Saved};
use rappel_types::{Facet, Trigger};
use serde_json::Value;

use super::trust;
use crate::errors::{Exit, Failure, Result};
use crate::face::saved::Agents;
use crate::process::Context;
use crate::{detached, face, progress, values};

/// Make a checkpoint
///
/// Captures the workspace as it is now. It is safe on disk when this returns. If nothing changed
/// since a checkpoint of the last minute and nothing is added to it, that one is the answer.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel save
  rappel save \"Before adding Stripe\"
  rappel save -m \"Before adding Stripe\"
  rappel save \"Auth works\" -t auth,green --meta step_number=3
  rappel save --json | jq -r .id

Triggers that read every database that changed, unless [capture] databases in
rappel.toml names others:
  manual, pre-operation, pre-restore, session-start, session-end, pr-merged,
  end-of-day
Triggers that pass over a database that takes long to read:
  prompt, scheduled, task-completed, imported, paused, execution-completed,
  verification-complete, branch-switch, branch-merged, code-modified,
  time-passed, context-compaction
The same, for single steps of an agent:
  thought-completed, tool-executed, hypothesis-status-change,
  contradiction-detected, gap-filled")]
pub struct Args {
    /// What this moment is, in your words
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
    /// The same; each further one is a paragraph of its own
    #[arg(short = 'm', long = "message", value_name = "MESSAGE", conflicts_with = "message")]
    pub paragraphs: Vec<String>,
    /// Tags, by commas or repeated
    #[arg(short, long = "tag", visible_alias = "tags", value_name = "TAG")]
    #[arg(value_delimiter = ',', value_parser = values::tag)]
    pub tags: Vec<String>,
    /// The agent session that asks [default: RAPPEL_SESSION]
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    pub session: Option<SessionId>,
    /// Why it is made [default: manual]
    #[arg(long, value_parser = values::trigger)]
    pub trigger: Option<Trigger>,
    /// Capture only these facets: files, git, databases, agents, knowledge
    #[arg(long, value_name = "FACETS", value_delimiter = ',', value_parser = values::facet)]
    pub only: Vec<Facet>,
    /// Do not capture these facets
    #[arg(long, value_name = "FACETS", value_delimiter = ',', value_parser = values::facet)]
    pub skip: Vec<Facet>,
    /// The environment's name [default: RAPPEL_ENVIRONMENT, then rappel.toml]
    #[arg(long, value_name = "NAME")]
    pub environment: Option<String>,
    /// A value to keep with it; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub meta: Vec<(String, Value)>,
    /// How long to wait for tool calls that are running [default: 2s for a save by hand]
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub wait: Option<std::time::Duration>,
    /// Exit with 1 if something could not be captured
    #[arg(long)]
    pub require_complete: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open_silently()?;
    let saved = make(args, &rappel, context)?;
    answer(&saved, &rappel, context)?;
    end(args, &saved, &rappel, context)
}

/// Makes the checkpoint, and says nothing yet.
pub fn make(args: &Args, rappel: &Rappel, context: &Context) -> Result<Saved> {
    let session = context.named_session(args.session.as_ref())?;
    let options = SaveOptions {
        message: match &args.paragraphs[..] {
            [] => args.message.clone(),
            paragraphs => Some(paragraphs.join("\n\n")),
        },
        tags: args.tags.clone(),
        trigger: args.trigger,
        session: session.map(|session| session.to_string()),
        environment: args.environment.clone(),
        metadata: args.meta.iter().cloned().collect(),
        only: (!args.only.is_empty()).then(|| args.only.iter().copied().collect()),
        skip: args.skip.iter().copied().collect(),
        wait: args.wait,
        export_later: true,
        ..SaveOptions::default()
    };
    if options.wants(Facet::Databases) {
        trust::ask_once(rappel, context)?;
    }
    context.stop_cleanly();
    let save = || rappel.save_asked_for(&options);
    let mut saved = progress::watch(context, "Looking for changes", save)?;
    face::advice::word(&mut saved.notes);
    Ok(saved)
}

fn answer(saved: &Saved, rappel: &Rappel, context: &Context) -> Result<()> {
    let checkpoint = &saved.checkpoint;
    let output = context.output;
    if output.json {
        output.answer_json(&SaveAnswer::from(saved))?;
    } else if output.quiet {
        output.answer(|out| Ok(writeln!(out, "{}", checkpoint.manifest.id)?))?;
    } else {
        let go_back = context.suggest(&format!("restore {}", checkpoint.manifest.id));
        let transcripts = rappel.transcripts_in(&checkpoint.manifest).unwrap_or_default();
        let agents = Agents { transcripts, waited: saved.waited };
        let text = face::saved::text(checkpoint, &agents, context.now(), &go_back, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(())
}

/// What is said besides the answer, and how it ends.
pub fn end(args: &Args, saved: &Saved, rappel: &Rappel, context: &Context) -> Result {
    let (checkpoint, output) = (&saved.checkpoint, context.output);
    for note in &saved.notes {
        output.note(&note.text);
    }
    let incomplete = args.require_complete && checkpoint.manifest.partial;
    face::saved::warn(checkpoint, output);
    output.hint(&saved.advice);
    context.announce(rappel);
    // The answer is out. The process ends only when the files are there, so that a script finds them.
    rappel.write_new_ones_out();
    detached::start_upkeep(rappel, context);
    if incomplete {
        return Err(Failure {
            kind: ErrorKind::Failed,
            message: format!("{} is not complete", checkpoint.manifest.id),
            hint: Some(context.suggest(&format!("show {}", checkpoint.manifest.id))),
        });
    }
    Ok(Exit::Done)
}
