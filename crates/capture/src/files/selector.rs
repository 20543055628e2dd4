//! "Would these rules have taken this path?", asked of a checkpoint's own rules when a restore has
//! to know what it may delete, and how those rules are kept in a manifest.
//!
//! Rule files that are captured are read from the checkpoint's tree. All others go to
//! [`SelectionRules::extra`], each with a first line that says what it is:
//! `#rappel {"source":"private"}`. A reader that does not know the line sees a comment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rappel_types::RelPath;
use rappel_types::manifest::{ExtraRules, SelectionRules};
use rappel_types::path::{escape, unescape};
use serde::{Deserialize, Serialize};

use super::choose::{Choice, Chooser, Has, Inside, OWN, PathSet, RuleFiles, Scope};
use super::git::{Above, IGNORE, Repo, RepoRules, Source};
use super::globs::Globs;
use super::patterns::Patterns;
use crate::error::Result;
use rappel_types::git_name::is_git;

const MARK: &str = "#rappel ";

/// What a piece of [`SelectionRules::extra`] is, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// Folders that the built-in list left out because of a proof that is not captured.
    Builtin,
    /// `core.excludesFile` of the repository in that folder.
    Global,
    /// `info/exclude` of the repository in that folder; its presence tells that one starts there.
    Private,
    /// An ignore file of the repository above the workspace.
    Above,
    /// A `.gitignore` that is not captured.
    Gitignore,
    /// A `.rappelignore` that is not captured.
    Rappelignore,
}

#[derive(Debug, Serialize, Deserialize)]
struct Heading {
    source: Origin,
    /// The way from the folder of the rules to the workspace, escaped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    prefix: String,
    /// Where in the prefix the file lies.
    #[serde(default, skip_serializing_if = "is_zero")]
    base: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fold: bool,
    /// Whether the text is escaped because it is not UTF-8.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    escaped: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this shape")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn extra(folder: &[u8], mut heading: Heading, text: &[u8]) -> ExtraRules {
    let text = if let Ok(text) = std::str::from_utf8(text) {
        text.to_owned()
    } else {
        heading.escaped = true;
        text.split(|&b| b == b'\n').map(escape).collect::<Vec<_>>().join("\n")
    };
    let heading = serde_json::to_string(&heading).unwrap_or_default();
    ExtraRules { folder: RelPath::new(folder).ok(), text: format!("{MARK}{heading}\n{text}") }
}

/// A rule file, or a list of rules, that is not captured.
pub(crate) fn keep(folder: &[u8], source: Origin, text: &[u8]) -> ExtraRules {
    let heading = Heading { source, prefix: String::new(), base: 0, fold: false, escaped: false };
    extra(folder, heading, text)
}

/// What a manifest must say of the repository that starts in `folder`.
pub(crate) fn keep_repo(folder: &[u8], rules: &RepoRules) -> Vec<ExtraRules> {
    let heading = |source, base| Heading {
        source,
        prefix: escape(&rules.prefix),
        base,
        fold: rules.fold,
        escaped: false,
    };
    let mut kept = Vec::new();
    if !rules.global.text.is_empty() {
        kept.push(extra(folder, heading(Origin::Global, 0), &rules.global.text));
    }
    kept.push(extra(folder, heading(Origin::Private, 0), &rules.private.text));
    for above in rules.above.iter().rev() {
        kept.push(extra(folder, heading(Origin::Above, above.base), &above.source.text));
    }
    kept
}

/// Puts `extra` into the order in which it applies, weakest first.
pub(crate) fn in_order(extra: &mut [ExtraRules]) {
    extra.sort_by_cached_key(|rules| {
        let heading = parse(rules).map(|(heading, _)| heading);
        let base = heading.as_ref().map_or(0, |heading| heading.base);
        (rules.folder.clone(), heading.map(|heading| heading.source), base, rules.text.clone())
    });
}

