//! `rappel guard`.

use clap::ValueEnum;
use rappel::{DestructiveCommand, Rappel, SaveOptions};
use rappel_hooks::shell;
use rappel_types::redact;

use crate::errors::{Exit, Failure, Result};
use crate::output::clean;
use crate::process::{self, Context};

/// Save, then run a command
///
/// Makes a checkpoint that is described by the command and holds what the command names, even files
/// that git ignores. Then the command takes the place of this process: its exit code, streams,
/// signals and terminal are its own. If the checkpoint cannot be made, the command does not run.
///
/// `--shell` prints a function for your shell that does the same for each destructive command that
/// you type, and only for those.
#[derive(Debug, Clone, clap::Args)]
#[command(override_usage = "\
rappel guard -- COMMAND…
       rappel guard --shell SHELL")]
#[command(after_help = "\
Examples:
  rappel guard -- rm -rf build
  rappel guard -- git clean -fdx
  rappel guard -- sh -c 'rm *.log && make'
  echo 'eval \"$(rappel guard --shell bash)\"' >> ~/.bashrc
  echo 'eval \"$(rappel guard --shell zsh)\"' >> ~/.zshrc
  rappel guard --shell fish > ~/.config/fish/conf.d/rappel.fish")]
pub struct Args {
    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    #[arg(required_unless_present_any = ["shell", "line"])]
    pub command: Vec<String>,
    /// Print a function that guards what you type in this shell
    #[arg(long, value_enum, value_name = "SHELL", conflicts_with = "command")]
    pub shell: Option<Shell>,
    /// Save if this line of a shell destroys something; run nothing
    #[arg(long, value_name = "LINE", conflicts_with_all = ["command", "shell"])]
    #[arg(hide = true, allow_hyphen_values = true)]
    pub line: Option<String>,
}

/// A shell that can be guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The function for bash. A `DEBUG` trap sees every command of an interactive shell before it runs;
/// those of completion and of the prompt are none of the user's. The trap hands `$_` on, because
/// that is then what the user's command finds in it. A trap that is there already goes on.
const BASH: &str = r#"__rappel_guard() {
    [[ -n ${COMP_LINE-} || ${BASH_SUBSHELL} -ne 0 ]] && return
    case "$BASH_COMMAND" in "${PROMPT_COMMAND-}" | rappel* | __rappel_*) return ;; esac
    command rappel guard --line "$BASH_COMMAND" </dev/null || true
}
__rappel_set() {
    eval "set -- $1"
    case "${3-}" in *__rappel_guard*) return ;; esac
    trap -- "__rappel_last=\$_${3:+
$3}
__rappel_guard \"\$__rappel_last\"" DEBUG
}
__rappel_set "$(trap -p DEBUG)"
"#;

/// The function for zsh, which tells the whole line that was typed. One that only calls Rappel needs
/// no guard.
const ZSH: &str = r#"__rappel_guard() {
    case "$1" in *[\;\&\|\(\`]* | *$'\n'*) ;; rappel\ *) return ;; esac
    command rappel guard --line "$1" </dev/null || true
}
autoload -Uz add-zsh-hook && add-zsh-hook preexec __rappel_guard
"#;

/// The function for fish, which does so too.
const FISH: &str = r#"function __rappel_guard --on-event fish_preexec
    string match -qr '^rappel [^;&|(\n]*$' -- $argv[1]; and return
    command rappel guard --line "$argv[1]" </dev/null; or true
end
"#;

pub fn run(args: &Args, context: &Context) -> Result {
    if let Some(shell) = args.shell {
        if context.output.json {
            let message = "--shell prints a function for a shell, and no JSON";
            return Err(Failure::usage(message, "leave --json out"));
        }
        let text = match shell {
            Shell::Bash => BASH,
            Shell::Zsh => ZSH,
            Shell::Fish => FISH,
        };
        context.output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
        return Ok(Exit::Done);
    }
    let folder = context.folder();
    if let Some(line) = &args.line {
        let Some(operation) = shell::verdict_in(line, folder, process::exported()).operation()
        else {
            return Ok(Exit::Done);
        };
        if rappel::is_project(&context.root())
            && let Err(failure) = save_typed(operation, context)
        {
            let line = redact::text(first_line(line));
            let (line, why) = (clean(&line), clean(&failure.message));
            context.output.tell(&format!("rappel: NOT saved before {line}, which runs now: {why}"));
        }
        return Ok(Exit::Done);
    }
    let operation = shell::verdict_of_words(&args.command, folder, process::exported());
    let operation = operation.operation();
    let harmless = || DestructiveCommand {
        command: line_of(&args.command),
        does: "runs a command".into(),
        ..DestructiveCommand::default()
    };
    let rappel = context.open_silently()?;
    let operation = operation.and_then(|operation| rappel.resolve_commits(operation));
    let operation = operation.unwrap_or_else(harmless);
    let operation = DestructiveCommand { command: line_of(&args.command), ..operation };
    save(&rappel, &operation, context)?;
    drop(rappel);
    let not_run = process::replace_by(&args.command, folder);
    not_run.failure.show(context.output);
    Ok(Exit::Passed(not_run.code))
}

/// The command as one would type it.
fn line_of(words: &[String]) -> String {
    words.iter().map(|word| process::quote(word)).collect::<Vec<_>>().join(" ")
}

/// Saves before a line that was typed, if it destroys something.
fn save_typed(operation: DestructiveCommand, context: &Context) -> Result<()> {
    let rappel = context.open_silently()?;
    match rappel.resolve_commits(operation) {
        Some(operation) => save(&rappel, &operation, context),
        None => Ok(()),
    }
}

/// Makes the checkpoint and says so in one line.
fn save(rappel: &Rappel, operation: &DestructiveCommand, context: &Context) -> Result<()> {
    let options = SaveOptions { session: context.session(), ..SaveOptions::default() };
    let before = rappel.save_before(operation, options)?;
    let id = &before.saved.checkpoint.manifest.id;
    let command = redact::text(&operation.command);
    let mut line = format!("rappel: saved {id} before {}", clean(first_line(&command)));
    for words in before.left_out.sentences() {
        line.push_str("; ");
        line.push_str(&clean(&words));
    }
    if !context.output.quiet {
        context.output.tell(&line);
    }
    Ok(())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
