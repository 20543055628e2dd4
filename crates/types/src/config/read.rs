//! From the text of a `rappel.toml` to a [`Config`]. It goes on after a mistake, so that one run
//! shows them all.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Config, ConfigError, FilesConfig, Mistake, StoreConfig, glob_fault};
use crate::size::parse_size;
use crate::slip;

pub(super) type Value<'i> = Spanned<DeValue<'i>>;

const SECTIONS: [&str; 13] = [
    "environment",
    "files",
    "store",
    "database",
    "command",
    "variables",
    "agents",
    "knowledge",
    "capture",
    "auto",
    "hooks",
    "retention",
    "export",
];

pub(super) fn config(text: &str, file: &str) -> Result<Config, ConfigError> {
    let mut reader = Reader { text, file, mistakes: Vec::new(), unknown: Vec::new() };
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut config = if errors.is_empty() {
        reader.document(document.get_ref())
    } else {
        // What a broken text seems to say would only give more, and wrong, mistakes.
        for error in errors {
            let message = error.message().replace('\n', ", ");
            reader.mistake(error.span().unwrap_or_default(), "", message);
        }
        // So does the rest of a line after its first fault.
        reader.mistakes.dedup_by_key(|mistake| mistake.line);
        Config::default()
    };
    if reader.mistakes.is_empty() {
        // A key of a later version, or a slip: what it would do is not done, all else is.
        config.unknown = reader.unknown.iter().map(ToString::to_string).collect();
        return Ok(config);
    }
    reader.mistakes.append(&mut reader.unknown);
    reader.mistakes.sort_by_key(|mistake| mistake.line);
    Err(ConfigError { mistakes: reader.mistakes })
}

pub(super) struct Reader<'t> {
    text: &'t str,
    file: &'t str,
    mistakes: Vec<Mistake>,
    /// Keys that nobody knows: a warning where nothing else is wrong.
    unknown: Vec<Mistake>,
}

