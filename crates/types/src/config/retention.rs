//! `[retention]`: how long checkpoints are kept.

use super::read::{Reader, Value, in_order};
use crate::Trigger;
use crate::retention::{Keep, Policy, Preset, Rule, Rules};

const RULE_KEYS: [&str; 4] = ["keep", "max", "hourly_after", "daily_after"];

impl Reader<'_> {
    pub(super) fn retention(&mut self, value: &Value<'_>) -> Policy {
        let Some(table) = self.table("retention", value) else { return Policy::default() };
        let mut rules = Rules::default();
        let mut preset = None;
        for (key, value) in in_order(table) {
            let name: &str = key.get_ref();
            let at = format!("retention.{name}");
            match (name, name.parse::<Trigger>()) {
                ("preset", _) => preset = self.preset(&at, value),
                ("sessions", _) => {
                    rules.sessions = self.rule(&at, value, &["keep"]).keep;
                }
                ("default", _) => rules.default = self.rule(&at, value, &RULE_KEYS),
                (_, Ok(trigger)) => {
                    let rule = self.rule(&at, value, &RULE_KEYS);
                    rules.triggers.insert(trigger, rule);
                }
                (_, Err(_)) => {
                    let triggers = Trigger::ALL.iter().map(|trigger| trigger.as_str());
                    let known: Vec<&str> =
                        ["preset", "default", "sessions"].into_iter().chain(triggers).collect();
                    self.unknown(key, "retention.", &known);
                }
            }
        }
        let Some(preset) = preset else { return Policy::Rules(rules) };
        if table.len() > 1 {
            let message = "a preset has its own numbers; leave out the other keys".to_owned();
            self.mistake(value.span(), "retention.preset", message);
        }
        Policy::Preset(preset)
    }

    fn preset(&mut self, at: &str, value: &Value<'_>) -> Option<Preset> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(value, at, "a text");
            return None;
        };
        let found = Preset::ALL.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let names: Vec<&str> = Preset::ALL.iter().map(|(name, _)| *name).collect();
            self.mistake(
                value.span(),
                at,
                format!("{text:?} is no preset; there are {}", names.join(", ")),
            );
        }
        found.map(|(_, preset)| *preset)
    }

    /// A rule. What it does not say has no limit: a rule replaces the one that holds without it.
    fn rule(&mut self, at: &str, value: &Value<'_>, known: &[&str]) -> Rule {
        let mut rule =
            Rule { keep: Keep::Forever, max: None, hourly_after: None, daily_after: None };
        let Some(table) = value.get_ref().as_table() else {
            let example = match (value.get_ref().as_str(), known.contains(&"max")) {
                (Some(text), _) => format!("a rule like {{ keep = {text:?} }}"),
                (None, true) => "a rule like { keep = \"7d\", max = 50 }".to_owned(),
                (None, false) => "a rule like { keep = \"90d\" }".to_owned(),
            };
            self.wrong_type(value, at, &example);
            return rule;
        };
        for (key, value) in in_order(table) {
            let name: &str = key.get_ref();
            let at = format!("{at}.{name}");
            if !known.contains(&name) {
                self.unknown(key, &at[..at.len() - name.len()], known);
                continue;
            }
            let millis =
                |reader: &mut Self| reader.duration(&at, value).map(|time| time.as_millis() as u64);
            match name {
                "keep" if value.get_ref().as_str() == Some("forever") => {}
                "keep" => rule.keep = millis(self).map_or(rule.keep, Keep::For),
                "max" => rule.max = self.whole_number(&at, value),
                "hourly_after" => rule.hourly_after = millis(self),
                _ => rule.daily_after = millis(self),
            }
        }
        rule
    }

    fn whole_number(&mut self, at: &str, value: &Value<'_>) -> Option<u64> {
        let number = value.get_ref().as_integer();
        let read = number.and_then(|it| u64::from_str_radix(it.as_str(), it.radix()).ok());
        if read.is_none() {
            self.wrong_type(value, at, "a whole number from 0");
        }
        read
    }
}
