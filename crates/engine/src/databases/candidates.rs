//! Which databases of a checkpoint a restore is about: where each is today, and what is in the way.

use rappel_capture::databases::Error as DatabaseError;
use rappel_store::document::UndoDatabase;
use rappel_store::tree;
use rappel_types::Advice;
use rappel_types::Manifest;
use rappel_types::Remark;
use rappel_types::database::{DatabaseKind, DatabasePart};

use super::memo::Memo;
use super::plan::{DatabaseWish, Holding, Holdings};
use super::sources::Named;
use super::{known_unchanged, lacking};
use crate::error::{Error, Result, database_advice, plain_if};
use crate::rappel::Rappel;

/// More than this fit into no intent.
const MOST: usize = 255;

/// What becomes of one database.
enum Candidate {
    /// It may have to be restored; there may be something to say about that.
    Meant(Box<Holding>, Option<String>),
    /// It holds the same already.
    Same,
    /// It is left alone, and this is said.
    Left(Remark),
    /// Nothing can be restored because of it.
    Barred(Remark),
}

/// What was found out about the others.
struct Others<'a> {
    memo: Memo,
    seen: Vec<Seen<'a>>,
}

/// One that was looked at.
struct Seen<'a> {
    part: &'a DatabasePart,
    place: String,
    identity: Option<String>,
}

impl Rappel {
    /// The databases of a checkpoint that a restore is about, where they are today, and what is in
    /// the way. Those that hold the same already are not among them.
    pub(super) fn candidates(&self, target: &Manifest, wish: &DatabaseWish) -> Result<Holdings> {
        check_names(target, wish)?;
        let mut found = Holdings::default();
        found.warnings = self.not_held(target, wish).into();
        let memo = self.database_memo(&self.reading()?)?;
        let mut others = Others { memo, seen: Vec::new() };
        let parts = self.in_order_of_claim(target, wish);
        for part in &parts {
            // To ask a server costs some milliseconds.
            let alone = parts.iter().filter(|other| other.kind == part.kind).count() == 1;
            match self.candidate(part, target, wish, &mut others, alone)? {
                Candidate::Meant(holding, said) => {
                    found.all.push(*holding);
                    found.warnings.extend(said);
                }
                Candidate::Same => {}
                Candidate::Left(said) => found.warnings.push(said),
                Candidate::Barred(reason) => found.conflict(&part.name, reason),
            }
        }
        found.all.sort_by_key(|holding| holding.named.kind);
        if found.all.len() > MOST {
            return Err(Error::Usage {
                message: format!("more than {MOST} databases cannot be restored at once"),
                advice: vec![Advice::FewerDatabases],
            });
        }
        Ok(found)
    }

    /// What the checkpoint lacks of what there is, or of what is to be taken back.
    fn not_held(&self, target: &Manifest, wish: &DatabaseWish) -> Vec<String> {
        let mut said = Vec::new();
        let held = |name: &str| target.databases.iter().any(|part| part.name == name);
        // One that was damaged then is held as the file that it was.
        let is_file = |place: &str| {
            let (files, path) = (target.files.as_ref(), place.parse().ok());
            let node = files
                .zip(path)
                .map(|(files, path)| tree::lookup(self.source(), &files.tree, &path));
            matches!(node, Some(Ok(Some(_))))
        };
        let id = &target.id;
        let configured: Vec<(String, String)> = self
            .configured_databases()
            .into_iter()
            .map(|source| {
                source.map_or_else(|(name, _)| (name, String::new()), |one| (one.name, one.place))
            })
            .collect();
        for (name, place) in &configured {
            if !held(name) && wish.means(name) && !is_file(place) {
                said.push(format!("{id} does not hold database {name}; it is left alone"));
            }
        }
        let is_configured = |name: &str| configured.iter().any(|(one, _)| one == name);
        let lacking = lacking(target).filter(|name| wish.means(name) && !is_configured(name));
        for name in lacking.filter(|name| !is_file(name)) {
            said.push(format!(
                "{id} does not hold {name}, which could not be captured then; it is left alone"
            ));
        }
        for one in wish.touched.iter().flatten() {
            if !held(&one.name) && !is_file(&one.place) {
                let name = &one.name;
                said.push(format!("database {name}, which that restore made, is left as it is"));
            }
        }
        said
    }

