//! Times scans of a folder, beside the floor: stat of everything the scan knows, on all cores.
//!
//! `cargo run --release -p rappel-capture --example scan -- DIR [RUNS]`

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rappel_capture::Result;
use rappel_capture::files::{Cache, Environment, Request, Scanned, scan};
use rappel_store::Cancel;
use rappel_store::disk::{Disk, RealDisk};
use rappel_store::sink::{Nothing, Scratch};
use rappel_types::config::FilesConfig;
use rappel_types::{Node, ObjectId};
use rayon::prelude::*;

fn run(root: &Path, cache: Option<Cache>) -> Result<Scanned> {
    let request = Request {
        root,
        config: &FilesConfig::default(),
        environment: &Environment::default(),
        excluded: &[],
        excluded_paths: &[],
        databases: &[],
        cache,
        also: &[],
        first: None,
        maybe_changed: None,
        cancel: &Cancel::default(),
        progress: None,
    };
    scan(request, &Scratch::over(&Nothing))
}

/// Wall and processor time, ms. The latter tells more on a machine that does other things too.
type Times = (f64, f64);

fn timed<T>(work: impl FnOnce() -> T) -> (T, Times) {
    let used = || {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        used.tv_sec as f64 * 1e3 + used.tv_nsec as f64 / 1e6
    };
    let (start, before) = (Instant::now(), used());
    let result = work();
    (result, (start.elapsed().as_secs_f64() * 1e3, used() - before))
}

fn report(name: &str, times: &[Times]) {
    let sorted = |pick: fn(&Times) -> f64| {
        let mut times: Vec<f64> = times.iter().map(pick).collect();
        times.sort_by(f64::total_cmp);
        (times[0], times[times.len() / 2])
    };
    let (wall, cpu) = (sorted(|times| times.0), sorted(|times| times.1));
    println!(
        "{name:<28} min {:7.2}  median {:7.2} ms   cpu min {:7.2}  median {:7.2} ms",
        wall.0, wall.1, cpu.0, cpu.1
    );
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let root = PathBuf::from(arguments.next().unwrap_or_else(|| ".".into()));
    let runs = arguments.next().and_then(|runs| runs.parse().ok()).unwrap_or(15);
    let file = std::env::temp_dir().join(format!("rappel-scan-{}.cache", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);

    let (first, took) = timed(|| run(&root, None));
    let first = first?;
    let folders =
        first.changes.iter().filter(|(_, node)| matches!(node, Some(Node::Directory { .. })));
    println!("{} files, {} folders, {} bytes", first.count, folders.count(), first.bytes);
    report("first (hash only)", &[took]);
    let absolute = |path: &[u8]| {
        let mut bytes = std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str()).to_vec();
        bytes.push(b'/');
        bytes.extend_from_slice(path);
        CString::new(bytes).unwrap_or_default()
    };
    let known: Vec<CString> =
        first.changes.iter().map(|(path, _)| absolute(path.as_bytes())).collect();
    let mut cache = first.next.finish(ObjectId([0; 32]), None);
    cache.save(&disk, &file)?;
    std::thread::sleep(std::time::Duration::from_millis(50));

    let (mut floors, mut loads, mut scans, mut saves) = (vec![], vec![], vec![], vec![]);
    for _ in 0..runs {
        floors.push(
            timed(|| {
                known.par_iter().with_min_len(64).for_each(|path| {
                    let _ = rustix::fs::lstat(path.as_c_str());
                });
            })
            .1,
        );
        let (cache, took) = timed(|| Cache::load(&file));
        loads.push(took);
        let (scanned, took) = timed(|| run(&root, cache));
        scans.push(took);
        let scanned = scanned?;
        assert!(scanned.changes.is_empty(), "nothing changed");
        let (saved, took) = timed(|| {
            let mut cache = scanned.next.finish(ObjectId([0; 32]), None);
            cache.save(&disk, &file)
        });
        saved?;
        saves.push(took);
    }
    report("floor (lstat of all)", &floors);
    report("load the cache", &loads);
    report("scan, nothing changed", &scans);
    report("finish and save the cache", &saves);
    let size = std::fs::metadata(&file).map_or(0, |meta| meta.len());
    println!("cache {size} bytes");
    let _ = std::fs::remove_file(&file);
    Ok(())
}
