//! Lines of frequent events are written in batches, by a thread of their own.
//!
//! A login then costs a copy of its line. With a login every 200 µs, one write has the lines of a
//! hundred. All other events are written at once, with the lines before them. `kill -9` loses the
//! frequent events of the last [`PAUSE`].

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

/// Time in which lines are gathered. Nobody who reads a log notices it.
const PAUSE: Duration = Duration::from_millis(20);
/// Octets after which nobody waits for the thread. A log that is read too slowly then slows down
/// the program, and no line is lost.
const FULL: usize = 64 * 1024;

/// Lines on their way to a file.
pub(crate) struct Batches<W> {
    /// Lines that are not written yet.
    waiting: Mutex<Vec<u8>>,
    /// The first line waits.
    comes: Condvar,
    /// Lines are left to a thread. Without one they are written at once.
    has_thread: AtomicBool,
    output: Mutex<Output<W>>,
}

struct Output<W> {
    to: W,
    /// The lines that are being written. The two buffers are exchanged, so neither is allocated
    /// again.
    batch: Vec<u8>,
}

/// When a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// With other lines, after at most [`PAUSE`].
    Soon,
    /// Before the call returns.
    Now,
}

impl<W: Write> Batches<W> {
    pub(crate) const fn new(to: W) -> Self {
        Self {
            waiting: Mutex::new(Vec::new()),
            comes: Condvar::new(),
            has_thread: AtomicBool::new(false),
            output: Mutex::new(Output { to, batch: Vec::new() }),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<u8>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line behind those that wait.
    fn add(&self, line: &[u8], when: When) {
        let mut waiting = self.waiting();
        let is_first = waiting.is_empty();
        waiting.extend_from_slice(line);
        let is_full = waiting.len() >= FULL;
        drop(waiting);
        if when == When::Now || is_full || !self.has_thread.load(Ordering::Relaxed) {
            self.write();
        } else if is_first {
            self.comes.notify_one();
        }
    }

    /// Writes all lines that wait.
    pub(crate) fn write(&self) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let Output { to, batch } = &mut *output;
        std::mem::swap(batch, &mut *self.waiting());
        if !batch.is_empty() {
            // There is no other place to report that the log cannot be written.
            let _ = to.write_all(batch).and_then(|()| to.flush());
        }
        batch.clear();
        batch.shrink_to(FULL);
    }

    /// Waits until there are lines.
    fn wait(&self) {
        let waiting = self.comes.wait_while(self.waiting(), |waiting| waiting.is_empty());
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }
}

impl<W: Write + Send> Batches<W> {
    /// Starts the thread that writes batches. Without it the lines go on being written at once.
    pub(crate) fn start(&'static self) -> io::Result<()> {
        let write = move || {
            loop {
                self.wait();
                thread::sleep(PAUSE);
                self.write();
            }
        };
        thread::Builder::new().name("log".to_owned()).spawn(write)?;
        self.has_thread.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// The place where one event is written, by one call.
pub(crate) struct Entry<'b, W> {
    pub(crate) batches: &'b Batches<W>,
    pub(crate) when: When,
}

impl<W: Write> Write for Entry<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.batches.add(line, self.when);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    /// Sends each batch that is written.
    struct Written(Sender<String>);

    impl Write for Written {
        fn write(&mut self, batch: &[u8]) -> io::Result<usize> {
            self.0.send(String::from_utf8(batch.to_vec()).unwrap()).unwrap();
            Ok(batch.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn batches() -> (&'static Batches<Written>, Receiver<String>) {
        let (sender, written) = mpsc::channel();
        (Box::leak(Box::new(Batches::new(Written(sender)))), written)
    }

    /// As if a thread wrote batches, which does not come to it.
    fn batches_that_wait() -> (&'static Batches<Written>, Receiver<String>) {
        let (batches, written) = batches();
        batches.has_thread.store(true, Ordering::Relaxed);
        (batches, written)
    }

    #[test]
    fn without_a_thread_each_line_is_written_at_once() {
        let (batches, written) = batches();
        for line in ["a\n", "b\n"] {
            batches.add(line.as_bytes(), When::Soon);
            assert_eq!(written.try_recv().unwrap(), line);
        }
    }

    #[test]
    fn a_line_that_does_not_wait_takes_those_before_it_along() {
        let (batches, written) = batches_that_wait();
        batches.add(b"a\n", When::Soon);
        batches.add(b"b\n", When::Soon);
        assert!(written.try_recv().is_err());
        batches.add(b"c\n", When::Now);
        assert_eq!(written.try_recv().unwrap(), "a\nb\nc\n");
        batches.write();
        assert!(written.try_recv().is_err(), "a line is written once");
    }

    #[test]
    fn many_lines_do_not_wait_for_the_thread() {
        let (batches, written) = batches_that_wait();
        let line = [b'x'; 1024];
        for _ in 0..FULL / line.len() {
            assert!(written.try_recv().is_err());
            batches.add(&line, When::Soon);
        }
        assert_eq!(written.try_recv().unwrap().len(), FULL);
        assert!(batches.waiting().is_empty());
    }

    #[test]
    fn the_thread_writes_what_many_threads_add_and_each_keeps_its_order() {
        let (batches, written) = batches();
        batches.start().unwrap();
        const LINES: usize = 2_000;
        thread::scope(|scope| {
            for name in ["a", "b", "c"] {
                scope.spawn(move || {
                    for number in 0..LINES {
                        let when = if number % 500 == 499 { When::Now } else { When::Soon };
                        batches.add(format!("{name} {number}\n").as_bytes(), when);
                    }
                });
            }
        });
        let mut text = String::new();
        while text.lines().count() < 3 * LINES {
            text += &written.recv().unwrap();
        }
        for name in ["a", "b", "c"] {
            let own =
                text.lines().filter_map(|line| line.strip_prefix(name)?.trim_start().parse::<usize>().ok());
            assert!(own.eq(0..LINES), "{name}");
        }
    }
}