fn parse(rules: &ExtraRules) -> Option<(Heading, Vec<u8>)> {
    let (heading, text) = rules.text.split_once('\n').unwrap_or((&rules.text, ""));
    let heading: Heading = serde_json::from_str(heading.strip_prefix(MARK)?).ok()?;
    if !heading.escaped {
        return Some((heading, text.as_bytes().to_vec()));
    }
    let lines: Option<Vec<_>> = text.split('\n').map(unescape).collect();
    Some((heading, lines?.join(&b'\n')))
}

/// What rules say of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// It is taken.
    Taken,
    /// Git's rules ignore it.
    Ignored,
    /// It is left out whatever git's rules say.
    Refused,
}

/// Rules that can be asked about any path.
pub struct Selector<'a> {
    rules: Recorded<'a>,
    include: Globs,
    exclude: Globs,
    excluded: Vec<RelPath>,
    root: Arc<Scope>,
    repos: HashMap<Vec<u8>, Arc<Repo>>,
    builtin: HashMap<Vec<u8>, Patterns>,
    scopes: Mutex<HashMap<Vec<u8>, Entered>>,
}

/// What is known of a folder that was asked about: `None` where it is left out.
type Entered = Option<(Arc<Scope>, Inside)>;

type ReadRule<'a> = Box<dyn Fn(&RelPath) -> Option<Vec<u8>> + Send + Sync + 'a>;

/// Rule files of a checkpoint.
struct Recorded<'a> {
    tree: ReadRule<'a>,
    extra: HashMap<Vec<u8>, Vec<u8>>,
}

impl RuleFiles for Recorded<'_> {
    fn read(&self, path: &[u8]) -> Option<Vec<u8>> {
        match self.extra.get(path) {
            Some(text) => Some(text.clone()),
            None => (self.tree)(&RelPath::new(path).ok()?),
        }
    }

    fn exists(&self, _path: &[u8]) -> bool {
        // Proofs are not kept; what they proved is.
        false
    }
}

impl<'a> Selector<'a> {
    /// The rules of a manifest. `rule_file` gives the content of a rule file inside its tree, `None`
    /// if the tree has none at that path.
    pub fn recorded(
        rules: &SelectionRules,
        rule_file: impl Fn(&RelPath) -> Option<Vec<u8>> + Send + Sync + 'a,
    ) -> Result<Self> {
        let mut extra = HashMap::new();
        let mut governed: HashMap<Vec<u8>, RepoRules> = HashMap::new();
        let mut builtin = HashMap::new();
        if rules.git {
            governed.insert(Vec::new(), RepoRules::default());
        }
        for (heading, text, folder) in rules.extra.iter().filter_map(|rules| {
            let folder = rules.folder.as_ref().map_or(&[][..], RelPath::as_bytes);
            parse(rules).map(|(heading, text)| (heading, text, folder))
        }) {
            let file = |name: &[u8]| join(folder, name);
            match heading.source {
                Origin::Gitignore => {
                    extra.insert(file(IGNORE), text);
                }
                Origin::Rappelignore => {
                    extra.insert(file(OWN), text);
                }
                Origin::Builtin => {
                    builtin.insert(folder.to_vec(), Patterns::parse(&text));
                }
                Origin::Global | Origin::Private | Origin::Above => {
                    let repo = governed.entry(folder.to_vec()).or_default();
                    repo.prefix = unescape(&heading.prefix).unwrap_or_default();
                    repo.fold = heading.fold;
                    let source = Source::new(&text);
                    match heading.source {
                        Origin::Global => repo.global = source,
                        Origin::Private => repo.private = source,
                        _ => repo.above.insert(0, Above { base: heading.base, source }),
                    }
                }
            }
        }
        let repos: HashMap<_, _> = governed
            .into_iter()
            .map(|(folder, rules)| {
                let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
                (folder, Arc::new(Repo::recorded(start, rules)))
            })
            .collect();
        let recorded = Recorded { tree: Box::new(rule_file), extra };
        let root = Scope::root(repos.get(&[][..]).cloned(), recorded.has(b""));
        Ok(Self {
            rules: recorded,
            include: Globs::parse("include", &rules.include)?,
            exclude: Globs::parse("exclude", &rules.exclude)?,
            excluded: rules.excluded_roots.clone(),
            root,
            repos,
            builtin,
            scopes: Mutex::default(),
        })
    }

