//! What the engine advises, in the words of the command line: commands, flags and variables.
//!
//! This is the only place where advice becomes words. The flags that this call was given are not
//! repeated here; [`crate::process::Context::suggest`] does that where a whole command is offered.

use rappel::{CrashedSession, RestoreReport, Status};
use rappel_types::advice::{Listed, NameOf};
use rappel_types::plan::Conflict;
use rappel_types::{Advice, Remark, Remarks};

use crate::process::quote;

/// Some advice in a sentence; nothing where there is none.
pub fn hint(advice: &[Advice]) -> Option<String> {
    let mut text = String::new();
    for one in advice {
        if !text.is_empty() {
            text.push_str(if text.ends_with('?') { " " } else { "; " });
        }
        text.push_str(&render(one));
    }
    (!text.is_empty()).then_some(text)
}

/// One piece of advice.
pub fn render(advice: &Advice) -> String {
    match advice {
        Advice::Plain { text } => text.clone(),
        Advice::SaveFirst => "rappel save makes the first checkpoint".into(),
        Advice::Save => "rappel save".into(),
        Advice::AlsoCapture { facets } => format!("--only {}", facets.join(",")),
        Advice::AskForAllFacets => "leave out --only and --skip".into(),
        Advice::AskForDatabases => "leave out --only and --skip, or --database".into(),
        Advice::DidYouMean { what, names } => did_you_mean(*what, &names.join(" or ")),
        Advice::ListCheckpoints { filter } => list(filter),
        Advice::ListWorkspaces => "rappel list --all-workspaces shows which there are".into(),
        Advice::NameWorkspace { workspace } => format!("add --workspace {workspace} to look there"),
        Advice::OpenWorkspace { root } => {
            format!("`rappel -C {} list` shows its checkpoints", quote(root))
        }
        Advice::NameInLineage => {
            "leave out --workspace, and name the checkpoint as FORMAT:ID".into()
        }
        Advice::ShowCheckpoint { checkpoint } => {
            format!("rappel show {checkpoint} tells what it holds")
        }
        Advice::ShowLatest => "rappel show latest".into(),
        Advice::ShowFiles { checkpoint } => {
            format!("rappel show {checkpoint} --files lists what it holds")
        }
        Advice::ShowValues { checkpoint } => format!("rappel show {checkpoint} lists its values"),
        Advice::ShowState { checkpoint } => {
            format!("rappel show {checkpoint} --state tells what they knew")
        }
        Advice::ShowProcess => "rappel show REF --json | jq .process".into(),
        Advice::ShowTimeline => "rappel timeline shows what comes from what".into(),
        Advice::Undelete { id } => format!("rappel undelete {id}"),
        Advice::DeleteLost { checkpoint } => {
            format!("rappel delete {checkpoint} lets go of it for good")
        }
        Advice::Unpin { checkpoint } => format!("rappel unpin {checkpoint}"),
        Advice::SayWhatStays => {
            "correct rappel.toml, or say what stays: --keep-last, --keep-days".into()
        }
        Advice::Integrate { .. }
        | Advice::ForgetIntegration { .. }
        | Advice::ConfirmHooks { .. }
        | Advice::TrustFolder { .. }
        | Advice::SwitchHooksOn { .. }
        | Advice::StartAgentAgain { .. } => about_hooks(advice),
        Advice::Undo => "rappel undo brings back what it held before".into(),
        Advice::UndoPrompt { session } => format!("rappel undo --prompt --session {session}"),
        Advice::Adopt { workspace: Some(workspace) } => {
            format!("`rappel adopt {workspace}` takes over that history")
        }
        Advice::Adopt { workspace: None } => {
            "rappel adopt OLD_ROOT takes over the history of a moved folder".into()
        }
        Advice::SaveCopy => {
            "a copy of a folder begins a history of its own with `rappel save`".into()
        }
        Advice::Trust => "rappel trust shows it and asks".into(),
        Advice::AddDatabase { url } => {
            format!("add [[database]] with url = {url:?} to rappel.toml (or rappel init)")
        }
        Advice::Verify => "rappel verify tells which checkpoints are hurt".into(),
        Advice::VerifyAll => "rappel verify reads all of it".into(),
        Advice::Doctor => "rappel doctor".into(),
        Advice::FreeSpace => {
            "free some space, or `rappel delete` old checkpoints and `rappel gc --now`".into()
        }
        Advice::ChooseHome => "choose another folder with --home or RAPPEL_HOME".into(),
        Advice::MakeHomeWritable => {
            "make it writable again, or choose another folder with --home or RAPPEL_HOME".into()
        }
        Advice::Update => "update rappel".into(),
        Advice::TryAgain => "try again in a moment".into(),
        Advice::OpenAgain => "run rappel again".into(),
        Advice::BeginBisect => "rappel bisect GOOD BAD -- COMMAND".into(),
        Advice::ContinueBisect => {
            "rappel bisect --continue goes on, rappel bisect --abort gives up".into()
        }
        Advice::AbortBisect => "rappel bisect --abort".into(),
        Advice::NameExport => "rappel export latest".into(),
        Advice::NamePlace { variable: Some(variable) } => format!("-o PATH, or set {variable}"),
        Advice::NamePlace { variable: None } => "-o PATH chooses another name".into(),
        Advice::SwapRange { from, to } => format!("{from}..{to}"),
        Advice::ChooseFormat { forms } => match &forms[..] {
            [form] => format!("--format {form}"),
            _ => format!("say which form it is: --format {}", forms.join(", ")),
        },
        Advice::NameImport => "rappel import takes the folder or file with the checkpoints".into(),
        other => about_sessions(other).or_else(|| about_a_restore(other)).unwrap_or_default(),
    }
}

