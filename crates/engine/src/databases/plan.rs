//! What a restore would do to databases, and taking hold of them for it.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rappel_capture::databases::{
    DatabaseDrive, Error as DatabaseError, Held, How, Names, Restoring, Watch, sqlite,
};
use rappel_store::document::UndoDatabase;
use rappel_store::operation::Phase;
use rappel_store::sink::Scratch;
use rappel_types::database::{
    DatabaseDefinition, DatabaseKind, DatabasePart, DatabasePlan, DatabaseSetting, Digest,
};
use rappel_types::plan::Conflict;
use rappel_types::size::{format_size, thousands};
use rappel_types::{Action, ActionKind, Facet, Manifest, RelPath, Trigger};
use rappel_types::{Advice, Remark, Remarks};

use super::sources::Named;
use super::{Reading, known_unchanged};
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// How long a restore waits for others to let go of a database.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What a restore of databases is about.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is one thing the user may wish")]
pub(crate) struct DatabaseWish {
    /// If there are any: only these.
    pub only: Vec<String>,
    /// If given: only these, where they were when a restore changed them.
    pub touched: Option<Vec<UndoDatabase>>,
    /// How the restore that is taken back left them: one that is otherwise was changed since, and
    /// is kept.
    pub left: Option<Vec<DatabasePart>>,
    /// Also those that were older than the checkpoint.
    pub allow_stale: bool,
    /// Those that may be restored although they are on another machine.
    pub allow_remote: Vec<String>,
    /// Whether others are disconnected.
    pub terminate_connections: bool,
    /// Whether a dump from elsewhere may be run.
    pub trust_dump: bool,
    /// Whether all files of the checkpoint come back with them, scripts included.
    pub with_files: bool,
    /// Commands that are restored even where what they hold now cannot be saved.
    pub allow_unsaved: Vec<String>,
}

impl DatabaseWish {
    /// What a restore that is taken back did to the one of this name.
    pub fn touched_by_name(&self, name: &str) -> Option<&UndoDatabase> {
        self.touched.iter().flatten().find(|one| one.name == name)
    }

    /// Whether it is about the one of this name.
    pub fn means(&self, name: &str) -> bool {
        (self.only.is_empty() || self.only.iter().any(|one| one == name))
            && (self.touched.is_none() || self.touched_by_name(name).is_some())
    }
}

/// A database that a restore may change.
pub(crate) struct Holding {
    pub named: Named,
    pub target: DatabasePart,
    /// What holds it against writers; `None` before it is held, in a dry run, and where there is nothing to
    /// hold yet.
    pub restoring: Option<Box<dyn Restoring>>,
    /// Why it cannot be saved first, if so: then it is not touched.
    pub unreadable: Option<String>,
    /// Why what stands in its place is no database that can be read, if so.
    pub damaged: Option<String>,
    /// Whether that is kept as a file, and removed before this one is made anew.
    pub is_displaced: bool,
    /// Whether it may be restored although it cannot be saved first.
    pub allow_unsaved: bool,
    /// Why it could not be saved first, and is restored all the same.
    pub unsaved: Option<String>,
    /// What it holds now; `None` where there is none.
    pub now: Option<DatabasePart>,
    /// Whether a cheap look says that nobody changed it since the restore that is taken back.
    pub untouched: bool,
    /// The digest of what a command gave right after that restore.
    pub after: Option<String>,
}

impl Holding {
    pub fn new(named: Named, target: DatabasePart) -> Self {
        Self {
            named,
            target,
            restoring: None,
            unreadable: None,
            damaged: None,
            is_displaced: false,
            allow_unsaved: false,
            unsaved: None,
            now: None,
            untouched: false,
            after: None,
        }
    }

    /// Notes that what it holds now cannot be saved.
    pub fn cannot_be_saved(&mut self, reason: String) {
        if self.allow_unsaved {
            self.unsaved = Some(reason);
        } else {
            self.restoring = None;
            self.unreadable = Some(reason);
        }
    }

