//! What is captured of agents, and which events make checkpoints by themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use super::read::{Reader, Value, in_order};
use crate::agents::contradiction::Thresholds;
use crate::{RelPath, Trigger};

/// `[agents]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentsConfig {
    /// Folders of agents' state, captured whole whatever git ignores; besides those that are known.
    pub state_dirs: Vec<RelPath>,
}

/// The clock makes checkpoints at most this often.
const SHORTEST: Duration = Duration::from_secs(1);

/// `[auto]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AutoConfig {
    /// What the file says of single triggers.
    pub triggers: BTreeMap<&'static str, bool>,
    /// When two things contradict each other.
    pub thresholds: Thresholds,
    /// How often `watch` and `run` save while something changes; `None`: not at all.
    pub every: Option<Duration>,
}

impl AutoConfig {
    /// Whether events make checkpoints with this trigger.
    pub fn is_on(&self, trigger: Trigger) -> bool {
        let quiet = matches!(trigger, Trigger::ThoughtCompleted | Trigger::ToolExecuted);
        self.triggers.get(trigger.as_str()).copied().unwrap_or(!quiet)
    }
}

impl Reader<'_> {
    pub(super) fn agents(&mut self, value: &Value<'_>) -> AgentsConfig {
        let mut agents = AgentsConfig::default();
        for (key, value) in self.table("agents", value).into_iter().flat_map(in_order) {
            if key.get_ref() != "state_dirs" {
                self.unknown(key, "agents.", &["state_dirs"]);
                continue;
            }
            agents.state_dirs = self.folders("agents.state_dirs", value);
        }
        agents
    }

    pub(super) fn auto(&mut self, value: &Value<'_>) -> AutoConfig {
        let mut auto = AutoConfig::default();
        for (key, value) in self.table("auto", value).into_iter().flat_map(in_order) {
            let name: &str = key.get_ref();
            if name == "every" {
                auto.every = self.duration("auto.every", value).map(|every| every.max(SHORTEST));
                continue;
            }
            let thresholds = &mut auto.thresholds;
            let threshold = match name {
                "held" => Some(&mut thresholds.held),
                "strong-evidence" => Some(&mut thresholds.strong),
                "fallen" => Some(&mut thresholds.fallen),
                _ => None,
            };
            if let Some(threshold) = threshold {
                match number(value) {
                    Some(number) => *threshold = number,
                    None => self.wrong_type(value, &format!("auto.{name}"), "a number from 0 to 1"),
                }
                continue;
            }
            let Ok(trigger) = name.parse::<Trigger>() else {
                let mut names: Vec<&str> = Trigger::ALL.iter().map(|one| one.as_str()).collect();
                names.extend(["every", "held", "strong-evidence", "fallen"]);
                self.unknown(key, "auto.", &names);
                continue;
            };
            match value.get_ref().as_bool() {
                Some(on) => drop(auto.triggers.insert(trigger.as_str(), on)),
                None => self.wrong_type(value, &format!("auto.{name}"), "true or false"),
            }
        }
        auto
    }
}

fn number(value: &Value<'_>) -> Option<f64> {
    let inner = value.get_ref();
    let text = inner.as_float().map(toml::de::DeFloat::as_str);
    let text = text.or_else(|| inner.as_integer().map(toml::de::DeInteger::as_str))?;
    text.parse().ok().filter(|number| (0.0..=1.0).contains(number))
}
