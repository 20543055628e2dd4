//! The records in a home's packs, and damaging them one by one.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rappel_store::record::{self, Header, Kind};

/// A record in a pack of a home.
#[derive(Debug, Clone)]
pub struct Record {
    /// The pack's file.
    pub pack: PathBuf,
    /// Where in it the record begins.
    pub at: usize,
    /// What it is.
    pub kind: Kind,
    /// How long it is, with its header.
    pub length: usize,
}

impl Record {
    /// Whether it says how the log goes, rather than what a checkpoint holds.
    pub fn is_of_the_log(&self) -> bool {
        matches!(self.kind, Kind::Commit | Kind::Footer)
    }

    /// Whether it is a checkpoint's manifest.
    pub fn is_manifest(&self) -> bool {
        self.kind == Kind::Manifest
    }

    /// Flips a byte in the middle of what it holds.
    pub fn damage(&self) {
        let at = (self.at + record::HEADER + (self.length - record::HEADER) / 2) as u64;
        std::fs::set_permissions(&self.pack, std::fs::Permissions::from_mode(0o600)).unwrap();
        let pack = std::fs::OpenOptions::new().read(true).write(true).open(&self.pack).unwrap();
        let mut byte = [0];
        pack.read_exact_at(&mut byte, at).unwrap();
        pack.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
    }
}

/// Every intact record in the packs of the home at `home`, pack by pack, in order.
pub fn records(home: &Path) -> Vec<Record> {
    let packs = std::fs::read_dir(home.join("packs")).unwrap();
    let mut packs: Vec<PathBuf> = packs.map(|pack| pack.unwrap().path()).collect();
    packs.sort();
    let mut found = Vec::new();
    for pack in packs {
        let bytes = std::fs::read(&pack).unwrap();
        let mut at = 0;
        while at + record::HEADER <= bytes.len() {
            let header = Header::parse(&bytes[at..]);
            let length = header.map_or(0, |header| header.length() as usize);
            match header.and_then(|header| header.kind) {
                Some(kind) if at + length <= bytes.len() => {
                    found.push(Record { pack: pack.clone(), at, kind, length });
                    at += length;
                }
                _ => at += 1,
            }
        }
    }
    found
}
