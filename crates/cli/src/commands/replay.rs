//! `rappel replay`.

use std::io::IsTerminal;
use std::str::FromStr;

use jiff::tz::TimeZone;
use rappel::answers::{ReplayExitAnswer, ReplayOverview};
use rappel::types::agents::SessionId;
use rappel::types::agents::replay::Step;
use rappel::{Rappel, Replay, ReplayPosition};
use rappel_types::{CheckpointId, Reference};

use crate::errors::{Exit, Failure, Result};
use crate::face;
use crate::face::replay::{Panel, Reaction, View};
use crate::output::Paint;
use crate::process::Context;
use crate::screen::{Pressed, Screen};
use crate::values;

/// How many items of each long list a full-screen view and a program get.
const ITEMS: u64 = 1_000;

/// Step through what led to a checkpoint, changing nothing
///
/// On a terminal a full-screen view: thoughts, tool calls, commands and changes of files one after
/// the other, and at each of them the agents, what was known and the files. For programs the flags
/// below; where they stand is remembered between calls (for each RAPPEL_SESSION by itself), so that
/// --step +1 goes on and REF need not be given again.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel replay latest
  rappel replay latest --step 12 --json
  rappel replay --step +1
  rappel replay --memory
  rappel replay --exit")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Args {
    /// Which checkpoint [default: the one that is being replayed]
    #[arg(value_name = "REF", value_parser = values::reference)]
    reference: Option<Reference>,
    /// Go to a step: its number, or so many forward (+1) or back (-1)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    step: Option<Move>,
    /// Show the agents that were at work there
    #[arg(long)]
    agents: bool,
    /// Show what the session knew there
    #[arg(long)]
    memory: bool,
    /// Show the files that were there
    #[arg(long)]
    files: bool,
    /// Whose past, where the checkpoint holds several sessions
    #[arg(long, value_name = "ID", value_parser = values::session)]
    session: Option<SessionId>,
    /// Forget where the replay stands
    #[arg(long, conflicts_with_all = ["reference", "step", "agents", "memory", "files", "session"])]
    exit: bool,
}

/// Where to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    To(usize),
    Forward(usize),
    Back(usize),
}

impl FromStr for Move {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let bad = || format!("{text:?} is no step: 12, +1 or -1");
        let number = |digits: &str| digits.parse().map_err(|_| bad());
        match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(digits), _) => number(digits).map(Self::Forward),
            (_, Some(digits)) => number(digits).map(Self::Back),
            _ => number(text).map(Self::To),
        }
    }
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let who = context.named_session(None)?;
    if args.exit {
        rappel.keep_replay_position(who.as_ref(), None);
        return exited(context);
    }
    let kept = rappel.replay_position(who.as_ref());
    let asks = args.step.is_some() || args.agents || args.memory || args.files;
    let replay = begun(&rappel, args, kept.as_ref(), context)?;
    let output = context.output;
    if !asks && !output.json && output.terminal && std::io::stdin().is_terminal() {
        return full_screen(&replay, &context.zone());
    }
    // Whoever names a checkpoint and asks for nothing begins anew.
    let kept = kept.filter(|kept| {
        let same =
            kept.checkpoint == replay.checkpoint.manifest.id && kept.session == replay.session;
        same && asks
    });
    let number = moved(args.step, kept.as_ref().map(|kept| kept.step), replay.steps.len());
    if !asks {
        keep(&rappel, who.as_ref(), &replay, number);
        return overview(&replay, number, context);
    }
    let step = replay.step(number)?;
    keep(&rappel, who.as_ref(), &replay, number);
    if output.json {
        let memory = args.memory.then_some(ITEMS);
        output.answer_json(&replay.answer(number, args.agents, memory, args.files)?)?;
    } else {
        let text = told(args, &replay, step, context)?;
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(Exit::Done)
}

/// The replay of the checkpoint that is named, or of the one that is being replayed.
fn begun<'r>(
    rappel: &'r Rappel,
    args: &Args,
    kept: Option<&ReplayPosition>,
    context: &Context,
) -> Result<Replay<'r>> {
    match (&args.reference, kept) {
        (Some(reference), _) => Ok(rappel.replay(reference, args.session.as_ref())?),
        (None, Some(kept)) => {
            let session = args.session.as_ref().or(kept.session.as_ref());
            Ok(rappel.replay(&exactly(&kept.checkpoint), session)?)
        }
        (None, None) => Err(Failure::usage(
            "no replay is under way",
            format!("{} begins one", context.suggest("replay latest")),
        )),
    }
}

fn exactly(id: &CheckpointId) -> Reference {
    Reference::new(rappel_types::reference::Base::Id(id.clone()))
}

/// The step to look at. Going forward and back stops at the ends.
fn moved(step: Option<Move>, kept: Option<usize>, last: usize) -> usize {
    let at = kept.unwrap_or(1);
    match step {
        None => at,
        Some(Move::To(number)) => number,
        Some(Move::Forward(far)) => at.saturating_add(far).min(last),
        Some(Move::Back(far)) => at.saturating_sub(far).max(1),
    }
}

