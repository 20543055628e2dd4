//! What is unfinished, and how it was ended.

use rappel::{
    CrashedSession, Recovered, RecoveryPoint, RecoveryStep, SetAside, Unfinished, UnfinishedRestore,
};
use rappel_types::duration::format_duration;
use rappel_types::{Timestamp, time};

use super::{Fields, count};
use crate::output::{Paint, clean};

/// Everything unfinished; `suggest` makes a command out of its words.
pub fn unfinished(
    unfinished: &Unfinished,
    now: Timestamp,
    suggest: &dyn Fn(&str) -> String,
    paint: Paint,
) -> String {
    let restores = &unfinished.restores;
    if restores.is_empty() && unfinished.damaged.is_empty() && unfinished.sessions.is_empty() {
        return "Nothing is unfinished.\n".into();
    }
    let mut text = String::new();
    if !restores.is_empty() {
        let head = count(restores.len() as u64, "unfinished restore", "unfinished restores");
        text.push_str(&format!("{}\n", paint.strong(&head)));
    }
    for restore in restores {
        text.push_str(&one(restore, now, suggest, paint));
    }
    let (left, gone): (Vec<_>, Vec<_>) =
        unfinished.sessions.iter().partition(|session| session.still_running.is_some());
    for (head, sessions) in [
        ("Sessions whose agent is gone:", gone),
        ("Sessions whose command goes on without `rappel run`, so that nothing saves it:", left),
    ] {
        if !sessions.is_empty() {
            text.push_str(&format!("{}\n", paint.strong(head)));
        }
        for session in sessions {
            text.push_str(&ended(session, now, suggest, paint));
        }
    }
    if !unfinished.damaged.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bad("Cannot be read:")));
        for damaged in &unfinished.damaged {
            text.push_str(&format!("  {}\n", clean(damaged)));
        }
    }
    if unfinished.damaged_here {
        text.push_str("    What that restore left undone cannot be told.\n");
        let command = suggest("recover --set-aside");
        text.push_str(&format!("    Save what is there and go on with: {command}\n"));
    }
    text
}

/// A session that crashed, and what to do.
fn ended(
    session: &CrashedSession,
    now: Timestamp,
    suggest: &dyn Fn(&str) -> String,
    paint: Paint,
) -> String {
    let task = session.task.as_deref().map(|task| format!("  {}", clean(task)));
    let begun = session.started_at.map(|at| time::age(now, at)).unwrap_or_default();
    let id = paint.id(session.id.as_str());
    let mut text = format!("  {id}  begun {begun}{}\n", task.unwrap_or_default());
    text.push_str(&crash(session, paint));
    let resume = match &session.resume {
        // The flags of this call belong before the command that is run.
        Some(resume) => match resume.strip_prefix("rappel ").map(|it| it.split_once(" -- ")) {
            Some(Some((words, command))) => format!("{} -- {command}", suggest(words)),
            _ => resume.clone(),
        },
        None => suggest(&format!("recall --session {}", session.id)),
    };
    let resume = clean(&resume);
    if let Some(pid) = session.still_running {
        text.push_str(&format!("    The command still runs (process {pid}).\n"));
        text.push_str(&format!("    Save what it has done with: {}\n", suggest("save")));
        text.push_str(&format!("    Once it has ended, go on with: {resume}\n"));
    } else {
        text.push_str(&format!("    Go on with: {resume}\n"));
    }
    text
}

/// What is known of a session that crashed.
fn crash(session: &CrashedSession, paint: Paint) -> String {
    let mut fields = Fields::new(paint);
    if let (Some(id), Some(age)) = (&session.last_checkpoint, session.age_ms) {
        let age = format_duration(age);
        fields.add("Last checkpoint", format!("{} ({age} ago)", paint.id(id.as_str())));
    }
    if let Some(call) = &session.unfinished_call {
        let arguments = match call.arguments.is_null() {
            true => String::new(),
            false => super::shorten(&format!(" {}", call.arguments), 100),
        };
        fields.add("Unfinished call", clean(&format!("{} ({}){arguments}", call.tool, call.id)));
    }
    fields.add("Modified", super::run::modified(&session.files_modified));
    fields.add_some("Ran for", session.duration_ms.map(format_duration));
    fields.lines().lines().map(|line| format!("  {line}\n")).collect()
}

