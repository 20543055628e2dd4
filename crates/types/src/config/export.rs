//! `[export]`: checkpoints that are written out for other tools as they are made.

use crate::Trigger;
use crate::reference::FORMATS;

use super::read::{Reader, Value, in_order};

/// `[export]`. It runs nothing, but it writes where it says: the engine asks its gate first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportConfig {
    /// The form, one of [`FORMATS`].
    pub format: Option<&'static str>,
    /// Where to, seen from the workspace's root; without it where the form keeps its checkpoints.
    pub dir: Option<String>,
    /// Checkpoints of these triggers.
    pub triggers: Vec<Trigger>,
    /// A SQLite database with the tables of CAF, seen from the workspace's root.
    pub sqlite: Option<String>,
}

impl Default for ExportConfig {
    fn default() -> Self {
        Self { format: None, dir: None, triggers: vec![Trigger::Manual], sqlite: None }
    }
}

impl Reader<'_> {
    /// `None` where the section asks for nothing.
    pub(super) fn export(&mut self, value: &Value<'_>) -> Option<ExportConfig> {
        let mut export = ExportConfig::default();
        for (key, inner) in self.table("export", value).into_iter().flat_map(in_order) {
            match key.get_ref().as_ref() {
                "format" => {
                    let name = self.name("export.format", inner)?;
                    export.format = FORMATS.into_iter().find(|format| *format == name);
                    if export.format.is_none() {
                        let message = format!("{name:?} is none of {}", FORMATS.join(", "));
                        self.mistake(inner.span(), "export.format", message);
                    }
                }
                "dir" => export.dir = self.name("export.dir", inner),
                "sqlite" => export.sqlite = self.name("export.sqlite", inner),
                "triggers" => export.triggers = self.triggers("export.triggers", inner),
                _ => self.unknown(key, "export.", &["format", "dir", "triggers", "sqlite"]),
            }
        }
        if export.dir.is_some() && export.format.is_none() {
            let message = "`dir` says where to; `format` has to say in which form".to_owned();
            self.mistake(value.span(), "export", message);
        }
        (export.format.is_some() || export.sqlite.is_some()).then_some(export)
    }
}