    /// What may be said of it since the restore that is taken back left it with `left`.
    fn since(&self, left: &Digest) -> Since {
        let now = self.now.as_ref().map(|now| &now.digest);
        if self.untouched || now == Some(left) {
            return Since::Untouched;
        }
        match &self.after {
            Some(after) if now.is_some_and(|now| now.to_string() == *after) => Since::Untouched,
            Some(after) if self.is_command() && *after != left.to_string() => Since::Unknown,
            _ => Since::Changed,
        }
    }

    fn is_command(&self) -> bool {
        self.named.kind == DatabaseKind::Command
    }

    /// All the files that hold its content, if it lies inside the workspace. The index of a log
    /// (`-shm`) holds nothing of its own.
    pub fn files(&self) -> Vec<RelPath> {
        self.path().map_or_else(Vec::new, |path| {
            let mut beside = sqlite::companions_of(&path);
            beside.retain(|path| !path.as_bytes().ends_with(b"-shm"));
            std::iter::once(path).chain(beside).collect()
        })
    }

    /// Where it lies inside the workspace today, if it does.
    pub fn path(&self) -> Option<RelPath> {
        let sqlite = self.named.kind == DatabaseKind::Sqlite;
        self.named.place.parse().ok().filter(|_| sqlite)
    }
}

/// What became of a database since a restore left it.
enum Since {
    Untouched,
    Changed,
    /// A command that gave something else right after it was given this: its output holds the time, or the
    /// like, and comparing says nothing.
    Unknown,
}

/// The databases of a restore, before there is a plan.
#[derive(Default)]
pub(crate) struct Holdings {
    pub all: Vec<Holding>,
    /// Whether others are disconnected from them.
    terminate_connections: bool,
    /// Whether one that cannot be held ends it all.
    strict: bool,
    /// Which names without a schema are found while they are loaded.
    pub names: Names,
    conflicts: Vec<Conflict>,
    pub(super) warnings: Remarks,
}

/// A plan for all databases, and what to say about it.
#[derive(Debug, Default)]
pub(crate) struct DatabasesPlanned {
    pub plan: Vec<DatabasePlan>,
    pub conflicts: Vec<Conflict>,
    /// What is left as it is because it was changed since.
    pub edited: Vec<Conflict>,
    pub warnings: Remarks,
    /// In a sentence.
    pub summary: Option<String>,
    /// Line by line, for people.
    pub details: Vec<String>,
    pub actions: Vec<Action>,
    /// What stands in the places of damaged ones, as far as it is there. It is removed.
    pub displaced: Vec<RelPath>,
}

impl Holdings {
    pub(super) fn conflict(&mut self, name: &str, reason: Remark) {
        self.conflicts.push(conflict(name, reason.text).with(reason.advice));
    }

    /// None yet, for a recovery: one that cannot be held ends it.
    pub fn strict(terminate_connections: bool, names: Names) -> Self {
        Self { terminate_connections, strict: true, names, ..Self::default() }
    }

    /// Has damaged ones inside the workspace kept as files. Returns the paths of those that were not before.
    pub fn displace_damaged(&mut self) -> Vec<RelPath> {
        let damaged = self.all.iter_mut().filter(|one| one.damaged.is_some() && !one.is_displaced);
        damaged
            .flat_map(|holding| {
                let files = holding.files();
                holding.is_displaced = !files.is_empty();
                if holding.is_displaced {
                    holding.unreadable = None;
                }
                files
            })
            .collect()
    }

    /// Gives up those that are kept as files if they are not among them: `is_kept` says so.
    pub fn check_displaced(&mut self, is_kept: impl Fn(&RelPath) -> Result<bool>) -> Result<()> {
        for holding in self.all.iter_mut().filter(|one| one.is_displaced) {
            if let Some(path) = holding.path()
                && !is_kept(&path)?
            {
                holding.is_displaced = false;
                holding.unreadable.clone_from(&holding.damaged);
            }
        }
        Ok(())
    }

