//! `rappel integrate git`.

use std::path::{Path, PathBuf};

use rappel::answers::GitHooksAnswer;
use rappel::hook::{Installed, Trust};
use rappel::{ErrorKind, Rappel};
use rappel_hooks::Scope;
use rappel_hooks::caller::{Caller, Program};
use rappel_hooks::files::FileError;
use rappel_hooks::git::{self, HOOKS, Place};
use rappel_hooks::integrate::{Changes, IntegrateError};
use rappel_hooks::records::Records;

use super::hook_git::GIT;
use super::integrate::{first_save, installed_program, left_alone, texts, told};
use crate::errors::{Exit, Failure, Result};
use crate::process::{self, Context};

fn place(context: &Context) -> Result<Place> {
    git::place(&context.root()).ok_or_else(|| Failure {
        kind: ErrorKind::Failed,
        message: format!("{} is in no git repository that git can read", context.root().display()),
        hint: None,
    })
}

pub fn install(context: &Context) -> Result {
    let home = context.chosen_home();
    let caller =
        Caller::new(Program::At(installed_program()?), home).map_err(IntegrateError::from)?;
    let output = context.output;
    let folder = match place(context)? {
        Place::Own(folder) => folder,
        Place::Elsewhere(folder) => return elsewhere(&folder, &caller, context),
    };
    // A home that cannot be used is told before anything is written.
    let rappel = context.open_silently()?;
    let records = Records::open(&context.home()?).map_err(IntegrateError::from)?;
    let changes = git::install(&folder, &caller, &records).map_err(refused)?;
    drop(records);
    // Without it there is nothing to go back to before the next commit or merge.
    let saved = first_save(&rappel, "Git's hooks integrated", &changes, context)?;
    let remove_with = context.suggest("integrate git --remove");
    if output.json {
        output.answer_json(&GitHooksAnswer {
            agent: GIT,
            hooks: folder.display().to_string(),
            changed: !changes.is_empty(),
            written: texts(&changes.written),
            lines: None,
            checkpoint: saved.as_ref(),
            remove_with: Some(remove_with),
        })?;
        return Ok(Exit::Done);
    }
    if !output.quiet {
        output.answer(|out| {
            if changes.is_empty() {
                writeln!(out, "Git's hooks call Rappel already, in {}", folder.display())?;
            }
            for path in &changes.written {
                writeln!(out, "Wrote {}", path.display())?;
            }
            let paint = output.paint();
            Ok(writeln!(out, "{}", paint.faint(&format!("Remove all of it with: {remove_with}")))?)
        })?;
    }
    Ok(Exit::Done)
}

/// Why the hooks were not written. There is no other place for them.
fn refused(error: FileError) -> Failure {
    let hint = matches!(error, FileError::ReadOnly { .. })
        .then(|| "make it writable; nothing was written".to_owned());
    let failure = Failure::from(IntegrateError::from(error));
    Failure { hint: hint.or(failure.hint), ..failure }
}

/// Another program keeps the hooks: the user is told what to add, and nothing is written.
fn elsewhere(folder: &Path, caller: &Caller, context: &Context) -> Result {
    let output = context.output;
    let lines = HOOKS.map(|hook| (hook, git::line(caller, hook)));
    if output.json {
        output.answer_json(&GitHooksAnswer {
            agent: GIT,
            hooks: folder.display().to_string(),
            changed: false,
            written: Vec::new(),
            lines: Some(lines.iter().map(|(hook, line)| (*hook, line.as_str())).collect()),
            checkpoint: None,
            remove_with: None,
        })?;
        return Ok(Exit::Done);
    }
    output.answer(|out| {
        writeln!(
            out,
            "core.hooksPath is {}, so another program keeps this repository's hooks. Nothing was \
             written. Add one line to each of them:",
            folder.display()
        )?;
        for (hook, line) in &lines {
            writeln!(out, "\n{hook}:\n  {line}")?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

pub fn remove(context: &Context) -> Result {
    let records = Records::open_existing(&context.home()?).map_err(IntegrateError::from)?;
    let mut changes = Changes::default();
    let mut notes = Vec::new();
    match place(context)? {
        Place::Own(folder) => {
            changes = git::remove(&folder, records.as_ref()).map_err(IntegrateError::from)?;
        }
        // The user added those lines, and another program keeps the files.
        Place::Elsewhere(folder) => {
            let line = |path: PathBuf| {
                let (path, mark) = (path.display(), git::MARK);
                format!("{path} calls Rappel: take out its line that ends with `{mark}`")
            };
            notes.extend(git::with_line(&folder).into_iter().map(line));
        }
    }
    drop(records);
    notes.extend(left_alone(&changes));
    told(GIT, &changes, &notes, context)?;
    Ok(Exit::Done)
}

/// The folders in which hooks of git were written.
pub fn recorded(records: Option<&Records>) -> Vec<PathBuf> {
    let folders = records.map(Records::folders).unwrap_or_default();
    folders.into_iter().filter(|folder| is_of_git(folder)).collect()
}

/// Whether a recorded folder is one of git's hooks, and not one of an agent's settings.
pub fn is_of_git(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "hooks")
}

/// The hooks of a workspace's repository, if they were written there.
pub fn installed(rappel: &Rappel, records: Option<&Records>) -> Option<Installed> {
    // Where nothing was ever written, git is not asked.
    let recorded = recorded(records);
    if recorded.is_empty() {
        return None;
    }
    let Some(Place::Own(folder)) = git::place(rappel.root()) else { return None };
    let works = git::works(&folder, &process::path_folders());
    let gone = works.is_none();
    (recorded.contains(&folder) || !gone).then(|| Installed {
        agent: GIT.to_owned(),
        place: folder.display().to_string(),
        scope: Scope::Local.as_str(),
        works: works.unwrap_or(false),
        whole: true,
        gone,
        missing: Vec::new(),
        switched_off: None,
        trust: Trust::Given,
    })
}
