//! What to do next, as a model does it: by a tool of this server, or by asking the user.

use rappel::types::Advice;
use rappel::types::advice::{Listed, NameOf};

/// A sentence for a model.
pub fn sentence(advice: &Advice) -> String {
    let ask = |command: &str| format!("Ask the user to run `rappel {command}`.");
    match advice {
        Advice::Plain { text } => text.clone(),
        Advice::SaveFirst => "There is no checkpoint yet; the tool `save` makes one.".into(),
        Advice::Save => "The tool `save` makes a checkpoint.".into(),
        Advice::DidYouMean { what, names } => {
            let names = names.join(" or ");
            match what {
                NameOf::Tag | NameOf::TagOfAny => format!("Did you mean the tag {names}?"),
                _ => format!("Did you mean {names}?"),
            }
        }
        Advice::ListCheckpoints { filter } => match filter {
            Listed::Deleted { .. } => ask("list --deleted"),
            Listed::Tagged { tag, newest } => {
                format!("Checkpoints with the tag {tag}: {}.", newest.join(", "))
            }
            _ => "The tool `list` shows the checkpoints.".into(),
        },
        Advice::ShowCheckpoint { checkpoint } => {
            format!("The tool `show` tells more of {checkpoint}.")
        }
        Advice::ShowLatest => "The tool `show` tells what the newest checkpoint holds.".into(),
        Advice::ShowFiles { checkpoint } => {
            format!("The tool `show` with `files` lists the files of {checkpoint}.")
        }
        Advice::ShowState { checkpoint } => {
            format!("The tool `show` with `state` tells what the sessions of {checkpoint} knew.")
        }
        Advice::Restore { checkpoint, .. } | Advice::ConfirmRestore { checkpoint } => {
            format!("The tool `restore` goes to {checkpoint}.")
        }
        Advice::RestoreAny => "The tool `restore` goes to any checkpoint.".into(),
        Advice::PlanLatest | Advice::PlanAgain => {
            "Call the tool again without `plan`, look at the new plan, and confirm that one.".into()
        }
        Advice::Overwrite => "Call `undo` again with `overwrite` to take those back too.".into(),
        Advice::Undo => "The tool `undo` takes the last restore back.".into(),
        Advice::TryAgain => "Try again in a moment.".into(),
        Advice::OpenAgain => "Call the tool again.".into(),
        Advice::NameMoment => "Say which moment: `when`, `checkpoint`, `event` or `tag`.".into(),
        Advice::NameSession | Advice::StartOrNameSession | Advice::ListSessions => {
            "Name the session with `session`.".into()
        }
        Advice::Undelete { id } => ask(&format!("undelete {id}")),
        Advice::UndeleteSession { session } => ask(&format!("undelete {session}")),
        Advice::ShowUnfinished => ask("recover"),
        Advice::Recover { .. } => {
            "A restore was interrupted here. Ask the user to run `rappel recover`.".into()
        }
        Advice::FinishRestore | Advice::FinishWithoutDatabases => ask("recover --finish"),
        Advice::SetAsideIntent => ask("recover --set-aside"),
        Advice::Trust => ask("trust"),
        Advice::Verify => ask("verify"),
        Advice::Doctor => ask("doctor"),
        Advice::Adopt { .. } => ask("status"),
        Advice::AllowStale => {
            "Call again with `only` naming databases, if their older dump is wanted.".into()
        }
        Advice::SkipDatabases | Advice::SeeToEach => {
            "Call again with `skip` naming databases, to leave them alone.".into()
        }
        // What a model must not decide by itself, and what only a person can do.
        other => {
            let kind = serde_json::to_value(other).ok();
            let kind = kind.as_ref().and_then(|value| value["kind"].as_str()).unwrap_or_default();
            format!("Tell the user; `rappel help` says more. (advice: {kind})")
        }
    }
}
