//! Writing what a checkpoint holds of a database into a folder, for people to look at.

use rappel_store::beneath::Root;
use rappel_store::sink::Source;
use rappel_types::RelPath;
use rappel_types::database::{DatabaseKind, DatabasePart};

use super::dump::{self, Stored};
use super::error::Result;
use super::sqlite;

/// Where everything goes that has no place of its own among the files.
const FOLDER: &str = "rappel-databases";

/// Writes a database below `root` and says where: a SQLite file of the workspace to its own place,
/// anything else as a dump in a folder of its own.
pub fn write_out(root: &Root, source: &dyn Source, part: &DatabasePart) -> Result<RelPath> {
    let own = part.location.as_ref().filter(|_| part.kind == DatabaseKind::Sqlite);
    let path = match own.and_then(|location| location.parse::<RelPath>().ok()) {
        Some(path) => path,
        None => elsewhere(part)?,
    };
    let mut above: Vec<RelPath> = path.ancestors().collect();
    above.sort();
    for folder in above {
        if root.stat(&folder)?.is_none() {
            root.create_dir(&folder, 0o777)?;
        }
    }
    let mut file = root.create_file(&path, 0o600)?;
    match part.kind {
        DatabaseKind::Sqlite => sqlite::write_to(source, part, &mut file)?,
        DatabaseKind::Postgres | DatabaseKind::Command => {
            dump::write_to(source, &Stored::from(part), &mut file)?;
        }
    }
    file.sync()?;
    Ok(path)
}

/// A name for what lies nowhere in the workspace.
fn elsewhere(part: &DatabasePart) -> Result<RelPath> {
    let ending = match part.kind {
        DatabaseKind::Sqlite => "db",
        DatabaseKind::Postgres => "sql",
        DatabaseKind::Command => "dump",
    };
    let plain = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = part.name.chars().map(plain).collect();
    let path = RelPath::new(format!("{FOLDER}/{name}.{ending}"));
    path.map_err(|error| super::Error::Unavailable(error.to_string()))
}
