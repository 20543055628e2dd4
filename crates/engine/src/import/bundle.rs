//! Taking in a bundle, our own portable form: the half that knows what is in one.
//!
//! A [`Bundle`] was checked as a whole when it was opened. Its objects go into a run as they are;
//! its manifests, journals and labels get the names that the lineage gives them. Nothing is visible
//! before the caller commits the run.

use rappel_store::bundle::{Bundle, Part};
use rappel_store::record::Kind;
use rappel_store::sink::{Role, Sink};
use rappel_store::{NewRecord, Writer};
use rappel_types::agents::{Body, Event, SessionId, SessionStatus, payload};
use rappel_types::manifest::WorkspacePart;
use rappel_types::{CheckpointId, Manifest};

use crate::error::{Error, Result};

/// How what is in a bundle is called here.
pub(crate) struct Names<'a> {
    /// The lineage, in the place of the workspace: the lineage's id, and the folder and the name of
    /// the workspace that it is imported into.
    pub workspace: WorkspacePart,
    /// A checkpoint's name here; `None` for one that is neither taken in nor known from before.
    pub checkpoint: &'a dyn Fn(&CheckpointId) -> Option<CheckpointId>,
    /// A session's name here.
    pub session: &'a dyn Fn(&SessionId) -> SessionId,
}

/// Puts every object of a bundle into a run. `progress` is told how many, and may stop it.
pub(crate) fn take_objects(
    writer: &Writer<'_>,
    bundle: &Bundle,
    progress: &mut dyn FnMut(u64) -> rappel_store::Result<()>,
) -> Result<()> {
    let mut count = 0;
    bundle.each_object(&mut |_, bytes| {
        count += 1;
        progress(count)?;
        // Nodes, lists of chunks and states of sessions: what a plan has to read again.
        let is_structure = [&b"RTR"[..], b"RCL", b"RSS"].iter().any(|one| bytes.starts_with(one));
        let role = if is_structure { Role::Structure } else { Role::Content };
        writer.put(role, bytes, None).map(drop)
    })?;
    Ok(())
}

/// A manifest as it is called here, with its number in the lineage. Paths of other work trees stay
/// as they were recorded; they are foreign.
pub(crate) fn manifest(original: &Manifest, sequence: u64, names: &Names<'_>) -> Result<Manifest> {
    let mut manifest = original.clone();
    let id = (names.checkpoint)(&original.id).ok_or_else(|| Error::Damaged {
        message: format!("{} has no name in the lineage", original.id),
    })?;
    manifest.parent = original.parent.as_ref().and_then(|parent| (names.checkpoint)(parent));
    manifest.sequence = sequence;
    manifest.workspace = names.workspace.clone();
    manifest.session_id = original.session_id.as_ref().map(|session| match session.parse() {
        Ok(session) => (names.session)(&session).to_string(),
        Err(_) => session.clone(),
    });
    for database in &mut manifest.databases {
        let read_with = database.as_of.as_ref().and_then(|one| (names.checkpoint)(one));
        database.as_of = Some(read_with.unwrap_or_else(|| id.clone()));
    }
    if let Some(agents) = &mut manifest.agents {
        agents.active_count = 0;
        for session in &mut agents.sessions {
            session.id = (names.session)(&session.id);
            // It names the session as it was called there. The journal says the same.
            session.snapshot = None;
        }
    }
    manifest.id = id;
    Ok(manifest)
}

/// The journals and labels of a bundle as they are called here. Every session has ended: nothing
/// here goes on with it.
pub(crate) fn documents(bundle: &Bundle, names: &Names<'_>) -> Result<Vec<NewRecord>> {
    let mut records = Vec::new();
    let mut last: Option<(SessionId, Event)> = None;
    for document in bundle.documents() {
        if document.kind == Part::Label {
            let about = document.key.parse().ok();
            if let Some(about) = about.and_then(|about: CheckpointId| (names.checkpoint)(&about)) {
                let (kind, key) = (Kind::Label, about.to_string());
                records.push(NewRecord::Document { kind, key, json: document.json.clone() });
            }
            continue;
        }
        let bad = |what: String| Error::Damaged { message: format!("the bundle: {what}") };
        let session: SessionId =
            document.key.parse().map_err(|error| bad(format!("a session: {error}")))?;
        let event = Event::parse(&document.json)
            .map_err(|error| bad(format!("an event of {session}: {error}")))?;
        if let Some((before, event)) = last.take_if(|(before, _)| *before != session) {
            records.extend(end(&before, &event, names));
        }
        records.push(record(&session, &renamed(event.clone(), names), names));
        last = Some((session, event));
    }
    if let Some((session, event)) = last {
        records.extend(end(&session, &event, names));
    }
    Ok(records)
}

