//! Lets a connection detect the end of a login in the middle of an answer.
//!
//! Sessions look at their login before each command. An answer may take hours if the client reads
//! slowly, so the [`Connection`](crate::Connection) checks as well. It does so before each piece of
//! an answer, and while it waits for the client to read.

use tokio::sync::watch;

/// Becomes true once the credential of a login is no longer valid. By default that never happens.
#[derive(Clone, Debug, Default)]
pub struct LoginEnd(Option<watch::Receiver<bool>>);

impl LoginEnd {
    /// The login ends when the value becomes true.
    pub fn new(ended: watch::Receiver<bool>) -> Self {
        Self(Some(ended))
    }

    /// Whether the login has ended.
    pub fn is_reached(&self) -> bool {
        self.0.as_ref().is_some_and(|ended| *ended.borrow())
    }

    /// Returns once the login has ended. May be dropped and called again at any time.
    pub async fn reached(&mut self) {
        if let Some(ended) = &mut self.0
            && ended.wait_for(|ended| *ended).await.is_ok()
        {
            return;
        }
        // Nothing can end the login any more.
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_login_ends_once_and_only_if_somebody_ends_it() {
        let (end, ended) = watch::channel(false);
        let mut login = LoginEnd::new(ended);
        assert!(!login.is_reached() && !LoginEnd::default().is_reached());
        end.send_replace(true);
        assert!(login.is_reached());
        login.reached().await;
        login.clone().reached().await;
        let (end, ended) = watch::channel(false);
        drop(end);
        let mut kept = LoginEnd::new(ended);
        let mut wait = std::pin::pin!(kept.reached());
        let pending = std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx).is_pending()));
        assert!(pending.await);
    }
}
