//! A repository as a git bundle, and back. Both happen in repositories of our own in a scratch folder:
//! nothing of the user's is read but objects, and nothing of it is written or run.
//!
//! A bundle that comes from elsewhere was made by anybody. Its header is read here, with bounds; its pack
//! goes to `git index-pack --strict`, which checks every object and every link. No protocol, no hook and no
//! setting is involved.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use gix_index::hash::{Kind, ObjectId as Oid};
use rappel_store::Cancel;
use rappel_store::held;
use rappel_store::sink::Source;
use rappel_store::threads;
use rappel_types::RelPath;

use super::create::unpack;
use super::program::{Git, Running, Trouble};
use super::refs::Target;
use super::state::State;

/// Where commits stand that only another work tree is at. The refs are in no repository of the user's.
const HEADS: &str = "refs/rappel/worktrees/";
/// A line of a bundle's header is no longer, and it has no more lines.
const LINE_MAX: u64 = 8 << 10;
const LINES_MAX: usize = 1_000_000;
/// How often it is looked whether git is done.
const PAUSE: Duration = Duration::from_millis(5);

fn failed(error: &std::io::Error) -> Trouble {
    Trouble::Failed(error.to_string())
}

/// Makes an empty repository that nobody has set up.
fn init(git_dir: &Path, hash: Kind, bare: bool) -> std::io::Result<()> {
    for folder in ["refs/heads", "refs/tags", "objects/info", "objects/pack", "info"] {
        std::fs::create_dir_all(git_dir.join(folder))?;
    }
    let (version, format) = match hash {
        Kind::Sha256 => (1, "[extensions]\n\tobjectformat = sha256\n"),
        _ => (0, ""),
    };
    let config = format!(
        "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = {bare}\n{format}"
    );
    std::fs::write(git_dir.join("config"), config)?;
    std::fs::write(git_dir.join("HEAD"), "ref: refs/heads/main\n")
}

/// Sets refs that are not there yet.
fn create_refs<'r>(
    git: Git<'_>,
    refs: impl Iterator<Item = (&'r [u8], &'r Oid)>,
) -> Result<(), Trouble> {
    let mut input = Vec::new();
    for (name, oid) in refs {
        input.extend_from_slice(b"create ");
        input.extend_from_slice(name);
        input.extend_from_slice(format!("\0{oid}\0").as_bytes());
    }
    git.ask(&["update-ref", "--no-deref", "-z", "--stdin"], &input).map(drop)
}

/// Why a state cannot be a bundle, for people.
pub fn obstacle(state: &State) -> Option<&'static str> {
    let has = |name: &str| state.files.keys().any(|path| path.as_bytes() == name.as_bytes());
    has("shallow").then_some("its history is cut off (a shallow clone)")
}

/// Writes the bundle of a captured repository to `out`, with all its refs. False if it has none: a bundle
/// cannot be empty. `scratch` is an empty folder.
pub fn write_bundle(
    state: &State,
    scratch: &Path,
    source: &dyn Source,
    out: &Path,
) -> Result<bool, Trouble> {
    let git_dir = scratch.join("repository");
    let oids = || {
        state.refs.iter().filter_map(|(name, target)| match target {
            Target::Object(oid) => Some((name.as_bytes(), oid)),
            Target::Symbolic(_) => None,
        })
    };
    let hash = oids().next().map_or(Kind::Sha1, |(_, oid)| oid.kind());
    init(&git_dir, hash, true).map_err(|error| failed(&error))?;
    let git = Git::at(&git_dir);
    for bundle in &state.bundles {
        let unpacked = unpack(&git, bundle, false, source);
        unpacked.map_err(|error| Trouble::Failed(error.to_string()))?;
    }
    let own = || oids().filter(|(name, _)| name.starts_with(b"refs/"));
    let detached: Vec<(String, Oid)> = state
        .part
        .worktrees
        .iter()
        .filter(|one| one.branch.is_none())
        .filter_map(|one| {
            let oid = Oid::from_hex(one.commit.as_ref()?.as_bytes()).ok()?;
            Some((format!("{HEADS}{}", one.name), oid))
        })
        .collect();
    let heads = detached.iter().map(|(name, oid)| (name.as_bytes(), oid));
    create_refs(git, own().chain(heads))?;
    set_head(&git_dir, state.part.branch.as_deref(), state.part.commit.as_deref())?;
    if own().next().is_none() && state.part.commit.is_none() && detached.is_empty() {
        return Ok(false);
    }
    let out = out.as_os_str();
    git.ask(
        &["bundle".as_ref(), "create".as_ref(), "--quiet".as_ref(), out, "--all".as_ref()],
        b"",
    )?;
    Ok(true)
}

