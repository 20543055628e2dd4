//! Databases in a checkpoint: what a manifest says of each, and what a restore does to it.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CheckpointId, ObjectId};

/// What kind of thing a database is, which decides how it is captured and restored.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseKind {
    /// A file of SQLite.
    Sqlite,
    /// A database of a PostgreSQL server.
    Postgres,
    /// Whatever two commands of the user's can dump and load.
    Command,
}

impl DatabaseKind {
    /// As JSON and people have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Command => "command",
        }
    }
}

impl fmt::Display for DatabaseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The BLAKE3 hash of everything a database held, as `b3:` and 64 hexadecimal digits. It is written
/// so that nobody takes it for the name of an object.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// The digest with this hash.
    pub fn new(hash: [u8; 32]) -> Self {
        Self(format!("b3:{}", ObjectId(hash)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One database of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DatabasePart {
    /// Its name in `rappel.toml`; a SQLite file that was noticed is called by its path.
    pub name: String,
    /// Its kind.
    pub kind: DatabaseKind,
    /// Its tables, in order; those of Postgres with their schema unless that is `public`.
    pub tables: Vec<String>,
    /// How many rows each of them has.
    pub row_counts: BTreeMap<String, u64>,
    /// How long its content is, uncompressed.
    pub bytes: u64,
    /// The checkpoint with which this content was read. `None` only until that has a name.
    pub as_of: Option<CheckpointId>,
    /// Whether it had changed since, and was not read again.
    pub stale: bool,
    /// Its content, as a tree whose files are described in `docs/format.md`.
    pub tree: ObjectId,
    /// Its content's hash: equal ones held the same.
    pub digest: Digest,
    /// Where it is, without any secret: a SQLite file's path, relative to the workspace or absolute
    /// and escaped like any path; a server's host and database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// What its server knows of it besides its content, to make it anew; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DatabaseDefinition>,
    /// Why it could not be restored as it was when it was read, for people: the user may read it all, but not
    /// replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
    /// What in its content keeps every server from loading it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaw: Option<String>,
    /// What a restore of it does not bring back, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// What a server knows of a database and its dump does not hold. A field that a later version adds is left
/// out where it has nothing to say.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DatabaseDefinition {
    /// The role that it belongs to.
    pub owner: String,
    /// Its encoding, as the server calls it.
    pub encoding: String,
    /// How texts are sorted.
    pub collate: String,
    /// What letters are.
    pub ctype: String,
    /// Who does both, if not the C library: `icu` or `builtin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What that calls the locale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// Its comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Settings that hold in it (`ALTER DATABASE … SET`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<DatabaseSetting>,
    /// Where its files lie, if not where those of most databases do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tablespace: Option<String>,
    /// Who may do what with it as a whole; `None` is what the server grants by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<DatabaseGrant>>,
}

/// Something that somebody may do with a database.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DatabaseGrant {
    /// Who; `None` is everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// What, like `CONNECT`.
    pub privilege: String,
    /// Whether he may grant it to others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grantable: bool,
}

/// A setting that holds in a database.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DatabaseSetting {
    /// For whom; `None` is everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Which.
    pub name: String,
    /// Its value; `None` where it looks like a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// What a restore does to one database.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DatabasePlan {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: DatabaseKind,
    /// Where it is, without any secret: another one of the same name is not touched in its stead.
    #[serde(default)]
    pub place: String,
    /// What it holds now; `None` where it is absent and will be created.
    pub from: Option<Digest>,
    /// What it will hold.
    pub to: Digest,
    /// How its transaction is recognised after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<Ticket>,
}

/// How a server is asked, after a crash, whether a transaction was committed.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Ticket {
    /// The server's own identity, and that of the database in it.
    pub server: String,
    /// The transaction.
    pub transaction: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_no_object() {
        let digest = Digest::new([0xab; 32]).to_string();
        assert!(digest.starts_with("b3:abab"));
        assert!(digest.parse::<ObjectId>().is_err());
    }
}
