//! `rappel integrate`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rappel::answers::{AgentAnswer, RemovedAnswer};
use rappel::hook::{Installed, Switch, Trust};
use rappel::{ErrorKind, ListFilter, Rappel, SaveOptions};
use rappel_hooks::caller::{Caller, Program};
use rappel_hooks::files::FileError;
use rappel_hooks::integrate::{self, Changes, Extras, IntegrateError, Place, UserFolder};
use rappel_hooks::records::Records;
use rappel_hooks::typed::SLASHES;
use rappel_hooks::{Scope, VENDORS, Vendor, vendor};
use rappel_types::CheckpointId;

use super::{help, integrate_git, integrate_systemd, trust};
use crate::errors::{Exit, Failure, Result};
use crate::output::clean;
use crate::process::{self, Context};
use crate::{face, progress};

/// Let an agent save by itself: set up its hooks, or remove them
///
/// `claude`, `codex`, `gemini`, `opencode`: Rappel saves at each prompt, before and after each
/// command and edit, and at the beginning and end of each session. The agent also gets commands
/// (/rappel:undo and others, in opencode /rappel/undo; Codex has none) that you can type into its
/// prompt, and a skill that tells it when to save and what to record. Codex and Gemini CLI run hooks
/// only after you have said so there. opencode gets a plugin instead of hooks.
///
/// `git`: Rappel saves after each commit, merge and rewrite, by hooks of this repository. Hooks
/// that are there still run. Where core.hooksPath says that another program keeps the hooks, nothing
/// is written, and the line to add is printed.
///
/// `systemd`: a unit of yours runs `rappel watch`, which marks the ends of days and saves at
/// intervals, in all your projects.
///
/// Only what is listed is written; everything else stays as it is, and --remove takes exactly this
/// out again.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel integrate claude
  rappel integrate claude --user --status-line
  rappel integrate claude --shared
  rappel integrate claude --mcp
  rappel integrate claude --remove
  rappel integrate codex --user
  rappel integrate gemini --user --mcp
  rappel integrate opencode
  rappel integrate git
  rappel integrate systemd
  rappel integrate --remove --all

Where the hooks are written:
  (nothing)   this project, for you: .claude/settings.local.json, .codex/hooks.json,
              .gemini/settings.json, .opencode/plugins/rappel.js
  --shared    this project, for everyone who has the repository: .claude/settings.json,
              .codex/hooks.json, .gemini/settings.json, .opencode/plugins/rappel.js
  --user      all your projects (git work trees and folders with a rappel.toml):
              ~/.claude/settings.json, ~/.codex/hooks.json, ~/.gemini/settings.json,
              ~/.config/opencode/plugins/rappel.js")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Args {
    /// Which agent, or git, or systemd
    #[arg(value_enum, required_unless_present = "all")]
    agent: Option<Agent>,
    /// For all your projects
    #[arg(long, conflicts_with = "shared")]
    user: bool,
    /// For everyone who has this repository; does nothing where Rappel is not installed
    #[arg(long)]
    shared: bool,
    /// Take it out again
    #[arg(long)]
    remove: bool,
    /// Remove it everywhere: from this project, from your own settings, and from every other
    /// project in which it was set up
    #[arg(long, requires = "remove", conflicts_with_all = ["user", "shared"])]
    all: bool,
    /// Also show in the agent's status line when the last save was, unless it shows something else
    #[arg(long, conflicts_with = "remove")]
    status_line: bool,
    /// Also register `rappel mcp`, so that the agent can save, restore and recall by tools
    #[arg(long, conflicts_with = "remove")]
    mcp: bool,
}

/// An agent that can be integrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Agent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// opencode
    Opencode,
    /// git: a checkpoint after each commit, merge and rewrite
    Git,
    /// systemd: a unit that keeps the clock (rappel watch)
    Systemd,
}

impl Args {
    fn scope(&self) -> Scope {
        match (self.user, self.shared) {
            (true, _) => Scope::User,
            (_, true) => Scope::Shared,
            _ => Scope::Local,
        }
    }
}

impl Agent {
    /// The vendor of that name; none for what is no agent.
    fn vendor(self) -> Option<&'static Vendor> {
        let name = self.to_possible_value()?;
        vendor(name.get_name())
    }
}

