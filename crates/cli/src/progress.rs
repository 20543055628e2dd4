//! How far long work is, on a terminal, and only if it takes long enough to be asked about.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rappel::{Phase, Progress, Snapshot};
use rappel_types::size::format_size;

use crate::face::thousands;
use crate::process::Context;

/// Work that takes less than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(100);

/// Does `work` and shows how far it is; `first` is what is shown until it has begun.
pub fn watch<T>(context: &Context, first: &'static str, work: impl FnOnce() -> T) -> T {
    let progress = &*context.operation.progress;
    // What an earlier part of the command did says nothing about this one.
    progress.begin(Phase::Starting, None);
    if !context.can_watch() {
        return work();
    }
    thread::scope(|scope| {
        let (working, stopped) = mpsc::channel::<()>();
        // Without a thread nothing is shown.
        let _ = thread::Builder::new().spawn_scoped(scope, move || show(&stopped, progress, first));
        let result = work();
        drop(working);
        result
    })
}

/// Draws until the other end is dropped.
fn show(stopped: &Receiver<()>, progress: &Progress, first: &str) {
    let still_working = |time| matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    if !still_working(PATIENCE) {
        return;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    loop {
        draw(&bar, &progress.snapshot(), first);
        bar.tick();
        if !still_working(TICK) {
            break;
        }
    }
    bar.finish_and_clear();
}

fn draw(bar: &ProgressBar, seen: &Snapshot, first: &str) {
    bar.set_message(words(seen, first));
    match seen.total.filter(|total| *total > 0) {
        Some(total) => {
            bar.set_style(style("{bar:30} {msg}"));
            bar.set_length(total);
            bar.set_position(seen.done);
        }
        None => bar.set_style(style("{spinner} {msg} ({elapsed})")),
    }
}

/// What is being done, and how much of it is done, for people.
fn words(seen: &Snapshot, first: &str) -> String {
    let (doing, what) = match seen.phase {
        Phase::Starting => (first, ""),
        Phase::Looking => ("Looking for changes", ""),
        Phase::ReadingFiles => ("Reading", "files"),
        Phase::ReadingDatabases => ("Reading databases", ""),
        Phase::Committing => ("Storing", ""),
        Phase::Planning => ("Comparing", ""),
        Phase::SavingPresent => ("Saving the present", ""),
        Phase::LoadingDatabases => ("Loading", "databases"),
        Phase::Staging => ("Writing", "files"),
        Phase::Swapping => ("Putting in place", "entries"),
        Phase::Verifying => ("Verifying", "entries"),
        Phase::CommittingDatabases => ("Committing", "databases"),
        Phase::Recording => ("Finishing", ""),
        Phase::RollingBack => ("Taking back", "entries"),
        Phase::ReadingPacks => ("Reading the store", ""),
        Phase::CheckingObjects => ("Checking", "objects"),
        Phase::CheckingCheckpoints => ("Checking", "checkpoints"),
        Phase::Repairing => ("Repairing", ""),
        Phase::Marking => ("Looking for what is needed", ""),
        Phase::Copying => ("Freeing space", "packs"),
        Phase::Deleting => ("Deleting", "checkpoints"),
        Phase::ReadingCheckpoints => ("Reading checkpoints", "checkpoints"),
        Phase::TakingIn => ("Taking in", "checkpoints"),
        Phase::WritingOut => ("Writing", ""),
    };
    let bytes = match seen.bytes {
        0 => String::new(),
        bytes => format!(", {}", format_size(bytes)),
    };
    match (seen.total.filter(|total| *total > 0), seen.done) {
        (Some(total), done) => {
            let count = format!("{} of {} {what}", thousands(done), thousands(total));
            format!("{doing} {}{bytes}", count.trim_end())
        }
        (None, 0) => format!("{doing}{bytes}"),
        (None, done) => {
            let count = format!("{doing}: {} {what}", thousands(done));
            format!("{}{bytes}", count.trim_end())
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_is_done_and_how_much_of_it() {
        let seen = |phase, done, total, bytes| words(&Snapshot { phase, done, total, bytes }, "A");
        assert_eq!(seen(Phase::Starting, 0, None, 0), "A");
        assert_eq!(seen(Phase::Looking, 0, None, 0), "Looking for changes");
        let reading = seen(Phase::ReadingFiles, 1_200, Some(3_000), 5_000_000);
        assert!(reading.starts_with("Reading 1,200 of 3,000 files, "), "{reading}");
        let databases = seen(Phase::ReadingDatabases, 0, None, 5_000_000);
        assert!(databases.starts_with("Reading databases, "), "{databases}");
        let read = seen(Phase::ReadingCheckpoints, 12, None, 0);
        assert_eq!(read, "Reading checkpoints: 12 checkpoints");
        assert_eq!(seen(Phase::WritingOut, 2, Some(4), 0), "Writing 2 of 4");
    }
}
