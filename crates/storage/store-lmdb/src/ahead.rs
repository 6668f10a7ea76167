//! Asks the processor for the summary that will be visited next, while this one is.
//!
//! LMDB fills a page from its end: the record of the next key mostly lies right before the one of this key. The processor's own
//! guess goes upwards, so that without help every step waits for memory: measured on a folder of 60 MB, a third of the time of a walk.

/// Bytes asked for: a summary of the usual size with its key. Twice as much would push out what is needed now.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 704;

/// Asks for what lies right before `value`. Changes nothing but time.
#[inline]
pub(crate) fn ask_before(value: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = value.as_ptr().cast::<i8>();
        for back in (64..=AHEAD).step_by(64) {
            // SAFETY: a prefetch reads nothing as far as the program can tell, and an address that is not mapped is passed over;
            // the address is computed without claiming that it lies in any object.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_sub(back)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
