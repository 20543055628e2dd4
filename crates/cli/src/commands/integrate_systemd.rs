//! `rappel integrate systemd`: a unit of the user's that keeps the clock (`rappel watch`).

use std::path::{Path, PathBuf};

use rappel::ErrorKind;
use rappel::answers::SystemdAnswer;
use rappel_hooks::files;
use rappel_hooks::integrate::{Changes, IntegrateError};

use super::integrate::{installed_program, told};
use crate::errors::{Exit, Failure, Result};
use crate::process::{self, Context};

const SYSTEMD: &str = "systemd";
const UNIT: &str = "rappel.service";
/// A file that begins with this is ours to change and to remove.
const MARK: &str = "# Written by `rappel integrate systemd`.";

/// The user's unit.
fn place() -> Result<PathBuf> {
    let folder = process::user_config_folder()
        .ok_or_else(|| Failure::failed("there is no folder for your settings: HOME is not set"))?;
    Ok(folder.join("systemd/user").join(UNIT))
}

/// A word as systemd reads it in a command line.
fn word(path: &Path) -> Result<String> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    let text = text.ok_or_else(|| {
        Failure::failed(format!("{} cannot stand in a unit of systemd", path.display()))
    })?;
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    Ok(format!("\"{}\"", escaped.replace('%', "%%").replace('$', "$$")))
}

fn unit(program: &Path, home: &Path) -> Result<String> {
    Ok(format!(
        "{MARK} `--remove` takes it out again.
[Unit]
Description=Rappel: the clock for checkpoints
Documentation=https://github.com/rappel-dev/rappel

[Service]
ExecStart={} watch --quiet --home {}
Restart=on-failure
RestartSec=60
# Another `rappel watch` of this home runs already.
RestartPreventExitStatus=5
Nice=10

[Install]
WantedBy=default.target
",
        word(program)?,
        word(home)?
    ))
}

pub fn install(context: &Context) -> Result {
    let (path, home) = (place()?, context.home()?);
    let text = unit(&installed_program()?, &home)?;
    let there = files::read(&path).map_err(IntegrateError::from)?;
    if there.as_ref().is_some_and(|there| !there.starts_with(MARK)) {
        return Err(Failure {
            kind: ErrorKind::Conflict,
            message: format!("{} is not Rappel's", path.display()),
            hint: Some("move it away first".into()),
        });
    }
    let changed = there.as_ref() != Some(&text);
    if let Some(folder) = path.parent() {
        files::make_folder(folder).map_err(IntegrateError::from)?;
    }
    let write = |_: Option<&str>| Ok::<_, IntegrateError>(Some(text.clone()));
    files::update(&path, files::ORDINARY, write)?;
    let output = context.output;
    let remove_with = context.suggest("integrate systemd --remove");
    let start_with = "systemctl --user daemon-reload && systemctl --user enable --now rappel";
    if output.json {
        output.answer_json(&SystemdAnswer {
            agent: SYSTEMD,
            unit: path.display().to_string(),
            changed,
            start_with,
            remove_with,
        })?;
    } else if !output.quiet {
        output.answer(|out| {
            match changed {
                true => writeln!(out, "Wrote {}", path.display())?,
                false => writeln!(out, "{} is there already", path.display())?,
            }
            writeln!(out, "Start it, now and whenever you log in:\n  {start_with}")?;
            let paint = output.paint();
            Ok(writeln!(out, "{}", paint.faint(&format!("Remove it with: {remove_with}")))?)
        })?;
    }
    Ok(Exit::Done)
}

pub fn remove(context: &Context) -> Result {
    let changes = take_out()?;
    let notes: Vec<String> = match changes.removed.is_empty() {
        true => Vec::new(),
        false => vec!["one that runs goes on until: systemctl --user stop rappel".into()],
    };
    told(SYSTEMD, &changes, &notes, context)?;
    Ok(Exit::Done)
}

/// Removes the unit, and what `systemctl enable` made of it.
pub fn take_out() -> Result<Changes> {
    let path = place()?;
    let mut changes = Changes::default();
    match files::read(&path).map_err(IntegrateError::from)? {
        None => return Ok(changes),
        Some(text) if !text.starts_with(MARK) => {
            changes.kept.push(path);
            return Ok(changes);
        }
        Some(_) => {}
    }
    let enabled = path.with_file_name("default.target.wants").join(UNIT);
    for one in [enabled, path] {
        match std::fs::remove_file(&one) {
            Ok(()) => changes.removed.push(one),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Failure::failed(format!("cannot remove {}: {error}", one.display())));
            }
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stand_in_a_unit_as_they_are() {
        let shown = |text: &str| word(Path::new(text)).unwrap();
        assert_eq!(shown("/opt/a b/rappel"), "\"/opt/a b/rappel\"");
        assert_eq!(shown("/x/100%$HOME\\\"y"), "\"/x/100%%$$HOME\\\\\\\"y\"");
        assert!(word(Path::new("/a\nExecStart=/bin/sh")).is_err());
    }
}
