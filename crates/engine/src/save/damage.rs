//! What a save has to know of the store's damage.
//!
//! A cache believes that the store holds what it held. Once damage is found, the next save of each
//! workspace believes no cache and stores everything anew, once.

use rappel_store::disk::DiskFile;
use rappel_store::held;
use rappel_store::verify::Hurt;
use rappel_types::WorkspaceId;
use rappel_types::{Advice, Remark, Remarks};

use crate::error::Result;
use crate::rappel::Rappel;

/// The file of the cache in which a check notes that checkpoints cannot be read.
const HURT: &str = "hurt";

/// Damage of the store, as far as a save has to know of it.
#[derive(Default)]
pub(super) struct Damage {
    /// What is damaged; empty if nothing is.
    pub found: String,
    /// Whether packs are lost.
    pub lost: bool,
    /// Whether nothing was stored anew since it was found.
    pub news: bool,
}

impl Rappel {
    /// The damage that is known of. A sentence goes into `notes` if this save is the first to hear of
    /// it.
    pub(super) fn known_damage(&self, id: WorkspaceId, notes: &mut Remarks) -> Result<Damage> {
        let lost = self.lost_packs()?;
        let found = format!("{lost}{}", self.noted_hurt());
        let news = !found.is_empty() && !self.knows_of(id, &found);
        if news {
            let what = match lost.is_empty() {
                true => "the store is damaged".to_owned(),
                false => format!("{lost} is missing or cut off"),
            };
            let text = format!("{what}; the workspace is stored anew");
            notes.push(Remark::new(text, Advice::Verify));
        }
        Ok(Damage { found, lost: !lost.is_empty(), news })
    }

    /// What of the store is damaged; empty if nothing is.
    pub(super) fn damage(&self) -> Result<String> {
        Ok(format!("{}{}", self.lost_packs()?, self.noted_hurt()))
    }

    /// The names of packs that are needed and not there.
    pub(crate) fn lost_packs(&self) -> Result<String> {
        let lost = self.store.lost_packs()?;
        Ok(lost.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }

    /// Notes which checkpoints cannot be read, for the next save of each workspace.
    pub(crate) fn note_hurt(&self, hurt: &[Hurt]) {
        let (disk, cache) = (self.store.disk(), self.store.home().cache());
        let path = cache.join(HURT);
        if hurt.is_empty() {
            let _ = rappel_store::disk::unlink(&**disk, &path);
            return;
        }
        let all: Vec<&str> = hurt.iter().map(|one| one.checkpoint.as_str()).collect();
        let text = format!("hurt {}", blake3::hash(all.join(" ").as_bytes()).to_hex());
        if rappel_store::disk::create_dir(&**disk, &cache).is_ok() {
            rappel_store::disk::replace_view(disk, &path, text.as_bytes());
        }
    }

    /// What the last check noted of that; empty where every checkpoint could be read.
    fn noted_hurt(&self) -> String {
        held::read_to_string(self.store.home().cache().join(HURT)).unwrap_or_default()
    }

    /// Whether everything was stored anew since this damage was found. Otherwise the cache would go
    /// on believing in what they held.
    fn knows_of(&self, id: WorkspaceId, lost: &str) -> bool {
        held::read(self.lost_path(id)).is_ok_and(|known| known == lost.as_bytes())
    }

    /// Remembers that. Where it cannot be written, the next save stores everything anew again.
    pub(super) fn note_lost(&self, id: WorkspaceId, lost: &str) {
        let (disk, path) = (self.store.disk(), self.lost_path(id));
        let _ = rappel_store::disk::unlink(&**disk, &path);
        if let Ok(file) = DiskFile::create_new(disk, &path) {
            let _ = file.write_at(lost.as_bytes(), 0);
        }
    }

    fn lost_path(&self, id: WorkspaceId) -> std::path::PathBuf {
        self.cache_path(id).with_extension("lost")
    }
}
