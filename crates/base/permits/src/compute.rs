//! How many threads compute at a time.

/// Threads that may compute at a time: one fewer than processors, and at least one. One processor
/// stays free for sessions, whose work is short.
///
/// Each kind of work counts by itself, so several kinds at once may take all processors. With one
/// count for all, a login would wait for long pieces of other work, such as the run of a script.
pub fn compute_threads() -> usize {
    all_but_one(std::thread::available_parallelism().map_or(1, usize::from))
}

fn all_but_one(processors: usize) -> usize {
    processors.saturating_sub(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_is_for_sessions() {
        assert_eq!([0, 1, 2, 3, 64].map(all_but_one), [1, 1, 1, 2, 63]);
    }
}
