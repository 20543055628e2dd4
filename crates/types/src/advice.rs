//! What a caller can do next, as data.
//!
//! The engine says *what* would help; each face (command line, HTTP, MCP) says it in its own words.
//! So no variant holds a command, a flag or an exit code. [`Advice::Plain`] is for advice that reads
//! the same everywhere: a setting to correct, a program to install.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that would help. Checkpoints, sessions and workspaces are named by their ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names of fields say it")]
#[non_exhaustive]
pub enum Advice {
    /// In a sentence that is the same for every face.
    Plain { text: String },

    /// Save the workspace for the first time.
    SaveFirst,
    /// Save the workspace.
    Save,
    /// Name all facets of which the capture of one needs another.
    AlsoCapture { facets: Vec<String> },
    /// Ask for all facets.
    AskForAllFacets,
    /// Ask for all facets, or for no database by name.
    AskForDatabases,

    /// One of these was probably meant.
    DidYouMean { what: NameOf, names: Vec<String> },
    /// See which checkpoints there are.
    ListCheckpoints { filter: Listed },
    /// See which workspaces the home holds.
    ListWorkspaces,
    /// Look in another workspace of the home.
    NameWorkspace { workspace: String },
    /// Look at the history around this folder.
    OpenWorkspace { root: String },
    /// Name a checkpoint of a lineage from the workspace that it was imported into.
    NameInLineage,
    /// See what a checkpoint holds.
    ShowCheckpoint { checkpoint: String },
    /// See the newest checkpoint.
    ShowLatest,
    /// See the files of a checkpoint.
    ShowFiles { checkpoint: String },
    /// See the metadata of a checkpoint.
    ShowValues { checkpoint: String },
    /// See what the sessions of a checkpoint knew.
    ShowState { checkpoint: String },
    /// See what the process of a checkpoint used.
    ShowProcess,
    /// See which checkpoint comes from which.
    ShowTimeline,

    /// Bring back what was deleted: a checkpoint.
    Undelete { id: String },
    /// Bring back a session that retention let go.
    UndeleteSession { session: String },
    /// Let go of a checkpoint that is lost anyway.
    DeleteLost { checkpoint: String },
    /// Let a checkpoint be deleted.
    Unpin { checkpoint: String },
    /// Say which checkpoints stay, instead of the rules that cannot be read.
    SayWhatStays,

    /// See which sessions there are.
    ListSessions,
    /// See a session.
    ShowSession { session: String },
    /// See what a session knows now.
    ShowSessionState { session: String },
    /// See all that a session knows now.
    SeeEverything { session: String },
    /// Name the session that is meant.
    NameSession,
    /// Name the session that is meant, or start one.
    StartOrNameSession,
    /// Start one with an ended one as its parent.
    ContinueSession { parent: String },
    /// Begin a new session instead of going on with this one.
    BeginSession,
    /// Wait for the session's command, or begin a new session.
    WaitOrBeginSession,
    /// Have an agent's sessions recorded.
    RecordSessions,
    /// See how sessions that crashed are taken up again.
    ResumeSessions,
    /// Start the session's agent again with what is known of it.
    RecallSession { session: String },
    /// Say how the session ended.
    SayHowItEnded,
    /// Say which moment is meant.
    NameMoment,
    /// Install the integration of an agent again, for the same scope: `local`, `shared` or `user`.
    Integrate { agent: String, scope: String },
    /// Forget an integration that the user took out by hand.
    ForgetIntegration { agent: String, scope: String },
    /// Confirm the hooks in the agent.
    ConfirmHooks { agent: String },
    /// Have the agent trust this folder.
    TrustFolder { agent: String },
    /// Take the setting that switches hooks off out of a file.
    SwitchHooksOn { setting: String, file: String },
    /// Start the agent again.
    StartAgentAgain { agent: String },

