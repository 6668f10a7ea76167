//! Bodies that are compressed with zstd, in frames that are read one by one.
//!
//! After the [`FormHeader`] of [`Form::Compressed`]:
//!
//! | bytes | field |
//! | --- | --- |
//! | 32–… | for each frame its stored bytes, 4 bytes, little-endian |
//! | … | the frames, without gaps |
//!
//! A frame has [`FRAME_LEN`] octets of the message, and the last one the rest. It is a frame of
//! zstd (RFC 8878) with the checksum of its content. So a range of a large message costs only the
//! frames that contain it. A frame that gives more octets than it must is refused before they are
//! written.

use std::ops::Range;

use bytes::Bytes;
use parking_lot::Mutex;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

use crate::form::{Form, FormHeader};

/// Octets of a message in a frame. Half would compress attachments 1 % less. Twice this would
/// double the cost of the first 4 KiB of a large message.
pub const FRAME_LEN: usize = 128 << 10;
/// The binary logarithm of [`FRAME_LEN`], which each body names.
const FRAME_BITS: u8 = FRAME_LEN.ilog2() as u8;
/// Level 3 saves 1 to 2 % more for up to 60 % more CPU: `docs/at-rest.md`.
const LEVEL: i32 = 1;
/// Octets of a message below which it is not compressed: the table and the frame's head would
/// cost more than is saved.
const LEN_MIN: usize = 512;
/// A body is compressed if an eighth is saved. Less is not worth the work of each reader.
const SAVED_PART: usize = 8;
/// Bytes of an entry of the table.
const ENTRY: usize = 4;
/// Contexts of zstd that are kept for the next message, 300 KiB each. More than this many threads
/// work at the same time only on large machines, and then some are created again.
const IDLE_MAX: usize = 16;

/// The compression of new bodies that clients see as they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// As clients see them.
    #[default]
    None,
    /// Compressed with zstd, if that saves an eighth.
    Zstd,
}

/// The compressed body of a message; `None` if compression saves too little.
pub fn compress(served: &[u8]) -> Option<Bytes> {
    if served.len() < LEN_MIN {
        return None;
    }
    let header = FormHeader {
        form: Form::Compressed,
        served_len: u32::try_from(served.len()).ok()?,
        digest: [FRAME_BITS, 0, 0, 0, 0, 0, 0, 0],
    };
    let most = served.len() - served.len() / SAVED_PART;
    let begin_len = Layout::begin_len(&header)?;
    let mut stored = Vec::with_capacity(begin_len + served.len() / 2);
    stored.extend_from_slice(&header.before(&[]));
    stored.resize(begin_len, 0);
    let mut frame = Vec::with_capacity(zstd::zstd_safe::compress_bound(served.len().min(FRAME_LEN)));
    for (n, piece) in served.chunks(FRAME_LEN).enumerate() {
        frame.clear();
        let len = COMPRESSORS.with(new_compressor, |zstd| zstd.compress_to_buffer(piece, &mut frame))?;
        let entry = FormHeader::LEN + n * ENTRY;
        stored.get_mut(entry..entry + ENTRY)?.copy_from_slice(&u32::try_from(len).ok()?.to_le_bytes());
        stored.extend_from_slice(&frame);
        if stored.len() > most {
            return None;
        }
    }
    Some(stored.into())
}

/// The message that clients see of a compressed body, or what is wrong with the body.
pub fn decompress(stored: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut served = Vec::new();
    each_frame(stored, |frame, len| append_frame(frame, len, &mut served))?;
    Ok(served)
}

/// Whether a stored body can be decompressed, if it is compressed, and what is wrong with it. Takes
/// the memory of one frame.
pub fn verify(stored: &[u8]) -> Result<(), &'static str> {
    if FormHeader::of(stored).is_none_or(|header| header.form != Form::Compressed) {
        return Ok(());
    }
    let mut served = Vec::new();
    each_frame(stored, |frame, len| {
        served.clear();
        append_frame(frame, len, &mut served)
    })
}