    /// Whether the rules would have taken `path`, and with it all folders above it. What is tracked
    /// although it is ignored is not known here: it is in the tree, or the answer is no. Neither is
    /// the size of a file.
    pub fn selects(&self, path: &RelPath, is_dir: bool) -> bool {
        let chooser = self.chooser();
        let mut above: Entered = Some((self.root.clone(), Inside::Normal));
        for folder in path.ancestors() {
            let Some((scope, inside)) = above else { return false };
            above = self.enter(&chooser, &scope, folder.as_bytes(), inside);
        }
        let Some((scope, inside)) = above else { return false };
        self.choose(&chooser, &scope, path.as_bytes(), is_dir, inside).is_some()
    }

    /// What the rules say of `path`, for a caller that may take more than they do. What is tracked
    /// although it is ignored counts as ignored.
    pub fn judge(&self, path: &RelPath, is_dir: bool) -> Judged {
        let chooser = self.chooser();
        let (mut scope, mut inside, mut ignored) = (self.root.clone(), Inside::Normal, false);
        let folders = path.ancestors().map(|folder| (folder, true));
        for (step, is_dir) in folders.chain([(path.clone(), is_dir)]) {
            let bytes = step.as_bytes();
            let name = bytes.rsplit(|&b| b == b'/').next().unwrap_or_default();
            if self.exclude.matches(bytes, is_dir) || is_git(name) {
                return Judged::Refused;
            }
            if ignored {
                continue;
            }
            match chooser.choose(&scope, bytes, is_dir, inside) {
                Choice::Omit { git: true, .. } => ignored = true,
                Choice::Omit { .. } | Choice::Never => return Judged::Refused,
                Choice::Take { .. } if is_dir => {
                    match self.enter(&chooser, &scope, bytes, inside) {
                        Some(entered) => (scope, inside) = entered,
                        None => return Judged::Refused,
                    }
                }
                Choice::Take { .. } => {}
            }
        }
        if ignored { Judged::Ignored } else { Judged::Taken }
    }

    fn chooser(&self) -> Chooser<'_> {
        Chooser {
            include: &self.include,
            exclude: &self.exclude,
            excluded_paths: PathSet::new(&self.excluded),
            also: PathSet::default(),
            files: &self.rules,
        }
    }

    fn choose(
        &self,
        chooser: &Chooser<'_>,
        scope: &Scope,
        path: &[u8],
        is_dir: bool,
        inside: Inside,
    ) -> Option<Inside> {
        let start = path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
        match chooser.choose(scope, path, is_dir, inside) {
            Choice::Take { inside: within, .. } => {
                let folder = &path[..start.saturating_sub(1)];
                let proven = within == Inside::Normal && is_dir && scope.repo.is_none();
                let left_out = proven
                    && self.builtin.get(folder).is_some_and(|names| {
                        names.verdict(&path[start..], true, false) == Some(true)
                    });
                (!left_out).then_some(within)
            }
            _ => None,
        }
    }

    fn enter(
        &self,
        chooser: &Chooser<'_>,
        scope: &Arc<Scope>,
        folder: &[u8],
        inside: Inside,
    ) -> Entered {
        let known = self.scopes.lock().unwrap_or_else(PoisonError::into_inner).get(folder).cloned();
        if let Some(known) = known {
            return known;
        }
        let entered = self.choose(chooser, scope, folder, true, inside).map(|inside| {
            if inside != Inside::Normal {
                return (scope.clone(), inside);
            }
            let repo = self.repos.get(folder).cloned();
            (scope.enter(folder, repo, self.rules.has(folder)), inside)
        });
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.insert(folder.to_vec(), entered.clone());
        entered
    }
}

impl Recorded<'_> {
    fn has(&self, folder: &[u8]) -> Has {
        let there = |name: &[u8]| self.read(&join(folder, name)).is_some();
        Has { git: there(IGNORE), own: there(OWN) }
    }
}

impl std::fmt::Debug for Selector<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selector").finish_non_exhaustive()
    }
}

/// A name in a folder; the empty folder is the root.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
    [folder, slash, name].concat()
}
