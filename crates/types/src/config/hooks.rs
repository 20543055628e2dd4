//! How long agents wait for Rappel at their hooks' events.
//!
//! An agent must not fail because of a setting: values that make no sense are warned of, and the
//! default holds.

use std::time::Duration;

use super::read::{Reader, Value, in_order};
use crate::duration::{format_duration, parse_duration};

/// `[hooks]`: how long an agent waits at most. The work goes on after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HooksConfig {
    /// Before a call that may change something.
    pub before_call: Duration,
    /// At the end of a session.
    pub session_end: Duration,
    /// At every other event.
    pub other: Duration,
}

impl Default for HooksConfig {
    fn default() -> Self {
        Self {
            before_call: Duration::from_secs(10),
            session_end: Duration::from_millis(800),
            other: Duration::from_secs(2),
        }
    }
}

/// The longest budgets. `rappel integrate` writes limits for the agent that are 5 s above them.
const LONGEST: HooksConfig = HooksConfig {
    before_call: Duration::from_secs(120),
    session_end: Duration::from_secs(1),
    other: Duration::from_secs(2),
};

impl Reader<'_> {
    pub(super) fn hooks(&mut self, value: &Value<'_>) -> HooksConfig {
        let mut hooks = HooksConfig::default();
        let Some(table) = value.get_ref().as_table() else {
            self.warn(value.span(), "hooks", "expected a section, `[hooks]`".into());
            return hooks;
        };
        for (key, value) in in_order(table) {
            let (budget, longest) = match key.get_ref().as_ref() {
                "before_call" => (&mut hooks.before_call, LONGEST.before_call),
                "session_end" => (&mut hooks.session_end, LONGEST.session_end),
                "other" => (&mut hooks.other, LONGEST.other),
                _ => {
                    self.unknown(key, "hooks.", &["before_call", "session_end", "other"]);
                    continue;
                }
            };
            match read_budget(value, longest) {
                Ok(read) => *budget = read,
                Err(message) => {
                    self.warn(value.span(), &format!("hooks.{}", key.get_ref()), message);
                }
            }
        }
        hooks
    }
}

fn read_budget(value: &Value<'_>, longest: Duration) -> Result<Duration, String> {
    let Some(text) = value.get_ref().as_str() else {
        return Err("expected a duration like \"2s\"".into());
    };
    let budget = parse_duration(text).map_err(|error| error.to_string())?;
    if budget.is_zero() {
        return Err("0 would leave no time at all".into());
    }
    if budget > longest {
        let longest = format_duration(longest.as_millis() as u64);
        return Err(format!("{text:?} is more than {longest}, and an agent may not wait so long"));
    }
    Ok(budget)
}
