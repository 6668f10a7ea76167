//! How many there are of something, for those that wait until there is one or none.

use tokio::sync::watch;

/// Adds one to a number until it is dropped.
pub(crate) struct CountedIn(watch::Sender<usize>);

impl CountedIn {
    pub fn of(number: &watch::Sender<usize>) -> Self {
        change(number, |n| *n += 1);
        Self(number.clone())
    }
}

impl Drop for CountedIn {
    fn drop(&mut self) {
        change(&self.0, |n| *n -= 1);
    }
}

/// Changes a number, and wakes those that wait for it. Each commit changes it twice, and mostly
/// nobody waits. Who subscribes at the same time reads the changed number, or is woken.
fn change(number: &watch::Sender<usize>, by: impl FnOnce(&mut usize)) {
    number.send_if_modified(|n| {
        by(n);
        number.receiver_count() > 0
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_that_subscribe_see_the_number_and_its_changes() {
        let number = watch::Sender::new(0);
        let first = CountedIn::of(&number);
        let mut seen = number.subscribe();
        assert!(!seen.has_changed().unwrap());
        assert_eq!(*seen.borrow_and_update(), 1);
        let second = CountedIn::of(&number);
        assert!(seen.has_changed().unwrap());
        drop(second);
        assert_eq!(*seen.borrow_and_update(), 1);
        let ends = tokio::spawn(async move { seen.wait_for(|n| *n == 0).await.is_ok() });
        tokio::task::yield_now().await;
        drop(first);
        assert!(ends.await.unwrap());
        assert_eq!(number.receiver_count(), 0);
    }
}
