//! `rappel integrate git`: hooks of git that have Rappel save what git has just done. They lie in
//! the folder that all work trees of a repository share.
//!
//! A hook that is there goes on as it did. A shell script gets one line below its first one; by its
//! mark the line is known to be ours. Anything else (another language, a link, a file that git
//! does not run) is put aside whole, and a hook of ours runs it. Where `core.hooksPath` is set,
//! another program keeps the hooks: nothing is written.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::caller::{Caller, Program};
use crate::files::{self, FileError, Result};
use crate::integrate::Changes;
use crate::json_text::Edits;
use crate::owned::{Owner, owner, sealed};
use crate::records::{Records, Settings};
use crate::words;

/// The hooks that are written.
pub const HOOKS: [&str; 3] = ["post-merge", "post-commit", "post-rewrite"];
/// The comment at the end of each line that we add to a hook.
pub const MARK: &str = "# rappel integrate git";
/// The folder beside the hooks for those that are put aside.
const ASIDE: &str = "before-rappel";
/// The mode of a new hook; the umask takes away from it.
const RUNNABLE: u32 = 0o777;

/// Where the hooks of a repository belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// This folder in git's own one.
    Own(PathBuf),
    /// The folder that `core.hooksPath` names.
    Elsewhere(PathBuf),
}

