//! What `status` says of hooks: what failed, and which integrations are at work.

use std::fmt;
use std::path::Path;

use rappel_types::Advice;
use rappel_types::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failure, Workers};
use crate::error::Result;
use crate::rappel::Rappel;
use crate::status::{Health, Status};

/// A failure is bad news for so long, or until something was saved since.
const NEWS_MS: i64 = 60 * 60 * 1000;

/// An integration that is installed: a face finds them, because only it knows where agents keep
/// their settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The agent.
    pub agent: String,
    /// The file that has its hooks.
    pub place: String,
    /// For whom it is installed: `local`, `shared` or `user`.
    pub scope: &'static str,
    /// Whether the program that they call is there.
    pub works: bool,
    /// Whether every other file of the integration (commands, a skill) is there.
    pub whole: bool,
    /// Whether the hooks were put there, and are there no more.
    pub gone: bool,
    /// The events whose hooks are not there.
    pub missing: Vec<String>,
    /// What keeps the agent from running them, or one of them.
    pub switched_off: Option<Switch>,
    /// Whether the agent runs them, as far as it asks its user.
    pub trust: Trust,
}

/// A setting of an agent's that switches hooks off.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Switch {
    /// The setting, as it stands there.
    pub setting: String,
    /// The file that has it.
    pub file: String,
}

impl Switch {
    /// A setting in a file.
    pub fn new(setting: impl Into<String>, file: &Path) -> Self {
        Self { setting: setting.into(), file: file.display().to_string() }
    }
}

/// Whether an agent runs hooks. Some ask their users first; Rappel never answers for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    /// It runs them.
    #[default]
    Given,
    /// Its user has not confirmed them yet.
    New,
    /// Its user confirmed them, and they have changed since.
    Changed,
    /// It does not trust the folder that they are for.
    Folder,
}

impl Trust {
    /// Whether it runs them.
    pub fn runs(self) -> bool {
        self == Self::Given
    }
}

/// How an integration is.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Integration {
    /// The agent.
    pub agent: String,
    /// The file that has its hooks.
    pub place: String,
    /// For whom it is installed: `local`, `shared` or `user`.
    pub scope: &'static str,
    /// How it is.
    pub state: IntegrationState,
    /// The events whose hooks are not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What keeps the agent from running the hooks, or one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switched_off: Option<Switch>,
    /// When its hooks last told something of this workspace.
    pub last_event: Option<Timestamp>,
}

/// How an integration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntegrationState {
    /// Its hooks tell what happens.
    Working,
    /// It is installed, and nothing was heard of it yet.
    Installed,
    /// The agent is at work, and its hooks tell nothing.
    Silent,
    /// The program that its hooks call is not there.
    Missing,
    /// Its hooks are no longer in the file.
    Gone,
    /// Some of its hooks are no longer in the file.
    MissingHooks,
    /// A setting of the agent's keeps it from running the hooks, or one of them.
    SwitchedOff,
    /// Its hooks are there, and other files of it are not: saves go on.
    Incomplete,
    /// The agent runs its hooks only once the user has confirmed them there.
    Unconfirmed,
    /// The user confirmed its hooks once. They have changed since, and the agent does not run them.
    Changed,
    /// The agent does not trust this folder, and runs no hooks here.
    UntrustedFolder,
}

impl IntegrationState {
    /// Whether the agent works without protection, or would.
    pub fn is_bad(self) -> bool {
        !matches!(self, Self::Working | Self::Installed | Self::Incomplete)
    }
}

impl fmt::Display for IntegrationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Working => "working",
            Self::Installed => "installed, nothing heard yet",
            Self::Silent => "silent: the agent is at work and its hooks tell nothing",
            Self::Missing => "the program that its hooks call is missing",
            Self::Gone => "its hooks are gone from there",
            Self::MissingHooks => "some of its hooks are gone from there",
            Self::SwitchedOff => "its hooks are switched off",
            Self::Incomplete => {
                "its hooks are there, but files of its commands or skill are missing"
            }
            Self::Unconfirmed => {
                "its hooks are new: the agent runs them once you confirm them there"
            }
            Self::Changed => {
                "its hooks have changed: the agent runs them once you confirm them there again"
            }
            Self::UntrustedFolder => {
                "the agent does not trust this folder, and runs no hooks in it"
            }
        })
    }
}

/// How it is, with what is missing or in the way.
impl fmt::Display for Integration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.state, &self.switched_off) {
            (IntegrationState::MissingHooks, _) => {
                write!(f, "{}: {}", self.state, self.missing.join(", "))
            }
            (IntegrationState::SwitchedOff, Some(Switch { setting, file })) => {
                write!(f, "{} by `{setting}` in {file}", self.state)
            }
            _ => self.state.fmt(f),
        }
    }
}

