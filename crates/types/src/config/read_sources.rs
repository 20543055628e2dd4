//! Reading the sections about what is captured besides files and git.

use std::time::Duration;

use super::read::{Reader, Value, in_order};
use super::sources::{
    CaptureConfig, CommandConfig, CommandLines, DEFAULT_COMMAND_TIMEOUT, DatabaseConfig,
    DatabaseUrl, Gated, KnowledgeConfig, VariablesConfig,
};
use crate::duration::parse_duration;
use crate::{RelPath, Trigger};

impl Reader<'_> {
    pub(super) fn databases(&mut self, value: &Value<'_>) -> Vec<DatabaseConfig> {
        let mut databases = Vec::new();
        for (place, item) in self.tables("database", value).into_iter().enumerate() {
            let at = format!("database[{place}]");
            let (mut name, mut url, mut tools) = (None, None, Vec::new());
            for (key, value) in self.table(&at, item).into_iter().flat_map(in_order) {
                match key.get_ref().as_ref() {
                    "name" => name = self.database_name(&format!("{at}.name"), value),
                    "url" => url = self.url(&format!("{at}.url"), value),
                    "tools" => tools = self.command_line(&format!("{at}.tools"), value),
                    _ => self.unknown(key, &format!("{at}."), &["name", "url", "tools"]),
                }
            }
            let said = item.get_ref().as_table();
            for required in ["name", "url"] {
                if said.is_some_and(|said| !said.contains_key(required)) {
                    let message = format!("`{required}` is missing");
                    self.mistake(item.span(), &at, message);
                }
            }
            if let (Some(name), Some(url)) = (name, url) {
                databases.push(DatabaseConfig { name, url, tools: Gated::new(tools) });
            }
        }
        databases
    }

    pub(super) fn commands(&mut self, value: &Value<'_>) -> Vec<CommandConfig> {
        let mut commands = Vec::new();
        for (place, item) in self.tables("command", value).into_iter().enumerate() {
            let at = format!("command[{place}]");
            let mut name = None;
            let (mut capture, mut restore) = (Vec::new(), Vec::new());
            let mut timeout = DEFAULT_COMMAND_TIMEOUT;
            for (key, value) in self.table(&at, item).into_iter().flat_map(in_order) {
                match key.get_ref().as_ref() {
                    "name" => name = self.database_name(&format!("{at}.name"), value),
                    "capture" => capture = self.command_line(&format!("{at}.capture"), value),
                    "restore" => restore = self.command_line(&format!("{at}.restore"), value),
                    "timeout" => {
                        let read = self.duration(&format!("{at}.timeout"), value);
                        timeout = read.unwrap_or(timeout);
                    }
                    _ => {
                        let known = ["name", "capture", "restore", "timeout"];
                        self.unknown(key, &format!("{at}."), &known);
                    }
                }
            }
            let said = item.get_ref().as_table();
            for required in ["name", "capture", "restore"] {
                if said.is_some_and(|said| !said.contains_key(required)) {
                    let message = format!("`{required}` is missing");
                    self.mistake(item.span(), &at, message);
                }
            }
            if let Some(name) = name {
                let lines = Gated::new(CommandLines { capture, restore });
                commands.push(CommandConfig { name, lines, timeout });
            }
        }
        commands
    }

    /// A name that is told from a path.
    fn database_name(&mut self, key: &str, value: &Value<'_>) -> Option<String> {
        let name = self.name(key, value)?;
        if name.contains(['/', '\\']) || name.starts_with('.') || name.starts_with('-') {
            self.mistake(value.span(), key, format!("{name:?} is not a name"));
            return None;
        }
        Some(name)
    }

    /// Two things of one name could not be told apart.
    pub(super) fn check_names(
        &mut self,
        value: &Value<'_>,
        databases: &[DatabaseConfig],
        commands: &[CommandConfig],
    ) {
        let mut names: Vec<&str> = databases.iter().map(|one| one.name.as_str()).collect();
        names.extend(commands.iter().map(|one| one.name.as_str()));
        names.sort_unstable();
        for pair in names.windows(2).filter(|pair| pair[0] == pair[1]) {
            self.mistake(value.span(), "name", format!("{:?} is there twice", pair[0]));
        }
    }

    pub(super) fn knowledge(&mut self, value: &Value<'_>) -> KnowledgeConfig {
        let mut knowledge = KnowledgeConfig::default();
        for (key, value) in self.table("knowledge", value).into_iter().flat_map(in_order) {
            if key.get_ref() != "paths" {
                self.unknown(key, "knowledge.", &["paths"]);
                continue;
            }
            knowledge.paths = self.folders("knowledge.paths", value);
        }
        knowledge
    }

    /// A list of paths in the workspace, sorted.
    pub(super) fn folders(&mut self, key: &str, value: &Value<'_>) -> Vec<RelPath> {
        let mut paths = Vec::new();
        for text in self.texts(key, value) {
            let bare = text.strip_prefix("./").unwrap_or(&text).trim_end_matches('/');
            match bare.parse::<RelPath>() {
                Ok(path) => paths.push(path),
                Err(error) => {
                    let message = format!("{error}; it is relative to the workspace");
                    self.mistake(value.span(), key, message);
                }
            }
        }
        paths.sort();
        paths.dedup();
        paths
    }

    pub(super) fn variables(&mut self, value: &Value<'_>) -> VariablesConfig {
        let mut variables = VariablesConfig::default();
        for (key, value) in self.table("variables", value).into_iter().flat_map(in_order) {
            if key.get_ref() != "capture" {
                self.unknown(key, "variables.", &["capture"]);
                continue;
            }
            for name in self.texts("variables.capture", value) {
                if name.contains(['=', '\0', '*']) {
                    let message = format!("{name:?} is not the name of a variable");
                    self.mistake(value.span(), "variables.capture", message);
                } else {
                    variables.capture.push(name);
                }
            }
        }
        variables.capture.sort();
        variables.capture.dedup();
        variables
    }

    pub(super) fn capture(&mut self, value: &Value<'_>) -> CaptureConfig {
        let mut capture = CaptureConfig::default();
        for (key, value) in self.table("capture", value).into_iter().flat_map(in_order) {
            if key.get_ref() != "databases" {
                self.unknown(key, "capture.", &["databases"]);
                continue;
            }
            capture.databases = self.triggers("capture.databases", value);
        }
        capture
    }

    pub(super) fn triggers(&mut self, key: &str, value: &Value<'_>) -> Vec<Trigger> {
        let mut triggers = Vec::new();
        for text in self.texts(key, value) {
            match text.parse::<Trigger>() {
                Ok(trigger) => triggers.push(trigger),
                Err(_) => {
                    self.mistake(value.span(), key, format!("{text:?} is not a trigger"));
                }
            }
        }
        triggers
    }

    fn url(&mut self, key: &str, value: &Value<'_>) -> Option<DatabaseUrl> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(value, key, "an address like \"env:DATABASE_URL\"");
            return None;
        };
        match DatabaseUrl::parse(text) {
            Ok(url) => Some(url),
            Err(error) => {
                self.mistake(value.span(), key, error);
                None
            }
        }
    }

    pub(super) fn duration(&mut self, key: &str, value: &Value<'_>) -> Option<Duration> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(value, key, "a time like \"60s\"");
            return None;
        };
        match parse_duration(text) {
            Ok(duration) if !duration.is_zero() => Some(duration),
            Ok(_) => {
                self.mistake(value.span(), key, "0 would leave no time at all".to_owned());
                None
            }
            Err(error) => {
                self.mistake(value.span(), key, error.to_string());
                None
            }
        }
    }

    /// A list of texts, none of them empty.
    fn texts(&mut self, key: &str, value: &Value<'_>) -> Vec<String> {
        self.list(key, value, |_| false)
    }

    /// A program with its arguments, which may be empty.
    fn command_line(&mut self, key: &str, value: &Value<'_>) -> Vec<String> {
        self.list(key, value, |place| place > 0)
    }

    fn list(
        &mut self,
        key: &str,
        value: &Value<'_>,
        may_be_empty: impl Fn(usize) -> bool,
    ) -> Vec<String> {
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_type(value, key, "a list of texts");
            return Vec::new();
        };
        let mut texts = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            match item.get_ref().as_str() {
                Some("") if !may_be_empty(place) => {
                    self.mistake(item.span(), &format!("{key}[{place}]"), "it is empty".to_owned());
                }
                Some(text) => texts.push(text.to_owned()),
                None => self.wrong_type(item, &format!("{key}[{place}]"), "a text"),
            }
        }
        texts
    }
}