/// An agent's program has the agent's name.
fn about_hooks(advice: &Advice) -> String {
    let flag = |scope: &str| match scope {
        "shared" => " --shared",
        "user" => " --user",
        _ => "",
    };
    match advice {
        Advice::Integrate { agent, scope } => format!("rappel integrate {agent}{}", flag(scope)),
        Advice::ForgetIntegration { agent, scope } => format!(
            "rappel integrate {agent}{} --remove, if you took them out yourself",
            flag(scope)
        ),
        Advice::ConfirmHooks { agent } => {
            format!("start {agent} and choose \"Trust all\", or look at each hook with /hooks")
        }
        Advice::TrustFolder { agent } => {
            format!("start {agent} in this folder and say that you trust it")
        }
        Advice::SwitchHooksOn { setting, file } => format!("take `{setting}` out of {file}"),
        Advice::StartAgentAgain { agent } => format!(
            "end {agent} and start it again: it reads its hooks when it starts, unless an option \
             switches them off"
        ),
        _ => String::new(),
    }
}

fn about_sessions(advice: &Advice) -> Option<String> {
    Some(match advice {
        Advice::UndeleteSession { session } => format!(
            "rappel undelete {session} brings it back for a day; rappel session start begins a new one"
        ),
        Advice::ListSessions => "rappel session list shows them".into(),
        Advice::ShowSession { session } => format!("rappel session show {session}"),
        Advice::ShowSessionState { session } => {
            format!("rappel at now --session {session} shows what there is")
        }
        Advice::SeeEverything { session } => format!("rappel at now --session {session}"),
        Advice::NameSession => "--session ID, or RAPPEL_SESSION".into(),
        Advice::StartOrNameSession => "rappel session start, or --session ID".into(),
        Advice::ContinueSession { parent } => format!(
            "a session that ended stays as it is; rappel session start --parent {parent} begins a new one"
        ),
        Advice::BeginSession => "leave out --session to begin a new one".into(),
        Advice::WaitOrBeginSession => {
            "wait until it ends, or leave out --session to begin a new one".into()
        }
        Advice::RecordSessions => "rappel integrate claude, or rappel session start".into(),
        Advice::ResumeSessions => {
            "rappel recover tells how a crashed session is taken up again".into()
        }
        Advice::RecallSession { session } => format!(
            "start the agent of session {session} again and give it what `rappel recall --session {session}` says"
        ),
        Advice::SayHowItEnded => "--status completed or failed".into(),
        Advice::NameMoment => {
            "give a time (`rappel at \"2 hours ago\"`), --sequence N, --event N, --checkpoint REF or --tag T"
                .into()
        }
        Advice::TerminateSessions => "--terminate-sessions ends it".into(),
        _ => return None,
    })
}

