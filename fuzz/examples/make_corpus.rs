//! Writes the kept corpus: small inputs for every target, valid ones and such as somebody who means
//! ill would make. Run it in `fuzz/` with `cargo run --example make_corpus` after a format changed;
//! files that a fuzzer added stay.

use std::path::Path;

use rappel_store::block::{self, Form, Item};
use rappel_store::codec::{self, Effort};
use rappel_store::content::{Chunk, ChunkList};
use rappel_store::record::{self, HEADER, Kind, Packing};
use rappel_store::sink::id_of;
use rappel_store::varint;
use rappel_types::ObjectId;

fn keep(target: &str, name: &str, bytes: impl AsRef<[u8]>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder).expect("the corpus can be written");
    std::fs::write(folder.join(name), bytes).expect("the corpus can be written");
}

/// The input, and cut short in the middle.
fn keep_with_torn(target: &str, name: &str, bytes: &[u8]) {
    keep(target, name, bytes);
    keep(target, &format!("{name}-torn"), &bytes[..bytes.len() / 2]);
}

fn main() {
    records();
    blocks();
    trees();
    chunk_lists();
    manifests();
    commits();
    documents();
    references();
    moments();
    configurations();
    intents();
    for (name, bytes) in rappel_store::fuzz::bundle_seeds() {
        keep("bundle", name, bytes);
    }
}