fn record(session: &SessionId, event: &Event, names: &Names<'_>) -> NewRecord {
    let key = (names.session)(session).to_string();
    NewRecord::Document { kind: Kind::Event, key, json: event.to_json() }
}

/// The end of a session whose last event this is, unless it is one.
fn end(session: &SessionId, last: &Event, names: &Names<'_>) -> Option<NewRecord> {
    if matches!(last.body, Body::SessionEnded(_)) {
        return None;
    }
    let (status, exit) = (SessionStatus::Completed, None);
    let reason = Some("imported".to_owned());
    let body = Body::SessionEnded(payload::SessionEnded { status, reason, exit });
    let number = last.number + 1;
    let event = Event { number, fork: last.fork, at: last.at, id: None, body };
    Some(record(session, &event, names))
}

/// An event with the names of here, and without processes of another machine.
fn renamed(mut event: Event, names: &Names<'_>) -> Event {
    let checkpoint = |id: &mut CheckpointId| {
        if let Some(here) = (names.checkpoint)(id) {
            *id = here;
        }
    };
    match &mut event.body {
        Body::SessionStarted(start) => {
            start.workspace = Some(names.workspace.id);
            start.process = None;
            start.parent = start.parent.as_ref().map(names.session);
        }
        Body::SessionResumed(resumed) => resumed.process = None,
        Body::Restored(restored) => checkpoint(&mut restored.checkpoint),
        Body::Checkpoint(made) => checkpoint(&mut made.checkpoint),
        _ => {}
    }
    event
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rappel_store::sink::Source;
    use rappel_store::verify::Scope;
    use rappel_testing::Project;
    use rappel_types::agents::NewEvent;
    use rappel_types::{RelPath, WorkspaceId};

    use super::*;
    use crate::{
        ExportOptions, ListFilter, OpenOptions, Rappel, RestoreOptions, SaveOptions, SessionStart,
        TemporalQuery,
    };

    /// Takes a bundle in under a lineage, as one commit: what the import into lineages does around
    /// this module.
    fn import(rappel: &Rappel, bundle: &Bundle, lineage: WorkspaceId, root: &str) {
        let known: Vec<&CheckpointId> = bundle.manifests().map(|one| &one.id).collect();
        let names = Names {
            workspace: WorkspacePart { id: lineage, root: root.into(), name: "here".into() },
            checkpoint: &|id| known.contains(&id).then(|| format!("rappel-{id}").parse().unwrap()),
            session: &|id| format!("rappel.{lineage}:{id}").parse().unwrap(),
        };
        let writer = rappel.store.begin().unwrap();
        take_objects(&writer, bundle, &mut |_| Ok(())).unwrap();
        let mut records = documents(bundle, &names).unwrap();
        for (sequence, original) in (1..).zip(bundle.manifests()) {
            let manifest = Box::new(manifest(original, sequence, &names).unwrap());
            records.push(NewRecord::Manifest { manifest, base: None });
        }
        let mut seen = rappel.evidence.document(lineage, None, rappel.now());
        seen.root = root.into();
        seen.inode = 0;
        records.push(crate::save::workspace_record(&seen).unwrap());
        writer.commit(|_| Ok(records)).unwrap();
    }

    fn export(rappel: &Rappel, id: &CheckpointId, path: &Path) {
        let reference = id.to_string().parse().unwrap();
        let options =
            ExportOptions { place: Some(path.to_owned()), ..ExportOptions::new(reference) };
        rappel.export(&options).unwrap();
    }

    #[test]
    fn a_bundle_is_all_there_in_another_home() {
        let there = Project::new().file("src/a.txt", "one\n").file("b.txt", "b\n");
        rappel_testing::git::git(there.root(), &["init", "-q", "-b", "main"]);
        rappel_testing::git::git(there.root(), &["add", "."]);
        rappel_testing::git::git(there.root(), &["commit", "-q", "-m", "first"]);
        let database = rusqlite::Connection::open(there.path("app.db")).unwrap();
        database.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").unwrap();
        drop(database);
        let homes = tempfile::tempdir().unwrap();
        let origin =
            Rappel::open(OpenOptions::new(there.root(), homes.path().join("there"))).unwrap();
        let start = SessionStart { task: Some("port".into()), ..SessionStart::default() };
        let (session, _) = origin.start_session(start).unwrap();
        let line =
            r#"{"kind": "hypothesis", "id": "h", "text": "it is the cache", "confidence": 0.5}"#;
        origin.record(&session, NewEvent::parse(line).unwrap()).unwrap();
        let save = SaveOptions {
            message: Some("all of it".into()),
            session: Some(session.to_string()),
            ..SaveOptions::default()
        };
        let saved = origin.save(&save).unwrap().checkpoint.manifest;
        // What happens later is not the checkpoint's.
        let line = r#"{"kind": "note", "text": "a later thought"}"#;
        origin.record(&session, NewEvent::parse(line).unwrap()).unwrap();
        origin.tag(&saved.id.to_string().parse().unwrap(), &["green".into()]).unwrap();
        let file = homes.path().join("x.rappel");
        export(&origin, &saved.id, &file);
        let (before, again) = (std::fs::metadata(&file).unwrap().len(), homes.path().join("y"));
        export(&origin, &saved.id, &again);
        #[allow(clippy::disallowed_methods, reason = "tests hold no database")]
        let bytes = |path: &Path| std::fs::read(path).unwrap();
        assert_eq!(bytes(&file), bytes(&again), "{before} bytes");

        let here = Project::new().file("mine.txt", "mine\n");
        let home = homes.path().join("here");
        let rappel = Rappel::open(OpenOptions::new(here.root(), &home)).unwrap();
        let bundle = Bundle::open(&file).unwrap();
        let lineage = WorkspaceId(0xabc);
        import(&rappel, &bundle, lineage, "/the/importing/folder");
        let report = rappel.store.verify(&Scope::All, None).unwrap();
        assert!(report.is_clean(), "{report:?}");

        let mut options = OpenOptions::new(here.root(), &home);
        options.workspace = Some(lineage.to_string());
        let foreign = Rappel::open(options).unwrap();
        let listed = foreign.list(&ListFilter::default()).unwrap().checkpoints;
        let [one] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!(one.manifest.id.as_str(), format!("rappel-{}", saved.id));
        assert_eq!(one.manifest.workspace.root, "/the/importing/folder");
        assert_eq!(one.manifest.description.as_deref(), Some("all of it"));
        assert_eq!(one.manifest.tags, ["green"]);
        assert_eq!(one.manifest.files.as_ref().unwrap().tree, saved.files.unwrap().tree);
        assert_eq!(one.manifest.git, saved.git);
        assert_eq!(one.manifest.databases.len(), 1);
        for database in &one.manifest.databases {
            assert_eq!(database.as_of.as_ref(), Some(&one.manifest.id));
            foreign.store.get(&database.tree).unwrap();
        }
        let reference = one.manifest.id.to_string().parse().unwrap();
        let mut text = Vec::new();
        let path: RelPath = "src/a.txt".parse().unwrap();
        foreign.cat(&reference, &path, &mut text).unwrap();
        assert_eq!(text, b"one\n");
        let to = homes.path().join("restored");
        foreign.restore_to(&reference, &to, &RestoreOptions::default()).unwrap();
        assert_eq!(bytes(&to.join("b.txt")), b"b\n");

        // The session knows what it knew, is over, and is not mixed up with one of this home.
        let query = TemporalQuery { checkpoint: Some(reference), ..TemporalQuery::default() };
        let then = foreign.query_at(&query).unwrap();
        assert!(then.session.as_str().starts_with("rappel.0000000000000abc:"));
        assert!(then.state.hypotheses.get("h").is_some() && then.state.notes.recent.is_empty());
        let live = foreign.store.look_up(|index| index.live_sessions(&lineage.to_string()));
        assert_eq!(live.unwrap(), [""; 0]);
        assert!(foreign.store.checkpoint(&saved.id).unwrap().is_none());
    }
}
