//! `rappel.toml` as values: what it may say, what holds when it says nothing, and the text that
//! `rappel init` writes. Finding and opening the file is the engine's, and so is reading the
//! globs in it.

use std::fmt;

use crate::retention::Policy;

mod agents;
mod export;
mod hooks;
mod read;
mod read_sources;
mod retention;
mod sources;

pub use agents::{AgentsConfig, AutoConfig};
pub use export::ExportConfig;
pub use hooks::HooksConfig;
pub use sources::{
    CaptureConfig, CommandConfig, CommandLines, DatabaseConfig, DatabaseUrl, Gated,
    KnowledgeConfig, VariablesConfig, after_postgres_scheme, after_sqlite_scheme,
};

/// The largest file that is captured when the configuration does not say.
pub const DEFAULT_MAX_FILE_SIZE: u64 = 256 << 20;
/// How large the store may grow when the configuration does not say.
pub const DEFAULT_MAX_SIZE: u64 = 20 << 30;
/// How much space is left free on the disk when the configuration does not say.
pub const DEFAULT_MIN_FREE: u64 = 2 << 30;

/// What a `rappel.toml` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// `environment`: `staging`, `development` and the like.
    pub environment: Option<String>,
    /// `[files]`.
    pub files: FilesConfig,
    /// `[store]`.
    pub store: StoreConfig,
    /// Each `[[database]]`.
    pub databases: Vec<DatabaseConfig>,
    /// Each `[[command]]`.
    pub commands: Vec<CommandConfig>,
    /// `[knowledge]`.
    pub knowledge: KnowledgeConfig,
    /// `[variables]`.
    pub variables: VariablesConfig,
    /// `[capture]`.
    pub capture: CaptureConfig,
    /// `[agents]`.
    pub agents: AgentsConfig,
    /// `[auto]`.
    pub auto: AutoConfig,
    /// `[hooks]`.
    pub hooks: HooksConfig,
    /// `[retention]`.
    pub retention: Policy,
    /// `[export]`; `None` where nothing is to be written out.
    pub export: Option<ExportConfig>,
    /// What the user should know about the file although it is no mistake, a sentence each:
    /// sections that are accepted and have no effect yet.
    pub notes: Vec<String>,
    /// Keys that nobody knows, and values of `[hooks]` that make no sense, each with its place.
    /// They do nothing.
    pub unknown: Vec<String>,
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
    /// How large the home may get; without it 20 GiB, or a tenth of the disk if that is less.
    pub max_size: Option<u64>,
    /// Free space on the disk below which the state is degraded.
    pub min_free: u64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { max_size: None, min_free: DEFAULT_MIN_FREE }
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

/// Why a glob of `include` or `exclude` can match nothing, if that is so.
pub fn glob_fault(glob: &str) -> Option<&'static str> {
    let text = glob.as_bytes();
    let bare = text.strip_prefix(b"/").unwrap_or(text);
    let bare = bare.strip_suffix(b"/").unwrap_or(bare);
    if bare.is_empty() {
        return Some("it is empty");
    }
    if text.starts_with(b"!") {
        return Some("it cannot be negated; `include` and `exclude` are each other's opposite");
    }
    if text.contains(&0) {
        return Some("it contains a NUL byte");
    }
    for component in bare.split(|&b| b == b'/') {
        match component {
            b"" => return Some("it has an empty component"),
            b"." | b".." => return Some("it has a `.` or `..` component"),
            _ => {}
        }
    }
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if bytes.next().is_none() => return Some("it ends with a backslash"),
            b'[' => {
                // A bracket right after the opening one, or after its negation, is a member.
                let mut rest = bytes.as_slice();
                if let [b'!' | b'^', after @ ..] = rest {
                    rest = after;
                }
                match rest.iter().skip(1).position(|&b| b == b']') {
                    Some(close) => bytes = rest[close + 2..].iter(),
                    None => return Some("a `[` is not closed"),
                }
            }
            _ => {}
        }
    }
    None
}

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
        let items: Vec<String> = include.iter().map(|item| quoted(item)).collect();
        format!("include = [\n    {},\n]", items.join(",\n    "))
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

