//! Reading what an agent gives its hook. An agent may leave the stream open, so the end of the
//! stream is not waited for without limit.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// After so long a silence, what came is looked at: it may be whole.
const QUIET: Duration = Duration::from_millis(100);

/// Everything up to the stream's end, at most `max` bytes. Earlier, if nothing follows something
/// that `is_whole`, or when the time is up.
pub fn read(
    stream: impl AsFd,
    max: usize,
    until: Instant,
    is_whole: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut looked_at = 0;
    while read.len() < max {
        let left = until.saturating_duration_since(Instant::now());
        if is_ready(&stream, left.min(QUIET))? {
            match rustix::io::read(&stream, &mut buffer) {
                Ok(0) => break,
                Ok(count) => read.extend_from_slice(&buffer[..count]),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        } else if left.is_zero() || (read.len() > looked_at && is_whole(&read)) {
            break;
        } else {
            looked_at = read.len();
        }
    }
    Ok(read)
}

fn is_ready(stream: &impl AsFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
