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
    /// For the few objects of an ordinary save.
    Normal,
    /// For what is written once and kept: compaction.
    Thorough,
}

impl Effort {
    fn level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Normal => 6,
            Self::Thorough => 12,
        }
    }
}

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
        context.set_parameter(CParameter::CompressionLevel(effort.level())).map_err(failed)?;
        let mut out = Vec::with_capacity(compress_bound(bytes.len()));
        context.compress2(&mut out, bytes).map_err(failed)?;
        Ok(out)
    })
}

/// One zstd frame with `bytes`, readable only together with `base`.
pub fn compress_against(bytes: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    let mut context = CCtx::create();
    // Large inputs have long matches anyway, which a fast level finds too.
    let level = if bytes.len() + base.len() > 512 << 10 { 3 } else { 5 };
    context.set_parameter(CParameter::CompressionLevel(level)).map_err(failed)?;
    context.ref_prefix(base).map_err(failed)?;
    let mut out = Vec::with_capacity(compress_bound(bytes.len()));
    context.compress2(&mut out, bytes).map_err(failed)?;
    Ok(out)
}

/// The `length` bytes that a frame holds; anything else than exactly those is damage.
pub fn decompress(frame: &[u8], length: u64) -> Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|context| unpack(context, frame, length))
}

/// As [`decompress`], for a frame made against `base`.
pub fn decompress_against(frame: &[u8], length: u64, base: &[u8]) -> Result<Vec<u8>> {
    let mut context = DCtx::create();
    context.ref_prefix(base).map_err(failed)?;
    unpack(&mut context, frame, length)
}

fn unpack(context: &mut DCtx<'_>, frame: &[u8], length: u64) -> Result<Vec<u8>> {
    if length > OBJECT_MAX {
        return Err(Error::Damaged(format!("an object claims to be {length} bytes long")));
    }
    let mut out = Vec::with_capacity(length as usize);
    let written = context.decompress(&mut out, frame).map_err(failed)?;
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
        let frame = compress_against(&edited, &base).unwrap();
        assert!(frame.len() < 200, "{}", frame.len());
        assert_eq!(decompress_against(&frame, edited.len() as u64, &base).unwrap(), edited);
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