fn records() {
    let text = "the same words again and again ".repeat(20);
    let label = record::encode(Kind::Label, 0, b"[\"k\",{}]", Packing::Raw).expect("a record");
    let squeezed = record::encode(Kind::Chunk, 9, text.as_bytes(), Packing::Zstd(Effort::Normal))
        .expect("a record");
    let against = Packing::Against(&id_of(b"base"), b"base");
    let against = record::encode(Kind::Manifest, 0, text.as_bytes(), against).expect("a record");
    keep_with_torn("record", "raw", &label);
    keep_with_torn("record", "zstd", &squeezed);
    keep("record", "against", &against);
    keep("record", "three", [&label[..], &squeezed, &against].concat());
    let mut hurt = [&label[..], &squeezed, &label].concat();
    hurt[label.len() + 20] ^= 1;
    keep("record", "hurt-in-the-middle", &hurt);
    // A record inside the payload of another, whose header is damaged.
    let mut nested = record::encode(Kind::Chunk, 0, &label, Packing::Raw).expect("a record");
    nested[40] ^= 1;
    keep("record", "record-in-a-record", &nested);
    let forged = |at: usize, bytes: &[u8]| {
        let mut record = squeezed.clone();
        record[at..at + bytes.len()].copy_from_slice(bytes);
        record::reborn(&record, 1)
    };
    keep("record", "unknown-kind", forged(5, &[200]));
    keep("record", "unknown-codec", forged(6, &[9]));
    keep("record", "later-version", forged(4, &[2]));
    keep("record", "absurd-raw-length", forged(16, &u64::MAX.to_le_bytes()));
    keep("record", "largest-raw-length", forged(16, &record::PAYLOAD_MAX.to_le_bytes()));
    keep("record", "absurd-stored-length", forged(24, &u64::MAX.to_le_bytes()));
    let mut birth = squeezed.clone();
    birth[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    keep("record", "absurd-birth", &birth);
    let bomb = codec::compress(&vec![0; 32 << 20], Effort::Fast).expect("a frame");
    let mut bombed = record::encode(Kind::Chunk, 0, &bomb, Packing::Raw).expect("a record");
    bombed[6] = 1;
    bombed[16..24].copy_from_slice(&100u64.to_le_bytes());
    keep("record", "bomb", record::reborn(&bombed, 1));
    keep("record", "only-magic", &label[..4]);
    keep("record", "only-header", &label[..HEADER]);
    keep("record", "empty", b"");
}

fn shared(bytes: &[u8]) -> Item {
    Item { id: id_of(bytes), birth: 0, form: Form::Shared(bytes.to_vec()) }
}

fn against(bytes: &[u8], base: &[u8], length: u64) -> Item {
    let frame = codec::compress_against(bytes, base).expect("a frame");
    let form = Form::Against { base: id_of(base), depth: 1, length, frame };
    Item { id: id_of(bytes), birth: 3, form }
}

fn blocks() {
    let block = |items: &[Item]| block::encode(items, Effort::Normal).expect("a block");
    let mixed = block(&[shared(b"one"), against(b"based", b"base", 5), shared(b"two")]);
    keep_with_torn("block", "mixed", &mixed);
    keep("block", "empty-block", block(&[]));
    keep("block", "one-empty-object", block(&[shared(b"")]));
    keep("block", "length-lies", block(&[against(b"based", b"base", 64 << 20)]));
    let own = against(b"loop", b"loop", 4);
    keep("block", "based-on-itself", block(&[own]));
    keep("block", "same-object-twice", block(&[shared(b"one"), shared(b"one")]));
    let mut later = mixed.clone();
    later[0] = 2;
    keep("block", "later-version", &later);
    let head = |count: u64, table: u64, shared: u64, frame: u64| {
        let mut bytes = vec![1];
        for number in [count, table, shared, frame] {
            varint::write(&mut bytes, number);
        }
        bytes
    };
    keep("block", "absurd-count", head(u64::MAX, 0, 0, 0));
    keep("block", "absurd-table", head(1, 1 << 40, 0, 0));
    keep("block", "absurd-frame", head(0, 0, 1 << 40, 1 << 40));
    let bomb = codec::compress(&vec![0; 16 << 20], Effort::Fast).expect("a frame");
    let mut line = id_of(b"x").0.to_vec();
    line.extend_from_slice(&[0, 0, 10]);
    let bombed = [&head(1, line.len() as u64, 10, bomb.len() as u64)[..], &line, &bomb].concat();
    keep("block", "bomb", bombed);
    keep("block", "empty", b"");
}

/// A node by hand, so that it can say what no writer would.
struct Node(Vec<u8>);

impl Node {
    fn new(level: u8, count: u64) -> Self {
        let mut bytes = b"RTR\x01".to_vec();
        bytes.push(level);
        varint::write(&mut bytes, count);
        Self(bytes)
    }

    fn path(mut self, shared: u64, rest: &[u8]) -> Self {
        varint::write(&mut self.0, shared);
        varint::write(&mut self.0, rest.len() as u64);
        self.0.extend_from_slice(rest);
        self
    }

    fn folder(self, path: &[u8]) -> Self {
        self.path(0, path).folder_here()
    }

    fn folder_here(mut self) -> Self {
        self.0.push(0);
        varint::write(&mut self.0, 0o755);
        self
    }

    fn file(self, path: &[u8]) -> Self {
        self.path(0, path).file_here(1, 0o644, 3)
    }

    fn file_here(mut self, tag: u8, mode: u64, size: u64) -> Self {
        self.0.push(tag);
        varint::write(&mut self.0, mode);
        varint::write(&mut self.0, size);
        self.0.extend_from_slice(&id_of(b"abc").0);
        self
    }

    fn link(self, path: &[u8], target: &[u8]) -> Self {
        let mut node = self.path(0, path);
        node.0.push(3);
        varint::write(&mut node.0, target.len() as u64);
        node.0.extend_from_slice(target);
        node
    }

    fn child(self, last: &[u8], entries: u64) -> Self {
        let mut node = self.path(0, last);
        varint::write(&mut node.0, entries);
        node.0.extend_from_slice(&[7; 32]);
        node
    }

    fn keep(self, name: &str) {
        keep("tree", name, self.0);
    }
}

fn trees() {
    let plain = Node::new(0, 4)
        .folder(b"a")
        .path(1, b"/x")
        .file_here(1, 0o755, 3)
        .path(0, b"big")
        .file_here(2, 0o644, 5 << 30)
        .link(b"link", b"../../etc/passwd");
    keep_with_torn("tree", "leaf", &plain.0);
    let inner = Node::new(2, 2).child(b"a/x", 3).child(b"z", 9);
    keep_with_torn("tree", "inner", &inner.0);
    Node::new(0, 0).keep("empty-leaf");
    Node::new(1, 0).keep("inner-without-children");
    Node::new(0, 1).file(b"../up").keep("dot-dot");
    Node::new(0, 1).file(b"a/../../up").keep("dot-dot-inside");
    Node::new(0, 1).file(b"/etc/passwd").keep("absolute");
    Node::new(0, 1).file(b"a//b").keep("empty-component");
    Node::new(0, 1).file(b"a/").keep("trailing-slash");
    Node::new(0, 1).file(b"a\0b").keep("nul");
    Node::new(0, 1).file(b"").keep("empty-path");
    Node::new(0, 1).file(b".git/config").keep("git");
    Node::new(0, 1).file(b"GIT~1/hooks/pre-commit").keep("git-in-disguise");
    Node::new(0, 1).file(&[b'x'; 300]).keep("name-too-long");
    Node::new(0, 1).file(&b"y/".repeat(3000)).keep("path-too-long");
    Node::new(0, 2).file(b"same").file(b"same").keep("twice");
    Node::new(0, 2).file(b"b").file(b"a").keep("unordered");
    Node::new(0, 2).file(b"README").file(b"readme").keep("folding");
    Node::new(0, 2).file(b"a").path(1, b"/below").file_here(1, 0o644, 3).keep("below-a-file");
    Node::new(0, 2).link(b"l", b"/tmp").path(1, b"/x").file_here(1, 0o644, 3).keep("below-a-link");
    Node::new(0, 1).link(b"l", b"").keep("link-to-nothing");
    Node::new(0, 1).link(b"l", b"a\0b").keep("link-with-nul");
    Node::new(0, 1).path(0, b"f").file_here(1, 0o7777, u64::MAX).keep("absurd-size");
    Node::new(0, 1).path(0, b"f").file_here(2, 0o644, u64::MAX).keep("absurd-chunked-size");
    Node::new(0, 1).path(0, b"f").file_here(1, 0o17_7777, 3).keep("absurd-mode");
    Node::new(0, 1).path(0, b"f").file_here(9, 0, 0).keep("unknown-kind");
    Node::new(0, u64::MAX).keep("absurd-count");
    Node::new(0, 3).file(b"a").keep("count-lies");
    Node::new(0, 1).path(5, b"x").folder_here().keep("shares-with-nothing");
    Node::new(0, 2).folder(b"ab").path(1, b"bc").folder_here().keep("shares-too-little");
    Node::new(8, 1).child(b"a", 1).keep("deepest");
    Node::new(9, 1).child(b"a", 1).keep("too-deep");
    Node::new(1, 2).child(b"b", 1).child(b"a", 1).keep("children-unordered");
    Node::new(1, 1).child(b"a", u64::MAX).keep("absurd-entries");
    let mut later = Node::new(0, 0);
    later.0[3] = 2;
    later.keep("later-version");
    let mut long_number = b"RTR\x01\x00".to_vec();
    long_number.extend_from_slice(&[0x80, 0x80, 0x00]);
    keep("tree", "number-not-shortest", long_number);
    keep("tree", "empty", b"");
}

fn chunk_lists() {
    let chunk = |length| Chunk { id: ObjectId([length as u8; 32]), length };
    let list = ChunkList(vec![chunk(1 << 20), chunk(70_000), chunk(5)]).encode();
    keep_with_torn("chunk_list", "list", &list);
    keep("chunk_list", "empty-list", ChunkList(Vec::new()).encode());
    keep("chunk_list", "chunk-too-long", ChunkList(vec![chunk((1 << 20) + 1)]).encode());
    keep("chunk_list", "absurd-chunk", ChunkList(vec![chunk(u64::MAX)]).encode());
    keep("chunk_list", "empty-chunk", ChunkList(vec![chunk(0)]).encode());
    // Read through a source that answers with the list itself, this one's length is right.
    keep("chunk_list", "holds-itself", ChunkList(vec![chunk(38); 2]).encode());
    let mut count = b"RCL\x01".to_vec();
    varint::write(&mut count, u64::MAX);
    keep("chunk_list", "absurd-count", &count);
    keep("chunk_list", "later-version", b"RCL\x02\x00");
    keep("chunk_list", "something-follows", [&list[..], b"x"].concat());
    keep("chunk_list", "empty", b"");
}

const MANIFEST: &str = r#"{"version":1,"id":"chk_20261115_143022_k7f3","sequence":42,"parent":null,
"created_at":"2026-11-15T14:30:22.250Z","trigger":"manual","description":"Before adding Stripe",
"tags":["green"],"environment":null,"variables":{"A":"b"},"session_id":null,
"workspace":{"id":"00000000000000ff","root":"/home/u/shop\\x20","name":"shop"},
"facets":{"files":"captured","git":"absent"},"partial":true,
"partial_reasons":[{"facet":"files","path":"secret/key","reason":"unreadable"}],
"mid_operation":[],"interrupted_restore":false,
"files":{"tree":"TREE","count":3,"bytes":9,"added":1,"modified":1,"deleted":0,
"skipped":[{"path":"huge.bin","reason":"too large"}],
"rules":{"git":true,"include":[".env"],"max_file_size":268435456,
"extra":[{"folder":null,"text":"*.o\n"}],"excluded_roots":["home"]}},
"git":null,"databases":[],"agents":null,"knowledge":null,"process":null,
"metadata":{"step":3,"ratio":0.1},"cost":{"wall_ms":12.5,"new_bytes":900}}"#;

