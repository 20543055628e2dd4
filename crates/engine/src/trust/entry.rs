//! What a `rappel.toml` wants to run or reach, with everything that decides what that does, and the
//! hash of it. The user allows exactly this.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::patterns::{may_match, without_choices};
use rappel_store::held;
use rappel_types::path::escape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many lines of a script are shown.
const LINES: usize = 40;
/// More of a script than this is not looked at for its lines.
const SHOWN: usize = 64 << 10;

/// One thing that a `rappel.toml` wants.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TrustEntry {
    /// The database's name.
    pub name: String,
    /// What is wanted.
    #[serde(flatten)]
    pub what: Wanted,
    /// The workspace's folder, in which programs run.
    pub folder: String,
    /// The files inside the workspace that its command lines name.
    pub files: Vec<TrustFile>,
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Wanted {
    /// A `[[command]]` runs programs.
    Command {
        /// The program and its arguments whose output is captured.
        capture: Vec<String>,
        /// The program and its arguments that take it back.
        restore: Vec<String>,
    },
    /// A `[[database]]` runs `pg_dump` and `psql` through programs.
    Tools {
        /// What is put before their names.
        tools: Vec<String>,
        /// What they are told of the server, without the password. It is an argument.
        connection: String,
    },
    /// A `[[database]]` has its server on another machine, which gets the password that the
    /// environment has for every server.
    Password {
        /// Where the server is.
        connection: String,
    },
    /// A `[[database]]` is a SQLite file outside the workspace.
    Sqlite {
        /// Where it really lies.
        path: String,
    },
    /// `[export]` writes checkpoints out as they are made.
    Export {
        /// In which form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<String>,
        /// The folder or file that they really go to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<String>,
        /// The database that is kept current, where it really lies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sqlite: Option<String>,
    },
}

/// A file inside the workspace that a command line names: a script, most likely.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TrustFile {
    /// Its path in the workspace.
    pub path: String,
    /// Where it lies, if links lead out of the workspace. Then its content is not looked at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub leads_to: Option<String>,
    /// The hash of its content.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<String>,
    /// Its beginning, for people. It is no part of the hash, and not remembered.
    #[serde(skip)]
    pub shown: Shown,
}

/// The beginning of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[schemars(rename = "TrustShown")]
pub struct Shown {
    /// The first lines, if it is text.
    pub lines: Vec<String>,
    /// Whether there is more.
    pub more: bool,
    /// How many bytes it has.
    pub bytes: u64,
}

impl TrustEntry {
    /// Looks at what is wanted: which files are named, and what they hold now.
    pub fn look(name: &str, what: Wanted, root: &Path) -> Self {
        let files = match &what {
            Wanted::Command { capture, restore } => named_files(&[capture, restore], root),
            Wanted::Tools { tools, .. } => named_files(&[tools], root),
            Wanted::Password { .. } | Wanted::Sqlite { .. } | Wanted::Export { .. } => Vec::new(),
        };
        Self { name: name.to_owned(), what, folder: escaped(root), files }
    }

    /// The same, as it is now.
    #[must_use]
    pub fn look_again(&self, root: &Path) -> Self {
        Self::look(&self.name, self.what.clone(), root)
    }

    /// The hash of all of it. The version is in it: another form of this text is another text.
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"rappel trust entry 1\n");
        // A value of texts alone cannot fail to become JSON.
        hasher.update(&serde_json::to_vec(self).unwrap_or_default());
        hasher.finalize().to_hex().to_string()
    }
}