pub fn run(args: &Args, context: &Context) -> Result {
    if args.all {
        return remove(args, &VENDORS, context);
    }
    // Without --all there is one: the command line asks for it.
    let agent = args.agent.unwrap_or(Agent::Claude);
    if let Some(vendor) = agent.vendor() {
        return match args.remove {
            true => remove(args, &[vendor], context),
            false => install(vendor, args, context),
        };
    }
    if args.user || args.shared || args.status_line || args.mcp {
        let message = match agent {
            Agent::Git => "git's hooks belong to one repository",
            _ => "the unit of systemd is yours, for all your projects",
        };
        return Err(Failure {
            kind: ErrorKind::Usage,
            message: message.into(),
            hint: Some("leave out --user, --shared, --status-line and --mcp".into()),
        });
    }
    match (agent, args.remove) {
        (Agent::Git, true) => integrate_git::remove(context),
        (Agent::Git, false) => integrate_git::install(context),
        (_, true) => integrate_systemd::remove(context),
        (_, false) => integrate_systemd::install(context),
    }
}

fn install(vendor: &'static Vendor, args: &Args, context: &Context) -> Result {
    let scope = args.scope();
    if args.status_line && vendor.status_line.is_none() {
        let message = format!("the status line of {} cannot show what Rappel says", vendor.title);
        return Err(Failure {
            kind: ErrorKind::Usage,
            message,
            hint: Some("leave out --status-line".into()),
        });
    }
    let place = Place::new(vendor, scope, &context.root(), &context.agent_folder(vendor)?);
    let program = match scope {
        Scope::Shared => Program::OnPath,
        Scope::Local | Scope::User => Program::At(installed_program()?),
    };
    let home = context.chosen_home().filter(|_| scope != Scope::Shared);
    let named = process::named_home().filter(|_| scope != Scope::Shared);
    let caller = Caller::new(program, home).map_err(IntegrateError::from)?.with_named_home(named);
    // A home that cannot be used is told before anything is written.
    let rappel = context.open_silently()?;
    let records = Records::open(&context.home()?).map_err(IntegrateError::from)?;
    let extras = Extras { status_line: args.status_line, server: args.mcp };
    let changes = integrate::install(&place, &caller, extras, &records)?;
    drop(records);

    let output = context.output;
    let name = vendor.name;
    let remove_with = context.suggest(&format!("integrate {name} --remove{}", scope.flag()));
    if !output.json && !output.quiet {
        let text = written(&place, &caller, &changes);
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    // The folder in which the user's own settings are changed need not be a project.
    let saved = match scope == Scope::User && !rappel::is_project(rappel.root()) {
        true => None,
        false => {
            let message = format!("{} integrated", vendor.title);
            first_save(&rappel, &message, &changes, context)?
        }
    };
    let notes = notes(&place, &changes, context);
    let names: Vec<String> = match &vendor.layout.commands {
        Some(commands) => SLASHES.iter().map(|slash| (commands.typed)(slash.name)).collect(),
        None => Vec::new(),
    };
    if output.json {
        output.answer_json(&AgentAnswer {
            agent: name,
            scope: scope.as_str(),
            settings: place.settings().display().to_string(),
            program: caller.program().as_text(),
            changed: !changes.is_empty(),
            written: texts(&changes.written),
            removed: texts(&changes.removed),
            kept: texts(&changes.kept),
            commands: &names,
            checkpoint: saved.as_ref(),
            notes: &notes,
            remove_with,
        })?;
        return Ok(Exit::Done);
    }
    if !output.quiet {
        output.answer(|out| {
            let title = vendor.title;
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let is_answered = vendor.layout.commands.as_ref().is_some_and(|one| one.answered);
            let plain = ["rappel undo", "rappel status", "rappel list"];
            let (answered, repeated) = match is_answered {
                true => (&names[..], &[][..]),
                false => (&plain[..], &names[..]),
            };
            writeln!(out, "\nType into {title}'s prompt, and Rappel answers without the model:")?;
            writeln!(out, "  {}", help::wrapped(answered, 2))?;
            if !repeated.is_empty() {
                writeln!(out, "These commands go through the model, which repeats the answer:")?;
                writeln!(out, "  {}", help::wrapped(repeated, 2))?;
            }
            let paint = output.paint();
            Ok(writeln!(out, "{}", paint.faint(&format!("Remove all of it with: {remove_with}")))?)
        })?;
    }
    for note in &notes {
        output.warning(note);
    }
    Ok(Exit::Done)
}

/// What was written, a line each.
fn written(place: &Place, caller: &Caller, changes: &Changes) -> String {
    let vendor = place.vendor;
    if changes.is_empty() {
        let file = place.settings();
        return format!("{} is integrated already, by {}\n", vendor.title, file.display());
    }
    let mut text = String::new();
    for path in &changes.servers {
        text.push_str(&format!("Wrote {}: the MCP server `rappel`\n", path.display()));
    }
    let folders = place.commands().map(|folder| (folder, "commands"));
    let folders: Vec<_> = folders.into_iter().chain([(place.skill(), "skill")]).collect();
    for path in &changes.written {
        if *path == place.settings() {
            let calls = clean(&caller.line(&format!("hook {}", vendor.name)));
            text.push_str(&format!("Wrote {}: hooks that call {calls}\n", path.display()));
        } else if !changes.servers.contains(path)
            && !folders.iter().any(|(folder, _)| path.starts_with(folder))
        {
            text.push_str(&format!("Wrote {}\n", path.display()));
        }
    }
    for (folder, what) in folders {
        if changes.written.iter().any(|path| path.starts_with(&folder)) {
            text.push_str(&format!("Wrote {}: {what}\n", folder.display()));
        }
    }
    text
}

/// The first checkpoint with everything, unless there is nothing new to hold.
pub(super) fn first_save(
    rappel: &Rappel,
    message: &str,
    changes: &Changes,
    context: &Context,
) -> Result<Option<CheckpointId>> {
    let one = ListFilter { limit: Some(1), ..ListFilter::default() };
    if changes.is_empty() && rappel.list(&one)?.total > 0 {
        return Ok(None);
    }
    trust::ask_once(rappel, context)?;
    context.stop_cleanly();
    let options = SaveOptions {
        message: Some(message.into()),
        session: context.session(),
        ..SaveOptions::default()
    };
    let saved = progress::watch(context, "Looking for changes", || rappel.save(&options));
    let saved = saved.map_err(Failure::from).map_err(|failure| Failure {
        message: format!("the hooks are in place, but the first save failed: {}", failure.message),
        ..failure
    })?;
    let checkpoint = &saved.checkpoint;
    let output = context.output;
    if !output.json && !output.quiet {
        let id = &checkpoint.manifest.id;
        let files = checkpoint.manifest.files.as_ref().map_or(0, |files| files.count);
        let files = face::count(files, "file", "files");
        output.answer(|out| {
            Ok(writeln!(out, "Saved {} ({files})", output.paint().id(id.as_str()))?)
        })?;
    }
    face::saved::warn(checkpoint, output);
    Ok(Some(checkpoint.manifest.id.clone()))
}

/// What the user should know besides.
fn notes(place: &Place, changes: &Changes, context: &Context) -> Vec<String> {
    let mut notes = left_alone(changes);
    if changes.other_status_line {
        notes.push(format!("{} has another status line, which stays", place.settings().display()));
    }
    notes.extend(changes.exposed.iter().map(|path| {
        let path = path.display();
        format!("{path} now names a path of this machine: keep it out of your commits")
    }));
    let (name, title) = (place.vendor.name, place.vendor.title);
    notes.extend((place.vendor.switched_off)(place, None).map(|Switch { setting, file }| {
        format!("{file} has `{setting}`, so {title} does not run Rappel's hooks: take it out")
    }));
    notes.extend((place.vendor.notes)(place));
    let path = process::path_folders();
    for one in integrate::installed(place.vendor, &place.root, &place.user, &path) {
        if one.settings == place.settings() {
            if !one.works {
                notes.push("`rappel` is not on your PATH, so the hooks do nothing here".into());
            }
            continue;
        }
        // Those of a main checkout are for its other work trees too.
        if place.of(one.scope).settings() != one.settings {
            continue;
        }
        let remove = context.suggest(&format!("integrate {name} --remove{}", one.scope.flag()));
        notes.push(format!(
            "{} has Rappel's hooks too, and one of them is enough: {remove}",
            one.settings.display()
        ));
    }
    notes
}

pub(super) fn texts(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

pub(super) fn left_alone(changes: &Changes) -> Vec<String> {
    let note = |path: &PathBuf| match changes.other_servers.contains(path) {
        true => format!("{} has an MCP server `rappel` of yours, which stays", path.display()),
        false => format!("{} is not as Rappel wrote it, so it stays as it is", path.display()),
    };
    changes.kept.iter().map(note).collect()
}

fn remove(args: &Args, vendors: &[&'static Vendor], context: &Context) -> Result {
    let root = context.root();
    let records = Records::open_existing(&context.home()?).map_err(IntegrateError::from)?;
    let mut all = Changes::default();
    // One that cannot be removed does not keep the others from being removed.
    let mut failed = None;
    if args.all {
        for folder in integrate_git::recorded(records.as_ref()) {
            match rappel_hooks::git::remove(&folder, records.as_ref()) {
                Ok(changes) => all.extend(changes),
                Err(error) => failed = failed.or(Some(Failure::from(IntegrateError::from(error)))),
            }
        }
        match integrate_systemd::take_out() {
            Ok(changes) => all.extend(changes),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    let mut others = Vec::new();
    // A plugin that the user edited still calls Rappel.
    let mut calls = Vec::new();
    for vendor in vendors {
        let user = context.agent_folder(vendor)?;
        let places = match args.all {
            true => every_place(vendor, &root, &user, records.as_ref()),
            false => vec![Place::new(vendor, args.scope(), &root, &user)],
        };
        for place in &places {
            match integrate::unregister(place, records.as_ref()) {
                Ok(changes) => all.extend(changes),
                Err(error) => failed = failed.or(Some(error.into())),
            }
        }
        for place in &places {
            match integrate::remove(place, records.as_ref()) {
                Ok(changes) => all.extend(changes),
                Err(error) => failed = failed.or(Some(error.into())),
            }
        }
        let kept = |path: &PathBuf| all.kept.contains(path) && !all.other_servers.contains(path);
        calls.extend(places.iter().map(Place::settings).filter(kept));
        if !args.all {
            others = still_there(vendor, &root, &user, &calls, context);
        }
    }
    drop(records);
    // What a first place rewrote for the second one's sake, the second one removed.
    all.written.retain(|path| !all.removed.contains(path));
    all.written.dedup();
    all.kept.sort();
    all.kept.dedup();
    calls.sort();
    calls.dedup();
    let mut notes = left_alone(&Changes {
        kept: all.kept.iter().filter(|path| !calls.contains(path)).cloned().collect(),
        other_servers: all.other_servers.clone(),
        ..Changes::default()
    });
    notes.extend(calls.iter().map(|path| {
        let path = path.display();
        format!("{path} is not as Rappel wrote it, so it stays and still calls Rappel. Delete it yourself")
    }));
    notes.extend(all.moved.iter().map(|path| {
        let path = path.display();
        format!(
            "hooks of yours that stood behind Rappel's in {path} have another place now. Start \
             `codex` to confirm them again; until then it does not run them, and `codex exec` says \
             nothing of it"
        )
    }));
    notes.extend(others);
    let name = match vendors {
        [vendor] => vendor.name,
        _ => "all",
    };
    told(name, &all, &notes, context)?;
    match failed {
        Some(failure) => Err(failure),
        None if !calls.is_empty() => Ok(Exit::Bad(ErrorKind::Failed)),
        None => Ok(Exit::Done),
    }
}

/// Every place in which something of ours may be: in this project, in the user's own settings, and
/// in every project that there is a record of.
fn every_place(
    vendor: &'static Vendor,
    root: &Path,
    user: &UserFolder,
    records: Option<&Records>,
) -> Vec<Place> {
    let place = |scope: Scope| Place::new(vendor, scope, root, user);
    let mut places: Vec<Place> = Scope::ALL.map(place).into();
    for record in records.map(Records::all).unwrap_or_default() {
        let folder = record.folder;
        // Records of earlier versions say nothing: they knew Claude Code alone.
        let agent = record.agent.as_deref().unwrap_or("claude");
        let is_known = places.iter().any(|place| place.folder == folder);
        if agent != vendor.name || is_known || integrate_git::is_of_git(&folder) {
            continue;
        }
        let above = folder.parent().filter(|_| folder.ends_with(vendor.layout.project));
        let root = above.unwrap_or(root).to_owned();
        places.extend([Scope::Local, Scope::Shared].map(|scope| Place {
            folder: folder.clone(),
            root: root.clone(),
            ..place(scope)
        }));
    }
    places
}

/// Where else the hooks are than in files that were kept.
fn still_there(
    vendor: &'static Vendor,
    root: &Path,
    user: &UserFolder,
    kept: &[PathBuf],
    context: &Context,
) -> Vec<String> {
    let others = integrate::installed(vendor, root, user, &process::path_folders()).into_iter();
    let here = Scope::ALL.map(|scope| Place::new(vendor, scope, root, user).settings());
    let others = others.filter(|one| here.contains(&one.settings) && !kept.contains(&one.settings));
    let note = |one: integrate::Installed| {
        let flag = one.scope.flag();
        let remove = context.suggest(&format!("integrate {} --remove{flag}", vendor.name));
        format!("{} still has Rappel's hooks: {remove}", one.settings.display())
    };
    others.map(note).collect()
}

/// The folders that are Rappel's own, each once, and the other files.
fn by_folder(paths: &[PathBuf]) -> (Vec<&Path>, Vec<&Path>) {
    let (mut folders, mut files): (Vec<&Path>, Vec<&Path>) = Default::default();
    for path in paths {
        match path.parent() {
            Some(folder) if folder.ends_with("rappel") => folders.push(folder),
            _ => files.push(path),
        }
    }
    folders.dedup();
    (folders, files)
}

pub(super) fn told(
    agent: &str,
    changes: &Changes,
    notes: &[String],
    context: &Context,
) -> Result<()> {
    let output = context.output;
    if output.json {
        return output.answer_json(&RemovedAnswer {
            agent,
            changed: !changes.is_empty(),
            written: texts(&changes.written),
            removed: texts(&changes.removed),
            kept: texts(&changes.kept),
            notes,
        });
    }
    if !output.quiet {
        output.answer(|out| {
            match changes.kept.is_empty() {
                _ if !changes.is_empty() => {}
                true => writeln!(out, "Nothing of Rappel's is there.")?,
                false => writeln!(out, "Nothing was removed.")?,
            }
            // Files of ours that are written are those that another scope still needs.
            let (kept, shared) = by_folder(&changes.written);
            for path in shared {
                writeln!(out, "Took Rappel's entries out of {}", path.display())?;
            }
            for folder in kept {
                writeln!(out, "Rewrote {}: other hooks still use it", folder.display())?;
            }
            let (folders, files) = by_folder(&changes.removed);
            for path in files.into_iter().chain(folders) {
                writeln!(out, "Removed {}", path.display())?;
            }
            Ok(())
        })?;
    }
    for note in notes {
        output.warning(note);
    }
    Ok(())
}

/// This program's path, if it can be expected to stay there.
pub(super) fn installed_program() -> Result<PathBuf> {
    let path = process::program()?;
    let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    if real
        .ancestors()
        .skip(1)
        .any(|folder| folder.file_name().is_some_and(|name| name == "target"))
    {
        return Err(Failure {
            kind: ErrorKind::Failed,
            message: format!(
                "{} is below a target folder, and the next `cargo clean` takes it away",
                path.display()
            ),
            hint: Some("install it first: cargo install --path crates/cli".into()),
        });
    }
    Ok(path)
}

impl From<IntegrateError> for Failure {
    fn from(error: IntegrateError) -> Self {
        let hint = match &error {
            IntegrateError::Unfit { .. } => {
                Some("mend the file, which was not changed, and run this again".to_owned())
            }
            IntegrateError::Elsewhere { vendor, folder } => {
                let (name, main) = (vendor.name, folder.parent().unwrap_or(folder));
                Some(format!(
                    "for all your projects: rappel integrate {name} --user. For this one: rappel \
                     integrate {name} -C {}",
                    process::quote(&main.to_string_lossy())
                ))
            }
            IntegrateError::File(FileError::ReadOnly { .. }) => {
                Some("make it writable, or choose another place: --user, --shared".to_owned())
            }
            _ => None,
        };
        let kind = match &error {
            IntegrateError::File(FileError::Locked | FileError::Busy { .. }) => ErrorKind::Busy,
            _ => ErrorKind::Failed,
        };
        Self { kind, message: error.to_string(), hint }
    }
}

/// The integrations that are installed for a workspace, of every agent, and those that were.
pub fn installed(rappel: &Rappel, context: &Context) -> Vec<Installed> {
    context.home().map(|home| installed_for(rappel, &home)).unwrap_or_default()
}

/// The same, for a home that is known.
pub fn installed_for(rappel: &Rappel, home: &Path) -> Vec<Installed> {
    let records = Records::open_existing(home).ok().flatten();
    let mut all = Vec::new();
    for vendor in VENDORS {
        let Some(user) = process::user_folder(vendor) else { continue };
        let found = integrate::installed(vendor, rappel.root(), &user, &process::path_folders());
        let agent = vendor.name;
        all.extend(found.iter().map(|one| Installed {
            agent: agent.to_owned(),
            place: one.settings.display().to_string(),
            scope: one.scope.as_str(),
            works: one.works,
            whole: one.whole,
            gone: false,
            missing: one.missing.iter().map(|&event| event.to_owned()).collect(),
            switched_off: one.switched_off.clone(),
            trust: one.trust,
        }));
        let known: Vec<&Path> = found.iter().map(|one| one.settings.as_path()).collect();
        let gone = gone(vendor, rappel.root(), &user, &known, records.as_ref());
        all.extend(gone.into_iter().map(|(settings, scope)| Installed {
            agent: agent.to_owned(),
            place: settings.display().to_string(),
            scope: scope.as_str(),
            works: false,
            whole: false,
            gone: true,
            missing: Vec::new(),
            switched_off: None,
            trust: Trust::Given,
        }));
    }
    all.extend(integrate_git::installed(rappel, records.as_ref()));
    all
}

/// The files that had an agent's hooks, as records say, and have none of those that are `known`.
fn gone(
    vendor: &'static Vendor,
    root: &Path,
    user: &UserFolder,
    known: &[&Path],
    records: Option<&Records>,
) -> Vec<(PathBuf, Scope)> {
    let mut gone: Vec<(PathBuf, Scope)> = Vec::new();
    let places = Scope::ALL.map(|scope| Place::new(vendor, scope, root, user).read());
    let places: Vec<Place> = places.into_iter().flatten().collect();
    for (place, records) in places.iter().filter_map(|place| Some((place, records?))) {
        let (settings, record) = (place.settings(), records.of(&place.folder));
        let done = record.settings.get((vendor.layout.hooks)(place.scope));
        // Two scopes may be one file.
        let is_new = !known.contains(&settings.as_path())
            && gone.iter().all(|(other, _)| *other != settings);
        if let (Some(done), true) = (done, is_new) {
            gone.push((settings, done.scope.unwrap_or(place.scope)));
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use rappel_hooks::skill;
    use rappel_hooks::typed::VERBS;
    use rappel_hooks::words;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_of_the_skill_is_one() {
        let caller = Caller::new(Program::At("/usr/bin/rappel".into()), None).unwrap();
        let text = skill::text(&caller);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("rappel ")).collect();
        assert!(lines.len() > 10);
        for line in lines {
            let parsed = Cli::try_parse_from(words::split(line).unwrap());
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn every_verb_that_may_be_typed_is_a_command() {
        let names = |command: &clap::Command| -> Vec<String> {
            let aliases = command.get_visible_aliases().map(str::to_owned);
            std::iter::once(command.get_name().to_owned()).chain(aliases).collect()
        };
        let known: Vec<String> = Cli::command().get_subcommands().flat_map(names).collect();
        for verb in VERBS {
            assert!(known.iter().any(|name| name == verb), "{verb}");
        }
        // Those that come later are to be added with them.
        for later in ["report", "describe", "prune"] {
            assert!(!known.iter().any(|name| name == later) || VERBS.contains(&later), "{later}");
        }
        let has_cleanup = SLASHES.iter().any(|slash| slash.name == "checkpoint-cleanup");
        assert_eq!(has_cleanup, known.iter().any(|name| name == "prune"));
    }

    #[test]
    fn every_command_for_the_prompt_is_a_command_line() {
        for slash in SLASHES {
            let words = slash.arguments.replace(['[', ']'], "").replace("REF", "latest");
            let words = words.replace("LIMIT", "5").replace('N', "3").replace("DESCRIPTION", "x");
            let mut line = vec!["rappel".to_owned()];
            line.extend(slash.command_line(&words).unwrap());
            let parsed = Cli::try_parse_from(&line);
            assert!(parsed.is_ok(), "{line:?}: {}", parsed.unwrap_err());
        }
    }
}
