//! How bytes are made smaller: not at all, by zstd, or by zstd against a similar object.

use std::cell::RefCell;

use zstd::zstd_safe::{CCtx, CParameter, DCtx, compress_bound};

use crate::error::{Error, Result};

/// No object is larger than this, so nothing stored can ask for more memory.
pub const OBJECT_MAX: u64 = 64 << 20;

/// How hard zstd tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// For the bulk of a first save, where the disk should be the limit.
    Fast,
    /// For a stream whose writer should not have to wait.
    Stream,
    /// For the bulk of something so large that room counts for more than time.
    Bulk,
    /// For the few objects of an ordinary save.
    Normal,
    /// For what is written once and kept: compaction.
    Thorough,
}

impl Effort {
    fn level(self) -> i32 {
        match self {
            Self::Fast | Self::Stream => 1,
            Self::Bulk => 3,
            Self::Normal => 6,
            Self::Thorough => 12,
        }
    }
}

/// How many entries, as a power of two, the table has that a stream's matches are found by: it leaves room for
/// others in a core's nearest cache, which is worth a tenth of the time.
const STREAM_TABLE: u32 = 13;

fn failed(code: usize) -> Error {
    Error::Damaged(format!("zstd: {}", zstd::zstd_safe::get_error_name(code)))
}

thread_local! {
    static COMPRESSOR: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESSOR: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// One zstd frame with `bytes`.
pub fn compress(bytes: &[u8], effort: Effort) -> Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|context| {
        // The context is used again, for another effort perhaps. Zero: what the level says.
        let table = if effort == Effort::Stream { STREAM_TABLE } else { 0 };
        for parameter in [CParameter::CompressionLevel(effort.level()), CParameter::HashLog(table)]
        {
            context.set_parameter(parameter).map_err(failed)?;
        }
        let mut out = Vec::with_capacity(compress_bound(bytes.len()));
        context.compress2(&mut out, bytes).map_err(failed)?;
        Ok(out)
    })
}

/// One zstd frame with `bytes`, readable only together with `base`.
pub fn compress_against(bytes: &[u8], base: &[u8], effort: Effort) -> Result<Vec<u8>> {
    let level = match effort {
        // To look through the base takes most of the time.
        Effort::Fast | Effort::Stream => 1,
        // Large inputs have long matches anyway, which a fast level finds too.
        _ if bytes.len() + base.len() > 512 << 10 => 3,
        _ => 5,
    };
    let mut out = Vec::with_capacity(compress_bound(bytes.len()));
    if is_like_a_dictionary(base) {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(level)).map_err(failed)?;
        context.ref_prefix(base).map_err(failed)?;
        context.compress2(&mut out, bytes).map_err(failed)?;
    } else {
        COMPRESSOR.with_borrow_mut(|context| {
            context.compress_using_dict(&mut out, bytes, base, level).map_err(failed)
        })?;
    }
    Ok(out)
}

/// One zstd frame with `bytes`, readable only together with `prefix`. Some MiB of that are searched, and
/// fewer unless `thorough`. Both together are at most 16 MiB. `thorough` costs time, and up to 12 MiB of memory.
pub fn compress_beside(bytes: &[u8], prefix: &[u8], thorough: bool) -> Result<Vec<u8>> {
    let together = (bytes.len() + prefix.len()).max(1 << 10).next_power_of_two().ilog2();
    let (level, table) = if thorough { (9, together.min(21)) } else { (3, together.min(20)) };
    let mut context = CCtx::create();
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::WindowLog(together.min(24)),
        CParameter::HashLog(table),
        CParameter::ChainLog(table),
        CParameter::ContentSizeFlag(false),
    ] {
        context.set_parameter(parameter).map_err(failed)?;
    }
    context.ref_prefix(prefix).map_err(failed)?;
    let mut out = Vec::with_capacity(compress_bound(bytes.len()));
    context.compress2(&mut out, bytes).map_err(failed)?;
    Ok(out)
}

/// The `length` bytes of a frame made by [`compress_beside`].
pub fn decompress_beside(frame: &[u8], length: u64, prefix: &[u8]) -> Result<Vec<u8>> {
    let mut context = DCtx::create();
    context.ref_prefix(prefix).map_err(failed)?;
    unpack(length, |out| context.decompress(out, frame))
}

/// Whether zstd would take a base for one of its own dictionaries, rather than for bytes. Only a
/// prefix is sure not to be, and that needs a context of its own, which costs more than a small
/// frame does.
fn is_like_a_dictionary(base: &[u8]) -> bool {
    base.starts_with(&zstd::zstd_safe::zstd_sys::ZSTD_MAGIC_DICTIONARY.to_le_bytes())
}

