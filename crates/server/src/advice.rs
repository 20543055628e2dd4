//! What the engine advises, in the words of the HTTP API: routes and keys of bodies.
//!
//! Advice that no route carries out has no words here; the caller finds it as data beside them.

use rappel::types::Advice;
use rappel::types::advice::Listed;

/// Some advice in a sentence; nothing where there is none.
pub fn sentence(advice: &[Advice]) -> Option<String> {
    let words: Vec<String> = advice.iter().map(word).filter(|text| !text.is_empty()).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// One piece of advice.
pub fn word(advice: &Advice) -> String {
    match advice {
        Advice::Plain { text } => text.clone(),
        Advice::SaveFirst => "POST /api/checkpoints makes the first checkpoint".into(),
        Advice::Save => "POST /api/checkpoints".into(),
        Advice::DidYouMean { names, .. } => format!("did you mean {}?", names.join(" or ")),
        Advice::ListCheckpoints { filter: Listed::Deleted { .. } } => {
            "GET /api/checkpoints?deleted=true lists those that can be brought back".into()
        }
        Advice::ListCheckpoints { .. } => "GET /api/checkpoints lists them".into(),
        Advice::ListWorkspaces => "GET /api/workspaces lists them".into(),
        Advice::NameWorkspace { workspace } => format!("add ?workspace={workspace}"),
        Advice::ShowCheckpoint { checkpoint } | Advice::ShowValues { checkpoint } => {
            format!("GET /api/checkpoints/{checkpoint}")
        }
        Advice::ShowLatest => "GET /api/checkpoints/latest".into(),
        Advice::ShowFiles { checkpoint } => {
            format!("GET /api/checkpoints/{checkpoint}/tree lists what it holds")
        }
        Advice::ShowState { checkpoint } => format!("GET /api/checkpoints/{checkpoint}/state"),
        Advice::ShowTimeline => "GET /api/timeline shows what comes from what".into(),
        Advice::Undelete { id } => format!("POST /api/checkpoints/{id}/undelete brings it back"),
        Advice::DeleteLost { checkpoint } => {
            format!("DELETE /api/checkpoints/{checkpoint} lets go of it for good")
        }
        Advice::Unpin { checkpoint } => {
            format!("PATCH /api/checkpoints/{checkpoint} with {{\"pinned\": false}}")
        }
        Advice::Undo => "POST /api/undo brings back what it held before".into(),
        Advice::Adopt { .. } => "POST /api/adopt takes over the history of a moved folder".into(),
        Advice::Trust => "GET /api/trust shows it, POST /api/trust allows it".into(),
        Advice::Verify | Advice::VerifyAll => {
            "POST /api/verify tells which checkpoints are hurt".into()
        }
        Advice::Doctor => "GET /api/doctor".into(),
        Advice::FreeSpace => "free some space, or delete old checkpoints and POST /api/gc".into(),
        Advice::Update => "update Rappel".into(),
        Advice::TryAgain | Advice::OpenAgain => "try again in a moment".into(),
        Advice::ListSessions => "GET /api/sessions lists them".into(),
        Advice::ShowSession { session } => format!("GET /api/sessions/{session}"),
        Advice::ContinueSession { parent } => {
            format!("POST /api/sessions with {{\"parent\": {parent:?}}} begins a new one")
        }
        Advice::NameSession => "name it with `session`".into(),
        Advice::StartOrNameSession => "POST /api/sessions, or name one with `session`".into(),
        Advice::NameMoment => "give `when`, `sequence`, `event`, `checkpoint` or `tag`".into(),
        Advice::Restore { checkpoint, .. } | Advice::ConfirmRestore { checkpoint } => {
            format!("POST /api/checkpoints/{checkpoint}/restore")
        }
        Advice::PlanLatest => "GET /api/checkpoints/latest/restore".into(),
        Advice::PlanAgain => "ask for the plan again, and send the hash of the new one".into(),
        Advice::RestoreTo { .. } | Advice::WriteDump { .. } => {
            "POST …/restore with `to` writes it to a new folder".into()
        }
        Advice::Recover { .. } | Advice::ShowUnfinished | Advice::FinishRestore => {
            "GET /api/recover shows it, POST /api/recover ends it".into()
        }
        Advice::SetAsideIntent => {
            "POST /api/recover with {\"set_aside\": true} takes it out of the way".into()
        }
        Advice::AllowDatabase { name } => {
            format!("send {{\"allow_remote_databases\": [{name:?}]}} to restore it all the same")
        }
        Advice::AllowUnsaved { name } => {
            format!("send {{\"allow_unsaved\": [{name:?}]}} to restore it without saving it first")
        }
        Advice::SkipDatabases => "send {\"skip\": [\"databases\"]} to leave databases alone".into(),
        Advice::TerminateConnections => {
            "send {\"terminate_connections\": true} to disconnect others".into()
        }
        Advice::TerminateSessions => "send {\"terminate_sessions\": true} to end it".into(),
        Advice::Overwrite => "send {\"overwrite\": true} to take those back too".into(),
        _ => String::new(),
    }
}