    /// Lets go of all of them: others may write again.
    pub fn let_go(&mut self) {
        for holding in &mut self.all {
            (holding.restoring, holding.now) = (None, None);
            (holding.unreadable, holding.unsaved) = (None, None);
        }
    }
}

impl Rappel {
    /// The databases that a restore may change. None is held yet: that is for the safety checkpoint to do,
    /// once it has read everything else.
    pub(crate) fn databases_to_restore(
        &self,
        target: &Manifest,
        wish: Option<&DatabaseWish>,
    ) -> Result<Holdings> {
        let Some(wish) = wish else { return Ok(Holdings::default()) };
        let found = self.candidates(target, wish)?;
        Ok(Holdings { terminate_connections: wish.terminate_connections, ..found })
    }

    /// Takes hold of those that `meant` names, against writers.
    pub(super) fn take_hold(
        &self,
        holdings: &mut Holdings,
        meant: impl Fn(&Holding) -> bool,
    ) -> Result<()> {
        let how = self.how(holdings.terminate_connections, holdings.names);
        for holding in holdings.all.iter_mut().filter(|holding| meant(holding)) {
            match holding.named.database.restoring(&how) {
                Ok(restoring) => holding.restoring = Some(restoring),
                Err(DatabaseError::Absent(_)) => {}
                Err(DatabaseError::Unavailable(reason) | DatabaseError::NoProgram(reason))
                    if !holdings.strict =>
                {
                    holding.unreadable = Some(reason);
                }
                Err(error) => {
                    return Err(Error::Database { name: holding.named.name.clone(), error });
                }
            }
        }
        Ok(())
    }

    /// The same in a dry run: nothing is held, each is only looked at.
    pub(crate) fn look_at_databases(
        &self,
        target: &Manifest,
        wish: Option<&DatabaseWish>,
        scratch: &Scratch<'_>,
    ) -> Result<Holdings> {
        let mut holdings = self.databases_to_restore(target, wish)?;
        let memo = self.database_memo(&self.reading()?)?;
        for holding in &mut holdings.all {
            let named = &holding.named;
            holding.now = known_unchanged(named, &memo);
            if holding.now.is_some() {
                continue;
            }
            let prior = memo.entries.get(&named.name).map(|known| &known.part);
            match named.database.read(scratch, prior, &self.reading()?.watch) {
                Ok(part) => holding.now = Some(part),
                Err(DatabaseError::Absent(_)) => {}
                Err(DatabaseError::Store(error)) => return Err(error.into()),
                Err(DatabaseError::Damaged(reason)) => {
                    holding.damaged = Some(reason.clone());
                    holding.cannot_be_saved(reason);
                }
                Err(error) => holding.cannot_be_saved(error.to_string()),
            }
        }
        Ok(holdings)
    }

    /// What carries a plan out: everything that is held, and what has to be made first.
    pub(crate) fn drive_of(&self, held: Holdings, warnings: &mut Remarks) -> Result<DatabaseDrive> {
        let mut all = Vec::new();
        let names = held.names;
        for (place, holding) in held.all.into_iter().enumerate() {
            let name = &holding.named.name;
            let from = holding.now.map(|now| now.digest);
            let (restoring, from) = match holding.restoring {
                Some(restoring) => (restoring, from),
                None if holding.is_displaced => {
                    let restoring = self.displacing(&holding.named);
                    let failed = |error| Error::Database { name: name.clone(), error };
                    (restoring.map_err(failed)?, None)
                }
                None => self
                    .made_anew(&holding.named, &holding.target, names, warnings)
                    .map_err(|error| Error::Database { name: name.clone(), error })?,
            };
            let plan = DatabasePlan {
                name: name.clone(),
                kind: holding.target.kind,
                place: holding.named.place.clone(),
                from,
                to: holding.target.digest.clone(),
                ticket: restoring.ticket(),
            };
            all.push((place, Held { plan, target: holding.target, restoring }));
        }
        Ok(DatabaseDrive::new(all, false))
    }