fn about_a_restore(advice: &Advice) -> Option<String> {
    Some(match advice {
        Advice::Restore { checkpoint, paths } => match &paths[..] {
            [] => format!("rappel restore {checkpoint}"),
            paths => {
                let paths = paths.iter().map(|path| format!(" --path {}", quote(path)));
                format!("rappel restore {checkpoint}{}", paths.collect::<String>())
            }
        },
        Advice::ConfirmRestore { checkpoint } => format!("rappel restore {checkpoint} --confirm"),
        Advice::RestoreAny => {
            "rappel list shows all checkpoints; rappel restore REF goes to any".into()
        }
        Advice::RestoreGit { checkpoint, plan_only } => {
            let checkpoint = checkpoint.as_deref().unwrap_or("latest");
            let plan = if *plan_only { " --dry-run" } else { "" };
            format!("rappel restore {checkpoint} --only git{plan}")
        }
        Advice::PlanLatest => "rappel restore latest --dry-run".into(),
        Advice::PlanAgain => "look at the new plan with --dry-run".into(),
        Advice::RestoreTo { checkpoint } => {
            let reference = checkpoint.as_deref().unwrap_or("REF");
            format!("rappel restore {reference} --to DIR writes one of them to a new folder")
        }
        Advice::WriteDump { checkpoint } => {
            format!("rappel restore {checkpoint} --to DIR writes the dump there")
        }
        Advice::RestoreDatabase { checkpoint, name } => {
            format!("rappel restore {checkpoint} --database {} brings it back", quote(name))
        }
        Advice::RestoreOrWriteDatabase { checkpoint, name } => format!(
            "rappel restore {checkpoint} --database {}; with --to DIR it is written there instead",
            quote(name)
        ),
        Advice::FewerDatabases => {
            "--skip databases restores everything else; then --database NAME, several at a time"
                .into()
        }
        Advice::ChooseDatabase { names } => {
            let flags: Vec<_> = names.iter().map(|name| format!("--database {name}")).collect();
            format!("choose one with {}", flags.join(" or "))
        }
        Advice::AllowMoved { name } => format!("--database {name} puts it there all the same"),
        Advice::AllowDatabase { name } => {
            format!("--allow-remote-database {name} restores it all the same")
        }
        Advice::AllowUnsaved { name } => {
            format!("--allow-unsaved {name} restores it without saving what it holds now")
        }
        Advice::AllowUnsavedNames => {
            "--allow-unsaved is for the names of [[command]] entries".into()
        }
        Advice::AllowStale => "--allow-stale restores it all the same".into(),
        Advice::TrustDump => "--trust-dump restores it all the same".into(),
        Advice::SkipDatabases => "--skip databases leaves it alone".into(),
        Advice::SkipDatabasesThenTrust => {
            "first restore with --skip databases, then see `rappel trust`".into()
        }
        Advice::TerminateConnections => {
            "end what holds it (--terminate-connections does that where a server is in between)"
                .into()
        }
        Advice::RestoreWorktree { name } => {
            format!("restore with --worktree {} to bring it back", quote(name))
        }
        Advice::Overwrite => "--overwrite takes it too".into(),
        Advice::SeeToEach => {
            "see to what is said of each, or leave them alone with --skip databases".into()
        }
        Advice::MoveAside => "move it aside, or leave it out with --path or --skip".into(),
        Advice::ShowUnfinished => "rappel recover".into(),
        Advice::Recover { finish, rollback } => match (finish, rollback) {
            (true, true) => "rappel recover --finish or rappel recover --rollback".into(),
            (true, false) => "rappel recover --finish".into(),
            _ => "rappel recover --rollback".into(),
        },
        Advice::FinishRestore => {
            "rappel recover --finish, and then rappel undo if that is wanted; --skip databases \
             finishes without those that cannot be restored"
                .into()
        }
        Advice::FinishWithoutDatabases => "rappel recover --finish --skip databases".into(),
        Advice::RecoverElsewhere { root } => format!("rappel -C {} recover", quote(root)),
        Advice::SetAsideIntent => {
            "rappel recover --set-aside saves what is there now and takes that file out of the \
             way; rappel list --trigger pre-restore has what was there before"
                .into()
        }
        _ => return None,
    })
}