impl Integration {
    /// What to do about it.
    pub fn advice(&self) -> Vec<Advice> {
        use IntegrationState as State;
        let (agent, scope) = (self.agent.clone(), self.scope.to_owned());
        match self.state {
            State::Working | State::Installed => Vec::new(),
            State::Missing | State::MissingHooks | State::Incomplete => {
                Advice::Integrate { agent, scope }.into()
            }
            State::Gone => {
                let again = Advice::Integrate { agent: agent.clone(), scope: scope.clone() };
                vec![again, Advice::ForgetIntegration { agent, scope }]
            }
            State::SwitchedOff => {
                let on = |Switch { setting, file }| Advice::SwitchHooksOn { setting, file };
                self.switched_off.clone().map(on).into_iter().collect()
            }
            State::Silent => Advice::StartAgentAgain { agent }.into(),
            State::Unconfirmed | State::Changed => Advice::ConfirmHooks { agent }.into(),
            State::UntrustedFolder => Advice::TrustFolder { agent }.into(),
        }
    }
}

impl Rappel {
    /// The last failure of a hook in this workspace that is still worth telling.
    pub(crate) fn hook_failure(&self, saved_at: Option<Timestamp>) -> Option<Failure> {
        let root = self.root.to_string_lossy();
        let failures = self.hook_workers().failures();
        let ours = |one: &Failure| one.root.as_ref().is_some_and(|there| *there == root);
        let last = failures.into_iter().rev().find(ours)?;
        let is_new = self.now().millis_since(last.at) < NEWS_MS;
        (is_new || saved_at.is_none_or(|saved| saved < last.at)).then_some(last)
    }

    /// How each integration is that is installed for this workspace.
    pub fn integrations(&self, installed: &[Installed]) -> Result<Vec<Integration>> {
        let mut found = Vec::new();
        for one in installed {
            let last_event = self.hook_workers().last_heard(&self.root, &one.agent);
            let state = match last_event {
                _ if one.gone => IntegrationState::Gone,
                _ if !one.works => IntegrationState::Missing,
                _ if !one.missing.is_empty() => IntegrationState::MissingHooks,
                _ if one.switched_off.is_some() => IntegrationState::SwitchedOff,
                _ if one.trust == Trust::New => IntegrationState::Unconfirmed,
                _ if one.trust == Trust::Changed => IntegrationState::Changed,
                _ if one.trust == Trust::Folder => IntegrationState::UntrustedFolder,
                _ if self.is_at_work_unheard(&one.agent, last_event)? => IntegrationState::Silent,
                _ if !one.whole => IntegrationState::Incomplete,
                Some(_) => IntegrationState::Working,
                None => IntegrationState::Installed,
            };
            found.push(Integration {
                agent: one.agent.clone(),
                place: one.place.clone(),
                scope: one.scope,
                state,
                missing: one.missing.clone(),
                switched_off: one.switched_off.clone(),
                last_event,
            });
        }
        Ok(found)
    }

    /// Adds them to a status: one that does not work makes it degraded.
    pub fn judge_integrations(&self, status: &mut Status, installed: &[Installed]) -> Result<()> {
        status.integrations = self.integrations(installed)?;
        for one in status.integrations.clone() {
            if one.state.is_bad() {
                let reason = format!("the integration of {} ({}): {one}", one.agent, one.place);
                status.worsen(Health::Degraded, &reason, one.advice());
            }
        }
        Ok(())
    }

    fn hook_workers(&self) -> Workers {
        Workers::of(self.store.home().root())
    }

    /// Whether a session of that agent goes on that is known from its transcript alone. One that was
    /// silent since a hook told something was there before the hooks.
    fn is_at_work_unheard(&self, agent: &str, heard: Option<Timestamp>) -> Result<bool> {
        for id in self.live_session_ids()? {
            let Ok(id) = id.parse() else { continue };
            let view = self.session(&id)?;
            if view.from_transcript
                && view.status.is_live()
                && view.parent.is_none()
                && view.provider.as_deref() == Some(agent)
                && self.load_live(&id)?.state.latest_at > heard
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Workers {
    /// Remembers that an agent's hook told something of a workspace.
    pub fn note_heard(&self, root: &Path, agent: &str) {
        self.touch(&heard_name(root, agent));
    }

    /// When an agent's hook last told something of a workspace.
    pub fn last_heard(&self, root: &Path, agent: &str) -> Option<Timestamp> {
        self.touched_at(&heard_name(root, agent))
    }
}

fn heard_name(root: &Path, agent: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(root.as_os_str().as_encoded_bytes()).update(b"\0").update(agent.as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}