    /// What makes a database anew where a damaged one stands. The files' part removes that first.
    pub(super) fn displacing(
        &self,
        named: &Named,
    ) -> rappel_capture::databases::Result<Box<dyn Restoring>> {
        let mut restoring = named.database.restoring(&self.how(false, Names::default()))?;
        restoring.displace();
        Ok(restoring)
    }

    /// Makes a database that is gone, and takes hold of it. What it then holds is what a recovery may
    /// find there without anybody having changed it.
    pub(super) fn made_anew(
        &self,
        named: &Named,
        target: &DatabasePart,
        names: Names,
        warnings: &mut Remarks,
    ) -> rappel_capture::databases::Result<(Box<dyn Restoring>, Option<Digest>)> {
        let notes = named.database.create(target)?;
        warnings.extend(notes.iter().map(|note| format!("database {}: {note}", named.name)));
        let mut restoring = named.database.restoring(&self.how(false, names))?;
        let scratch = Scratch::over(self.source());
        let bytes = AtomicU64::default();
        let watch = Watch { cancel: self.cancel(), bytes: &bytes };
        match restoring.capture(&scratch, None, &watch) {
            Ok(empty) => Ok((restoring, Some(empty.part.digest))),
            Err(DatabaseError::Absent(_)) => Ok((restoring, None)),
            Err(error) => Err(error),
        }
    }

    /// A look at a database that was just restored: a cheap one, or where there is no such look, what a
    /// command gives now.
    pub(crate) fn look_at_database(&self, plan: &DatabasePlan) -> UndoDatabase {
        let (left, loaded) = self.digests_of(plan).unwrap_or_default();
        UndoDatabase { name: plan.name.clone(), place: plan.place.clone(), left, loaded }
    }

    /// What a cheap look at a database gives, and the digest of what it holds, where one is needed.
    fn digests_of(&self, plan: &DatabasePlan) -> Option<(Option<String>, Option<String>)> {
        let all = self.configured_databases().into_iter().flatten();
        let mut fitting = all.filter(|one| (&one.name, &one.place) == (&plan.name, &plan.place));
        let noticed = || {
            let path = plan.place.parse().ok().filter(|_| plan.name == plan.place)?;
            self.noticed_database(&path).ok()
        };
        let named = fitting.next().or_else(noticed)?;
        let look = || named.database.fingerprint().ok().flatten().map(|look| look.0);
        let read = || {
            let scratch = Scratch::over(self.source());
            let read = named.database.read(&scratch, None, &self.reading().ok()?.watch);
            Some(read.ok()?.digest.to_string())
        };
        Some(match plan.kind {
            DatabaseKind::Command => (read(), None),
            DatabaseKind::Postgres => {
                let left = look();
                // What others have written meanwhile is not what was loaded.
                let loaded = left.as_ref().and_then(|_| read()).filter(|_| look() == left);
                (left, loaded)
            }
            DatabaseKind::Sqlite => (look(), None),
        })
    }

    /// How a restore takes hold of databases.
    pub(super) fn how(&self, terminate_connections: bool, names: Names) -> How<'_> {
        How { patience: PATIENCE, terminate_connections, names, cancel: self.cancel() }
    }

    /// How a restore reads databases.
    pub(crate) fn reading(&self) -> Result<Reading<'_>> {
        Ok(Reading {
            id: self.require_known()?,
            trigger: Trigger::PreRestore,
            read: None,
            distrust: false,
            watch: Watch {
                cancel: self.cancel(),
                bytes: self.progress().bytes(Phase::ReadingDatabases),
            },
        })
    }
}

