//! `rappel.toml` as values: what it may say, what holds when it says nothing, and the text that
//! `rappel init` writes. Finding and opening the file is the engine's, and so is reading the
//! globs in it.

use std::fmt;

mod read;

/// The largest file that is captured when the configuration does not say.
pub const DEFAULT_MAX_FILE_SIZE: u64 = 256 << 20;
/// How large the store may grow when the configuration does not say.
pub const DEFAULT_MAX_SIZE: u64 = 20 << 30;
/// How much space is left free on the disk when the configuration does not say.
pub const DEFAULT_MIN_FREE: u64 = 2 << 30;

/// What a `rappel.toml` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// `environment`: `staging`, `development` and the like.
    pub environment: Option<String>,
    /// `[files]`.
    pub files: FilesConfig,
    /// `[store]`.
    pub store: StoreConfig,
    /// What the user should know about the file although it is no mistake, a sentence each:
    /// sections that are accepted and have no effect yet.
    pub notes: Vec<String>,
}

/// `[files]`: which files are captured beyond what git's rules say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesConfig {
    /// Ignored paths to capture all the same, as globs. Not guaranteed to be well-formed.
    pub include: Vec<String>,
    /// Paths to leave out, as globs. Not guaranteed to be well-formed.
    pub exclude: Vec<String>,
    /// Larger files are listed as skipped.
    pub max_file_size: u64,
}

impl Default for FilesConfig {
    fn default() -> Self {
        Self { include: Vec::new(), exclude: Vec::new(), max_file_size: DEFAULT_MAX_FILE_SIZE }
    }
}

/// `[store]`: how much space Rappel may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreConfig {
    /// The store's largest size; a tenth of the disk if that is less.
    pub max_size: u64,
    /// Free space on the disk below which the state is degraded.
    pub min_free: u64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { max_size: DEFAULT_MAX_SIZE, min_free: DEFAULT_MIN_FREE }
    }
}

impl Config {
    /// Reads the text of a `rappel.toml`; `file_name` is what mistakes name as their place.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, ConfigError> {
        read::config(text, file_name)
    }
}

/// Everything that is wrong with a configuration, in the order of its lines. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The mistakes, each complete in itself.
    pub mistakes: Vec<Mistake>,
}

/// One mistake in a configuration. Shown as `rappel.toml:7: files.max_file_size: "256XB" is not a
/// size`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The dotted key; empty where the text is not even TOML.
    pub key: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, mistake) in self.mistakes.iter().enumerate() {
            let separator = if place == 0 { "" } else { "\n" };
            write!(f, "{separator}{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// The text of a new `rappel.toml`: every setting with a comment, `environment` and `include` set
/// as given and everything else left at its default.
pub fn commented_template(environment: Option<&str>, include: &[String]) -> String {
    let environment = match environment {
        Some(name) => format!("environment = {}", quoted(name)),
        None => "# environment = \"development\"".to_owned(),
    };
    let include = if include.is_empty() {
        "# include = [\".env\", \"data/blob.bin\"]".to_owned()
    } else {
        let items: String = include.iter().map(|item| format!("    {},\n", quoted(item))).collect();
        format!("include = [\n{items}]")
    };
    format!(
        "\
# What Rappel saves of this project. Every setting is optional; a line that starts with `# ` and
# a name shows an example or the default.

# Shown with every checkpoint.
{environment}

[files]
# Files that git ignores and that are to be saved all the same.
{include}
# Files to leave out.
# exclude = [\"tmp/**\"]
# Larger files are not saved; every checkpoint lists them as skipped.
# max_file_size = \"256MiB\"

[store]
# How large Rappel's store may grow; a tenth of the disk if that is less.
# max_size = \"20GiB\"
# How much space to leave free on the disk.
# min_free = \"2GiB\"
"
    )
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
