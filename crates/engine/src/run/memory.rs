//! The memory of a process and of everything below it, as the kernel tells it.
//!
//! Not guaranteed: pages that several processes share are counted for each of them. A process that
//! left its parent (a daemon) is not found. Where there is no `/proc`, nothing is known.

use std::collections::HashMap;

use rappel_store::held;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More samples are merged two by two.
const SAMPLES: usize = 240;

/// Memory of a process tree, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// What lies in memory.
    pub rss: u64,
    /// How much of it is anonymous: heaps and stacks, and no files.
    pub heap_used: u64,
}

/// The memory of a process and all its descendants; `None` if there is no such process.
pub fn memory_of_tree(root: u32) -> Option<ProcessMemory> {
    let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = parent_of(pid) {
            below.entry(parent).or_default().push(pid);
        }
    }
    let mut total = memory_of(root)?;
    let mut waiting = below.remove(&root).unwrap_or_default();
    while let Some(pid) = waiting.pop() {
        // One that has just ended uses nothing.
        let one = memory_of(pid).unwrap_or_default();
        total.rss += one.rss;
        total.heap_used += one.heap_used;
        waiting.extend(below.remove(&pid).unwrap_or_default());
    }
    Some(total)
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = held::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn memory_of(pid: u32) -> Option<ProcessMemory> {
    let status = held::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes * 1024)
    };
    // A process that has ended, or that is the kernel's, has no such lines.
    let rss = bytes("VmRSS:").unwrap_or_default();
    Some(ProcessMemory { rss, heap_used: bytes("RssAnon:").unwrap_or_default() })
}

/// The memory over time, in few enough samples for a chart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemorySamples {
    rss: Vec<u64>,
    /// How many samples became one.
    merged: usize,
    pending: Vec<u64>,
    last: Option<ProcessMemory>,
    peak: Option<ProcessMemory>,
}

impl MemorySamples {
    /// Adds a sample.
    pub fn add(&mut self, sample: ProcessMemory) {
        self.last = Some(sample);
        let peak = self.peak.get_or_insert(sample);
        peak.rss = peak.rss.max(sample.rss);
        peak.heap_used = peak.heap_used.max(sample.heap_used);
        self.pending.push(sample.rss);
        if self.pending.len() < self.merged.max(1) {
            return;
        }
        self.rss.extend(self.pending.drain(..).max());
        if self.rss.len() > SAMPLES {
            self.rss = self.rss.chunks(2).filter_map(|two| two.iter().max().copied()).collect();
            self.merged = self.merged.max(1) * 2;
        }
    }

    /// The last sample.
    pub fn last(&self) -> Option<ProcessMemory> {
        self.last
    }

    /// The most of each that was seen at one time.
    pub fn peak(&self) -> Option<ProcessMemory> {
        self.peak
    }

    /// The highest sample in each of at most so many spans of equal length.
    pub fn columns(&self, most: usize) -> Vec<u64> {
        let all: Vec<u64> = self.rss.iter().chain(self.pending.iter().max()).copied().collect();
        let width = all.len().div_ceil(most.max(1)).max(1);
        all.chunks(width).filter_map(|span| span.iter().max().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_uses_more_than_its_root() {
        let alone = memory_of(std::process::id()).unwrap();
        assert!(alone.rss >= alone.heap_used && alone.heap_used > 0, "{alone:?}");
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & echo begun; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut begun = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().unwrap()),
            &mut begun,
        )
        .unwrap();
        let shell = memory_of(child.id()).unwrap();
        let tree = memory_of_tree(child.id()).unwrap();
        assert!(tree.rss > shell.rss, "{tree:?} {shell:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(memory_of_tree(u32::MAX), None);
    }

    #[test]
    fn samples_of_any_number_make_a_chart_that_keeps_the_peak() {
        let mut samples = MemorySamples::default();
        assert_eq!(samples.columns(10), Vec::<u64>::new());
        for at in 0..100_000_u64 {
            let rss = if at == 70_001 { 9999 } else { at % 7 };
            samples.add(ProcessMemory { rss, heap_used: 1 });
        }
        assert_eq!(samples.peak().unwrap().rss, 9999);
        let columns = samples.columns(40);
        assert!(columns.len() <= 40 && columns.len() > 10, "{}", columns.len());
        let highest = columns.iter().position(|column| *column == 9999).unwrap();
        assert!((65..=75).contains(&(highest * 100 / columns.len())), "{highest}");
    }
}