/// Where the hooks of the repository around a folder belong; nothing where there is none, or no git.
pub fn place(root: &Path) -> Option<Place> {
    if let Some(elsewhere) = ask(root, &["config", "--type=path", "--get", "core.hooksPath"]) {
        return Some(Place::Elsewhere(elsewhere.into()));
    }
    let common = ask(root, &["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
    Some(Place::Own(Path::new(&common).join("hooks")))
}

fn ask(root: &Path, question: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    // The repository of the folder is meant, not the one whose hook may have called us.
    for name in ["GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(name);
    }
    let output = git.arg("-C").arg(root).args(question).stdin(Stdio::null()).output().ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    let answer = answer.strip_suffix('\n').unwrap_or(&answer);
    (output.status.success() && !answer.is_empty()).then(|| answer.to_owned())
}

/// The line that a hook has to have. It waits for nothing and never fails.
pub fn line(caller: &Caller, hook: &str) -> String {
    let test = match caller.program() {
        Program::At(_) => format!("[ -x {} ]", caller.word()),
        Program::OnPath => format!("command -v {}", caller.word()),
    };
    // Git is the parent of the hook's shell.
    let call = caller.line(&format!("hook git {hook} --after $PPID"));
    format!("{{ {test} && ( {call} </dev/null & ) || :; }} >/dev/null 2>&1 {MARK}")
}

/// A whole hook of ours, for where none was or one was put aside.
fn whole(caller: &Caller, hook: &str) -> String {
    let rest = format!(
        "{}\nbefore=\"${{0%/*}}/{ASIDE}/{hook}\"\n[ ! -x \"$before\" ] || exec \"$before\" \"$@\"\n",
        line(caller, hook)
    );
    sealed("#!/bin/sh\n", &rest)
}

/// Writes the hooks. Doing it again changes nothing.
pub fn install(folder: &Path, caller: &Caller, records: &Records) -> Result<Changes> {
    let mut record = records.of(folder);
    let mut changes = Changes::default();
    check(folder)?;
    record.made.extend(files::make_folder(folder)?);
    for hook in HOOKS {
        let path = folder.join(hook);
        let existed = fs::symlink_metadata(&path).is_ok();
        let wrote = match kind_of(&path)? {
            Kind::Absent | Kind::Ours => {
                let text = whole(caller, hook);
                files::update(&path, RUNNABLE, |_| Ok::<_, FileError>(Some(text.clone())))?
            }
            Kind::Script => {
                let with = |text: Option<&str>| {
                    Ok::<_, FileError>(text.map(|text| add(text, &line(caller, hook))))
                };
                files::update(&path, RUNNABLE, with)?
            }
            Kind::Other => {
                record.made.extend(files::make_folder(&folder.join(ASIDE))?);
                put_aside(&path, &folder.join(ASIDE).join(hook), &whole(caller, hook))?;
                true
            }
        };
        if wrote {
            changes.written.push(path.clone());
        }
        let text = files::read(&path)?.unwrap_or_default();
        let known = record.settings.get(hook).map(|known| known.existed);
        let done = Settings::new(known.unwrap_or(existed), &text, Edits::default());
        record.settings.insert(hook.to_owned(), done);
    }
    records.keep(&record)?;
    Ok(changes)
}

/// Refuses before anything is written. What a killed process left beside the hooks goes.
fn check(folder: &Path) -> Result<()> {
    for folder in [folder, &folder.join(ASIDE)] {
        if fs::metadata(folder).is_ok_and(|found| found.permissions().readonly()) {
            return Err(FileError::ReadOnly { path: folder.to_owned() });
        }
    }
    for hook in HOOKS {
        let (path, aside) = (folder.join(hook), folder.join(ASIDE).join(hook));
        files::remove_litter(&path);
        if matches!(kind_of(&path)?, Kind::Other)
            && let Ok(kept) = fs::symlink_metadata(&aside)
            && !fs::symlink_metadata(&path).is_ok_and(|hook| is_same(&hook, &kept))
        {
            return Err(failed("put aside", &aside)(io::ErrorKind::AlreadyExists.into()));
        }
    }
    Ok(())
}

/// Whether both are one file.
fn is_same(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Takes the hooks away, and puts back what was there.
pub fn remove(folder: &Path, records: Option<&Records>) -> Result<Changes> {
    let mut changes = Changes::default();
    for hook in HOOKS {
        files::remove_litter(&folder.join(hook));
    }
    for hook in HOOKS {
        let (path, aside) = (folder.join(hook), folder.join(ASIDE).join(hook));
        match kind_of(&path)? {
            Kind::Ours if fs::symlink_metadata(&aside).is_ok() => {
                put_back(&aside, &path)?;
                changes.written.push(path);
            }
            Kind::Ours => {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
                changes.removed.push(path);
            }
            Kind::Script => {
                let without = |text: Option<&str>| Ok::<_, FileError>(text.map(take_out));
                if files::update(&path, RUNNABLE, without)? {
                    changes.written.push(path.clone());
                }
                if fs::symlink_metadata(&aside).is_ok() {
                    changes.kept.push(aside);
                }
            }
            Kind::Absent | Kind::Other => {
                changes.kept.extend(fs::symlink_metadata(&aside).is_ok().then_some(aside));
            }
        }
    }
    if let Some(records) = records {
        let mut record = records.of(folder);
        record.settings.clear();
        while let Some(made) = record.made.pop() {
            if !files::remove_if_empty(&made)? {
                break;
            }
        }
        record.made.clear();
        records.keep(&record)?;
    }
    // Without a record an empty folder of this name is ours all the same.
    if changes.kept.is_empty() {
        files::remove_if_empty(&folder.join(ASIDE))?;
    }
    Ok(changes)
}

/// Whether hooks of ours are in a folder, and whether the program that they call is there; nothing
/// if not all of them are there.
pub fn works(folder: &Path, path_folders: &[PathBuf]) -> Option<bool> {
    let mut works = true;
    for hook in HOOKS {
        let text = files::read(&folder.join(hook)).ok().flatten()?;
        let line = text.lines().find(|line| line.ends_with(MARK))?;
        let words = words::split(line.strip_suffix(MARK)?).ok()?;
        let program = words.iter().position(|word| word == "-x").and_then(|at| words.get(at + 1));
        works &= match program {
            Some(program) => is_runnable(Path::new(program)),
            None => path_folders.iter().any(|folder| is_runnable(&folder.join("rappel"))),
        };
    }
    Some(works)
}

/// The hooks that hold a line of ours where another program keeps them: in its folder, or, as with
/// husky, in the one around it.
pub fn with_line(folder: &Path) -> Vec<PathBuf> {
    let folders = [Some(folder), folder.parent()].into_iter().flatten();
    let hooks = folders.flat_map(|folder| HOOKS.map(|hook| folder.join(hook)));
    let has_line = |path: &PathBuf| {
        let text = files::read(path).ok().flatten().unwrap_or_default();
        text.lines().any(|line| line.ends_with(MARK))
    };
    hooks.filter(has_line).collect()
}

fn is_runnable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

/// What stands where a hook belongs.
enum Kind {
    /// Nothing.
    Absent,
    /// A hook of ours, as we wrote it.
    Ours,
    /// A shell script that git runs.
    Script,
    /// Anything else.
    Other,
}

fn kind_of(path: &Path) -> Result<Kind> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kind::Absent),
        other => other.map_err(failed("look at", path))?,
    };
    if !meta.is_file() {
        return Ok(Kind::Other);
    }
    let bytes = fs::read(path).map_err(failed("read", path))?;
    let Ok(text) = String::from_utf8(bytes) else { return Ok(Kind::Other) };
    if owner(&text) == Owner::Rappel {
        return Ok(Kind::Ours);
    }
    let is_run = meta.permissions().mode() & 0o111 != 0;
    // A script that nobody may write to stays as it is.
    let may_change = is_run && !meta.permissions().readonly();
    let is_script = may_change && is_shell_script(&text) && !runs_itself(&text);
    Ok(if is_script { Kind::Script } else { Kind::Other })
}

