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

impl Gate {
    /// From now on, who comes waits.
    pub fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Lets all go on.
    pub fn open(&self) {
        self.lock().is_closed = false;
        self.opened.notify_all();
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
