//! `rappel watch`.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jiff::tz::TimeZone;
use rappel::watch::{self, Clock, Watch, Watched};
use rappel::{ErrorKind, OpenOptions};
use rappel_types::{Timestamp, time};

use crate::errors::{Exit, Failure, Result};
use crate::face;
use crate::output::Output;
use crate::process::Context;
use crate::waiting::{Running, Waiting};

/// While the program's file is missing or cannot be started, it is tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// Keep the clock for all workspaces of the home
///
/// At local midnight it marks the end of each day that was worked on, in every workspace. Where
/// rappel.toml says `[auto] every = "10m"`, it saves that often while something changes. It applies
/// the retention policies and frees space. Without it, the next save or hook does all of this, as
/// far as it is due, but for `every`.
///
/// It runs until it is ended, one for each home, and wakes up for nothing else. It starts itself
/// anew when the program is replaced by another version. Databases are found as in
/// rappel.toml and in .env files; of one whose address only your shell knows, it keeps the last dump
/// and says so (stale).
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel watch
  rappel watch --once
  rappel integrate systemd
  rappel status")]
pub struct Args {
    /// Do what is due, and end; for those who have another clock, such as cron
    #[arg(long)]
    pub once: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let program = Program::this()?;
    let home = context.home()?;
    let options = OpenOptions { workspace: None, ..context.options()? };
    // A folder that is no home is told before anything is written there.
    let all = watch::watched(&options)?;
    let _clock = match Clock::keep(&home, context.now())? {
        Ok(clock) => clock,
        Err(other) => return Err(kept_by(other.as_ref(), context)),
    };
    if !context.output.quiet && !args.once {
        let of = face::count(all.len() as u64, "workspace", "workspaces");
        context.output.tell(&format!("Keeping the clock for {of} in {}", home.display()));
    }
    let output = context.output;
    let mut ticks = Ticks { program, home, output, all, done: HashMap::new() };
    let waiting = Waiting::new()?;
    loop {
        let is_there = ticks.program.is_there(output);
        match watch::watched(&options) {
            Ok(all) => ticks.all = all,
            // The home may be busy or away for a while.
            Err(error) => output.warning(&format!("the workspaces cannot be listed: {error}")),
        }
        waiting.watch(&ticks.program.path);
        // The first note of a workspace appears there with its first save.
        waiting.watch(&ticks.home.join("retention"));
        for one in &ticks.all {
            waiting.watch(&one.root.join("rappel.toml"));
        }
        let (now, zone) = (context.now(), context.zone());
        ticks.start(now, &zone);
        let next = match is_there {
            true => ticks.next(now, &zone),
            false => later(now, AGAIN),
        };
        if args.once && ticks.running().next().is_none() {
            return Ok(Exit::Done);
        }
        waiting.until(next, ticks.running())?;
    }
}

fn kept_by(other: Option<&Watch>, context: &Context) -> Failure {
    let who =
        other.map(|one| format!(" (process {}, {})", one.pid, time::age(context.now(), one.since)));
    Failure {
        kind: ErrorKind::Busy,
        message: format!(
            "another `rappel watch` keeps this home's clock{}",
            who.unwrap_or_default()
        ),
        hint: None,
    }
}

/// What the clock has asked for so far.
struct Ticks<'a> {
    program: Program,
    home: PathBuf,
    output: &'a Output,
    all: Vec<Watched>,
    done: HashMap<PathBuf, Tick>,
}

/// The last time that a workspace was looked after.
struct Tick {
    at: Timestamp,
    running: Option<Running>,
}