fn manifests() {
    let manifest = MANIFEST.replace("TREE", &"ab".repeat(32)).replace('\n', "");
    keep_with_torn("manifest", "full", manifest.as_bytes());
    let edited = |name: &str, from: &str, to: &str| {
        assert!(manifest.contains(from), "{from}");
        keep("manifest", name, manifest.replacen(from, to, 1));
    };
    edited("later-version", "\"version\":1", "\"version\":99");
    edited("no-version", "\"version\":1,", "");
    edited("absurd-version", "\"version\":1", "\"version\":99999999999999");
    edited("id-is-a-path", "chk_20261115_143022_k7f3", "../../etc/passwd");
    edited("id-is-hidden", "chk_20261115_143022_k7f3", ".git");
    edited("id-with-nul", "chk_20261115_143022_k7f3", "chk_\\u0000");
    edited("own-parent", "\"parent\":null", "\"parent\":\"chk_20261115_143022_k7f3\"");
    edited("absurd-sequence", "\"sequence\":42", "\"sequence\":18446744073709551615");
    edited("negative-sequence", "\"sequence\":42", "\"sequence\":-1");
    edited("unknown-trigger", "\"manual\"", "\"moon-phase\"");
    edited("unknown-facet", "\"git\":\"absent\"", "\"moon\":\"captured\"");
    edited("unknown-state", "\"absent\"", "\"eaten\"");
    edited("unknown-key", "\"partial\":true", "\"later\":{\"deep\":[]},\"partial\":true");
    edited("same-key-twice", "\"partial\":true", "\"partial\":true,\"partial\":false");
    edited("short-tree", "abababab", "ab");
    edited("upper-case-tree", "abababab", "ABABABAB");
    edited("skipped-outside", "huge.bin", "../../huge.bin");
    edited("excluded-absolute", "[\"home\"]", "[\"/home\"]");
    edited("bad-escape", "huge.bin", "huge\\\\xZZ");
    edited("far-future", "2026-11-15T14:30:22.250Z", "9999-12-30T23:59:59.999999999Z");
    edited("before-time", "2026-11-15T14:30:22.250Z", "-9999-01-02T01:59:59Z");
    edited("no-moment", "2026-11-15T14:30:22.250Z", "yesterday");
    edited("infinite-cost", "12.5", "1e308");
    edited("absurd-cost", "12.5", "1e999");
    edited("absurd-bytes", "\"bytes\":9", "\"bytes\":18446744073709551615");
    edited("no-files", "\"git\":null,\"databases\"", "\"git\":{\"a\":[]},\"databases\"");
    keep("manifest", "deep", "[".repeat(10_000));
    keep("manifest", "not-utf8", b"{\"version\":1,\"id\":\"\xff\"}");
    keep("manifest", "empty", b"");
}

