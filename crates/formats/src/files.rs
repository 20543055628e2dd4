//! Files that another program wrote, read within limits; and ours, written whole.
//!
//! What is read here is hostile until proven otherwise: a link, a pipe or a device is no file, a
//! file may be too large, and a small text may stand for many values.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_store::disk::{self, Disk, RealDisk};
use rappel_store::held::Handle;
use rappel_types::Timestamp;
use rappel_types::path::escape_bytes;
use rustix::fs::OFlags;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::form::Skipped;

/// A folder with more entries, or a file with more checkpoints, is not read.
pub(crate) const COUNT_MAX: usize = 100_000;
/// A text with more values is not read: each takes more room in memory than in the text.
const VALUES_MAX: usize = 4_000_000;
/// The longest id that becomes part of a file's name.
const NAME_MAX: usize = 200;
/// So much of a file tells its form.
const BEGINNING: u64 = 64 << 10;

/// The bytes of a regular file, of at most `max`. The reason why not is for people.
pub(crate) fn read(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = open(path)?;
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    if size > max {
        return Err(format!("it is larger than {}", rappel_types::size::format_size(max)));
    }
    let mut file = (&*file).take(max);
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// How a file begins; nothing if it cannot be read.
pub(crate) fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = open(path) {
        _ = (&*file).take(BEGINNING).read_to_end(&mut bytes);
    }
    bytes
}

/// Opens a regular file, and never a link, nor a pipe that would be waited for.
pub(crate) fn open(path: &Path) -> Result<Handle, String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = Handle::open(&options, path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => "it is a link".to_owned(),
        _ => error.to_string(),
    })?;
    let meta = file.metadata().map_err(|error| error.to_string())?;
    if meta.is_file() { Ok(file) } else { Err("it is not a regular file".into()) }
}

/// Reads JSON of bounded depth and bounded size in memory.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    if values_in(bytes) > VALUES_MAX {
        return Err(format!("it has more than {VALUES_MAX} values"));
    }
    serde_json::from_slice(bytes).map_err(|error| format!("not JSON: {error}"))
}

/// About how many values a JSON text has, and never fewer.
fn values_in(bytes: &[u8]) -> usize {
    let (mut values, mut quoted, mut escaped) = (1, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => values += 1,
            _ => {}
        }
    }
    values
}

/// Milliseconds, or RFC 3339 text, as a moment.
pub(crate) fn moment(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => {
            let millis = number.as_i64().or_else(|| {
                let float = number.as_f64()?;
                (float.abs() < 9e15).then_some(float as i64)
            })?;
            let moment = Timestamp::from_millis(millis);
            (moment.as_millis() == millis).then_some(moment)
        }
        _ => None,
    }
}

/// The names of a folder's files, sorted. Links count: whoever opens one is told.
pub(crate) fn names(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let entry = entry.map_err(Error::io("list", folder))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !wanted(&name) {
            continue;
        }
        if names.len() == COUNT_MAX {
            return Err(too_many(folder));
        }
        names.push(name);
    }
    names.sort();
    Ok(names)
}

pub(crate) fn too_many(path: &Path) -> Error {
    let reason = format!("more than {COUNT_MAX} checkpoints are not read in one go");
    Error::Refused { path: path.to_owned(), reason }
}

pub(crate) fn skipped(path: &Path, reason: impl Into<String>) -> Skipped {
    let path = escape_bytes(path.as_os_str().as_encoded_bytes());
    Skipped { path, reason: reason.into() }
}

/// An id that may become part of a file's name: no path, no hidden file, no flag.
pub(crate) fn file_name_of(id: &str, path: &Path) -> Result<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_name = !id.is_empty()
        && id.len() <= NAME_MAX
        && !id.starts_with(['.', '-'])
        && id.chars().all(legal);
    match is_name {
        true => Ok(format!("{id}.json")),
        false => Err(Error::Refused {
            path: path.to_owned(),
            reason: format!(
                "the id {:?} cannot be the name of a file (letters, digits, `_`, `-` and `.`, at \
                 most {NAME_MAX})",
                id.chars().take(80).collect::<String>()
            ),
        }),
    }
}

/// A value as the text of a file.
pub(crate) fn pretty(value: &impl Serialize, path: &Path) -> Result<Vec<u8>> {
    let mut json = serde_json::to_vec_pretty(value)
        .map_err(|error| Error::Json { path: path.to_owned(), reason: error.to_string() })?;
    json.push(b'\n');
    Ok(json)
}

/// Writes a file whole, or not at all.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<PathBuf> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        disk::create_dir(&*disk, folder)?;
    }
    disk::replace(&disk, path, bytes)?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_text_that_stands_for_many_values_is_not_read() {
        let many = format!("[{}0]", "0,".repeat(VALUES_MAX));
        assert!(parse(many.as_bytes()).unwrap_err().contains("more than"));
        assert!(parse(br#"{"a": "[,{,\",["}"#).is_ok());
        assert_eq!(values_in(br#"{"a": "[,{,\",["}"#), 2);
        let deep = "[".repeat(100_000);
        assert!(parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn moments_beyond_all_time_are_none() {
        for none in [i64::MAX.into(), 1e300.into(), Value::Null, "soon".into()] {
            assert_eq!(moment(&none), None, "{none}");
        }
        let some = Some(Timestamp::from_millis(1_738_790_400_000));
        assert_eq!(moment(&1_738_790_400_000_i64.into()), some);
        assert_eq!(moment(&"2025-02-05T21:20:00Z".into()), some);
    }

    #[test]
    fn an_id_is_never_a_path() {
        for bad in ["", "..", "a/b", ".x", "-x", "a b", "é", &"x".repeat(201)] {
            assert!(file_name_of(bad, Path::new("p")).is_err(), "{bad:?}");
        }
        assert_eq!(file_name_of("ckpt_abc-1.2", Path::new("p")).unwrap(), "ckpt_abc-1.2.json");
    }
}