    /// Those that are meant. Those that are where they were come first: they have the better claim to a place.
    fn in_order_of_claim<'m>(
        &self,
        target: &'m Manifest,
        wish: &DatabaseWish,
    ) -> Vec<&'m DatabasePart> {
        let all = target.databases.iter();
        let mut parts: Vec<_> = all.filter(|part| wish.means(&part.name)).collect();
        parts.sort_by_key(|part| {
            let here = |named: Named| Some(&named.place) == part.location.as_ref();
            !self.database_of(part).is_some_and(|source| source.is_ok_and(here))
        });
        parts
    }

    fn candidate<'p>(
        &self,
        part: &'p DatabasePart,
        target: &Manifest,
        wish: &DatabaseWish,
        others: &mut Others<'p>,
        alone: bool,
    ) -> Result<Candidate> {
        let name = &part.name;
        if target.is_foreign() && !wish.trust_dump {
            let text = format!(
                "the dump of database {name} came from elsewhere, and loading it runs what it \
                 says; it is left out"
            );
            return Ok(Candidate::Left(Remark::new(text, Advice::TrustDump)));
        }
        if part.stale && !wish.allow_stale {
            let of = part.as_of.as_ref().map(|of| format!(" ({of})")).unwrap_or_default();
            let text = format!(
                "database {name} was not read for this checkpoint; it has one of an earlier \
                 moment{of}, which is left alone"
            );
            return Ok(Candidate::Left(Remark::new(text, Advice::AllowStale)));
        }
        if part.kind == DatabaseKind::Sqlite && part.bytes == 0 {
            let text = format!(
                "{name} was a file of no bytes; what is there now is left alone, delete it if that is wanted"
            );
            return Ok(Candidate::Left(text.into()));
        }
        let touched = wish.touched_by_name(name);
        let was_at = touched.map(|one| one.place.as_str());
        let named = match (self.database_at_place(part, was_at, target), was_at) {
            (Some(Ok(named)), _) => named,
            (Some(Err((_, error))), _) => {
                let advice = database_advice(&error);
                return Ok(Candidate::Barred(Remark::new(error.to_string(), advice)));
            }
            (None, Some(place)) => {
                let reason = format!(
                    "rappel.toml and the environment do not lead to {place} any more, where it was; with that \
                     address again it can be taken back"
                );
                return Ok(Candidate::Barred(reason.into()));
            }
            (None, None) => {
                let said =
                    format!("database {name} is not in rappel.toml any more; it is left alone");
                return Ok(Candidate::Left(said.into()));
            }
        };
        let identity = if alone { None } else { named.database.identity() };
        let seen = Seen { part, place: named.place.clone(), identity };
        if let Some(twin) = others.seen.iter().find(|other| other.is_twin_of(&seen)) {
            return Ok(seen.beside(twin));
        }
        others.seen.push(seen);
        if known_unchanged(&named, &others.memo).is_some_and(|now| now.digest == part.digest) {
            return Ok(Candidate::Same);
        }
        if let Some(reason) = self.forbidden(&named, part, target, wish)? {
            return Ok(Candidate::Barred(reason));
        }
        let moved = part.location.as_ref().filter(|then| was_at.is_none() && **then != named.place);
        let now = &named.place;
        let said = match moved {
            None => None,
            Some(then) if wish.only.contains(name) => Some(format!(
                "{name} was {then} then, and is {now} now; the restore replaces what is there"
            )),
            Some(then) => {
                let text = format!("it was {then} then, and is {now} now");
                let advice = vec![Advice::AllowMoved { name: name.clone() }, Advice::SkipDatabases];
                return Ok(Candidate::Barred(Remark::new(text, advice)));
            }
        };
        let mut holding = since(named, part, touched);
        holding.allow_unsaved = wish.allow_unsaved.contains(name);
        Ok(Candidate::Meant(Box::new(holding), said))
    }

    /// Why it may not be restored, if so.
    fn forbidden(
        &self,
        named: &Named,
        part: &DatabasePart,
        target: &Manifest,
        wish: &DatabaseWish,
    ) -> Result<Option<Remark>> {
        let name = &part.name;
        if !named.database.is_local() && !wish.allow_remote.contains(name) {
            let advice = vec![Advice::AllowDatabase { name: name.clone() }, Advice::SkipDatabases];
            return Ok(Some(Remark::new("it is not on this machine", advice)));
        }
        if wish.with_files
            && let Some(script) = self.untrusted_script_in(name, target)
        {
            let text = format!(
                "the checkpoint brings back {script}, which it would run and you have not allowed"
            );
            return Ok(Some(Remark::new(text, Advice::SkipDatabasesThenTrust)));
        }
        match named.database.check(self.source(), part) {
            Err(DatabaseError::Refused { message, mut advice }) => {
                advice.push(Advice::WriteDump { checkpoint: target.id.to_string() });
                Ok(Some(Remark::new(message, advice)))
            }
            // What is not there, or cannot be asked, is found out when it is taken hold of.
            Err(
                DatabaseError::Absent(_)
                | DatabaseError::Unavailable(_)
                | DatabaseError::NoProgram(_),
            )
            | Ok(()) => Ok(None),
            Err(error) => Err(Error::Database { name: name.clone(), error }),
        }
    }
}

