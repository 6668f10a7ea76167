//! Announces to every session that the server is about to stop.

use tokio::sync::watch;

/// The end that requests the shutdown. Dropping it requests it, too, so that no session outlives
/// its server by accident.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

/// The end that listens: cheap to clone, one for each listener and session.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// A pair: keep the trigger, hand out clones of the token.
    pub fn new() -> (ShutdownTrigger, Self) {
        let (sender, receiver) = watch::channel(false);
        (ShutdownTrigger(sender), Self(receiver))
    }

    /// Whether the server is stopping.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Returns once the server is stopping. May be dropped and called again at any time.
    pub async fn requested(&mut self) {
        // An error means that the trigger was dropped, which requests a shutdown as well.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

impl ShutdownTrigger {
    /// Asks all to finish.
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    /// One more listening end.
    pub fn token(&self) -> Shutdown {
        Shutdown(self.0.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_token_hears_it() {
        let (trigger, mut one) = Shutdown::new();
        let two = one.clone();
        assert!(!one.is_requested());
        trigger.request();
        one.requested().await;
        assert!(one.is_requested() && two.is_requested() && trigger.token().is_requested());
    }

    #[tokio::test]
    async fn a_dropped_trigger_asks_too() {
        let (trigger, mut token) = Shutdown::new();
        drop(trigger);
        token.requested().await;
        assert!(token.is_requested());
    }
}
