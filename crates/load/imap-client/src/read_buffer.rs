//! A buffer for each thread, which its connections borrow in turn.
//!
//! A connection reads into the buffer and scans the bytes before the next connection borrows it. So
//! reads are large, and a connection that waits holds no memory. A connection that keeps unread
//! bytes keeps the buffer, and the next connection gets another one.

use std::cell::Cell;

/// Bytes of one read: two of the largest segments on loopback, or eight TLS records. Larger buffers
/// save few system calls, and fill the processor's second cache.
pub(crate) const READ_BYTES: usize = 128 * 1024;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The thread's buffer, empty; a new one if it is borrowed.
pub(crate) fn borrow() -> Vec<u8> {
    let mut buffer = SPARE.take();
    buffer.clear();
    buffer.reserve(READ_BYTES);
    buffer
}

/// Takes a buffer back. Its content is lost.
pub(crate) fn give_back(buffer: Vec<u8>) {
    if buffer.capacity() >= READ_BYTES {
        SPARE.set(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_thread_use_one_buffer_in_turn() {
        let first = borrow();
        let address = first.as_ptr();
        let second = borrow();
        assert_ne!(second.as_ptr(), address, "the first is borrowed");
        drop(second);
        give_back(first);
        give_back(vec![1; 8]);
        let again = borrow();
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        assert!(again.capacity() >= READ_BYTES);
    }
}
