//! `rappel hook git HOOK`: git has done something; save it, without keeping git waiting.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rappel::hook::Workers;
use rappel::{Rappel, SaveOptions};
use rappel_types::Trigger;
use rustix::process::Pid;

use crate::ancestors::parent_of;
use crate::detached;
use crate::errors::Result;
use crate::process::Context;
use crate::worker::{self, Side};

/// What `status` calls git among the agents.
pub const GIT: &str = "git";

/// So long the save waits for git to end.
const GIT_WAIT: Duration = Duration::from_secs(60);

/// Starts a worker that saves, and is done. Whatever goes wrong is told where it can be told.
/// `after` is the process that called the hook.
pub fn run(hook: &str, after: Option<i32>, context: &Context) {
    let git = after.and_then(Pid::from_raw).and_then(outermost_git);
    match worker::start() {
        Ok(Side::Caller(_)) => {}
        Ok(Side::Worker(_)) => {
            // Git calls a hook before it has put its own things away: a merge still counts as under
            // way then.
            if let Some(git) = git {
                let _ = worker::wait_for_end(&git, GIT_WAIT);
            }
            save(hook, context);
        }
        // Without a second process it is done in this one: the hook waits for neither.
        Err(_) => save(hook, context),
    }
}

/// The git that called a hook: the outermost one, as `git pull` runs `git merge`.
fn outermost_git(mut pid: Pid) -> Option<OwnedFd> {
    let is_git = |pid: Pid| read_process(pid, "comm").is_some_and(|name| name.trim() == "git");
    if !is_git(pid) {
        return None;
    }
    while let Some(parent) = parent_of(pid).filter(|parent| is_git(*parent)) {
        pid = parent;
    }
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

fn read_process(pid: Pid, name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero())).ok()
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
    let saved = opened.and_then(|rappel| {
        try_save(hook, &rappel)?;
        detached::start_upkeep(&rappel, context);
        Ok(())
    });
    if let Err(failure) = saved {
        workers.note_failure(&root, &failure.message);
    }
}

fn try_save(hook: &str, rappel: &Rappel) -> Result<()> {
    let what = match hook {
        "post-commit" => "After a commit".to_owned(),
        "post-merge" => "After a merge".to_owned(),
        "post-rewrite" => "After a rewrite of commits".to_owned(),
        other => format!("After git's {other} hook"),
    };
    let trigger = Trigger::CodeModified;
    rappel.save(&SaveOptions {
        message: Some(what),
        tags: trigger.automatic_tags(),
        trigger: Some(trigger),
        if_changed: true,
        ..SaveOptions::default()
    })?;
    Ok(())
}