fn keep(rappel: &Rappel, who: Option<&SessionId>, replay: &Replay, step: usize) {
    let checkpoint = replay.checkpoint.manifest.id.clone();
    let position = ReplayPosition { checkpoint, session: replay.session.clone(), step };
    rappel.keep_replay_position(who, Some(position));
}

fn exited(context: &Context) -> Result {
    let output = context.output;
    if output.json {
        output.answer_json(&ReplayExitAnswer::default())?;
    } else {
        output.answer(|out| Ok(writeln!(out, "The replay is over. Nothing was changed.")?))?;
    }
    Ok(Exit::Done)
}

/// All steps in short, and how to go on.
fn overview(replay: &Replay, number: usize, context: &Context) -> Result {
    let output = context.output;
    if output.json {
        output.answer_json(&ReplayOverview::new(replay, number))?;
        return Ok(Exit::Done);
    }
    let paint = output.paint();
    output.answer(|out| {
        let mut text = face::replay::heading(replay, &context.zone(), paint);
        text.push_str(&face::replay::list(&replay.steps, paint));
        if !output.quiet {
            let next = context.suggest("replay --step +1");
            text.push_str(&format!("\n{}\n", paint.faint(&format!("Step through it: {next}"))));
        }
        Ok(out.write_all(text.as_bytes())?)
    })?;
    Ok(Exit::Done)
}

/// A step for people, with what else they asked for.
fn told(args: &Args, replay: &Replay, step: &Step, context: &Context) -> Result<String> {
    let paint = context.output.paint();
    let zone = context.zone();
    let mut text = face::replay::heading(replay, &zone, paint);
    text.push_str(&face::replay::step(step, &replay.steps, &zone, paint));
    let panels =
        [(args.agents, Panel::Agents), (args.memory, Panel::Memory), (args.files, Panel::Files)];
    for (asked, panel) in panels {
        if asked {
            text.push('\n');
            text.push_str(&panel_text(replay, panel, step.number, &zone, paint)?);
        }
    }
    Ok(text)
}

fn panel_text(
    replay: &Replay,
    panel: Panel,
    number: usize,
    zone: &TimeZone,
    paint: Paint,
) -> Result<String> {
    let step = replay.step(number)?;
    Ok(match panel {
        Panel::Step => face::replay::step(step, &replay.steps, zone, paint),
        Panel::Agents => face::replay::agents(&replay.agents_at(number)?),
        Panel::Memory => match replay.state_at(number, face::agents::SHOWN)? {
            Some(found) => {
                let when = face::replay::since(&replay.steps, found.at.unwrap_or(step.at));
                face::agents::state_when(&found, &when, paint)
            }
            None => "No session had begun.\n".into(),
        },
        Panel::Files => face::replay::files(replay.files_at(number)?.as_ref()),
    })
}

fn full_screen(replay: &Replay, zone: &TimeZone) -> Result {
    let id = &replay.checkpoint.manifest.id;
    let session = replay.session.as_ref().map(|session| format!(", {session}"));
    let title = format!("Replay, read-only: {id}{}", session.unwrap_or_default());
    let mut view = View::new(title, replay.steps.clone());
    let mut screen = Screen::open()?;
    loop {
        if let Some((panel, number)) = view.wanted() {
            // What cannot be read is told where it would stand; the other steps can still be looked at.
            let text = panel_text(replay, panel, number, zone, Paint::PLAIN)
                .unwrap_or_else(|failure| format!("This cannot be shown: {}", failure.message));
            view.show((panel, number), &text);
        }
        screen.draw(|frame| view.draw(frame))?;
        match screen.pressed()? {
            Pressed::Key(key) => {
                if view.key(key) == Reaction::Leave {
                    break;
                }
            }
            Pressed::Changed => {}
            Pressed::Ended => break,
        }
    }
    screen.close();
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbers_or_ways_from_here() {
        assert_eq!("12".parse(), Ok(Move::To(12)));
        assert_eq!("+1".parse(), Ok(Move::Forward(1)));
        assert_eq!("-3".parse(), Ok(Move::Back(3)));
        for bad in ["", "+", "x", "--1", "1.5", "+-1"] {
            assert!(bad.parse::<Move>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn going_forward_and_back_stops_at_the_ends() {
        assert_eq!(moved(None, None, 9), 1);
        assert_eq!(moved(None, Some(4), 9), 4);
        assert_eq!(moved(Some(Move::Forward(1)), Some(9), 9), 9);
        assert_eq!(moved(Some(Move::Forward(2)), None, 9), 3);
        assert_eq!(moved(Some(Move::Back(7)), Some(4), 9), 1);
        assert_eq!(moved(Some(Move::To(40)), Some(4), 9), 40);
    }
}