const COMMIT: &str = r#"{"version":1,"home":"00000000deadbeef","sequence":7,"generation":1,"at":"2026-11-15T14:30:22Z","previous":null,"length":900,"hash":"HASH","packs":[{"pack":"bulk-0123456789abcdef.pack","length":70000,"hash":"HASH","birth":3}],"retired":["log-0000000002.pack"],"kept":[1]}"#;

fn commits() {
    let commit = COMMIT.replace("HASH", &"cd".repeat(32));
    keep_with_torn("commit", "full", commit.as_bytes());
    let edited = |name: &str, from: &str, to: &str| {
        assert!(commit.contains(from), "{from}");
        keep("commit", name, commit.replacen(from, to, 1));
    };
    edited("later-version", "\"version\":1", "\"version\":99");
    edited("absurd-sequence", "\"sequence\":7", "\"sequence\":18446744073709551615");
    edited("absurd-generation", "\"generation\":1", "\"generation\":18446744073709551615");
    edited("absurd-length", "\"length\":900", "\"length\":18446744073709551615");
    edited("absurd-pack-length", "70000", "18446744073709551615");
    edited("absurd-birth", "\"birth\":3", "\"birth\":18446744073709551615");
    edited("pack-is-a-path", "bulk-0123456789abcdef.pack", "../../bulk.pack");
    edited("retired-is-a-path", "log-0000000002.pack", "/etc/passwd");
    edited(
        "retired-everything",
        "[\"log-0000000002.pack\"]",
        "[\"log-0000000001.pack\",\"log-9999999999.pack\"]",
    );
    edited("no-home", "\"home\":\"00000000deadbeef\",", "");
    keep("commit", "empty", b"");
}