fn is_shell_script(text: &str) -> bool {
    let Some(first) = text.strip_prefix("#!").and_then(|rest| rest.lines().next()) else {
        return false;
    };
    let mut words = first.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let shells = ["sh", "bash", "dash", "ash", "ksh", "zsh"];
    match words.next() {
        Some("env") => words.next().is_some_and(|word| shells.contains(&word)),
        Some(word) => shells.contains(&word),
        None => false,
    }
}

/// Whether a script hands itself to another interpreter, for which our line would be no program:
/// `''''exec python3 "$0" "$@"`.
fn runs_itself(text: &str) -> bool {
    const RUN: [&str; 12] = [
        "exec", "python", "perl", "ruby", "node", "deno", "bun", "php", "lua", "tclsh", "awk", "uv",
    ];
    text.lines().any(|line| {
        let mut words = line
            .split_whitespace()
            .map(|word| word.trim_matches(|one| matches!(one, '\'' | '"' | ';' | ':' | '`')))
            .map(|word| word.rsplit('/').next().unwrap_or(word));
        let runs = |word: &str| RUN.iter().any(|name| word.starts_with(name));
        words.any(runs) && words.any(|word| matches!(word, "$0" | "${0}"))
    })
}

/// A script with our line below its first one, in place of any other of ours.
fn add(text: &str, line: &str) -> String {
    let text = take_out(text);
    match text.split_once('\n') {
        Some((first, rest)) => format!("{first}\n{line}\n{rest}"),
        None => format!("{text}\n{line}"),
    }
}

/// A script without our lines.
fn take_out(text: &str) -> String {
    let is_ours = |line: &&str| line.trim_end_matches('\n').ends_with(MARK);
    let mut rest: String = text.split_inclusive('\n').filter(|line| !is_ours(line)).collect();
    // A script of one line that had no end of line got one before ours.
    let last_was_ours = text.lines().last().is_some_and(|line| line.ends_with(MARK));
    if last_was_ours && !text.ends_with('\n') {
        rest.truncate(rest.trim_end_matches('\n').len());
    }
    rest
}

