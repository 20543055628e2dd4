//! Databases of an imported checkpoint, made of the dumps that came with it.

use rappel_formats::portable::Database;
use rappel_store::Writer;
use rappel_types::Facet;
use rappel_types::database::DatabasePart;
use rappel_types::manifest::PartialReason;

use crate::error::Result;
use crate::rappel::Rappel;

impl Rappel {
    /// What the manifest says of databases. Nothing is taken yet: the checkpoint says so.
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "what is to come needs both")]
    pub(super) fn take_databases(
        &self,
        _writer: &Writer<'_>,
        databases: &[Database],
    ) -> Result<(Vec<DatabasePart>, Vec<PartialReason>)> {
        let reason = |database: &Database| PartialReason {
            facet: Facet::Databases,
            path: None,
            reason: format!("{} is not taken out of imported checkpoints yet", database.name),
        };
        Ok((Vec::new(), databases.iter().map(reason).collect()))
    }
}
