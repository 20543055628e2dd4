//! `rappel export`.

use std::path::{Path, PathBuf};

use rappel::answers::ExportAnswer;
use rappel::{ExportOptions, ExportRange, Exported, Form, Rappel};
use rappel_types::size::format_size;

use crate::errors::{Exit, Failure, Result};
use crate::output::clean;
use crate::process::Context;
use crate::values::{self, Range};
use crate::{face, progress};

/// Write checkpoints out, for another machine or another tool
///
/// Without --format, the checkpoint becomes one file that holds everything it needs: files, git,
/// databases, and what agents knew. `rappel import` takes it in elsewhere. The same checkpoint gives
/// the same bytes every time. Other forms hold what their tools have words for; what they cannot carry
/// is said.
///
/// What you trust never leaves this home, and neither does a secret of it. What is in your files does,
/// unless you give --redact.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel export latest
  rappel export latest -o /media/stick/before-the-move.rappel
  rappel export 40..latest -o history.rappel
  rappel export latest --redact -o for-the-bug-report.rappel
  rappel export latest -o - | ssh other 'cat > work.rappel'
  rappel export latest --format lugh
  rappel export 12..15 --format caf -o checkpoints

Where the forms go without -o:
  ours    ./ID.rappel
  lugh    $LUGH_HOME/checkpoints, else ~/.lugh/checkpoints
  loki    $LOKI_DIR/state/checkpoints, else .loki/state/checkpoints
  forge   ./checkpoints.json
  caf     ./checkpoints
  aiwg    ./.aiwg")]
pub struct Args {
    /// Which checkpoints; A..B is every one from A to B
    #[arg(value_name = "REF", required = true, value_parser = values::range)]
    pub references: Vec<Range>,
    /// The form: rappel, lugh, loki, forge, caf, aiwg
    #[arg(long, value_name = "FORM", default_value = "rappel", value_parser = values::form)]
    pub format: Form,
    /// Where to; - is stdout, for a form of one file
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Leave out what looks like a secret; names of files stay
    #[arg(long)]
    pub redact: bool,
    /// Also bring this SQLite database up to date, with the tables of CAF
    #[arg(long, value_name = "FILE")]
    pub sqlite: Option<PathBuf>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    context.stop_cleanly();
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    let place = match &args.output {
        Some(path) => context.folder().join(path),
        None => rappel.export_place(args.format, context.folder())?,
    };
    let options = ExportOptions {
        checkpoints: args
            .references
            .iter()
            .map(|one| range(&one.meant(&rappel)))
            .collect::<Result<_>>()?,
        form: args.format,
        place: Some(place),
        redact: args.redact,
        sqlite: args.sqlite.as_ref().map(|file| context.folder().join(file)),
    };
    if to_stdout {
        return stream(&rappel, &options, context);
    }
    let exported = progress::watch(context, "Writing", || rappel.export(&options))?;
    let output = context.output;
    if output.json {
        output.answer_json(&ExportAnswer { exported: &exported, redacted: args.redact })?;
    } else if output.quiet {
        output.answer(|out| {
            for path in &exported.paths {
                writeln!(out, "{}", path.display())?;
            }
            Ok(())
        })?;
    } else {
        output.answer(|out| Ok(out.write_all(text(&exported, context).as_bytes())?))?;
    }
    tell_left_out(&exported, context);
    tell_where(&exported, &rappel, context);
    Ok(Exit::Done)
}

fn range(range: &Range) -> Result<ExportRange> {
    match (&range.to, range.dots) {
        (Some(to), _) => Ok(ExportRange::Through(range.from.clone(), to.clone())),
        (None, true) => Err(Failure::usage(
            "the workspace as it is now is no checkpoint yet",
            "rappel export A..latest",
        )),
        (None, false) => Ok(ExportRange::One(range.from.clone())),
    }
}

/// To stdout: the one file that the form has.
fn stream(rappel: &Rappel, options: &ExportOptions, context: &Context) -> Result {
    if options.sqlite.is_some() {
        return Err(Failure::usage("--sqlite names a file of its own", "leave out -o -"));
    }
    if options.form == Form::Rappel {
        let options = ExportOptions { place: Some(std::env::temp_dir()), ..options.clone() };
        let mut exported = None;
        context.output.answer(|out| {
            exported = Some(rappel.export_to(&options, out)?);
            Ok(())
        })?;
        if let Some(exported) = &exported {
            tell_left_out(exported, context);
        }
        return Ok(Exit::Done);
    }
    let folder = Scratch::new()?;
    let place = match options.form {
        Form::Forge => folder.0.join("checkpoints.json"),
        _ => folder.0.clone(),
    };
    let exported = rappel.export(&ExportOptions { place: Some(place), ..options.clone() })?;
    let [path] = &exported.paths[..] else {
        return Err(Failure::usage(
            format!("{} writes more than one file", exported.form),
            "-o FOLDER",
        ));
    };
    if !path.is_file() {
        return Err(Failure::usage(format!("{} writes a folder", exported.form), "-o FOLDER"));
    }
    let mut file = std::fs::File::open(path)?;
    context.output.answer(|out| Ok(std::io::copy(&mut file, out).map(drop)?))?;
    tell_left_out(&exported, context);
    Ok(Exit::Done)
}

/// A folder that is gone when this is.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let name = format!("rappel-export-{:016x}", rappel::ambient::random());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(exported: &Exported, context: &Context) -> String {
    let paint = context.output.paint();
    let number = exported.checkpoints.len() as u64;
    let what = match &exported.checkpoints[..] {
        [one] => paint.id(one.as_str()),
        _ => face::count(number, "checkpoint", "checkpoints"),
    };
    let form = match exported.form {
        "rappel" => String::new(),
        form => format!(" in the form of {form}"),
    };
    let mut text = format!("Wrote {what}{form}\n");
    for path in &exported.paths {
        let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        let size = size.map(|meta| format!("  {}", paint.faint(&format_size(meta.len()))));
        let path = clean(&path.to_string_lossy());
        text.push_str(&format!("  {path}{}\n", size.unwrap_or_default()));
    }
    if exported.form == "rappel"
        && let Some(path) = exported.paths.first()
    {
        let name = crate::process::quote(&path.to_string_lossy());
        text.push_str(&format!("Take it in elsewhere: rappel import {name}\n"));
    }
    text
}

fn tell_left_out(exported: &Exported, context: &Context) {
    for what in &exported.left_out {
        context.output.warning(&format!("left out: {what}"));
    }
}

/// A file in the workspace is one of its files: the next save takes it too.
fn tell_where(exported: &Exported, rappel: &Rappel, context: &Context) {
    let is_inside = |path: &PathBuf| {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        real.starts_with(rappel.root())
    };
    let inside = exported.paths.iter().any(is_inside);
    // What Lugh and Loki Mode keep in a workspace is left out of what saves take.
    if inside && !matches!(exported.form, "lugh" | "loki") {
        context.output.note(
            "this lies in the workspace, so the next save takes it too; -o writes it elsewhere",
        );
    }
}
