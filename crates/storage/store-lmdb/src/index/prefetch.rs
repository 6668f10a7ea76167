//! Asks the processor for summaries some messages before they are visited.
//!
//! A folder of 100,000 has 200 MB of summaries, which no cache holds. The processor cannot guess
//! where the next one lies. It learns that from a page's head, then from the record's. Waiting for
//! the two is seven tenths of the time of a search. But LMDB gives a folder that grows one page
//! after the other, and records of a page lie in much the same places. Measured on a folder filled
//! by an import, 97 of 100 steps from page to page are to the next.

/// Pages ahead. One would come too late where a page holds two records; four gain nothing more.
#[cfg(target_arch = "x86_64")]
const PAGES: usize = 2;
/// LMDB's page, which is that of the machine.
#[cfg(target_arch = "x86_64")]
const PAGE: usize = 4096;
/// Bytes requested from the start of a record, where what is searched and the envelope lie. What
/// follows, the processor guesses itself once it sees that it is read in order.
#[cfg(target_arch = "x86_64")]
const BYTES: usize = 512;

/// Asks for the head of the page that lies some pages further on, and for the record in the place
/// of `value` there. Changes nothing but time.
#[inline]
pub(crate) fn prefetch(value: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let there = value.as_ptr().cast::<i8>().wrapping_add(PAGES * PAGE);
        let ask = |at: *const i8| {
            // SAFETY: a prefetch has no effect that the program can observe, and an address that is
            // not mapped is passed over. The address is computed without claiming that it lies in
            // any object.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
        };
        ask(there.wrapping_sub(there.addr() % PAGE));
        // The record's own head and key lie right before it.
        for at in (0..BYTES).step_by(64) {
            ask(there.wrapping_sub(64).wrapping_add(at));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