fn documents() {
    let label = r#"["chk_1",{"version":1,"add":["green"],"pinned":true,"metadata":{"a":0.1}}]"#;
    keep_with_torn("document", "label", label.as_bytes());
    keep(
        "document",
        "tombstone",
        r#"["chk_1",{"version":1,"checkpoint":"chk_1","workspace":"00000000000000ff","sequence":3,"at":"2026-11-15T14:30:22Z","now":true}]"#,
    );
    keep(
        "document",
        "undo",
        r#"["00000000000000ff",{"version":1,"workspace":"00000000000000ff","kind":"undo","from":"chk_1","to":"chk_2","facets":["files"],"paths":["a/b","c\\x0a"],"at":"2026-11-15T14:30:22Z"}]"#,
    );
    keep(
        "document",
        "undo-outside",
        r#"["x",{"version":1,"workspace":"00000000000000ff","kind":"restore","from":"chk_1","to":"chk_2","facets":[],"paths":["../../etc"],"at":"2026-11-15T14:30:22Z"}]"#,
    );
    keep(
        "document",
        "workspace",
        r#"["00000000000000ff",{"version":1,"id":"00000000000000ff","root":"/home/u","inode":18446744073709551615,"file_system":"ext4-1","machine":"m","first_commit":null,"at":"2026-11-15T14:30:22Z"}]"#,
    );
    keep(
        "document",
        "loss",
        r#"["chk_1",{"version":1,"at":"2026-11-15T14:30:22Z","paths":["a"],"structure":true}]"#,
    );
    keep("document", "later-version", r#"["chk_1",{"version":99,"what":{"deep":[1,[2,[3]]]}}]"#);
    keep("document", "key-is-a-path", r#"["../../etc/passwd\u0000",{}]"#);
    keep("document", "odd-spaces", " [ \"k\" ,\n {\"a\" : 1 } ]\t");
    keep("document", "three-parts", r#"["k",{},{}]"#);
    keep("document", "no-array", r#"{"k":{}}"#);
    keep("document", "deep", format!("[\"k\",{}", "[".repeat(5000)));
    keep("document", "empty", b"");
}

fn references() {
    let texts = [
        "latest",
        "latest~2",
        "latest~2~~3",
        "42",
        "42~1",
        "chk_20261115_143022_k7f3",
        "chk_2",
        "@{2 hours ago}",
        "@{2026-11-15 14:30}~1",
        "@{now",
        "@{}",
        "aiwg:3",
        "tar:3",
        "aiwg:../3",
        "../../etc/passwd",
        "..",
        ".git",
        "a/b",
        "chk_1\0",
        "~",
        "~~~",
        "0",
        "18446744073709551616",
        "latest~4294967296",
        "latest:src/main.rs",
        "latest:../../etc/passwd",
        "latest:/etc/passwd",
        "latest:a\\x2f..",
        "latest:a\\",
        "@{14:00}:a:b",
        "@{yesterday 14:00}~1:x",
        "é~1",
        "latest\n",
        "",
    ];
    for (place, text) in texts.iter().enumerate() {
        keep("reference", &format!("{place:02}"), text);
    }
    keep("reference", "long", "x".repeat(250));
    keep("reference", "many-steps", format!("latest{}", "~9".repeat(90)));
    keep("reference", "not-utf8", b"latest\xff");
}

fn moments() {
    let texts = [
        "now",
        "today",
        "yesterday",
        "yesterday 14:00",
        "14:30",
        "9:05:59.123456789",
        "25:00",
        "2 hours ago",
        "an hour ago",
        "1h30m ago",
        "1 day 2 hours ago",
        "4294967295 years ago",
        "4294967296 seconds ago",
        "0 days ago",
        "2 hours",
        "ago",
        " ago",
        "2026-11-15",
        "2026-11-15 14:30",
        "2026-11-15T14:30:22.5+05:30",
        "2026-11-15 14:30:22 +0100",
        "0000-01-01",
        "9999-12-31",
        "9999-12-31T23:59:60Z",
        "2026-02-30",
        "2026-11-15T14:30-99:99",
        "-1 days ago",
        "1.5 hours ago",
        "é ago",
        "２ hours ago",
        "\u{0}",
        "",
    ];
    for (place, text) in texts.iter().enumerate() {
        keep("when", &format!("{place:02}"), text);
    }
    keep("when", "long", "1 day ".repeat(30));
    keep("when", "not-utf8", b"\xfe\xff");
}

fn configurations() {
    let full = rappel_types::config::commented_template(Some("staging"), &[".env".to_owned()]);
    keep_with_torn("config", "template", full.as_bytes());
    let texts = [
        (
            "set",
            "[files]\ninclude = [\"*.env\"]\nexclude = [\"**/x\"]\nmax_file_size = \"1GiB\"\n[store]\nmax_size = 5\nmin_free = \"0\"\n",
        ),
        ("unknown-keys", "colour = 1\n[files]\nmax_size = 1\n[shop]\n[store]\nmaxsize = 2\n"),
        ("wrong-types", "environment = 3\nfiles = []\n[store]\nmax_size = -1\nmin_free = 1e9\n"),
        (
            "absurd-sizes",
            "[store]\nmax_size = \"99999999999TiB\"\nmin_free = 99999999999999999999\n",
        ),
        ("zero", "[files]\nmax_file_size = 0\n[store]\nmax_size = \"0B\"\n"),
        ("twice", "[files]\n[files]\nenvironment = \"a\"\nenvironment = \"b\"\n"),
        ("key-steers-terminal", "\"\\u001b[31m\\n\" = 1\nenvironment = \"\\u001b[2J\"\n"),
        ("value-steers-terminal", "[store]\nmax_size = \"\\u001b[2J\\r\"\n"),
        ("raw-control", "environment = \"\u{1b}[2J\"\n\u{7}"),
        ("not-toml", "files:\n  include: [a]\n"),
        ("open-string", "environment = \"\"\"\nnever closed\n"),
        ("later-sections", "[[database]]\n[auto]\n[retention]\nkeep = 3\n[variables]\n"),
        ("numbers", "[store]\nmax_size = 0x_ff\nmin_free = 0b2\n"),
        ("windows-lines", "[files]\r\nmax_file_size = \"1XB\"\r\n"),
        ("empty", ""),
    ];
    for (name, text) in texts {
        keep("config", name, text);
    }
    keep("config", "deep", format!("a = {}", "[".repeat(5000)));
    keep("config", "deep-key", format!("{}a = 1", "a.".repeat(3000)));
    keep("config", "not-utf8", b"environment = \"\xff\"");
}

const INTENT: &str = r#"{"id":"0123456789abcdef","created_at":"2026-11-15T14:30:22Z","workspace":"00000000000000ff","root":"/home/u/shop","device":1,"inode":2,"target":"chk_1","safety":"chk_2","plan":"PLAN","actions":[{"facet":"files","action":"create","path":"a","reason":"it is missing","old":null,"new":{"kind":"directory","mode":493}},{"facet":"files","action":"overwrite","path":"a/b","reason":"its content differs","old":{"kind":"symlink","target":"\\x2f"},"new":{"kind":"file","mode":420,"size":3,"content":{"whole":"PLAN"}}}],"closed":[{"path":null,"mode":365}]}"#;

fn intents() {
    let json = INTENT.replace("PLAN", &"ef".repeat(32));
    let file = rappel_capture::fuzz::file;
    keep_with_torn("intent", "file", &file(json.as_bytes()));
    keep("intent", "plan", &json);
    let mut marked = file(json.as_bytes());
    marked.extend_from_slice(&[0; 22]);
    keep("intent", "zeros-follow", &marked);
    for (place, code) in [(1u64, 1u8), (1, 4), (1, 200), (2, 1)] {
        let mut marked = file(json.as_bytes());
        let payload = [2, code];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&rappel_capture::fuzz::ID.0.to_le_bytes());
        hasher.update(&place.to_le_bytes());
        hasher.update(&2u32.to_le_bytes());
        hasher.update(&payload);
        marked.extend_from_slice(&2u32.to_le_bytes());
        marked.extend_from_slice(&hasher.finalize().as_bytes()[..16]);
        marked.extend_from_slice(&payload);
        keep("intent", &format!("mark-{place}-{code}"), &marked);
    }
    let edited = |name: &str, from: &str, to: &str| {
        assert!(json.contains(from), "{from}");
        keep("intent", name, json.replacen(from, to, 1));
    };
    edited("outside", "\"path\":\"a/b\"", "\"path\":\"../../etc/passwd\"");
    edited("absolute", "\"path\":\"a/b\"", "\"path\":\"/etc/passwd\"");
    edited("git", "\"path\":\"a/b\"", "\"path\":\".git/config\"");
    edited("git-closed", "\"path\":null", "\"path\":\".GIT/hooks\"");
    edited("same-path-twice", "\"path\":\"a/b\"", "\"path\":\"a\"");
    edited(
        "below-a-file",
        "\"kind\":\"directory\",\"mode\":493",
        "\"kind\":\"symlink\",\"target\":\"/tmp\"",
    );
    edited("another-id", "0123456789abcdef", "fedcba9876543210");
    edited("id-is-a-path", "0123456789abcdef", "../../../../etc/");
    edited("target-is-a-path", "\"chk_1\"", "\"../chk_1\"");
    edited("odd-root", "/home/u/shop", "\\\\xff\\\\x00..");
    edited("absurd-mode", "\"mode\":365", "\"mode\":4294967295");
    let mut later = file(json.as_bytes());
    later[7] = 2;
    keep("intent", "later-version", &later);
    let mut absurd = file(b"{}");
    absurd[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    keep("intent", "absurd-length", &absurd);
    keep("intent", "empty", b"");
}
