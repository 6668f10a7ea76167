//! The limits of the account that logged in: commands wait, submissions are refused.

use posthaste_directory::revoked;
use posthaste_net::{AccountLimit, NetError};

use super::without_message::is_long_chunk;
use super::{Driver, REVOKED, STOPS, closing, evicted};
use crate::reply::Reply;
use crate::session::{Action, replies};

impl Driver {
    /// Waits before a command of a client that gives many without a message or a login.
    pub(super) async fn slow_down(&mut self, verb: &str, line: &[u8]) -> Result<(), NetError> {
        let is_later_chunk = verb == "BDAT" && self.session.is_receiving() && is_long_chunk(line);
        if self.session.account().is_some() || is_later_chunk {
            return Ok(());
        }
        if let Some(wait) = self.without_message.count(verb, self.service.options.recipients_max) {
            // Commands before this one are answered first.
            self.flush().await?;
            self.connection.clock().sleep(wait).await;
        }
        Ok(())
    }

    /// Counts a command and waits until the account may give it; what ends the session meanwhile.
    pub(super) async fn held_back(&mut self) -> Result<Option<Action>, NetError> {
        if !self.connection.count_command() {
            return Ok(None);
        }
        // Commands before this one are answered first.
        self.flush().await?;
        let Some(share) = self.connection.share() else { return Ok(None) };
        // Boxed: hardly any session needs it.
        let mut wait = Box::pin(share.wait(AccountLimit::Commands));
        let (enhanced, why) = loop {
            tokio::select! {
                biased;
                () = self.shutdown.requested() => break ((4, 3, 2), STOPS),
                () = revoked(&mut self.lease) => break ((4, 7, 0), REVOKED),
                () = self.connection.peer_left() => return Err(NetError::Closed),
                () = evicted(&mut self.incoming) => {}
                () = &mut wait => return Ok(None),
            }
        };
        Ok(Some(Action::Close(closing(enhanced, why))))
    }

    /// Counts the message that is about to come, once: before DATA, and before the first BDAT. The
    /// error is the reply if there are too many; the transaction is over then.
    pub(super) fn count_message(&mut self) -> Result<(), Reply> {
        if self.incoming.is_some() {
            return Ok(());
        }
        let peer = self.connection.peer().ip();
        let counted = match self.connection.share() {
            Some(share) => {
                let submitted = share.submit(self.session.recipients(), peer);
                submitted.map_err(|refused| replies::over_limit(&refused))
            }
            None => self.message_screened(),
        };
        counted.map_err(|reply| self.session.message_refused(reply))
    }
}
