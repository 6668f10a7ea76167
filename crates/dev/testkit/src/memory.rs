//! How much memory a piece of work takes: an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator. It counts the bytes that the whole process holds, and its allocations,
/// so a test program with it runs one test. A program makes it its `#[global_allocator]`.
pub struct CountingAllocator {
    held: AtomicUsize,
    most: AtomicUsize,
    made: AtomicUsize,
}

impl CountingAllocator {
    /// One that has counted nothing.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self { held: AtomicUsize::new(0), most: AtomicUsize::new(0), made: AtomicUsize::new(0) }
    }

    /// The bytes that the process holds now.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Does some work. Returns the most bytes that the process held meanwhile, beyond those before,
    /// and the result.
    pub fn most_during<T>(&self, work: impl FnOnce() -> T) -> (usize, T) {
        let before = self.held.load(Ordering::Relaxed);
        self.most.store(before, Ordering::Relaxed);
        let result = work();
        (self.most.load(Ordering::Relaxed) - before, result)
    }

    /// Does some work. Returns how often the process allocated memory meanwhile, and the result.
    pub fn allocations_during<T>(&self, work: impl FnOnce() -> T) -> (usize, T) {
        let before = self.made.load(Ordering::Relaxed);
        let result = work();
        (self.made.load(Ordering::Relaxed) - before, result)
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own layout. Counting
// allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = self.held.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        self.most.fetch_max(held, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise for this layout holds for the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.held.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc`, so from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}
