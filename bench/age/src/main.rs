//! Makes a home with a long past: so many checkpoints of one workspace, and as many that were
//! deleted and not collected yet. Most of them are copies of the first one, many to a commit.
//!
//!     rappel-bench-age FOLDER COUNT

use std::path::Path;

use rappel::{OpenOptions, Rappel, SaveOptions};
use rappel_store::{NewRecord, Options, Store};

/// Checkpoints in one commit.
const TOGETHER: u64 = 1_000;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("which folder?")?;
    let count: u64 = arguments.next().ok_or("how many?")?.parse()?;
    let folder = Path::new(&folder);
    let (project, home) = (folder.join("project"), folder.join("home"));
    std::fs::create_dir_all(&project)?;
    for number in 0..10 {
        std::fs::write(
            project.join(format!("file{number}.txt")),
            format!("file {number}\n").repeat(40),
        )?;
    }
    let mut rappel = Rappel::open(OpenOptions::new(&project, &home))?;
    let first = rappel.save(&SaveOptions::default())?.checkpoint.manifest;
    drop(rappel);

    let store = Store::open(&home, Options::default())?;
    let mut parent = first.clone();
    let mut deleted = Vec::new();
    while parent.sequence < 2 * count {
        let row = store.checkpoint(&first.id)?.ok_or("the first checkpoint is gone")?;
        let mut records = Vec::new();
        let mut odd = Vec::new();
        for _ in 0..TOGETHER.min(2 * count - parent.sequence) {
            let sequence = parent.sequence + 1;
            let id: rappel::types::CheckpointId =
                format!("chk_20261115_143022_{sequence:07}").parse()?;
            parent = rappel::types::Manifest {
                id: id.clone(),
                sequence,
                parent: Some(parent.id),
                ..first.clone()
            };
            if sequence % 2 == 1 {
                odd.push(id);
            }
            records.push(NewRecord::Manifest {
                manifest: Box::new(parent.clone()),
                base: Some(row.manifest),
            });
        }
        let writer = store.begin()?;
        writer.reuse(first.files.iter().map(|files| files.tree));
        writer.commit(|_| Ok(records))?;
        deleted.extend(odd);
    }
    for ids in deleted.chunks(TOGETHER as usize) {
        let rows = ids.iter().filter_map(|id| store.checkpoint(id).transpose());
        store.delete(&rows.collect::<std::result::Result<Vec<_>, _>>()?, false)?;
    }
    println!("{}", first.id);
    Ok(())
}
