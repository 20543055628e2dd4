//! How far long work is, on a terminal, and only if it takes long enough to be asked about.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rappel::{ImportProgress, Progress};
use rappel_types::size::format_size;

use crate::face::thousands;
use crate::process::Context;

/// Work that takes less than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(100);

/// Does `work` and shows how far the scan is that it reports to `progress`.
pub fn scan<T>(context: &Context, progress: &Progress, work: impl FnOnce() -> T) -> T {
    watched(context, work, |bar| {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let to_read = load(&progress.bytes_to_read);
        let databases = load(&progress.database_bytes);
        let files_done = load(&progress.bytes_read) >= to_read;
        // Nobody knows beforehand how much a database will tell.
        if databases > 0 && files_done {
            bar.set_style(style("{spinner} {msg} ({elapsed})"));
            bar.set_message(format!("Reading databases, {}", format_size(databases)));
            return;
        }
        if to_read == 0 {
            bar.set_message("Looking for changes");
            return;
        }
        if bar.length().is_none() {
            bar.set_style(style("{bar:30} {bytes}/{total_bytes}, {msg}"));
        }
        bar.set_length(to_read);
        bar.set_position(load(&progress.bytes_read).min(to_read));
        let (read, files) = (load(&progress.files_read), load(&progress.files_to_read));
        bar.set_message(format!("{} of {} files", thousands(read), thousands(files)));
    })
}

/// Does `work` and shows how far the restore is; `first` is what it does before anything is written.
pub fn restore<T>(context: &Context, first: &'static str, work: impl FnOnce() -> T) -> T {
    let progress = &context.restoring;
    watched(context, work, |bar| {
        let all = progress.files_to_write.load(Ordering::Relaxed);
        if all == 0 {
            match progress.database_bytes.load(Ordering::Relaxed) {
                0 => bar.set_message(first),
                read => bar.set_message(format!("{first}, {} of databases", format_size(read))),
            }
            return;
        }
        if bar.length().is_none() {
            bar.set_style(style("{bar:30} {msg}"));
        }
        let written = progress.files_written.load(Ordering::Relaxed).min(all);
        bar.set_length(all);
        bar.set_position(written);
        bar.set_message(format!("{} of {} files", thousands(written), thousands(all)));
    })
}

/// Does `work` and shows how far the import is.
pub fn import<T>(context: &Context, progress: &ImportProgress, work: impl FnOnce() -> T) -> T {
    watched(context, work, |bar| {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        match (load(&progress.read), load(&progress.taken)) {
            (0, 0) => bar.set_message("Reading checkpoints"),
            (read, 0) => bar.set_message(format!("{} checkpoints read", thousands(read))),
            (_, taken) => bar.set_message(format!("{} checkpoints taken in", thousands(taken))),
        }
    })
}

/// Does `work` and shows what is being done.
pub fn spinner<T>(context: &Context, message: &'static str, work: impl FnOnce() -> T) -> T {
    watched(context, work, |bar| bar.set_message(message))
}

fn watched<T>(
    context: &Context,
    work: impl FnOnce() -> T,
    update: impl Fn(&ProgressBar) + Send,
) -> T {
    if !context.can_watch() {
        return work();
    }
    thread::scope(|scope| {
        let (working, stopped) = mpsc::channel::<()>();
        // Without a thread nothing is shown.
        let _ = thread::Builder::new().spawn_scoped(scope, move || show(&stopped, &update));
        let result = work();
        drop(working);
        result
    })
}

/// Draws until the other end is dropped.
fn show(stopped: &Receiver<()>, update: &impl Fn(&ProgressBar)) {
    let still_working = |time| matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    if !still_working(PATIENCE) {
        return;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style("{spinner} {msg} ({elapsed})"));
    loop {
        update(&bar);
        bar.tick();
        if !still_working(TICK) {
            break;
        }
    }
    bar.finish_and_clear();
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