impl Reader<'_> {
    fn document(&mut self, table: &DeTable<'_>) -> Config {
        let mut config = Config::default();
        for (key, value) in in_order(table) {
            let name: &str = key.get_ref();
            match name {
                "environment" => config.environment = self.name(name, value),
                "files" => config.files = self.files(value),
                "store" => config.store = self.store(value),
                "database" => {
                    config.databases = self.databases(value);
                    self.check_names(value, &config.databases, &config.commands);
                }
                "command" => {
                    config.commands = self.commands(value);
                    self.check_names(value, &config.databases, &config.commands);
                }
                "knowledge" => config.knowledge = self.knowledge(value),
                "variables" => config.variables = self.variables(value),
                "capture" => config.capture = self.capture(value),
                "agents" => config.agents = self.agents(value),
                "auto" => config.auto = self.auto(value),
                "hooks" => config.hooks = self.hooks(value),
                "retention" => config.retention = self.retention(value),
                "export" => config.export = self.export(value),
                _ => self.unknown(key, "", &SECTIONS),
            }
        }
        config
    }

    fn files(&mut self, value: &Value<'_>) -> FilesConfig {
        let mut files = FilesConfig::default();
        for (key, value) in self.table("files", value).into_iter().flat_map(in_order) {
            match key.get_ref().as_ref() {
                "include" => files.include = self.globs("files.include", value),
                "exclude" => files.exclude = self.globs("files.exclude", value),
                "max_file_size" => {
                    if let Some(size) = self.size("files.max_file_size", value) {
                        files.max_file_size = size;
                        if size == 0 {
                            let message = "0 would leave out every file".to_owned();
                            self.mistake(value.span(), "files.max_file_size", message);
                        }
                    }
                }
                _ => self.unknown(key, "files.", &["include", "exclude", "max_file_size"]),
            }
        }
        files
    }

    fn store(&mut self, value: &Value<'_>) -> StoreConfig {
        let mut store = StoreConfig::default();
        for (key, value) in self.table("store", value).into_iter().flat_map(in_order) {
            match key.get_ref().as_ref() {
                "max_size" => {
                    if let Some(size) = self.size("store.max_size", value) {
                        store.max_size = Some(size);
                        if size == 0 {
                            let message = "0 would leave no room for a checkpoint".to_owned();
                            self.mistake(value.span(), "store.max_size", message);
                        }
                    }
                }
                "min_free" => {
                    if let Some(size) = self.size("store.min_free", value) {
                        store.min_free = size;
                    }
                }
                _ => self.unknown(key, "store.", &["max_size", "min_free"]),
            }
        }
        store
    }

    pub(super) fn name(&mut self, key: &str, value: &Value<'_>) -> Option<String> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(value, key, "a text");
            return None;
        };
        if text.trim().is_empty() || text.chars().any(char::is_control) {
            self.mistake(value.span(), key, format!("{text:?} is not a name"));
            return None;
        }
        Some(text.to_owned())
    }

    fn globs(&mut self, key: &str, value: &Value<'_>) -> Vec<String> {
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_type(value, key, "a list of texts");
            return Vec::new();
        };
        let mut texts = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            let key = format!("{key}[{place}]");
            match item.get_ref().as_str() {
                None => self.wrong_type(item, &key, "a text"),
                Some(text) if text.trim().is_empty() => {
                    self.mistake(item.span(), &key, "it is empty".to_owned());
                }
                Some(text) => match glob_fault(text) {
                    Some(fault) => {
                        let message = format!("{text:?} is not a pattern: {fault}");
                        self.mistake(item.span(), &key, message);
                    }
                    None => texts.push(text.to_owned()),
                },
            }
        }
        texts
    }

    fn size(&mut self, key: &str, value: &Value<'_>) -> Option<u64> {
        match value.get_ref() {
            DeValue::String(text) => match parse_size(text) {
                Ok(size) => Some(size),
                Err(error) => {
                    self.mistake(value.span(), key, error.to_string());
                    None
                }
            },
            DeValue::Integer(number) => {
                let size = u64::from_str_radix(number.as_str(), number.radix()).ok();
                if size.is_none() {
                    let message = format!("{} is not a size", number.as_str());
                    self.mistake(value.span(), key, message);
                }
                size
            }
            _ => {
                self.wrong_type(value, key, "a size like \"256MiB\"");
                None
            }
        }
    }

    pub(super) fn table<'v, 'i>(
        &mut self,
        key: &str,
        value: &'v Value<'i>,
    ) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(value, key, &format!("a section, `[{key}]`"));
        }
        table
    }

    /// The items of a list of sections.
    pub(super) fn tables<'v, 'i>(&mut self, key: &str, value: &'v Value<'i>) -> Vec<&'v Value<'i>> {
        let items = value.get_ref().as_array();
        match items.filter(|items| items.iter().all(|item| item.get_ref().is_table())) {
            Some(items) => items.iter().collect(),
            None => {
                self.wrong_type(value, key, &format!("a list of sections, `[[{key}]]`"));
                Vec::new()
            }
        }
    }

    pub(super) fn unknown(
        &mut self,
        key: &Spanned<toml::de::DeString<'_>>,
        section: &str,
        known: &[&str],
    ) {
        let name: &str = key.get_ref();
        let message = match slip::nearest(name, known.iter().copied()) {
            Some(near) => format!("unknown key; did you mean `{near}`?"),
            None => format!("unknown key; known here are {}", known.join(", ")),
        };
        let unknown = self.at(key.span(), &format!("{section}{name}"), message);
        self.unknown.push(unknown);
    }

    /// Something that makes no sense and does nothing, in a place where that must not be a failure.
    pub(super) fn warn(&mut self, span: Range<usize>, key: &str, message: String) {
        let warning = self.at(span, key, message);
        self.unknown.push(warning);
    }

    pub(super) fn wrong_type(&mut self, value: &Value<'_>, key: &str, expected: &str) {
        let found = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a section",
        };
        self.mistake(value.span(), key, format!("expected {expected}, found {found}"));
    }

    pub(super) fn mistake(&mut self, span: Range<usize>, key: &str, message: String) {
        let mistake = self.at(span, key, message);
        self.mistakes.push(mistake);
    }

    fn at(&self, span: Range<usize>, key: &str, message: String) -> Mistake {
        let before = self.text.as_bytes().iter().take(span.start);
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        let key = key.escape_debug().to_string();
        Mistake { file: self.file.to_owned(), line, key, message }
    }
}

/// The entries of a table as they stand in the text.
pub(super) fn in_order<'v, 'i>(
    table: &'v DeTable<'i>,
) -> Vec<(&'v Spanned<toml::de::DeString<'i>>, &'v Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}