/// The `length` bytes that a frame holds; anything else than exactly those is damage.
pub fn decompress(frame: &[u8], length: u64) -> Result<Vec<u8>> {
    unpack(length, |out| DECOMPRESSOR.with_borrow_mut(|context| context.decompress(out, frame)))
}

/// As [`decompress`], for a frame made against `base`.
pub fn decompress_against(frame: &[u8], length: u64, base: &[u8]) -> Result<Vec<u8>> {
    if is_like_a_dictionary(base) {
        let mut context = DCtx::create();
        context.ref_prefix(base).map_err(failed)?;
        return unpack(length, |out| context.decompress(out, frame));
    }
    unpack(length, |out| {
        DECOMPRESSOR.with_borrow_mut(|context| context.decompress_using_dict(out, frame, base))
    })
}

fn unpack(
    length: u64,
    decompress: impl FnOnce(&mut Vec<u8>) -> zstd::zstd_safe::SafeResult,
) -> Result<Vec<u8>> {
    if length > OBJECT_MAX {
        return Err(Error::Damaged(format!("an object claims to be {length} bytes long")));
    }
    let mut out = Vec::with_capacity(length as usize);
    let written = decompress(&mut out).map_err(failed)?;
    if written as u64 != length {
        return Err(Error::Damaged(format!("an object has {written} bytes instead of {length}")));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_small_edit_is_a_small_frame() {
        let base: Vec<u8> =
            (0..40_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let mut edited = base.clone();
        edited[70_000..70_003].copy_from_slice(b"new");
        let frame = compress_against(&edited, &base, Effort::Normal).unwrap();
        assert!(frame.len() < 200, "{}", frame.len());
        assert_eq!(decompress_against(&frame, edited.len() as u64, &base).unwrap(), edited);
    }

    #[test]
    fn any_bytes_can_be_a_base() {
        // What the first versions wrote, and what zstd's own tools understand.
        let prefixed = |bytes: &[u8], base: &[u8]| {
            let mut context = CCtx::create();
            context.ref_prefix(base).unwrap();
            let mut out = Vec::with_capacity(compress_bound(bytes.len()));
            context.compress2(&mut out, bytes).unwrap();
            out
        };
        let text = "a line of a file that was there before\n".repeat(50);
        for magic in [&b""[..], &[0x37, 0xa4, 0x30, 0xec], &[0x28, 0xb5, 0x2f, 0xfd]] {
            let base = [magic, text.as_bytes()].concat();
            let edited = [&base[..], b"and one more\n"].concat();
            let against = |effort| compress_against(&edited, &base, effort).unwrap();
            let frames = [against(Effort::Normal), against(Effort::Fast), prefixed(&edited, &base)];
            for frame in frames {
                assert!(frame.len() < 100, "{}", frame.len());
                let again = decompress_against(&frame, edited.len() as u64, &base).unwrap();
                assert_eq!(again, edited);
            }
        }
        // A context that is used again has forgotten the base before.
        let frame = compress(b"alone", Effort::Normal).unwrap();
        assert_eq!(decompress(&frame, 5).unwrap(), b"alone");
    }

    #[test]
    fn a_long_prefix_is_searched() {
        let noise = |seed: u32, count: u32| -> Vec<u8> {
            (0..count)
                .flat_map(|n| (n ^ seed << 20).wrapping_mul(2_654_435_761).to_le_bytes())
                .collect()
        };
        let prefix = noise(1, 512 << 10);
        let bytes = [&prefix[..3000], &prefix[1_000_000..1_003_000]].concat();
        let frame = compress_beside(&bytes, &prefix, true).unwrap();
        assert!(frame.len() < 500, "{}", frame.len());
        let quick = compress_beside(&bytes, &prefix, false).unwrap();
        for frame in [frame, quick] {
            assert_eq!(decompress_beside(&frame, bytes.len() as u64, &prefix).unwrap(), bytes);
            assert!(decompress_beside(&frame, 10, &prefix).is_err());
        }
    }

    #[test]
    fn a_frame_that_promises_too_much_is_refused() {
        let bomb = compress(&vec![0; 1 << 20], Effort::Fast).unwrap();
        assert!(decompress(&bomb, 100).is_err());
        assert!(decompress(&bomb, u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(frame in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decompress(&frame, 64);
            let _ = decompress_against(&frame, 64, b"base");
        }
    }
}