/// Writes HEAD: the branch if there is one, else the commit.
fn set_head(git_dir: &Path, branch: Option<&str>, commit: Option<&str>) -> Result<(), Trouble> {
    let text = match (branch, commit) {
        (Some(branch), _) => format!("ref: refs/heads/{branch}\n"),
        (None, Some(commit)) => format!("{commit}\n"),
        (None, None) => return Ok(()),
    };
    std::fs::write(git_dir.join("HEAD"), text).map_err(|error| failed(&error))
}

/// What a bundle says of itself.
#[derive(Debug)]
struct Header {
    hash: Kind,
    refs: Vec<(RelPath, Oid)>,
}

impl Header {
    fn read(from: &mut impl BufRead) -> Result<Self, String> {
        let first = line(from)?;
        let version = match &*first {
            b"# v2 git bundle" => 2,
            b"# v3 git bundle" => 3,
            _ => return Err("it is no git bundle".to_owned()),
        };
        let mut header = Self { hash: Kind::Sha1, refs: Vec::new() };
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..LINES_MAX {
            let line = line(from)?;
            if line.is_empty() {
                return Ok(header);
            }
            if let Some(capability) = line.strip_prefix(b"@").filter(|_| version == 3) {
                header.hash = match capability {
                    b"object-format=sha1" => Kind::Sha1,
                    b"object-format=sha256" => Kind::Sha256,
                    _ => return Err("it holds a part of its objects only".to_owned()),
                };
                continue;
            }
            if line.starts_with(b"-") {
                return Err("it builds upon commits that are not in it".to_owned());
            }
            let wrong = || "a line of it makes no sense".to_owned();
            let space = line.iter().position(|&byte| byte == b' ').ok_or_else(wrong)?;
            let oid = Oid::from_hex(&line[..space]).map_err(|_| wrong())?;
            let name = RelPath::new(&line[space + 1..]).map_err(|_| wrong())?;
            if oid.kind() != header.hash || !names.insert(name.clone()) {
                return Err(wrong());
            }
            if name.as_bytes() == b"HEAD" || name.as_bytes().starts_with(b"refs/") {
                header.refs.push((name, oid));
            }
        }
        Err(format!("it has more than {LINES_MAX} refs"))
    }
}

fn line(from: &mut impl BufRead) -> Result<Vec<u8>, String> {
    let mut line = Vec::new();
    let read = from.take(LINE_MAX).read_until(b'\n', &mut line);
    read.map_err(|error| error.to_string())?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        _ => Err("its header is cut off".to_owned()),
    }
}

/// Where a foreign repository should stand.
#[derive(Debug, Clone, Default)]
pub struct Stand<'a> {
    /// The branch that HEAD names.
    pub branch: Option<&'a str>,
    /// The commit that HEAD leads to, be it in short.
    pub commit: Option<&'a str>,
    /// Its other work trees: name, folder, branch, commit.
    pub worktrees: Vec<(&'a str, &'a Path, Option<&'a str>, Option<&'a str>)>,
}

/// What became of a foreign bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unbundled {
    /// The commit that HEAD leads to.
    pub commit: Option<String>,
    /// What does not fit, for people.
    pub troubles: Vec<String>,
}

/// How long git may work on a foreign bundle, and who may stop it.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// How long.
    pub time: Duration,
    /// Set to stop it.
    pub cancel: &'a Cancel,
}

