//! `rappel hook git HOOK`: git has done something; save it, without keeping git waiting.

use rappel::hook::Workers;
use rappel::{Rappel, SaveOptions};
use rappel_types::Trigger;

use crate::errors::Result;
use crate::process::Context;
use crate::worker::{self, Side};

/// What `status` calls git among the agents.
pub const GIT: &str = "git";

/// Starts a worker that saves, and is done. Whatever goes wrong is told where it can be told.
pub fn run(hook: &str, context: &Context) {
    match worker::start() {
        Ok(Side::Caller(_)) => {}
        // Without a second process it is done in this one: the hook waits for neither.
        Ok(Side::Worker(_)) | Err(_) => save(hook, context),
    }
}

fn save(hook: &str, context: &Context) {
    let Ok(home) = context.home() else { return };
    let (workers, root) = (Workers::of(&home), context.root());
    // The home first: where it is being made, nothing else may be put there.
    let opened = context.open_silently();
    if opened.is_err() && !home.join("format").exists() {
        return;
    }
    let lost = format!("what git did before its {hook} hook is not saved");
    let _at_work = workers.begin_work(&root, lost);
    workers.note_heard(&root, GIT);
    if let Err(failure) = opened.and_then(|mut rappel| try_save(hook, &mut rappel)) {
        workers.note_failure(&root, &failure.message);
    }
}

fn try_save(hook: &str, rappel: &mut Rappel) -> Result<()> {
    let what = match hook {
        "post-commit" => "After a commit".to_owned(),
        "post-merge" => "After a merge".to_owned(),
        "post-rewrite" => "After a rewrite of commits".to_owned(),
        other => format!("After git's {other} hook"),
    };
    let trigger = Trigger::CodeModified;
    rappel.save(&SaveOptions {
        message: Some(what),
        tags: vec!["auto".into(), trigger.seed_name()],
        trigger: Some(trigger),
        if_changed: true,
        ..SaveOptions::default()
    })?;
    Ok(())
}