/// Calls `visit` with the stored bytes of each frame and the octets that it has.
fn each_frame(
    stored: &[u8],
    mut visit: impl FnMut(&[u8], usize) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let layout = Layout::of(stored)?;
    if layout.stored_len() != stored.len() as u64 {
        return Err("a compressed body has another length than its table");
    }
    for n in 0..layout.frames() {
        let Range { start, end } = layout.stored(n);
        let frame = stored.get(start as usize..end as usize).ok_or(ENDS_EARLY)?;
        visit(frame, layout.frame_len(n))?;
    }
    Ok(())
}

const ENDS_EARLY: &str = "a compressed body ends too early";

/// The places of the frames of a compressed body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    served_len: u64,
    /// The offset in the body at which each frame ends.
    ends: Vec<u64>,
}

impl Layout {
    /// Bytes of a compressed body up to its first frame; `None` if its header is not understood.
    pub fn begin_len(header: &FormHeader) -> Option<usize> {
        let [bits, zeroes @ ..] = header.digest;
        if header.form != Form::Compressed || bits != FRAME_BITS || zeroes != [0; 7] {
            return None;
        }
        Some(FormHeader::LEN + (header.served_len as usize).div_ceil(FRAME_LEN) * ENTRY)
    }

    /// The layout of the body that begins so, or what is wrong with it.
    pub fn of(begin: &[u8]) -> Result<Self, &'static str> {
        let header = FormHeader::of(begin).ok_or("a compressed body has no header")?;
        let begin_len = Self::begin_len(&header).ok_or("it is compressed in an unknown way")?;
        let table = begin.get(FormHeader::LEN..begin_len).ok_or(ENDS_EARLY)?;
        let mut end = begin_len as u64;
        let ends = table.as_chunks::<ENTRY>().0.iter().map(|len| {
            end += u64::from(u32::from_le_bytes(*len));
            end
        });
        Ok(Self { served_len: u64::from(header.served_len), ends: ends.collect() })
    }

    /// Frames of the body.
    pub fn frames(&self) -> usize {
        self.ends.len()
    }

    /// Octets that clients see.
    pub fn served_len(&self) -> u64 {
        self.served_len
    }

    /// Bytes of the whole body.
    pub fn stored_len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(FormHeader::LEN as u64)
    }

    /// Bytes that this takes in memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.ends.len() * size_of::<u64>()
    }

    /// Octets of frame `n`.
    pub fn frame_len(&self, n: usize) -> usize {
        let start = n as u64 * FRAME_LEN as u64;
        self.served_len.saturating_sub(start).min(FRAME_LEN as u64) as usize
    }

    /// The bytes of the body that are frame `n`.
    pub fn stored(&self, n: usize) -> Range<u64> {
        let begin = (FormHeader::LEN + self.ends.len() * ENTRY) as u64;
        let end = |n: usize| self.ends.get(n).copied().unwrap_or(begin);
        n.checked_sub(1).map_or(begin, end)..end(n)
    }

    /// The frames in which a range of the message lies.
    pub fn frames_of(&self, range: &Range<u64>) -> Range<usize> {
        let end = range.end.min(self.served_len);
        if range.start >= end {
            return 0..0;
        }
        (range.start / FRAME_LEN as u64) as usize..end.div_ceil(FRAME_LEN as u64) as usize
    }
}

/// Appends the octets of a frame, which must be `len`.
pub(crate) fn append_frame(frame: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), &'static str> {
    const DAMAGED: &str = "a compressed frame is damaged";
    let start = out.len();
    out.resize(start + len.min(FRAME_LEN), 0);
    let room = out.get_mut(start..).ok_or(DAMAGED)?;
    match DECOMPRESSORS.with(Decompressor::new, |zstd| zstd.decompress_to_buffer(frame, room)) {
        Some(read) if read == len => Ok(()),
        _ => Err(DAMAGED),
    }
}

/// Contexts of zstd between two uses.
struct Idle<T>(Mutex<Vec<T>>);

static COMPRESSORS: Idle<Compressor<'static>> = Idle(Mutex::new(Vec::new()));
static DECOMPRESSORS: Idle<Decompressor<'static>> = Idle(Mutex::new(Vec::new()));