/// Puts a hook aside, whole, and one of ours in its place. There is a hook at every moment.
fn put_aside(path: &Path, aside: &Path, text: &str) -> Result<()> {
    match (&fs::symlink_metadata(path), &fs::symlink_metadata(aside)) {
        // An earlier try came so far.
        (Ok(hook), Ok(kept)) if is_same(hook, kept) => {}
        (Ok(_), Ok(_)) => {
            return Err(failed("put aside", aside)(io::ErrorKind::AlreadyExists.into()));
        }
        (Ok(hook), _) if hook.is_symlink() => {
            let target = fs::read_link(path).map_err(failed("read", path))?;
            // The folder is one level deeper.
            let target = if target.is_relative() { Path::new("..").join(target) } else { target };
            symlink(target, aside).map_err(failed("put aside", path))?;
        }
        _ => fs::hard_link(path, aside).map_err(failed("put aside", path))?,
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{:016x}.tmp", rappel::ambient::random()));
    let written = files::write_new(&beside, text, RUNNABLE, None)
        .and_then(|_locked| fs::rename(&beside, path).map_err(failed("write", path)));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Puts a hook that was put aside back in its place.
fn put_back(aside: &Path, path: &Path) -> Result<()> {
    let put = || match fs::read_link(aside) {
        Ok(target) => {
            let target = target.strip_prefix("..").unwrap_or(&target);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let random = rappel::ambient::random();
            let beside = path.with_file_name(format!(".{name}.{random:016x}.tmp"));
            symlink(target, &beside)?;
            fs::rename(&beside, path)?;
            fs::remove_file(aside)
        }
        Err(_) => fs::rename(aside, path),
    };
    put().map_err(failed("put back", path))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(path: &str) -> Caller {
        Caller::new(Program::At(path.into()), None).unwrap()
    }

    #[test]
    fn a_line_goes_in_and_out_without_a_trace() {
        let scripts = [
            "#!/bin/sh\n",
            "#!/bin/sh",
            "#!/bin/sh\necho done",
            "#!/usr/bin/env bash\nset -eu\n\ncat\n",
            "#!/bin/sh\r\necho\r\n",
        ];
        for script in scripts {
            let with = add(script, &line(&caller("/opt/a b/rappel"), "post-merge"));
            assert!(with.contains("hook git post-merge"), "{with}");
            assert_eq!(take_out(&with), script);
            let again = add(&with, &line(&caller("/usr/bin/rappel"), "post-merge"));
            assert_eq!(again.matches(MARK).count(), 1);
            assert_eq!(take_out(&again), script);
        }
    }

    #[test]
    fn only_shell_scripts_get_a_line() {
        assert!(is_shell_script("#!/bin/sh\n"));
        assert!(is_shell_script("#! /usr/bin/env zsh\n"));
        assert!(is_shell_script("#!/bin/bash -e\n"));
        assert!(!is_shell_script("#!/usr/bin/env python3\n"));
        assert!(!is_shell_script("#!/usr/bin/fish\n"));
        assert!(!is_shell_script("echo\n"));
        assert!(!is_shell_script(""));
    }

    #[test]
    fn a_script_that_another_interpreter_reads_is_told_from_one_that_asks_where_it_is() {
        for line in [
            r#"''''exec python3 "$0" "$@" # '''"#,
            r#""exec" "/usr/bin/python3" "$0" "$@""#,
            r#"eval 'exec perl -x -wS $0 ${1+"$@"}'"#,
            r#"//usr/bin/env node "$0" "$@"; exit"#,
        ] {
            assert!(runs_itself(&format!("#!/bin/sh\n{line}\n")), "{line}");
        }
        for line in [
            r#". "$(dirname "$0")/_/husky.sh""#,
            r#"exec "$(dirname "$0")/real" "$@""#,
            r#"echo "$0 was called""#,
            r#"exec git lfs post-merge "$@""#,
        ] {
            assert!(!runs_itself(&format!("#!/bin/sh\n{line}\n")), "{line}");
        }
    }
}