# Databases; a new rappel.toml has an entry for each that was found.
# [[database]]
# name = \"app\"
# url = \"env:DATABASE_URL\"

# Anything else that can dump and load itself.
# [[command]]
# name = \"redis\"
# capture = [\"redis-cli\", \"-e\", \"-D\", \"\", \"--eval\", \"scripts/redis-dump.lua\"]
# restore = [\"redis-cli\", \"--pipe\"]
# timeout = \"60s\"

[capture]
# The triggers whose checkpoints read every database that changed, however long that takes.
# databases = [\"manual\", \"pre-operation\", \"pre-restore\", \"session-start\", \"session-end\", \"pr-merged\", \"end-of-day\"]

[knowledge]
# Folders and files to save whole, whatever git ignores.
# paths = [\"knowledge\"]

[variables]
# Environment variables to keep with every checkpoint, by name.
# capture = [\"NODE_ENV\"]

[auto]
# While a watch runs: a checkpoint this often, if something changed.
# every = \"10m\"
# The first save after midnight marks the end of the day.
# end-of-day = true

[hooks]
# How long an agent waits for Rappel at an event; the save goes on after that.
# before_call = \"10s\"
# session_end = \"800ms\"
# other = \"2s\"

# How long checkpoints are kept. Saves apply it at most once an hour, a prune at once. What a
# rule leaves out has no limit.
# [retention]
# prompt = {{ keep = \"30d\", max = 1000 }}
# default = {{ keep = \"7d\", max = 500, hourly_after = \"24h\", daily_after = \"7d\" }}

# Checkpoints to write out for other tools as they are made. You are asked first.
# [export]
# format = \"caf\"
# dir = \"checkpoints\"
# triggers = [\"manual\", \"task-completed\"]

