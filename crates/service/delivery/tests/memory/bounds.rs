//! The memory of making a summary, compared with the promised bound. The fuzz target `summarize`
//! and the tests beside this file share it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use posthaste_delivery::{MESSAGE_COST, summarize};
use posthaste_mime_summary::{SUMMARY_SHARE, SummaryRef, summary_len_max, summary_memory_max};

/// Counts what this thread holds; all else is the system's.
struct Counting;

thread_local! {
    /// Bytes held at the moment, and the most there were.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // A thread that is ending counts nothing.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: every call is passed on to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The longest message that [`repeated`] makes, as a power of two: 1 MiB. A summary of 10 MiB,
/// the longest, needs half of that.
const LONG_BITS_MAX: u32 = 20;

/// Any bytes as a message, and a longer message that is made of them, are summarised within their
/// bounds.
pub fn within_bounds(data: &[u8]) {
    summary_within_bounds(data);
    if let Some(long) = repeated(data) {
        summary_within_bounds(&long);
    }
}

/// A message of which one part is repeated. The last four bytes choose it: where the part begins
/// (two bytes), its length, and the length of all repetitions as a power of two. So a short input
/// reaches bounds that only long messages reach, such as 10,000 addresses. Two of three inputs
/// repeat nothing, so that most of them are tried quickly.
pub fn repeated(data: &[u8]) -> Option<Vec<u8>> {
    let (message, &[low, high, len, bits]) = data.split_last_chunk::<4>()?;
    let bits = u32::from(bits % 64);
    if bits > LONG_BITS_MAX {
        return None;
    }
    let from = usize::from(u16::from_le_bytes([low, high])).checked_rem(message.len())?;
    let end = (from + 1 + usize::from(len)).min(message.len());
    let part = &message[from..end];
    let times = (1_usize << bits).div_ceil(part.len());
    Some([&message[..from], &part.repeat(times), &message[end..]].concat())
}

/// A message's summary, and the most bytes that were held while it was made. Panics if either is
/// over its bound, or if the summary cannot be read.
pub fn summary_within_bounds(message: &[u8]) -> (Vec<u8>, usize) {
    // Tables that are made at the first need are nobody's.
    summarize("Subject: \u{fc}\r\n\r\n".as_bytes());
    HELD.set((0, 0));
    let summary = summarize(message);
    let memory = HELD.get().1 as usize;
    let (len, most) = (summary.len(), summary_len_max(message.len()));
    assert!(len <= most, "{} bytes have a summary of {len}, over {most}", message.len());
    // The octets that a quota counts of a message bound the size of its summary on disk.
    let counted = message.len() as u64 + MESSAGE_COST;
    assert!(len as u64 <= SUMMARY_SHARE as u64 * counted, "{counted} octets count for a summary of {len}");
    let most = summary_memory_max(message.len());
    assert!(memory <= most, "{} bytes take {memory}, over {most}", message.len());
    assert!(SummaryRef::new(&summary).is_ok());
    (summary, memory)
}