impl<T> Idle<T> {
    /// Works with an idle context, or a new one. One that failed is not kept.
    fn with<R>(
        &self,
        make: impl FnOnce() -> std::io::Result<T>,
        work: impl FnOnce(&mut T) -> std::io::Result<R>,
    ) -> Option<R> {
        let idle = self.0.lock().pop();
        let mut context = match idle {
            Some(context) => context,
            None => make().ok()?,
        };
        let result = work(&mut context).ok()?;
        let mut idle = self.0.lock();
        if idle.len() < IDLE_MAX {
            idle.push(context);
        }
        Some(result)
    }
}

fn new_compressor() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(LEVEL)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(compressor)
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    /// Text that compresses to about a half.
    fn text(len: usize, seed: u32) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (state >> 24) as u8 % 16
        };
        (0..len).map(|_| next()).collect()
    }

    properties! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn compressed_bodies_come_back(len in 0usize..400_000, seed in any::<u32>()) {
            let served = text(len, seed);
            let Some(stored) = compress(&served) else {
                prop_assert!(len < LEN_MIN + 200);
                return Ok(());
            };
            prop_assert!(stored.len() <= len - len / SAVED_PART);
            prop_assert_eq!(crate::form::served_len(&stored), len);
            prop_assert!(decompress(&stored).unwrap() == served);
            prop_assert_eq!(verify(&stored), Ok(()));
            let layout = Layout::of(&stored).unwrap();
            prop_assert_eq!(layout.frames_of(&(0..u64::MAX)), 0..layout.frames());
            prop_assert_eq!(layout.stored_len(), stored.len() as u64);
        }

        #[test]
        fn garbage_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), len in any::<u32>()) {
            let digest = [FRAME_BITS, 0, 0, 0, 0, 0, 0, 0];
            let stored = FormHeader { form: Form::Compressed, served_len: len, digest }.before(&bytes);
            prop_assert!(decompress(&stored).is_err() || len == 0 && bytes.is_empty());
            prop_assert_eq!(verify(&stored).is_err(), decompress(&stored).is_err());
        }
    }

    #[test]
    fn any_damage_is_noticed() {
        let served = text(300_000, 7);
        let stored = compress(&served).unwrap();
        let steps = (0..400).chain((400..stored.len()).step_by(977));
        for at in steps.filter(|at| *at >= crate::form::MAGIC.len()) {
            let mut bytes = stored.to_vec();
            bytes[at] ^= 4;
            // Three bytes of the header have no meaning yet.
            let same = verify(&bytes).is_ok() && (17..20).contains(&at);
            assert!(
                same || decompress(&bytes).is_err()
                    || FormHeader::of(&bytes).unwrap().form != Form::Compressed,
                "{at}"
            );
        }
        for cut in [0, 20, 32, 40, 44, 1_000, stored.len() - 1] {
            assert!(decompress(&stored[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_frame_gives_no_more_than_it_must() {
        let bomb = compress(&vec![b'a'; 10 << 20]).unwrap();
        assert!(bomb.len() < 8_000);
        let header = FormHeader::of(&bomb).unwrap();
        for served_len in [0, 1, FRAME_LEN as u32, (10 << 20) - 1, (10 << 20) + 1, u32::MAX] {
            let lies = FormHeader { served_len, ..header }.before(&FormHeader::content(&bomb));
            assert!(decompress(&lies).is_err() && verify(&lies).is_err(), "{served_len}");
        }
        let first = Layout::of(&bomb).unwrap().stored(0);
        let frame = &bomb[first.start as usize..first.end as usize];
        let mut out = Vec::new();
        assert!(append_frame(frame, 1_000, &mut out).is_err());
        assert!(out.capacity() <= FRAME_LEN);
    }

    #[test]
    fn bodies_that_compression_does_not_shorten_stay() {
        assert_eq!(compress(&[b'a'; LEN_MIN - 1]), None);
        let mut state = 1u64;
        let random: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(300_000)
        .collect();
        assert_eq!(compress(&random), None);
    }
}