impl Seen<'_> {
    /// Whether both are one database.
    fn is_twin_of(&self, other: &Self) -> bool {
        self.part.kind == other.part.kind
            && self.part.kind != DatabaseKind::Command
            && (self.place == other.place
                || (self.identity.is_some() && self.identity == other.identity))
    }

    /// What becomes of it where its twin is restored.
    fn beside(&self, twin: &Self) -> Candidate {
        let (name, other) = (&self.part.name, &twin.part.name);
        if self.place != twin.place {
            if self.part.digest == twin.part.digest {
                let text = format!("{name} is the same database as {other}, which stands for both");
                return Candidate::Left(text.into());
            }
            let text = format!(
                "it is the same database as {other} now, and the checkpoint holds two contents"
            );
            let names = vec![other.clone(), name.clone()];
            return Candidate::Barred(Remark::new(text, Advice::ChooseDatabase { names }));
        }
        let at = &self.place;
        if self.part.location.as_ref() == Some(at) {
            let text = format!("{name} is {at}, which is restored under its other name already");
            return Candidate::Left(text.into());
        }
        let text = format!("it is {at} now, which the checkpoint holds as another one");
        Candidate::Barred(text.into())
    }
}

/// Who names a database that the checkpoint does not hold has made a mistake.
pub(crate) fn check_names(target: &Manifest, wish: &DatabaseWish) -> Result<()> {
    let is_command = |name: &&String| {
        let mut parts = target.databases.iter();
        parts.any(|part| part.name == **name && part.kind == DatabaseKind::Command)
    };
    if let Some(other) = wish.allow_unsaved.iter().find(|name| !is_command(name)) {
        return Err(Error::Usage {
            message: format!("{} holds nothing of a command {other:?}", target.id),
            advice: vec![Advice::AllowUnsavedNames],
        });
    }
    let held = |name: &&String| target.databases.iter().any(|part| part.name == **name);
    let Some(unknown) = wish.only.iter().find(|name| !held(name)) else { return Ok(()) };
    let names: Vec<_> = target.databases.iter().map(|part| part.name.as_str()).collect();
    Err(Error::Usage {
        message: format!("{} holds no database {unknown:?}", target.id),
        advice: plain_if(!names.is_empty(), || format!("it holds {}", names.join(", "))),
    })
}

/// A database, with what is known of it since the restore that is taken back.
fn since(named: Named, part: &DatabasePart, touched: Option<&UndoDatabase>) -> Holding {
    let left = touched.and_then(|one| one.left.clone());
    let untouched = left.as_ref().is_some_and(|left| {
        named.database.fingerprint().is_ok_and(|now| now.is_some_and(|now| now.0 == *left))
    });
    let loaded = touched.and_then(|one| one.loaded.clone());
    let after = loaded.or(left.filter(|_| named.kind == DatabaseKind::Command));
    Holding { untouched, after, ..Holding::new(named, part.clone()) }
}