/// What is to be done to each, now that it is known what they hold. Those that need nothing are let
/// go.
pub(crate) fn plan_databases(
    holdings: &mut Holdings,
    wish: Option<&DatabaseWish>,
) -> DatabasesPlanned {
    let mut planned = DatabasesPlanned {
        conflicts: std::mem::take(&mut holdings.conflicts),
        warnings: std::mem::take(&mut holdings.warnings),
        ..DatabasesPlanned::default()
    };
    let left = wish.and_then(|wish| wish.left.as_ref());
    holdings.all.retain(|holding| {
        let (name, target) = (&holding.named.name, &holding.target);
        if let Some(reason) = &holding.unreadable {
            let mut advice = Vec::new();
            let more = match target.kind {
                // Its bytes would be kept as a file, and a checkpoint holds files of the workspace
                // alone.
                DatabaseKind::Sqlite if holding.damaged.is_some() && holding.path().is_none() => {
                    let place = &holding.named.place;
                    format!(
                        "; it lies outside the workspace, where no checkpoint can keep its bytes: move it \
                         away (mv {place} {place}.damaged), and the restore makes it anew"
                    )
                }
                DatabaseKind::Sqlite if holding.damaged.is_some() => {
                    "; move it away, and it is made anew".to_owned()
                }
                DatabaseKind::Command => {
                    advice.push(Advice::AllowUnsaved { name: name.clone() });
                    String::new()
                }
                _ => String::new(),
            };
            let reason = format!("it cannot be saved first: {reason}{more}");
            planned.conflicts.push(conflict(name, reason).with(advice));
            return false;
        }
        let from = holding.now.as_ref().map(|now| now.digest.clone());
        let settings = other_settings(holding.now.as_ref(), target);
        planned.warnings.extend(settings.map(|said| format!("database {name}: {said}")));
        if from.as_ref() == Some(&target.digest) {
            return false;
        }
        if let Some(reason) = &holding.unsaved {
            planned.warnings.push(format!(
                "what {name} holds now is not saved, and undo cannot bring it back: {reason}"
            ));
        } else if let Some(left) = left
            && let Some(before) = left.iter().find(|part| part.name == *name)
        {
            match holding.since(&before.digest) {
                Since::Untouched => {}
                Since::Unknown => planned.warnings.push(format!(
                    "{name}: its command never gives the same twice, so nobody can tell whether it was \
                     changed since; what it gives now is saved first"
                )),
                Since::Changed => {
                    let reason = "it was changed since; it is kept";
                    planned.edited.push(conflict(name, reason).with(Advice::Overwrite));
                    return false;
                }
            }
        }
        if from.is_none()
            && target.kind == DatabaseKind::Postgres
            && target.definition.is_none()
        {
            planned.warnings.push(format!(
                "database {name} is made anew with the server's defaults: its owner, encoding and \
                 settings (ALTER DATABASE) are not known"
            ));
        }
        let about = |sentence: &String| format!("database {name}: {sentence}");
        planned.warnings.extend(target.left_out.iter().map(about));
        let lines = match (holding.is_displaced, &holding.unsaved) {
            (true, _) => vec![
                "it is damaged: its bytes are saved as a file, and it will be made anew".into(),
            ],
            (false, None) => differences(holding.now.as_ref(), target),
            (false, Some(_)) => vec!["what it holds now is not saved, and will be lost".into()],
        };
        if holding.is_displaced {
            planned.displaced.extend(holding.files());
        }
        let is_there = from.is_some() || holding.is_displaced || holding.unsaved.is_some();
        let action = if is_there { ActionKind::Overwrite } else { ActionKind::Create };
        planned.actions.push(Action {
            facet: Facet::Databases,
            action,
            path: path_of(name),
            reason: lines.join("; "),
            old: None,
            new: None,
        });
        planned.details.extend(lines.into_iter().map(|line| format!("{name}: {line}")));
        planned.plan.push(DatabasePlan {
            name: name.clone(),
            kind: target.kind,
            place: holding.named.place.clone(),
            from,
            to: target.digest.clone(),
            ticket: holding.restoring.as_ref().and_then(|restoring| restoring.ticket()),
        });
        true
    });
    let names: Vec<&str> = planned.plan.iter().map(|plan| plan.name.as_str()).collect();
    planned.summary = (!names.is_empty()).then(|| names.join(", "));
    planned
}