/// What became of plans that cannot be read; `suggest` makes a command out of its words.
pub fn set_aside(done: &SetAside, suggest: &dyn Fn(&str) -> String, paint: Paint) -> String {
    let mut fields = Fields::new(paint);
    fields.add("Now", format!("saved as {}", paint.id(done.safety_checkpoint.as_str())));
    for file in &done.files {
        fields.add("Plan", clean(file));
    }
    let head = paint.good("Took the plan out of the way");
    let mut text = format!("{head}\n{}", fields.lines());
    if let Some(before) = &done.before {
        let compare = suggest(&format!("diff {before}"));
        let back = suggest(&format!("restore {before}"));
        text.push_str("Some of what is there may be of the checkpoint that was to be restored.\n");
        text.push_str(&format!("See what differs from before with: {compare}\n"));
        text.push_str(&format!("Go back to it with:                {back}\n"));
    }
    text
}

/// How to get back to a checkpoint.
pub fn steps(point: &RecoveryPoint, paint: Paint) -> String {
    let mut text = format!("To get back to {}:\n", paint.id(point.checkpoint_id.as_str()));
    for (number, step) in point.recovery_instructions.iter().enumerate() {
        let line = match step {
            RecoveryStep::RestoreCodeState { commit_hash, patches } => {
                let commit = commit_hash.as_deref().unwrap_or("no commit");
                match patches.len() as u64 {
                    0 => format!("the code is at {commit}"),
                    number => {
                        let patches = count(number, "patch", "patches");
                        format!("the code is at {commit}, with {patches} for git apply (--json)")
                    }
                }
            }
            RecoveryStep::RestoreEnvironment { env_vars } => {
                let set: Vec<String> =
                    env_vars.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("the environment has {}", set.join(" "))
            }
            RecoveryStep::ReplayCommand { command } => format!("run: {command}"),
            RecoveryStep::ManualInstruction { instruction } => instruction.clone(),
        };
        text.push_str(&format!("  {}. {}\n", number + 1, clean(&line)));
    }
    text
}

fn one(
    restore: &UnfinishedRestore,
    now: Timestamp,
    suggest: &dyn Fn(&str) -> String,
    paint: Paint,
) -> String {
    let here = if restore.here { "  (this workspace)" } else { "" };
    let mut text = format!("\n  {}{here}\n", clean(&restore.root));
    text.push_str(&format!(
        "    of {}, begun {}, {}\n",
        paint.id(restore.checkpoint.as_str()),
        time::age(now, restore.since),
        count(restore.paths as u64, "path", "paths"),
    ));
    if !restore.databases.is_empty() {
        text.push_str(&format!("    databases: {}\n", clean(&restore.databases.join(", "))));
    }
    text.push_str(&format!("    before it: {}\n", paint.id(restore.safety_checkpoint.as_str())));
    if restore.running {
        text.push_str("    a process is at work on it right now\n");
    } else if restore.here {
        text.push_str(&format!("    Finish it with:     {}\n", suggest("recover --finish")));
        let back = match restore.past_return {
            false => format!("    Take it back with:  {}\n", suggest("recover --rollback")),
            true => "    A database may be restored already; undo takes all of it back once it is finished.\n    --skip databases finishes it without those that cannot be restored.\n".to_owned(),
        };
        text.push_str(&back);
    } else {
        let place = crate::process::quote(&restore.root);
        text.push_str(&format!("    See to it with: rappel -C {place} recover\n"));
    }
    text
}

/// How an unfinished restore was ended.
pub fn recovered(recovered: &Recovered, finished: bool, paint: Paint) -> String {
    let head = if finished { "Finished the restore" } else { "Took the restore back" };
    let mut fields = Fields::new(paint);
    fields.add("Done", clean(&recovered.message));
    fields.add("Before", format!("saved as {}", paint.id(recovered.safety_checkpoint.as_str())));
    format!("{}\n{}", paint.good(head), fields.lines())
}
