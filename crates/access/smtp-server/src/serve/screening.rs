//! Other hosts are screened before their mail is read.

use std::time::Instant;

use posthaste_delivery::ResolveError;
use posthaste_directory::Target;
use posthaste_net::NetError;
use posthaste_screening::{Refusal, Screening, Standing, is_postmaster};

use super::Driver;
use crate::reply::Reply;
use crate::session::replies;

impl Driver {
    /// The screening of this host, if there is one.
    fn screening(&self) -> Option<Screening> {
        let screening = self.service.screening.as_ref()?;
        screening.concerns(self.connection.peer().ip()).then(|| screening.clone())
    }

    /// The answer that a host gets to a recipient instead of one about the recipient.
    pub(super) async fn screened(&mut self, recipient: &str) -> Result<Option<Reply>, NetError> {
        let Some(screening) = self.screening().filter(|_| !is_postmaster(recipient)) else { return Ok(None) };
        let peer = self.connection.peer().ip();
        let greeting = self.session.client_name();
        if self.standing.as_ref().is_none_or(|(under, _)| under != greeting) {
            let greeting = greeting.to_owned();
            // The lists may take their time.
            self.flush().await?;
            let standing = screening.standing(peer, &greeting).await;
            self.standing = Some((greeting, standing));
        }
        let refusal = match &self.standing {
            Some((_, Standing::Refused(refusal))) => Some(refusal.clone()),
            _ => screening.may_name(peer, Instant::now()).err(),
        };
        Ok(refusal.map(|refusal| self.screened_out(&refusal, recipient)))
    }

    /// A recipient was looked up. A wrong guess is counted, and an unknown sender is deferred.
    pub(super) fn screened_as(&self, recipient: &str, found: &Result<Target, ResolveError>) -> Option<Reply> {
        let screening = self.screening().filter(|_| !is_postmaster(recipient))?;
        let (peer, now) = (self.connection.peer().ip(), Instant::now());
        match found {
            Ok(_) => {
                let refusal = screening.recipient(peer, self.session.sender(), recipient, now).err()?;
                Some(self.screened_out(&refusal, recipient))
            }
            Err(ResolveError::NoSuchUser) => {
                screening.unknown_recipient(peer, now);
                None
            }
            Err(_) => None,
        }
    }

    /// A message is about to come.
    pub(super) fn message_screened(&self) -> Result<(), Reply> {
        let Some(screening) = self.screening() else { return Ok(()) };
        let peer = self.connection.peer().ip();
        let counted = screening.message(peer, self.session.sender(), Instant::now());
        counted.map_err(|refusal| self.screened_out(&refusal, ""))
    }

    /// Whether the host's mail goes to the junk folder.
    pub(super) fn is_junk(&self) -> bool {
        matches!(self.standing, Some((_, Standing::Junk)))
    }

    fn screened_out(&self, refusal: &Refusal, recipient: &str) -> Reply {
        let client = self.connection.peer().ip().to_canonical();
        tracing::info!(%client, from = self.session.sender(), to = recipient, why = refusal.to_string(), "refused by screening");
        replies::screened(refusal)
    }
}