fn did_you_mean(what: NameOf, names: &str) -> String {
    match what {
        NameOf::Checkpoint => format!("did you mean {names}? rappel list shows them all"),
        NameOf::Tag => {
            format!("did you mean the tag {names}? rappel list --tag {names} shows what has it")
        }
        NameOf::TagOfAny => format!("did you mean {names}? rappel list shows the tags"),
        NameOf::Session => format!("did you mean {names}? rappel session list shows them all"),
        NameOf::Other => format!("did you mean {names}?"),
    }
}

fn list(filter: &Listed) -> String {
    match filter {
        Listed::All => "rappel list shows which there are".into(),
        Listed::Tags => "rappel list shows the tags".into(),
        Listed::Deleted { some } if some.is_empty() => {
            "none can be brought back; rappel list shows those that are there".into()
        }
        Listed::Deleted { some } => {
            format!("rappel list --deleted shows them: {}", some.join(", "))
        }
        Listed::Tagged { tag, newest } => {
            format!("rappel list --tag {tag} shows what has it; the newest: {}", newest.join(", "))
        }
    }
}

/// A sentence with its advice, as it is told.
pub fn sentence(remark: &Remark) -> String {
    match hint(&remark.advice) {
        Some(hint) => format!("{}; {hint}", remark.text),
        None => remark.text.clone(),
    }
}

/// Puts the advice of sentences into them.
pub fn word(remarks: &mut Remarks) {
    remarks.word(|remark| remark.text = sentence(remark));
}

/// Puts the advice of a plan into its warnings and conflicts. It is done once, before anything of
/// it is shown.
pub fn word_report(report: &mut RestoreReport) {
    word(&mut report.warnings);
    word_conflicts(&mut report.conflicts);
    word_conflicts(&mut report.full_plan.conflicts);
}

/// Puts the advice of conflicts into their reasons.
pub fn word_conflicts(conflicts: &mut [Conflict]) {
    for conflict in conflicts {
        let ways: Vec<String> = conflict.advice.iter().map(render).collect();
        if !ways.is_empty() {
            conflict.reason = format!("{} ({})", conflict.reason, ways.join(", or "));
        }
    }
}

/// Puts the advice of a status into its hints.
pub fn word_status(status: &mut Status) {
    status.hints = status.advice.iter().map(render).collect();
    status.hints.extend(status.remarks.iter().map(sentence));
    word_sessions(&mut status.crashed_sessions);
}

/// Says how sessions are taken up again: those that were supervised are so again.
pub fn word_sessions(sessions: &mut [CrashedSession]) {
    for session in sessions.iter_mut().filter(|session| session.supervised) {
        let id = &session.id;
        session.resume =
            session.resume.take().map(|command| format!("rappel run --session {id} -- {command}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_joined_to_a_sentence() {
        let advice = [Advice::Trust, Advice::SkipDatabases];
        let said = "rappel trust shows it and asks; --skip databases leaves it alone";
        assert_eq!(hint(&advice).unwrap(), said);
        assert_eq!(hint(&[]), None);
    }

    /// A variant that nobody words would be no advice.
    #[test]
    fn every_advice_has_words() {
        let schema = schemars::schema_for!(Advice).to_value();
        let variants = schema["oneOf"].as_array().unwrap();
        assert!(variants.len() > 80, "{}", variants.len());
        for variant in variants {
            let properties = variant["properties"].as_object().unwrap().iter();
            let example = |(name, of): (&String, &serde_json::Value)| {
                let value = match (name.as_str(), of["type"].as_str()) {
                    ("kind", _) => of["const"].clone(),
                    ("what", _) => "other".into(),
                    ("filter", _) => serde_json::json!({"of": "all"}),
                    (_, Some("array")) => serde_json::json!(["it"]),
                    (_, Some("boolean")) => true.into(),
                    (_, Some("string")) => "it".into(),
                    _ => serde_json::Value::Null,
                };
                (name.clone(), value)
            };
            let example: serde_json::Map<_, _> = properties.map(example).collect();
            let advice: Advice = serde_json::from_value(example.into()).unwrap();
            assert!(!render(&advice).is_empty(), "{advice:?}");
        }
    }

    #[test]
    fn names_are_quoted_for_a_shell() {
        let advice = Advice::Restore { checkpoint: "chk_1".into(), paths: vec!["a b".into()] };
        assert_eq!(render(&advice), "rappel restore chk_1 --path 'a b'");
    }
}
