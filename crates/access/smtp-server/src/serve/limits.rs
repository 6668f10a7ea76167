//! The limits of the account that logged in: commands wait, submissions are refused.

use posthaste_net::{AccountLimit, NetError};

use super::{Driver, REVOKED, STOPS, closing, revoked};
use crate::{reply::Reply, session::Action};

impl Driver {
    /// Counts a command and waits until the account may give it; what ends the session meanwhile.
    pub(super) async fn held_back(&mut self) -> Result<Option<Action>, NetError> {
        if !self.connection.count_command() {
            return Ok(None);
        }
        // Commands before this one are answered first.
        self.flush().await?;
        let Some(share) = self.connection.share() else { return Ok(None) };
        let (enhanced, why) = tokio::select! {
            biased;
            () = self.shutdown.requested() => ((4, 3, 2), STOPS),
            () = revoked(&mut self.lease) => ((4, 7, 0), REVOKED),
            () = self.connection.peer_left() => return Err(NetError::Closed),
            // Boxed: hardly any session needs it.
            () = Box::pin(share.wait(AccountLimit::Commands)) => return Ok(None),
        };
        Ok(Some(Action::Close(closing(enhanced, why))))
    }

    /// Counts the message that is about to come, once: before DATA, and before the first BDAT. The
    /// error is what to say if it is too many; the transaction is over then.
    pub(super) fn count_submission(&mut self) -> Result<(), Reply> {
        let Some(share) = self.connection.share().filter(|_| self.incoming.is_none()) else { return Ok(()) };
        let peer = self.connection.peer().ip();
        share.submit(self.session.recipients(), peer).map_err(|refused| self.session.over_limit(&refused))
    }
}
