//! Bundles for the fuzz target, and for tests that take bundles apart.

use serde_json::{Value, json};

use crate::block::{self, Form, Item};
use crate::bundle::{Bundle, HEADER, encode_header};
use crate::codec::Effort;
use crate::pack::{Line, SEAL, encode_footer};
use crate::record::{self, Header, Kind, Packing};
use crate::sink::id_of;

/// A bundle's bytes as they are, and the same records with everything around them set right, so that
/// what is in them is reached.
pub fn bundle(bytes: &[u8]) {
    read(bytes.to_vec());
    let records = loose_records(bytes);
    let manifests = records.iter().filter(|(kind, _)| *kind == Kind::Manifest).count();
    read(forge_bundle(&records, u32::try_from(manifests).unwrap_or(u32::MAX)));
}

/// What was taken for a bundle can be read to its end.
fn read(bytes: Vec<u8>) {
    let Ok(bundle) = Bundle::from_bytes(bytes) else { return };
    let mut count = 0;
    let walked = bundle.each_object(&mut |id, bytes| {
        assert_eq!(id_of(bytes), *id, "bytes of another object");
        count += 1;
        Ok(())
    });
    assert!(walked.is_ok() && count == bundle.len());
    assert!(bundle.manifests().count() > 0);
}

/// The records that seem to be in a bundle, their payloads as they would be before compression.
fn loose_records(bytes: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    let mut records = Vec::new();
    let mut at = HEADER;
    while let Some(header) = bytes.get(at..).and_then(Header::parse) {
        let end = at.saturating_add(header.length() as usize);
        let Some(payload) = bytes.get(at + record::HEADER..end) else { break };
        let decoded = header.decode(payload, None).unwrap_or_else(|_| payload.to_vec());
        if let Some(kind) = header.kind.filter(|kind| *kind != Kind::Footer) {
            records.push((kind, decoded));
        }
        at = end;
    }
    records
}

/// A bundle of these records, whatever they say: sealed, and with every checksum right.
pub fn forge_bundle(records: &[(Kind, Vec<u8>)], checkpoints: u32) -> Vec<u8> {
    let mut bytes = encode_header(checkpoints).to_vec();
    let mut lines = Vec::new();
    for (kind, payload) in records {
        let Ok(record) = record::encode(*kind, 0, payload, Packing::Raw) else { continue };
        lines.push(Line::of(&record, bytes.len() as u64));
        bytes.extend_from_slice(&record);
    }
    let at = bytes.len() as u64;
    let footer = record::encode(Kind::Footer, 0, &encode_footer(&lines), Packing::Raw);
    bytes.extend_from_slice(&footer.unwrap_or_default());
    bytes.extend_from_slice(&at.to_le_bytes());
    bytes.extend_from_slice(&SEAL);
    bytes
}

/// The kept corpus of the target: bundles that are valid, and such as somebody who means ill would
/// make. Their texts are not compressed, so that a mutation changes them and nothing else.
pub fn bundle_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let text = b"one\n".to_vec();
    let leaf = leaf(b"a.txt", &text);
    let dot_dot = self::leaf(b"../up", &text);
    let first = manifest("chk_1", 1, &leaf);
    let second = manifest("chk_2", 2, &leaf);
    let label = (Kind::Label, br#"["chk_1",{"version":1,"add":["green"]}]"#.to_vec());
    let event = (Kind::Event, EVENT.as_bytes().to_vec());
    let objects = |list: &[&Vec<u8>]| (Kind::Block, pack(list));
    let both = objects(&[&leaf, &text]);
    let manifest_of = |json: &Value| (Kind::Manifest, json.to_string().into_bytes());
    let one = [manifest_of(&first), label.clone(), event.clone(), both.clone()];
    let two =
        [manifest_of(&first), manifest_of(&second), label.clone(), event.clone(), both.clone()];
    let mut again = two.clone();
    again[1] = manifest_of(&manifest("chk_1", 2, &leaf));
    let smuggled = objects(&[&leaf, &text, &b"smuggled".to_vec()]);
    let outside =
        [manifest_of(&manifest("chk_1", 1, &dot_dot)), event.clone(), objects(&[&dot_dot, &text])];
    let mut later = forge_bundle(&one, 1);
    later[8] = 2;
    vec![
        ("one", forge_bundle(&one, 1)),
        ("two", forge_bundle(&two, 2)),
        ("torn", forge_bundle(&one, 1)[..400].to_vec()),
        ("later-version", later),
        (
            "object-missing",
            forge_bundle(&[manifest_of(&first), event.clone(), objects(&[&leaf])], 1),
        ),
        ("object-too-many", forge_bundle(&[manifest_of(&first), event.clone(), smuggled], 1)),
        ("journal-missing", forge_bundle(&[manifest_of(&first), both.clone()], 1)),
        ("id-twice", forge_bundle(&again, 2)),
        ("out-of-order", forge_bundle(&[both, manifest_of(&first), event, label], 1)),
        ("dot-dot", forge_bundle(&outside, 1)),
        ("nothing", forge_bundle(&[], 1)),
    ]
}

const EVENT: &str = r#"["ses_1",{"version":1,"number":1,"at":"2026-11-15T14:30:22.000Z","kind":"session-started","data":{"task":"port"}}]"#;

fn manifest(id: &str, sequence: u64, tree: &[u8]) -> Value {
    json!({
        "version": 1, "id": id, "sequence": sequence, "parent": null,
        "created_at": "2026-11-15T14:30:22.250Z", "trigger": "manual",
        "description": "before the move", "tags": [], "environment": null, "session_id": "ses_1",
        "workspace": {"id": "0000000000000007", "root": "/home/me/app", "name": "app"},
        "facets": {"files": "captured", "agents": "captured"}, "partial": false,
        "files": {"tree": id_of(tree).to_string(), "count": 1, "bytes": 4, "added": 1,
            "modified": 0, "deleted": 0, "skipped": [],
            "rules": {"git": false, "max_file_size": 268_435_456}},
        "git": null, "databases": [],
        "agents": {"active_count": 1, "sessions": [{"id": "ses_1", "conversation_id": null,
            "assistant_session_id": null, "provider": null, "status": "running", "fork": 0,
            "event": 1}]},
        "knowledge": null, "process": null, "metadata": {},
        "cost": {"wall_ms": 0.0, "new_bytes": 0},
    })
}

/// A leaf with one file.
fn leaf(path: &[u8], content: &[u8]) -> Vec<u8> {
    let mut bytes = b"RTR\x01\x00\x01\x00".to_vec();
    bytes.push(path.len() as u8);
    bytes.extend_from_slice(path);
    bytes.push(1);
    crate::varint::write(&mut bytes, 0o644);
    crate::varint::write(&mut bytes, content.len() as u64);
    bytes.extend_from_slice(&id_of(content).0);
    bytes
}

fn pack(objects: &[&Vec<u8>]) -> Vec<u8> {
    let item = |bytes: &&Vec<u8>| Item {
        id: id_of(bytes),
        birth: 0,
        form: Form::Shared((*bytes).clone()),
    };
    let items: Vec<Item> = objects.iter().map(item).collect();
    block::encode(&items, Effort::Fast).unwrap_or_default()
}