/// Makes a repository of a foreign bundle, in a folder `.git` that is not there yet: checked objects, the
/// bundle's refs, HEAD and an index of its commit. There are no settings and no hooks in it but our own.
pub fn read_bundle(
    bundle: &Path,
    git_dir: &Path,
    stand: &Stand<'_>,
    limits: Limits<'_>,
) -> Result<Unbundled, Trouble> {
    let file = held::open(bundle).map_err(|error| failed(&error))?;
    let mut from = BufReader::new(file);
    let header = Header::read(&mut from).map_err(Trouble::Failed)?;
    init(git_dir, header.hash, false).map_err(|error| failed(&error))?;
    let git = Git::at(git_dir);
    let running = git.start(&["index-pack", "--stdin", "--strict"])?;
    feed(running, &mut from, limits)?;
    let mut done = Unbundled::default();
    let refs = header.refs.iter().filter(|(name, _)| {
        name.as_bytes().starts_with(b"refs/") && !name.as_bytes().starts_with(HEADS.as_bytes())
    });
    create_refs(git, refs.map(|(name, oid)| (name.as_bytes(), oid)))?;
    let commit = match stand.commit {
        Some(text) => {
            let found = resolve(git, text);
            if found.is_none() {
                done.troubles.push(format!("the commit {text:?} is not in its bundle"));
            }
            found
        }
        None => None,
    };
    let branch = stand.branch.filter(|name| is_branch(git, name));
    if branch.is_none() && stand.branch.is_some() {
        done.troubles.push("the name of its branch is none that git takes".to_owned());
    }
    let own = branch.and_then(|name| resolve(git, &format!("refs/heads/{name}")));
    let told = header.refs.iter().find(|(name, _)| name.as_bytes() == b"HEAD");
    let commit = commit.or_else(|| own.clone()).or_else(|| {
        told.filter(|_| branch.is_none() && stand.commit.is_none()).map(|(_, oid)| oid.to_string())
    });
    if let (Some(branch), Some(commit)) = (branch, &commit)
        && own.as_ref() != Some(commit)
    {
        // Where the document and the bundle differ, the document says what was checked out.
        git.ask(&["update-ref", &format!("refs/heads/{branch}"), commit], b"")?;
    }
    set_head(git_dir, branch, commit.as_deref())?;
    if let Some(commit) = &commit {
        git.ask(&["read-tree", commit], b"")?;
    }
    for (name, folder, branch, commit) in &stand.worktrees {
        let held = header.refs.iter().find(|(at, _)| at.to_string() == format!("{HEADS}{name}"));
        let held = held.map(|(_, oid)| oid.to_string());
        let linked = link(git, (name, folder), *branch, commit.or(held.as_deref()));
        if let Err(trouble) = linked {
            done.troubles.push(format!("work tree {name}: {trouble}"));
        }
    }
    done.commit = commit;
    Ok(done)
}

/// The full name of the commit that a text means: a ref of ours, or digits.
fn resolve(git: Git<'_>, text: &str) -> Option<String> {
    let is_name = text.starts_with("refs/heads/")
        || (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let text = is_name.then(|| format!("{text}^{{commit}}"))?;
    let found = git.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &text], b"");
    String::from_utf8(found.ok()?.trim_ascii().to_vec()).ok()
}

fn is_branch(git: Git<'_>, name: &str) -> bool {
    !name.starts_with('-')
        && git.ask(&["check-ref-format", &format!("refs/heads/{name}")], b"").is_ok()
}

/// Makes git's folder of another work tree.
fn link(
    git: Git<'_>,
    (name, folder): (&str, &Path),
    branch: Option<&str>,
    commit: Option<&str>,
) -> Result<(), Trouble> {
    let failed = |error: std::io::Error| failed(&error);
    let admin = git.git_dir.join("worktrees").join(name);
    std::fs::create_dir_all(&admin).map_err(failed)?;
    let branch = branch.filter(|name| is_branch(git, name));
    let own = branch.and_then(|name| resolve(git, &format!("refs/heads/{name}")));
    let commit = own.or_else(|| commit.and_then(|text| resolve(git, text)));
    std::fs::write(admin.join("commondir"), "../..\n").map_err(failed)?;
    let mut link = folder.join(".git").into_os_string();
    link.push("\n");
    std::fs::write(admin.join("gitdir"), link.as_encoded_bytes()).map_err(failed)?;
    let (Some(commit), branch) = (&commit, branch) else {
        let name = branch.unwrap_or("main");
        std::fs::write(admin.join("HEAD"), format!("ref: refs/heads/{name}\n")).map_err(failed)?;
        return Err(Trouble::Failed("its commit is not in the bundle".to_owned()));
    };
    set_head(&admin, branch, Some(commit))?;
    let index = admin.join("index");
    Git { index: Some(&index), ..git }.ask(&["read-tree", commit], b"").map(drop)
}