impl Ticks<'_> {
    /// Starts whatever is due.
    fn start(&mut self, now: Timestamp, zone: &TimeZone) {
        self.done.retain(|root, _| self.all.iter().any(|one| one.root == *root));
        for tick in self.done.values_mut() {
            if tick.running.as_mut().is_some_and(Running::has_ended) {
                tick.running = None;
            }
        }
        for one in &self.all {
            if self.due(one, now, zone).is_some_and(|due| due <= now) {
                let started = self.program.tick(&self.home, &one.root);
                if let Err(error) = &started {
                    let root = one.root.display();
                    self.output.warning(&format!("upkeep of {root} cannot be started: {error}"));
                }
                let running = started.ok().map(Running::new);
                self.done.insert(one.root.clone(), Tick { at: now, running });
            }
        }
    }

    /// When a workspace is due; `None` while it is looked after.
    fn due(&self, one: &Watched, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let Some(tick) = self.done.get(&one.root) else { return Some(now) };
        if tick.running.is_some() {
            return None;
        }
        // The clock was set back.
        if tick.at > now {
            return Some(now);
        }
        let midnight = midnight_after(tick.at, zone);
        Some(one.every.map_or(midnight, |every| midnight.min(later(tick.at, every))))
    }

    /// When the next one is due.
    fn next(&self, now: Timestamp, zone: &TimeZone) -> Timestamp {
        let due = self.all.iter().filter_map(|one| self.due(one, now, zone));
        due.min().unwrap_or_else(|| midnight_after(now, zone))
    }

    fn running(&self) -> impl Iterator<Item = &Running> {
        self.done.values().filter_map(|tick| tick.running.as_ref())
    }
}

/// This program's file.
struct Program {
    path: PathBuf,
    identity: (u64, u64),
}

impl Program {
    fn this() -> std::io::Result<Self> {
        let path = std::env::current_exe()?;
        let identity = identity(&path)?;
        Ok(Self { path, identity })
    }

    /// Whether the file is still the one that runs. If another version has taken its place, that one
    /// goes on instead of this one.
    fn is_there(&self, output: &Output) -> bool {
        match identity(&self.path) {
            Ok(found) if found == self.identity => true,
            Ok(_) => {
                let error = Command::new(&self.path).args(std::env::args_os().skip(1)).exec();
                output.warning(&format!("the new version cannot be started: {error}"));
                false
            }
            Err(_) => false,
        }
    }

    /// Looks after a workspace, in a process of its own.
    fn tick(&self, home: &Path, root: &Path) -> std::io::Result<Child> {
        Command::new(&self.path)
            .args(["upkeep", "--clock", "--quiet", "--home"])
            .arg(home)
            .arg("-C")
            .arg(root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let meta = std::fs::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_add(by.as_millis() as i64))
}

/// The first moment of the next local day.
fn midnight_after(moment: Timestamp, zone: &TimeZone) -> Timestamp {
    let tomorrow = moment.0.to_zoned(zone.clone()).date().tomorrow();
    let midnight = tomorrow.and_then(|day| day.to_zoned(zone.clone()));
    midnight.map_or(later(moment, Duration::from_secs(24 * 3600)), |at| Timestamp(at.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn midnight_is_found_where_clocks_change() {
        let next = |at: &str, zone: &str| {
            let zone = TimeZone::get(zone).unwrap();
            midnight_after(at.parse().unwrap(), &zone).to_string()
        };
        assert_eq!(next("2026-11-17T23:59:59Z", "UTC"), "2026-11-18T00:00:00.000Z");
        assert_eq!(next("2026-11-18T00:00:00Z", "UTC"), "2026-11-19T00:00:00.000Z");
        // A day of 23 hours, and one of 25.
        assert_eq!(next("2026-03-28T23:30:00Z", "Europe/Berlin"), "2026-03-29T22:00:00.000Z");
        assert_eq!(next("2026-10-24T22:30:00Z", "Europe/Berlin"), "2026-10-25T23:00:00.000Z");
        // In Beirut this day begins at one o'clock.
        assert_eq!(next("2026-03-28T12:00:00Z", "Asia/Beirut"), "2026-03-28T22:00:00.000Z");
    }
}
