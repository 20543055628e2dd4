//! What the machine itself needs for the work a checkpoint cannot avoid, with no format, no index
//! and no safety around it. `bench/run` sets Rappel's figures against these.
//!
//! Each probe does its work N times in one process and prints one JSON object: the milliseconds of
//! every run, in order, and what it handled. Preparation (listing, reading into memory) is not timed.
//! Nothing is ever deleted: a mass delete makes later file creation on ext4 many times slower.

mod tree;

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use rustix::fs::{AtFlags, CWD, StatxFlags, fdatasync, statx, sync, syncfs};

use tree::Tree;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: rappel-bench-floor PROBE
  start                        do nothing: what a process costs
  stat DIR SCRATCH N           statx every file and folder of DIR, append 4 KiB, fdatasync
  pack DIR SCRATCH N [FILES]   read, BLAKE3, zstd-1 in frames of FILES (64) files, one pack, fdatasync
  write DIR SCRATCH N          write every file of DIR from memory into an empty folder, syncfs
SCRATCH is an existing folder; what a probe writes there stays.";

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = match words[..] {
        ["start"] => return Ok(()),
        ["stat", dir, scratch, runs] => stat(Path::new(dir), Path::new(scratch), runs.parse()?)?,
        ["pack", dir, scratch, runs] => pack(Path::new(dir), Path::new(scratch), runs.parse()?, 64)?,
        ["pack", dir, scratch, runs, files] => {
            pack(Path::new(dir), Path::new(scratch), runs.parse()?, files.parse()?)?
        }
        ["write", dir, scratch, runs] => write(Path::new(dir), Path::new(scratch), runs.parse()?)?,
        _ => return Err(USAGE.into()),
    };
    println!("{report}");
    Ok(())
}

/// The floor of a save that finds nothing changed.
fn stat(dir: &Path, scratch: &Path, runs: usize) -> Outcome<String> {
    let tree = Tree::list(dir)?;
    std::env::set_current_dir(dir)?;
    let known: Vec<&PathBuf> = tree.files.iter().chain(&tree.links).chain(&tree.dirs).collect();
    let known: Vec<std::ffi::CString> = known
        .into_iter()
        .map(|path| std::ffi::CString::new(path.as_os_str().as_encoded_bytes()))
        .collect::<Result<_, _>>()?;
    let mut log = File::create(scratch.join("stat.log"))?;
    let block = [0x5a_u8; 4096];
    let pool = ThreadPoolBuilder::new().num_threads(2).build()?;
    let times = repeat(runs, |_| {
        pool.install(|| {
            known.par_iter().with_min_len(128).try_for_each(|path| {
                let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
                statx(CWD, path.as_c_str(), flags, StatxFlags::BASIC_STATS).map(drop)
            })
        })?;
        log.write_all(&block)?;
        fdatasync(&log)?;
        Ok(())
    })?;
    Ok(report(&times, &[("paths", known.len() as u64)]))
}

/// The floor of a first save.
fn pack(dir: &Path, scratch: &Path, runs: usize, files_per_frame: usize) -> Outcome<String> {
    let tree = Tree::list(dir)?;
    let mut packed = 0;
    let times = repeat(runs, |run| {
        let out = Mutex::new(File::create(scratch.join(format!("pack.{run}")))?);
        let parts: Vec<(u64, Vec<u8>)> = tree
            .files
            .par_chunks(files_per_frame)
            .map(|files| -> Outcome<(u64, Vec<u8>)> {
                let mut frame = Vec::with_capacity(1 << 20);
                let mut table = Vec::with_capacity(files.len() * 36);
                for path in files {
                    let start = frame.len();
                    File::open(dir.join(path))?.read_to_end(&mut frame)?;
                    table.extend_from_slice(blake3::hash(&frame[start..]).as_bytes());
                    table.extend_from_slice(&u32::try_from(frame.len() - start)?.to_le_bytes());
                }
                let frame = zstd::bulk::compress(&frame, 1)?;
                out.lock().map_err(|_| "a writer failed")?.write_all(&frame)?;
                Ok((frame.len() as u64, table))
            })
            .collect::<Outcome<_>>()?;
        let mut out = out.into_inner().map_err(|_| "a writer failed")?;
        let table: Vec<u8> = parts.iter().flat_map(|(_, table)| table).copied().collect();
        out.write_all(&table)?;
        fdatasync(&out)?;
        packed = parts.iter().map(|(length, _)| length).sum::<u64>() + table.len() as u64;
        Ok(())
    })?;
    Ok(report(&times, &[("files", tree.files.len() as u64), ("packed", packed)]))
}

/// The floor of a full restore.
fn write(dir: &Path, scratch: &Path, runs: usize) -> Outcome<String> {
    let tree = Tree::list(dir)?;
    let contents: Vec<(&PathBuf, Vec<u8>)> = tree
        .files
        .iter()
        .map(|path| Ok((path, fs::read(dir.join(path))?)))
        .collect::<Outcome<_>>()?;
    let pool = ThreadPoolBuilder::new().num_threads(2).build()?;
    let times = repeat(runs, |run| {
        let root = scratch.join(format!("write.{run}"));
        fs::create_dir(&root)?;
        for folder in tree.dirs.iter().filter(|folder| folder.as_os_str() != ".") {
            fs::create_dir(root.join(folder))?;
        }
        pool.install(|| {
            contents
                .par_iter()
                .with_min_len(32)
                .try_for_each(|(path, content)| fs::write(root.join(path), content))
        })?;
        syncfs(File::open(&root)?)?;
        Ok(())
    })?;
    let bytes = contents.iter().map(|(_, content)| content.len() as u64).sum();
    Ok(report(&times, &[("files", contents.len() as u64), ("bytes", bytes)]))
}

fn repeat(runs: usize, mut work: impl FnMut(usize) -> Outcome<()>) -> Outcome<Vec<f64>> {
    let mut times = Vec::with_capacity(runs);
    for run in 0..runs {
        sync();
        let start = Instant::now();
        work(run)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

fn report(times: &[f64], counts: &[(&str, u64)]) -> String {
    let times: Vec<String> = times.iter().map(|ms| format!("{ms:.4}")).collect();
    let mut json = format!("{{\"ms\":[{}]", times.join(","));
    for (name, count) in counts {
        let _ = write!(json, ",\"{name}\":{count}");
    }
    json.push('}');
    json
}
