//! Any bytes as a message: its summary is no longer than is promised, and making it takes no more
//! memory than is promised.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use libfuzzer_sys::fuzz_target;
use posthaste_delivery::summarize;
use posthaste_mime_summary::{SummaryRef, summary_len_max, summary_memory_max};

/// Counts what this thread holds; all else is the system's.
struct Counting;

thread_local! {
    /// Bytes held at the moment, and the most there were.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
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

fuzz_target!(|message: &[u8]| {
    // Tables that are made at the first need are nobody's.
    summarize("Subject: \u{fc}\r\n\r\n".as_bytes());
    HELD.set((0, 0));
    let summary = summarize(message);
    let memory = HELD.get().1 as usize;
    assert!(summary.len() <= summary_len_max(message.len()), "a summary of {}", summary.len());
    assert!(memory <= summary_memory_max(message.len()), "memory of {memory}");
    SummaryRef::new(&summary).expect("a record that was just made");
});