    /// Restore a checkpoint.
    Restore { checkpoint: String, paths: Vec<String> },
    /// Restore a checkpoint, without a question.
    ConfirmRestore { checkpoint: String },
    /// Restore any checkpoint that there is.
    RestoreAny,
    /// Restore just git of a checkpoint (the newest one, where none is named).
    RestoreGit { checkpoint: Option<String>, plan_only: bool },
    /// Look at what a restore of the newest checkpoint would do.
    PlanLatest,
    /// Look at the plan again.
    PlanAgain,
    /// Write a checkpoint to a new folder.
    RestoreTo { checkpoint: Option<String> },
    /// Write a database's dump to a folder.
    WriteDump { checkpoint: String },
    /// Restore a database by its name.
    RestoreDatabase { checkpoint: String, name: String },
    /// Restore a database by its name, or write it to a folder.
    RestoreOrWriteDatabase { checkpoint: String, name: String },
    /// Restore a few databases at a time.
    FewerDatabases,
    /// Restore one of these, by its name.
    ChooseDatabase { names: Vec<String> },
    /// Restore the database to where it is now.
    AllowMoved { name: String },
    /// Allow that this database is restored on another machine.
    AllowDatabase { name: String },
    /// Restore a command's database although its present cannot be saved.
    AllowUnsaved { name: String },
    /// Names of commands are meant, see [`Advice::AllowUnsaved`].
    AllowUnsavedNames,
    /// Also restore dumps that are older than the checkpoint.
    AllowStale,
    /// Load a dump that came from elsewhere.
    TrustDump,
    /// Leave databases alone.
    SkipDatabases,
    /// Restore everything but databases, and allow then what they run.
    SkipDatabasesThenTrust,
    /// End the connections that others have to a database.
    TerminateConnections,
    /// End the agents that are at work.
    TerminateSessions,
    /// Also restore this work tree.
    RestoreWorktree { name: String },
    /// Also take back what was changed since.
    Overwrite,
    /// See to what is said of each database, or leave databases alone.
    SeeToEach,
    /// Move what is in the way aside, or leave it out.
    MoveAside,
    /// Take the last restore back.
    Undo,
    /// Take back to before the last prompt of a session.
    UndoPrompt { session: String },

    /// See what is unfinished.
    ShowUnfinished,
    /// End the unfinished restore: carry it on, or take it back.
    Recover { finish: bool, rollback: bool },
    /// Carry the unfinished restore on, without databases if they cannot be restored.
    FinishRestore,
    /// Carry the unfinished restore on, without databases.
    FinishWithoutDatabases,
    /// End the unfinished restore of another workspace.
    RecoverElsewhere { root: String },
    /// Take a plan that cannot be read out of the way.
    SetAsideIntent,

    /// Take over the history of a folder that was moved; its workspace, where it is known.
    Adopt { workspace: Option<String> },
    /// A copy has a history of its own.
    SaveCopy,

    /// Decide whether `rappel.toml` may run or reach something.
    Trust,
    /// Name this database in `rappel.toml`.
    AddDatabase { url: String },
    /// Read everything in the store.
    Verify,
    /// Read everything in the store, although nothing is known to be damaged.
    VerifyAll,
    /// Look at what Rappel relies on.
    Doctor,
    /// Delete checkpoints and collect.
    FreeSpace,
    /// Use another folder as the home.
    ChooseHome,
    /// Make the home writable, or use another folder.
    MakeHomeWritable,
    /// Use a newer Rappel.
    Update,
    /// Try again.
    TryAgain,
    /// Open the workspace again.
    OpenAgain,

    /// Begin a search for the first bad checkpoint.
    BeginBisect,
    /// Go on with the search, or give it up.
    ContinueBisect,
    /// Give the search up.
    AbortBisect,

    /// Name a checkpoint to export.
    NameExport,
    /// Name where to export to; `variable` sets it, too.
    NamePlace { variable: Option<String> },
    /// Write the range the other way round.
    SwapRange { from: String, to: String },
    /// Export in this form.
    ChooseFormat { forms: Vec<String> },
    /// Import the folder or file with the checkpoints.
    NameImport,
}

/// What a name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NameOf {
    /// A checkpoint.
    Checkpoint,
    /// A tag, where a checkpoint was asked for.
    Tag,
    /// A tag, where tags were asked for.
    TagOfAny,
    /// A session.
    Session,
    /// Anything else: the names are all there is to say.
    Other,
}

/// Which checkpoints a list shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "of", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names of fields say it")]
pub enum Listed {
    /// All of the workspace.
    All,
    /// All of the workspace, with their tags.
    Tags,
    /// Those that were deleted and can be brought back; some of them.
    Deleted { some: Vec<String> },
    /// Those with a tag; the newest of them.
    Tagged { tag: String, newest: Vec<String> },
}

