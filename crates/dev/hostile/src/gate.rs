//! Keeps attacks in the state that they reached, until all others have reached theirs.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Open at first: nobody waits.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// Those who came so far.
    came: usize,
}

/// Keeps a gate closed until it is dropped. A panic drops it, too: no attack waits for ever.
#[derive(Debug)]
#[must_use = "the gate opens when this is dropped"]
pub struct Closed<'g>(&'g Gate);

impl Gate {
    /// From now on, each caller waits. One caller at a time closes it.
    pub fn close(&self) -> Closed<'_> {
        self.lock().is_closed = true;
        Closed(self)
    }

    /// How many came so far.
    pub fn came(&self) -> usize {
        self.lock().came
    }

    /// Counts the caller, who waits while it is closed.
    pub fn pass(&self) {
        let mut state = self.lock();
        state.came += 1;
        while state.is_closed {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Closed<'_> {
    /// Lets all go on.
    fn drop(&mut self) {
        self.0.lock().is_closed = false;
        self.0.opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_opens_a_gate() {
        let gate = Gate::default();
        let closes = || {
            let _closed = gate.close();
            assert!(!gate.lock().is_closed, "of a test");
        };
        assert!(catch_unwind(AssertUnwindSafe(closes)).is_err());
        // It does not wait.
        gate.pass();
        assert_eq!(gate.came(), 1);
    }
}
