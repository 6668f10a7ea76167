//! How many there are of something, for those that wait until there is one or none.

use tokio::sync::watch;

/// Adds one to a number until it is dropped.
pub(crate) struct CountedIn(watch::Sender<usize>);

impl CountedIn {
    pub fn of(number: &watch::Sender<usize>) -> Self {
        number.send_modify(|n| *n += 1);
        Self(number.clone())
    }
}

impl Drop for CountedIn {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}