/// Gives git what it reads, and waits for its end, which must be a good one and come in time.
fn feed(
    mut running: Running,
    from: &mut (impl Read + Send),
    limits: Limits<'_>,
) -> Result<(), Trouble> {
    let (stdin, stdout) = (running.child.stdin.take(), running.child.stdout.take());
    let start = Instant::now();
    let stopped = std::thread::scope(|scope| {
        threads::start_in(scope, move || {
            // Git says better why it stopped listening.
            if let Some(mut stdin) = stdin {
                let _ = std::io::copy(from, &mut stdin).and_then(|_| stdin.flush());
            }
        })?;
        threads::start_in(scope, move || {
            let _ = stdout.map(|mut stdout| std::io::copy(&mut stdout, &mut std::io::sink()));
        })?;
        loop {
            let is_over = start.elapsed() >= limits.time;
            if is_over || limits.cancel.is_cancelled() {
                running.child.kill()?;
                return Ok(Some(is_over));
            }
            if running.child.try_wait()?.is_some() {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    });
    match stopped.map_err(|error: std::io::Error| failed(&error))? {
        None => running.succeed(),
        Some(true) => {
            let seconds = limits.time.as_secs();
            Err(Trouble::Failed(format!("git was not done with the bundle after {seconds} s")))
        }
        Some(false) => Err(Trouble::Failed("cancelled".to_owned())),
    }
}

/// A file or link of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Where.
    pub path: RelPath,
    /// Whether it is a symbolic link.
    pub is_link: bool,
    /// Its permission bits.
    pub mode: u32,
}

/// Reads the files of a commit, one after the other, as git has them: without filters. Submodules are
/// passed over. `take` gets each with its content.
pub fn commit_files(
    git_dir: &Path,
    commit: &str,
    take: &mut dyn FnMut(Held, u64, &mut dyn Read) -> std::io::Result<()>,
) -> Result<(), Trouble> {
    let git = Git::at(git_dir);
    let list = git.ask(&["ls-tree", "-r", "-z", "--full-tree", commit], b"")?;
    let mut wanted = Vec::new();
    for entry in list.split(|&byte| byte == 0).filter(|entry| !entry.is_empty()) {
        let tab = entry.iter().position(|&byte| byte == b'\t');
        let Some((head, path)) = tab.map(|at| (&entry[..at], &entry[at + 1..])) else { continue };
        let mut words = head.split(|&byte| byte == b' ');
        let (mode, oid) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
        let (is_link, mode) = match mode {
            b"100644" => (false, 0o644),
            b"100755" => (false, 0o755),
            b"120000" => (true, 0o777),
            _ => continue,
        };
        if let Ok(path) = RelPath::new(path) {
            wanted.push((Held { path, is_link, mode }, oid.to_vec()));
        }
    }
    let mut running = git.start(&["cat-file", "--batch", "--buffer"])?;
    let (stdin, stdout) = (running.child.stdin.take(), running.child.stdout.take());
    let names: Vec<u8> =
        wanted.iter().flat_map(|(_, oid)| oid.iter().copied().chain([b'\n'])).collect();
    let read = std::thread::scope(|scope| -> std::io::Result<()> {
        threads::start_in(scope, move || {
            let _ = stdin.map(|mut stdin| stdin.write_all(&names));
        })?;
        let Some(stdout) = stdout else { return Ok(()) };
        let mut out = BufReader::with_capacity(256 << 10, stdout);
        for (held, _) in wanted {
            let mut head = Vec::new();
            (&mut out).take(LINE_MAX).read_until(b'\n', &mut head)?;
            let size = head.trim_ascii().rsplit(|&byte| byte == b' ').next().unwrap_or_default();
            let size: Option<u64> =
                std::str::from_utf8(size).ok().and_then(|text| text.parse().ok());
            let Some(size) = size else {
                return Err(std::io::Error::other(format!("git has no {}", held.path)));
            };
            let mut content = (&mut out).take(size);
            take(held, size, &mut content)?;
            std::io::copy(&mut content, &mut std::io::sink())?;
            let mut end = [0];
            out.read_exact(&mut end)?;
        }
        Ok(())
    });
    if read.is_err() {
        let _ = running.child.kill();
    }
    read.map_err(|error| failed(&error))?;
    running.succeed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_believed_only_if_it_makes_sense() {
        let oid = "0123456789abcdef0123456789abcdef01234567";
        let good = format!("# v2 git bundle\n{oid} refs/heads/main\n{oid} HEAD\n\nPACK");
        let header = Header::read(&mut good.as_bytes()).unwrap();
        assert_eq!(header.refs.len(), 2);
        let long = "x".repeat(9 << 10);
        for (text, reason) in [
            (String::new(), "cut off"),
            ("PK\n".to_owned(), "no git bundle"),
            (format!("# v2 git bundle\n-{oid} base\n{oid} HEAD\n\n"), "builds upon"),
            (format!("# v3 git bundle\n@filter=blob:none\n{oid} HEAD\n\n"), "a part"),
            (format!("# v3 git bundle\n@object-format=sha256\n{oid} HEAD\n\n"), "no sense"),
            (format!("# v2 git bundle\n{oid} refs/../x\n\n"), "no sense"),
            (format!("# v2 git bundle\n{oid} HEAD\n{oid} HEAD\n\n"), "no sense"),
            (format!("# v2 git bundle\n{oid}\n\n"), "no sense"),
            (format!("# v2 git bundle\n{oid} refs/heads/{long}\n\n"), "cut off"),
            (format!("# v2 git bundle\n{oid} HEAD\n"), "cut off"),
        ] {
            let error = Header::read(&mut text.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