impl Advice {
    /// In a sentence that is the same for every face.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::Plain { text: text.into() }
    }

    /// The sentence, where it is one for every face.
    pub fn as_plain(&self) -> Option<&str> {
        match self {
            Self::Plain { text } => Some(text),
            _ => None,
        }
    }

    /// This name was probably meant.
    pub fn did_you_mean(name: impl Into<String>) -> Self {
        Self::DidYouMean { what: NameOf::Other, names: vec![name.into()] }
    }
}

impl From<&str> for Advice {
    fn from(text: &str) -> Self {
        Self::plain(text)
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Self::plain(text)
    }
}

impl From<Advice> for Vec<Advice> {
    fn from(advice: Advice) -> Self {
        vec![advice]
    }
}

/// A sentence for people, with what they can do about it. In JSON it is the sentence; the answer
/// around it lists the advice. A face may put the advice into the sentence, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Remark {
    /// The sentence.
    pub text: String,
    /// What to do.
    pub advice: Vec<Advice>,
}

impl Remark {
    /// A sentence with advice.
    pub fn new(text: impl Into<String>, advice: impl Into<Vec<Advice>>) -> Self {
        Self { text: text.into(), advice: advice.into() }
    }
}

/// A remark reads as its sentence.
impl std::ops::Deref for Remark {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for Remark {
    fn from(text: String) -> Self {
        Self { text, advice: Vec::new() }
    }
}

impl From<&str> for Remark {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Remark> for String {
    fn from(remark: Remark) -> Self {
        remark.text
    }
}

/// Sentences for people, each with what they can do about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Remarks(Vec<Remark>);

impl Remarks {
    /// Adds one.
    pub fn push(&mut self, remark: impl Into<Remark>) {
        self.0.push(remark.into());
    }

    /// Puts others before these.
    pub fn prepend(&mut self, before: &Self) {
        self.0.splice(0..0, before.iter().cloned());
    }

    /// Their advice, each once, in their order.
    pub fn advice(&self) -> Vec<Advice> {
        let mut all: Vec<Advice> = Vec::new();
        for advice in self.0.iter().flat_map(|remark| &remark.advice) {
            if !all.contains(advice) {
                all.push(advice.clone());
            }
        }
        all
    }

    /// Puts the advice of each into its sentence, in the words of a face.
    pub fn word(&mut self, word: impl Fn(&mut Remark)) {
        self.0.iter_mut().for_each(word);
    }
}

impl std::ops::Deref for Remarks {
    type Target = [Remark];

    fn deref(&self) -> &[Remark] {
        &self.0
    }
}

impl<N: Into<Remark>> Extend<N> for Remarks {
    fn extend<I: IntoIterator<Item = N>>(&mut self, remarks: I) {
        self.0.extend(remarks.into_iter().map(Into::into));
    }
}

impl<N: Into<Remark>> FromIterator<N> for Remarks {
    fn from_iter<I: IntoIterator<Item = N>>(remarks: I) -> Self {
        Self(remarks.into_iter().map(Into::into).collect())
    }
}

impl<N: Into<Remark>> From<Vec<N>> for Remarks {
    fn from(remarks: Vec<N>) -> Self {
        remarks.into_iter().collect()
    }
}

impl IntoIterator for Remarks {
    type Item = Remark;
    type IntoIter = std::vec::IntoIter<Remark>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'n> IntoIterator for &'n Remarks {
    type Item = &'n Remark;
    type IntoIter = std::slice::Iter<'n, Remark>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_data_with_a_kind() {
        let advice = Advice::AllowDatabase { name: "shop".into() };
        let json = serde_json::to_value(&advice).unwrap();
        assert_eq!(json, serde_json::json!({"kind": "allow-database", "name": "shop"}));
        assert_eq!(serde_json::from_value::<Advice>(json).unwrap(), advice);
        let filter = Listed::Tagged { tag: "x".into(), newest: vec!["chk_1".into()] };
        let json = serde_json::to_value(Advice::ListCheckpoints { filter }).unwrap();
        assert_eq!(json["filter"]["of"], "tagged");
    }

    #[test]
    fn a_remark_is_its_sentence_in_json() {
        let remark = Remark::new("the store is damaged", Advice::Verify);
        assert_eq!(serde_json::to_value(&remark).unwrap(), "the store is damaged");
        let mut remarks = Remarks::from(vec![remark, Remark::new("so is this", Advice::Verify)]);
        remarks.push("nothing helps");
        assert_eq!(remarks.advice(), [Advice::Verify]);
        assert_eq!(remarks.iter().next_back().unwrap().to_string(), "nothing helps");
    }
}
