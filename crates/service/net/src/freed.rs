//! Large memory is freed on another thread: the system takes 0.1 ms for each MiB that was used, and
//! more on a slow processor. Sessions share their threads.

use bytes::Bytes;
use posthaste_permits::is_compute_thread;
use tokio::runtime::Handle;

/// Bytes that a task frees itself: some 0.4 ms. A message of 60 MB took up to 11 ms.
pub const FREED_HERE_MAX: usize = 4 << 20;

/// Drops what holds this many bytes. A permit for them may be part of it: it ends with them.
pub fn free<T: Send + 'static>(held: T, bytes: usize) {
    if bytes > FREED_HERE_MAX {
        drop_elsewhere(held);
    }
}

/// Drops what takes long to drop on another thread. A thread for computations drops it itself: a
/// thread that it makes would keep its low priority, and the runtime would use it for sessions.
pub fn drop_elsewhere<T: Send + 'static>(held: T) {
    if !is_compute_thread()
        && let Ok(runtime) = Handle::try_current()
    {
        runtime.spawn_blocking(move || drop(held));
    }
}

/// The same bytes. The task that drops the last of them frees no large memory.
pub fn freed_elsewhere<T: Into<Bytes> + AsRef<[u8]> + Send + 'static>(bytes: T) -> Bytes {
    match bytes.as_ref().len() > FREED_HERE_MAX {
        true => Bytes::from_owner(FreedElsewhere(Some(bytes))),
        false => bytes.into(),
    }
}

/// Memory that another thread frees.
struct FreedElsewhere<T: AsRef<[u8]> + Send + 'static>(Option<T>);

impl<T: AsRef<[u8]> + Send + 'static> AsRef<[u8]> for FreedElsewhere<T> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], AsRef::as_ref)
    }
}

impl<T: AsRef<[u8]> + Send + 'static> Drop for FreedElsewhere<T> {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            let bytes = held.as_ref().len();
            free(held, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use super::*;

    const LARGE: usize = FREED_HERE_MAX + 1;

    /// Memory that notes which thread frees it.
    struct Noted(Vec<u8>, mpsc::Sender<ThreadId>);

    impl AsRef<[u8]> for Noted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Noted {
        fn drop(&mut self) {
            let _ = self.1.send(thread::current().id());
        }
    }

    #[tokio::test]
    async fn a_large_message_is_freed_on_another_thread() {
        let here = thread::current().id();
        for (len, is_elsewhere) in [(FREED_HERE_MAX, false), (LARGE, true)] {
            let (freed, frees) = mpsc::channel();
            let bytes = Bytes::from_owner(FreedElsewhere(Some(Noted(vec![7; len], freed))));
            let part = bytes.slice(1..3);
            drop(bytes);
            assert_eq!((&part[..], frees.try_recv().is_err()), (&[7, 7][..], true));
            drop(part);
            // The other thread needs a moment; nothing else is waited for.
            assert_eq!(frees.recv().unwrap() != here, is_elsewhere, "{len} bytes");
        }
    }

    #[tokio::test]
    async fn a_thread_for_computations_frees_memory_itself() {
        let (freed, frees) = mpsc::channel();
        let work = move || {
            free(Noted(Vec::new(), freed), LARGE);
            thread::current().id()
        };
        let by = posthaste_permits::on_compute_thread(work).await.unwrap();
        assert_eq!(frees.recv().unwrap(), by);
    }

    #[test]
    fn without_a_runtime_it_is_freed_at_once() {
        let (freed, frees) = mpsc::channel();
        free(Noted(Vec::new(), freed), LARGE);
        assert_eq!(frees.try_recv(), Ok(thread::current().id()));
    }

    #[tokio::test]
    async fn the_bytes_are_those_of_the_message() {
        for len in [10, LARGE] {
            assert_eq!(freed_elsewhere(vec![b'x'; len]), vec![b'x'; len]);
        }
    }
}