/// Commands that said that they had loaded what they were given, and give what they gave before.
pub(crate) fn not_loaded(plans: &[DatabasePlan], left: &[UndoDatabase]) -> Vec<Conflict> {
    let commands = plans.iter().zip(left).filter(|(plan, _)| plan.kind == DatabaseKind::Command);
    let unmoved = commands.filter(|(plan, left)| {
        plan.from.is_some() && left.left == plan.from.as_ref().map(ToString::to_string)
    });
    unmoved
        .map(|(plan, _)| {
            let reason = "its restore command ended without an error, but what its capture command gives is \
                          what it was before; does it read its standard input?";
            conflict(&plan.name, reason)
        })
        .collect()
}

/// What is said of settings (`ALTER DATABASE … SET`) that a database which is there has otherwise than the checkpoint.
fn other_settings(now: Option<&DatabasePart>, then: &DatabasePart) -> Option<String> {
    let (now, then) = (now?.definition.as_ref()?, then.definition.as_ref()?);
    let of = |all: &DatabaseDefinition, one: &DatabaseSetting| {
        let mut found = all.settings.iter();
        found.find(|other| (&other.role, &other.name) == (&one.role, &one.name)).cloned()
    };
    let mut all: Vec<&DatabaseSetting> = then.settings.iter().chain(&now.settings).collect();
    all.sort_by_key(|one| (&one.name, &one.role));
    all.dedup_by_key(|one| (&one.name, &one.role));
    let differs = all.into_iter().filter(|one| of(now, one) != of(then, one));
    let told = differs.map(|one| match of(then, one) {
        Some(DatabaseSetting { value: Some(value), .. }) => format!("{} = {value}", one.name),
        Some(_) => one.name.clone(),
        None => format!("no {}", one.name),
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        format!(
            "its settings (ALTER DATABASE … SET) are left as they are now; the checkpoint has {}",
            told.join(", ")
        )
    })
}

/// Table by table, what there is at the checkpoint and what there is now.
pub(crate) fn differences(now: Option<&DatabasePart>, then: &DatabasePart) -> Vec<String> {
    let Some(now) = now else { return vec!["it is gone and will be made anew".into()] };
    if then.kind == DatabaseKind::Command {
        let (then, now) = (format_size(then.bytes), format_size(now.bytes));
        return vec![format!("other content, {then} (now {now})")];
    }
    let mut lines = Vec::new();
    let count = |part: &DatabasePart, table: &String| part.row_counts.get(table).copied();
    let rows = |part: &DatabasePart, table: &String| match count(part, table) {
        Some(1) => "1 row".to_owned(),
        Some(rows) => format!("{} rows", thousands(rows)),
        None => "? rows".to_owned(),
    };
    for table in &then.tables {
        if !now.tables.contains(table) {
            lines.push(format!("{table}: new, {}", rows(then, table)));
        } else if count(then, table) != count(now, table) {
            let number = |part| count(part, table).map_or_else(|| "?".into(), thousands);
            lines.push(format!("{table}: {} (now {})", number(then), number(now)));
        }
    }
    for table in now.tables.iter().filter(|table| !then.tables.contains(table)) {
        lines.push(format!("{table}: deleted (now {})", rows(now, table)));
    }
    if lines.is_empty() {
        lines.push(match then.kind {
            DatabaseKind::Command => "its content differs".into(),
            _ => "other definitions, or other values in as many rows".into(),
        });
    }
    lines
}

pub(super) fn conflict(name: &str, reason: impl Into<String>) -> Conflict {
    Conflict::of_database(path_of(name), reason)
}

/// A database's name where a path is expected.
fn path_of(name: &str) -> RelPath {
    RelPath::new(name).or_else(|_| RelPath::new("database")).expect("a plain name is a path")
}