/// The hash of a whole text: of all that it wants, in whatever order.
pub fn hash_of_all(entries: &[TrustEntry]) -> String {
    let hashes: BTreeSet<String> = entries.iter().map(TrustEntry::hash).collect();
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"rappel trust 1\n");
    for hash in hashes {
        hasher.update(hash.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// Programs that only copy what the files hold that they are given. What those hold is data, which
/// changes with every restore.
const COPIERS: [&str; 8] = ["cat", "cp", "dd", "gunzip", "gzip", "tee", "zcat", "zstd"];

/// The files of the workspace that command lines name: the program where the system would find it
/// there, each argument, and each word in an argument (`sh -c "./dump.sh | gzip"`, `--file=dump.lua`).
fn named_files(lines: &[&Vec<String>], root: &Path) -> Vec<TrustFile> {
    let mut paths = BTreeSet::new();
    for line in lines {
        if let Some(program) = line.first().filter(|program| !program.contains('/')) {
            let found = on_the_path(program, root);
            let ours = found.as_ref().is_some_and(|found| found.starts_with(root));
            if !ours && COPIERS.contains(&program.as_str()) {
                continue;
            }
            paths.extend(found);
        }
        for (place, argument) in line.iter().enumerate() {
            // A bare name is looked up on the PATH, not in the folder.
            if place > 0 || argument.contains('/') {
                paths.insert(root.join(argument));
            }
            let ends = |c: char| c.is_whitespace() || "\"'`;|&()<>{}$=,:@".contains(c);
            for argument in [argument, &without_choices(argument)] {
                let words = argument.split(ends).filter(|word| !word.is_empty());
                paths.extend(words.map(|word| root.join(word)));
            }
        }
    }
    // `cd scripts && ./dump.sh`, `PATH=scripts:$PATH; dump.sh`: words may count from a folder that the
    // line names.
    let folders: Vec<PathBuf> =
        paths.iter().filter(|path| *path != root && path.is_dir()).cloned().collect();
    let words: Vec<PathBuf> =
        paths.iter().filter_map(|path| Some(path.strip_prefix(root).ok()?.to_owned())).collect();
    for folder in &folders {
        paths.extend(words.iter().map(|word| folder.join(word)));
    }
    let matching: Vec<_> = paths.iter().flat_map(|path| may_match(path, root)).collect();
    paths.extend(matching);
    let mut files: Vec<_> = paths.iter().filter_map(|path| TrustFile::look(path, root)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    files
}

/// Where a program's name leads to, if that is inside the workspace.
fn on_the_path(program: &str, root: &Path) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        let found = path.metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| root.join(folder).join(program)).find(runs)
}

impl TrustFile {
    /// What lies at a path; `None` if that is no file, or neither the path nor the file is in the
    /// workspace.
    fn look(path: &Path, root: &Path) -> Option<Self> {
        let real = std::fs::canonicalize(path).ok()?;
        // A pipe would be waited for without end.
        if !real.metadata().ok()?.is_file() {
            return None;
        }
        let Ok(inside) = real.strip_prefix(root) else {
            // What a link of the workspace leads to may be another file tomorrow.
            let below = lexical(path).strip_prefix(root).ok()?.to_owned();
            let leads_to = Some(escaped(&real));
            return Some(Self {
                path: escaped(&below),
                leads_to,
                content: None,
                shown: Shown::default(),
            });
        };
        let path = escaped(inside);
        let (content, shown) = match read(&real) {
            Ok((hash, shown)) => (hash, shown),
            // Nobody knows what it holds: that is no content that anybody has allowed.
            Err(error) => (format!("unreadable: {error}"), Shown::default()),
        };
        Some(Self { path, leads_to: None, content: Some(content), shown })
    }
}

/// The hash of a file, and its beginning: of the very bytes that were hashed.
fn read(path: &Path) -> io::Result<(String, Shown)> {
    let mut file = held::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut head = Vec::new();
    let mut bytes = 0;
    let mut block = vec![0; 64 << 10];
    loop {
        let count = match file.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let Some(read) = block.get(..count).filter(|read| !read.is_empty()) else { break };
        hasher.update(read);
        bytes += count as u64;
        let room = SHOWN.saturating_sub(head.len()).min(count);
        head.extend_from_slice(read.get(..room).unwrap_or_default());
    }
    let text = if head.contains(&0) { "".into() } else { String::from_utf8_lossy(&head) };
    let mut all = text.lines();
    let lines: Vec<String> = all.by_ref().take(LINES).map(str::to_owned).collect();
    let more = all.next().is_some() || bytes > head.len() as u64;
    Ok((hasher.finalize().to_hex().to_string(), Shown { lines, more, bytes }))
}

/// A path without `.` and `..`, whatever lies there.
fn lexical(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain
}

/// A path as text.
pub(super) fn escaped(path: &Path) -> String {
    let bytes: &OsStr = path.as_os_str();
    escape(bytes.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(words: &[&str], root: &Path) -> Vec<String> {
        let line: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        named_files(&[&line], root).into_iter().map(|file| file.path).collect()
    }

    #[test]
    fn every_file_of_the_workspace_that_a_command_line_names_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap().join("project");
        std::fs::create_dir_all(root.join("scripts")).unwrap();
        std::fs::write(root.join("scripts/dump.sh"), "echo 1\n").unwrap();
        std::fs::write(root.join("../outside.sh"), "echo 2\n").unwrap();
        let absolute = root.join("scripts/dump.sh");
        for line in [
            &["sh", "scripts/dump.sh"][..],
            &["./scripts/dump.sh"],
            &["scripts/../scripts/dump.sh"],
            &[absolute.to_str().unwrap()],
            &["sh", "-c", "set -e; './scripts/dump.sh'|gzip"],
            &["tool", "--file=scripts/dump.sh"],
            &["docker", "run", "-v", "./scripts/dump.sh:/x"],
            &["curl", "-d", "@scripts/dump.sh"],
            &["sh", "-c", "cd scripts && ./dump.sh"],
            &["env", "-C", "scripts", "./dump.sh"],
            &["sh", "-c", "scripts/\"dump.sh\""],
            &["sh", "-c", "PATH=scripts:$PATH; dump.sh"],
            &["sh", "-c", "for one in ./scripts/*.sh; do sh $one; done"],
            &["sh", "-c", "cd scripts; for one in d*p.sh; do sh $one; done"],
            &["sh", "-c", "sh */[a-d]ump.s?"],
            &["sh", "-c", "sh scripts/\"dump\"*"],
            &["bash", "-c", "sh scripts/{dump,load}.sh"],
            &["sh", "scripts/*.sh"],
        ] {
            assert_eq!(files(line, &root), ["scripts/dump.sh"], "{line:?}");
        }
        for line in [
            &["sh", "../outside.sh"][..],
            &["ls", "scripts"],
            &["cat", "/etc/hosts"],
            &["tee", "scripts/dump.sh"],
            &["sh", "-c", "sh scripts/*.py *.sh scripts/x*"],
        ] {
            assert_eq!(files(line, &root), [""; 0], "{line:?}");
        }
    }

    #[test]
    fn a_link_is_followed_and_one_that_leads_out_is_remembered_by_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let above = std::fs::canonicalize(folder.path()).unwrap();
        let root = above.join("project");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("dump.sh"), "echo 1\n").unwrap();
        std::fs::write(above.join("outside.sh"), "echo 2\n").unwrap();
        std::os::unix::fs::symlink("dump.sh", root.join("inner")).unwrap();
        std::os::unix::fs::symlink("../outside.sh", root.join("outer")).unwrap();
        assert_eq!(files(&["sh", "inner"], &root), ["dump.sh"]);
        let line = vec!["./outer".to_owned()];
        let found = named_files(&[&line], &root);
        assert_eq!(found[0].path, "outer");
        assert_eq!(found[0].leads_to, Some(escaped(&above.join("outside.sh"))));
        assert_eq!(found[0].content, None);
    }

    #[test]
    fn the_hash_follows_the_words_and_the_content_of_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::write(root.join("dump.sh"), "echo 1\n").unwrap();
        let entry = |words: &[&str]| {
            let capture = words.iter().map(|word| (*word).to_owned()).collect();
            let what = Wanted::Command { capture, restore: vec!["cat".into()] };
            TrustEntry::look("state", what, &root)
        };
        let first = entry(&["sh", "dump.sh"]);
        assert_eq!(first.hash(), entry(&["sh", "dump.sh"]).hash());
        assert_ne!(first.hash(), entry(&["sh", "dump.sh", ""]).hash());
        assert_ne!(first.hash(), entry(&["sh dump.sh"]).hash());
        std::fs::write(root.join("dump.sh"), "echo 2\n").unwrap();
        assert_ne!(first.hash(), first.look_again(&root).hash());
        let all = |entries: &[&TrustEntry]| {
            hash_of_all(&entries.iter().map(|one| (*one).clone()).collect::<Vec<_>>())
        };
        let second = entry(&["true"]);
        assert_eq!(all(&[&first, &second]), all(&[&second, &first]));
        assert_ne!(all(&[&first, &second]), all(&[&first]));
    }
}
