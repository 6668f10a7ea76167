//! Prefetches summaries some messages before they are visited.
//!
//! A folder of 100,000 has 200 MB of summaries, which no cache holds. The processor cannot
//! predict the address of the next one. It depends on the page's head, then on the record's.
//! Waiting for the two is seven tenths of the time of a search. But LMDB gives a growing folder
//! consecutive pages, and the records of each page have similar offsets. Measured on a folder
//! filled by an import, 97 of 100 steps from page to page are to the next.

/// Pages to prefetch in advance. One would come too late where a page holds two records; four
/// gain nothing more.
#[cfg(target_arch = "x86_64")]
const PAGES: usize = 2;
/// The size of LMDB's pages: the machine's.
#[cfg(target_arch = "x86_64")]
const PAGE: usize = 4096;
/// Bytes prefetched from the start of a record, which has the searched values and the envelope.
/// The processor itself prefetches the rest, because it is read in order.
#[cfg(target_arch = "x86_64")]
const BYTES: usize = 512;

/// Prefetches the head of the page that is some pages further on, and the record at the offset of
/// `value` in it. Changes only the time that a walk takes.
#[inline]
pub(crate) fn prefetch(value: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let there = value.as_ptr().cast::<i8>().wrapping_add(PAGES * PAGE);
        let ask = |at: *const i8| {
            // SAFETY: a prefetch has no effect that the program can observe, and an address that
            // is not mapped is ignored. The address is computed without claiming that it is in
            // any object.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
        };
        ask(there.wrapping_sub(there.addr() % PAGE));
        // The record's own head and key are right before it.
        for at in (0..BYTES).step_by(64) {
            ask(there.wrapping_sub(64).wrapping_add(at));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
