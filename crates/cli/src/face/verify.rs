//! What a check found, and what a repair brought back.

use rappel::{Hurt, RepairReport, VerifyReport};
use rappel_types::size::format_size;

use super::{Fields, count, section, thousands};
use crate::output::Paint;

/// The answer of `verify`.
pub fn checked(report: &VerifyReport, paint: Paint) -> String {
    let read = format!(
        "{}, {}, {} read",
        count(report.checkpoints, "checkpoint", "checkpoints"),
        count(report.objects, "object", "objects"),
        format_size(report.bytes)
    );
    let mut text = match report.is_clean() {
        true if report.known.is_empty() => {
            format!("{}: {read}\n", paint.good("Everything is whole"))
        }
        true => format!("{}: {read}\n", paint.good("Every checkpoint is whole")),
        false => format!("{}: {read}\n", paint.bad("Damage found")),
    };
    text.push_str(&section("Damaged", &report.damage, paint));
    let known = "Damaged, seen by a repair, needed by no checkpoint";
    if report.hurt.is_empty() {
        text.push_str(&section(known, &report.known, paint));
    } else {
        text.push_str(&section("Damaged, seen by a repair", &report.known, paint));
    }
    text.push_str(&hurt("Hurt checkpoints", &report.hurt, paint));
    text.push_str(&section("Written by a later version, not checked", &report.unknown, paint));
    text
}

/// The answer of `verify --repair`.
pub fn repaired(report: &RepairReport, paint: Paint) -> String {
    if report.before.is_clean() {
        return checked(&report.before, paint);
    }
    let mut fields = Fields::new(paint);
    for (label, number) in [
        ("Objects", report.restored_objects),
        ("Records", report.restored_records),
        ("Packs", report.adopted_packs),
    ] {
        if number > 0 {
            fields.add(label, format!("{} brought back", thousands(number)));
        }
    }
    let healed = count(report.healed.len() as u64, "checkpoint", "checkpoints");
    let mut text = format!("{}: {healed} whole again\n{}", paint.good("Repaired"), fields.lines());
    let ids: Vec<String> = report.healed.iter().map(ToString::to_string).collect();
    text.push_str(&section("Whole again", &ids, paint));
    text.push_str(&hurt("Lost", &report.lost, paint));
    text
}

fn hurt(heading: &str, hurt: &[Hurt], paint: Paint) -> String {
    let lines: Vec<String> = hurt
        .iter()
        .map(|one| {
            let mut parts: Vec<String> =
                one.paths.iter().take(3).map(ToString::to_string).collect();
            if one.paths.len() > 3 {
                parts.push(format!("and {} more files", one.paths.len() - 3));
            }
            if one.lost {
                parts.push("all of it is lost".into());
            } else if one.structure {
                parts.push("more than can be told: its list of files is damaged".into());
            }
            format!("{}: {}", one.checkpoint, parts.join(", "))
        })
        .collect();
    section(heading, &lines, paint)
}