[store]
# With less space free on the home's disk, the status is degraded.
# min_free = \"2GiB\"
# Where the home grows beyond this, the oldest checkpoints go that nothing protects.
# max_size = \"20GiB\"
"
    )
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Trigger;

    fn parse(text: &str) -> Config {
        Config::parse(text, "rappel.toml").unwrap()
    }

    fn mistakes(text: &str) -> String {
        Config::parse(text, "rappel.toml").unwrap_err().to_string()
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(parse(""), Config::default());
        assert_eq!(parse("[files]\n[store]\n"), Config::default());
        assert_eq!(Config::default().files.max_file_size, 256 * 1024 * 1024);
    }

    #[test]
    fn what_is_used_has_a_type() {
        let config = parse(
            r#"
            environment = "staging"
            store.min_free = 4096
            [files]
            include = [".env", "data/blob.bin"]
            exclude = ["tmp/**"]
            max_file_size = "1.5 MiB"
            "#,
        );
        assert_eq!(config.environment.as_deref(), Some("staging"));
        assert_eq!(config.files.include, [".env", "data/blob.bin"]);
        assert_eq!(config.files.exclude, ["tmp/**"]);
        assert_eq!(config.files.max_file_size, 3 << 19);
        assert_eq!(config.store, StoreConfig { max_size: None, min_free: 4096 });
        assert!(config.notes.is_empty());
        let config = parse("[store]\nmax_size = \"1GiB\"");
        assert_eq!(config.store.max_size, Some(1 << 30));
    }

    #[test]
    fn what_is_written_out_is_read() {
        let config = parse(
            r#"
            [export]
            format = "caf"
            dir = "checkpoints"
            triggers = ["manual", "task-completed"]
            sqlite = "data/checkpoints.db"
            "#,
        );
        let export = config.export.unwrap();
        assert_eq!((export.format, export.dir.as_deref()), (Some("caf"), Some("checkpoints")));
        assert_eq!(export.triggers, [Trigger::Manual, Trigger::TaskCompleted]);
        assert_eq!(export.sqlite.as_deref(), Some("data/checkpoints.db"));
        assert_eq!(parse("[export]").export, None);
        assert_eq!(
            parse("[export]\nformat = \"lugh\"").export.unwrap().triggers,
            [Trigger::Manual]
        );
        for bad in ["format = \"zip\"", "dir = \"x\"", "triggers = [\"never\"]", "sqlite = 3"] {
            let text = format!("[export]\n{bad}");
            assert!(Config::parse(&text, "rappel.toml").is_err(), "{bad}");
        }
    }

    #[test]
    fn retention_is_read() {
        use crate::retention::{Keep, Preset, Rules};

        let hours = |hours: u64| hours * 3_600_000;
        let config = parse(
            r#"
            [retention]
            manual = { keep = "forever" }
            prompt = { keep = "30d", max = 1000 }
            default = { keep = "7d", hourly_after = "24h", daily_after = "7d" }
            sessions = { keep = "1y" }
            "#,
        );
        assert!(config.notes.is_empty());
        let Policy::Rules(rules) = config.retention else { unreachable!("it names rules") };
        let prompt = rules.of(Trigger::Prompt).unwrap();
        assert_eq!((prompt.keep, prompt.max), (Keep::For(hours(30 * 24)), Some(1000)));
        assert_eq!(rules.of(Trigger::Manual).unwrap().keep, Keep::Forever);
        let default = rules.of(Trigger::Scheduled).unwrap();
        assert_eq!((default.max, default.hourly_after), (None, Some(hours(24))));
        // What the file does not name stays.
        let merged = rules.of(Trigger::PrMerged).unwrap();
        assert_eq!(Some(merged), Rules::default().of(Trigger::PrMerged));
        assert_eq!(parse("[retention]").retention, Policy::default());
        let preset = parse("[retention]\npreset = \"forge\"");
        assert_eq!(preset.retention, Policy::Preset(Preset::Forge));
        assert_eq!(parse("[retention]\nprompts = { max = 3 }").unknown.len(), 1);
        for bad in [
            "preset = \"lug\"",
            "preset = \"lugh\"\ndefault = { max = 3 }",
            "prompt = \"30d\"",
            "prompt = { keep = \"30 parsecs\" }",
            "prompt = { max = -1 }",
            "sessions = { keep = 3 }",
        ] {
            let text = format!("[retention]\n{bad}");
            assert!(Config::parse(&text, "rappel.toml").is_err(), "{bad}");
        }
    }

    #[test]
    fn agents_and_their_automatic_checkpoints_are_read() {
        let config = parse(
            r#"
            [agents]
            state_dirs = [".loki", "./.aiwg/"]
            [auto]
            thought-completed = true
            gap-filled = false
            held = 0.8
            fallen = 0
            every = "10m"
            "#,
        );
        assert_eq!(config.auto.every, Some(std::time::Duration::from_secs(600)));
        assert_eq!(config.agents.state_dirs.len(), 2);
        assert!(
            config.auto.is_on(Trigger::ThoughtCompleted) && !config.auto.is_on(Trigger::GapFilled)
        );
        assert!(
            config.auto.is_on(Trigger::BranchMerged) && !config.auto.is_on(Trigger::ToolExecuted)
        );
        assert_eq!((config.auto.thresholds.held, config.auto.thresholds.fallen), (0.8, 0.0));
        assert_eq!(parse("[auto]\nnonsense = true").unknown.len(), 1);
        for bad in [
            "[auto]\nheld = 2",
            "[auto]\nevery = 10",
            "[auto]\nevery = \"0s\"",
            "[auto]\nmanual = 3",
        ] {
            assert!(Config::parse(bad, "rappel.toml").is_err(), "{bad}");
        }
    }

    #[test]
    fn budgets_of_hooks_are_read_and_bad_ones_are_only_warned_of() {
        let config =
            parse("[hooks]\nbefore_call = \"30s\"\nsession_end = \"500ms\"\nother = \"1s\"");
        let budgets = [config.hooks.before_call, config.hooks.session_end, config.hooks.other];
        assert_eq!(budgets.map(|one| one.as_millis()), [30_000, 500, 1_000]);
        assert_eq!(config.unknown, [""; 0]);
        let config = parse(
            "[hooks]\nbefore_call = \"3m\"\nsession_end = 7\nother = \"0s\"\nothers = \"1s\"\n",
        );
        assert_eq!(config.hooks, HooksConfig::default());
        assert_eq!(
            config.unknown,
            [
                "rappel.toml:2: hooks.before_call: \"3m\" is more than 2m, and an agent may not wait so long",
                "rappel.toml:3: hooks.session_end: expected a duration like \"2s\"",
                "rappel.toml:4: hooks.other: 0 would leave no time at all",
                "rappel.toml:5: hooks.others: unknown key; did you mean `other`?",
            ]
        );
        assert_eq!(parse("hooks = 3").unknown.len(), 1);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "nothing is run")]
    fn what_else_is_captured_is_read() {
        let config = parse(
            r#"
            [[database]]
            name = "app"
            url = "env:DATABASE_URL"
            tools = ["docker", "exec", "-i", "db"]
            [[command]]
            name = "redis"
            capture = ["redis-dump"]
            restore = ["redis-load", "-", ""]
            timeout = "5s"
            [knowledge]
            paths = ["./knowledge/", "notes.db"]
            [variables]
            capture = ["NODE_ENV"]
            [capture]
            databases = ["manual"]
            "#,
        );
        assert_eq!(config.databases[0].tools.for_the_gate().len(), 4);
        assert_eq!(config.commands[0].timeout.as_secs(), 5);
        assert_eq!(config.commands[0].lines.for_the_gate().restore, ["redis-load", "-", ""]);
        assert_eq!(config.knowledge.paths.len(), 2);
        assert_eq!(config.variables.capture, ["NODE_ENV"]);
        assert_eq!(config.capture.databases, [crate::Trigger::Manual]);
        assert!(config.notes.is_empty());
    }

    #[test]
    fn mistakes_about_what_else_is_captured_are_listed_and_hold_no_secret() {
        let text = r#"[[database]]
url = "mysql://me:hunter2@h/db"
[[database]]
name = "a"
url = "sqlite:x.db"
tool = []
[[command]]
name = "a"
capture = ["x"]
timeout = "0s"
[knowledge]
paths = ["../x"]
[capture]
databases = ["sometimes"]
"#;
        let mistakes = mistakes(text);
        assert_eq!(
            mistakes,
            "\
rappel.toml:1: database[0]: `name` is missing
rappel.toml:2: database[0].url: \"mysql\" is no kind of database that can be captured directly; \
a `[[command]]` can dump and load it
rappel.toml:6: database[1].tool: unknown key; did you mean `tools`?
rappel.toml:7: command[0]: `restore` is missing
rappel.toml:7: name: \"a\" is there twice
rappel.toml:10: command[0].timeout: 0 would leave no time at all
rappel.toml:12: knowledge.paths: unusable path \"../x\": it has a `.` or `..` component; it is relative to the workspace
rappel.toml:14: capture.databases: \"sometimes\" is not a trigger"
        );
    }

    #[test]
    fn every_mistake_is_listed_with_its_place() {
        let text = r#"environment = 5
enviroment = "x"
database = "app"

[files]
include = [
    ".env",
    7,
    "",
]
exclude = "tmp"
max_file_size = "256XB"
colour = true

[store]
max_size = -1
min_free = 2.5
maxsize = "1GiB"
"#;
        assert_eq!(
            mistakes(text),
            "\
rappel.toml:1: environment: expected a text, found a number
rappel.toml:2: enviroment: unknown key; did you mean `environment`?
rappel.toml:3: database: expected a list of sections, `[[database]]`, found a text
rappel.toml:8: files.include[1]: expected a text, found a number
rappel.toml:9: files.include[2]: it is empty
rappel.toml:11: files.exclude: expected a list of texts, found a text
rappel.toml:12: files.max_file_size: \"256XB\" is not a size
rappel.toml:13: files.colour: unknown key; known here are include, exclude, max_file_size
rappel.toml:16: store.max_size: -1 is not a size
rappel.toml:17: store.min_free: expected a size like \"256MiB\", found a number
rappel.toml:18: store.maxsize: unknown key; did you mean `max_size`?"
        );
    }

    #[test]
    fn a_section_may_be_mistaken_as_a_whole() {
        assert_eq!(
            mistakes("files = []\nretention = 1"),
            "rappel.toml:1: files: expected a section, `[files]`, found a list\n\
             rappel.toml:2: retention: expected a section, `[retention]`, found a number"
        );
        let unknown = parse("[file]").unknown;
        assert_eq!(unknown, ["rappel.toml:1: file: unknown key; did you mean `files`?"]);
    }

    #[test]
    fn limits_that_would_save_nothing_are_mistakes() {
        assert!(mistakes("[files]\nmax_file_size = 0").contains("leave out every file"));
        assert!(mistakes("[store]\nmax_size = \"0\"").contains("store.max_size: 0 would"));
        assert_eq!(parse("[store]\nmin_free = 0").store.min_free, 0);
    }

    #[test]
    fn text_that_is_not_toml_names_its_lines_alone() {
        let error = Config::parse("a = 1\n\n[files\nx = = 2\n", "conf/rappel.toml").unwrap_err();
        let lines: Vec<_> = error.mistakes.iter().map(|mistake| mistake.line).collect();
        assert_eq!(lines, [3, 4]);
        assert!(error.mistakes.iter().all(|mistake| mistake.key.is_empty()));
        assert!(error.to_string().starts_with("conf/rappel.toml:3: "));
    }

    #[test]
    fn the_template_says_the_defaults() {
        assert_eq!(parse(&commented_template(None, &[])), Config::default());
        let uncommented: String = commented_template(None, &[])
            .lines()
            .map(|line| {
                let setting = |rest: &&str| rest.contains(" = ") || rest.starts_with("[[");
                line.strip_prefix("# ").filter(setting).unwrap_or(line)
            })
            .flat_map(|line| [line, "\n"])
            .collect();
        let config = parse(&uncommented);
        assert_eq!(config.environment.as_deref(), Some("development"));
        assert_eq!(config.files.max_file_size, DEFAULT_MAX_FILE_SIZE);
        assert_eq!(config.store.min_free, DEFAULT_MIN_FREE);
        assert_eq!(config.store.max_size, Some(DEFAULT_MAX_SIZE));
        assert_eq!(config.capture, CaptureConfig::default());
        assert_eq!((config.databases.len(), config.commands.len()), (1, 1));
    }

    #[test]
    fn a_pattern_that_means_nothing_is_named_with_its_line() {
        let text = "[files]\ninclude = [\"ok\",\n  \"a[\"]\nexclude = [\"../x\", \"!y\"]\n";
        let error = Config::parse(text, "rappel.toml").unwrap_err().to_string();
        assert_eq!(
            error,
            "rappel.toml:3: files.include[1]: \"a[\" is not a pattern: a `[` is not closed\n\
             rappel.toml:4: files.exclude[0]: \"../x\" is not a pattern: it has a `.` or `..` component\n\
             rappel.toml:4: files.exclude[1]: \"!y\" is not a pattern: it cannot be negated; `include` and \
             `exclude` are each other's opposite"
        );
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "([a-z_.]{0,9}|\\[|\\]|=|\"|\n|\\{|\\}|[0-9]|,|\\PC){0,40}") {
            let _ = Config::parse(&text, "rappel.toml");
        }

        #[test]
        fn the_template_keeps_what_it_is_given(
            environment in "[a-zA-Z\"'\\\\é-]{1,12}",
            include in prop::collection::vec("\\PC{0,8}x", 0..4),
        ) {
            prop_assume!(include.iter().all(|glob| glob_fault(glob).is_none()));
            let config = parse(&commented_template(Some(&environment), &include));
            prop_assert_eq!(config.environment, Some(environment));
            prop_assert_eq!(config.files, FilesConfig { include, ..FilesConfig::default() });
        }
    }
}
