//! The end of a rollout: how a call ended. Codex's hooks are not told the exit code of a command,
//! and its rollout has it by the time the hook is called.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

use crate::files;

/// So much of a rollout's end is looked at: the outputs of a few calls.
const TAIL: u64 = 512 << 10;

/// The exit code of a call; nothing where the end of the rollout does not have it.
pub fn exit_code(rollout: &Path, call: &str) -> Option<i32> {
    let mut file = files::open(rollout).ok()?;
    let size = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().filter(|line| line.contains(call)).find_map(|line| code_in(line, call))
}

fn code_in(line: &str, call: &str) -> Option<i32> {
    let line: Value = serde_json::from_str(line).ok()?;
    let payload = &line["payload"];
    let item = &payload["item"];
    if item["id"] == call && item["type"] == "CommandExecution" {
        return item["exit_code"].as_i64()?.try_into().ok();
    }
    if payload["call_id"] != call {
        return None;
    }
    code_of(payload["output"].as_str()?)
}

/// The exit code in what Codex says of a call before the output of its command.
pub fn code_of(output: &str) -> Option<i32> {
    output.lines().take(8).take_while(|line| *line != "Output:").find_map(|line| {
        let code = line
            .strip_prefix("Process exited with code ")
            .or_else(|| line.strip_prefix("Exit code: "))?;
        code.trim().parse().ok()
    })
}
