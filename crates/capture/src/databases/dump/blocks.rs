//! A stream as blocks, read by a thread of its own so that whoever writes it never waits for
//! what is done with it, unless that is slower all along.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;

/// How much is read at once, at most. What is passed on late is looked at late.
const BLOCK: usize = 128 << 10;
/// How many blocks may wait.
const WAITING: usize = 12;

/// The blocks of a stream, in order.
pub struct Blocks {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: Sender<Vec<u8>>,
}

impl Blocks {
    /// Starts to read.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        reader: &'scope mut (dyn Read + Send),
    ) -> std::io::Result<Self> {
        let (sender, full) = mpsc::sync_channel(WAITING);
        let (empty, used) = mpsc::channel::<Vec<u8>>();
        rappel_store::threads::start_in(scope, move || {
            loop {
                let mut block = used.try_recv().unwrap_or_default();
                block.resize(BLOCK, 0);
                let read = fill(reader, &mut block);
                let ended = !matches!(read, Ok(BLOCK));
                let sent = match read {
                    Ok(0) => break,
                    Ok(read) => {
                        block.truncate(read);
                        sender.send(Ok(block))
                    }
                    Err(error) => sender.send(Err(error)),
                };
                if ended || sent.is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { full, empty })
    }

    /// The next block, `None` at the end.
    pub fn next(&self) -> Option<io::Result<Vec<u8>>> {
        self.full.recv().ok()
    }

    /// Takes a block back, to be filled again.
    pub fn give_back(&self, block: Vec<u8>) {
        let _ = self.empty.send(block);
    }
}

/// Reads until `block` is full or nothing is left, and says how much there was.
pub fn fill(reader: &mut (dyn Read + Send), block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match reader.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
