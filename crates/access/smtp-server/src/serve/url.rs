//! A part of a message that comes from a mailbox: BURL, RFC 4468.

use std::sync::Arc;

use posthaste_delivery::{DeliveryError, UrlReader, UrlRefusal, UrlUse};
use posthaste_net::NetError;

use super::{Driver, Next};
use crate::reply::{Enhanced, Reply};

impl Driver {
    /// Reads a part of a message from a URL (RFC 4468 §3). Messages come from this server's
    /// store, so no other server is queried.
    pub(super) async fn url(&mut self, url: &str, last: bool) -> Result<Next, NetError> {
        let (id, mut incoming) = match self.incoming.take() {
            Some(begun) => begun,
            None => self.begin_message(),
        };
        let Some(account) = self.session.account().cloned() else { return Ok(Next::End) };
        let sink = Arc::clone(&self.service.sink);
        let host = &self.service.options.host;
        let reader = UrlReader { account: &account, host, selected: None, used: UrlUse::Submission };
        let part = match incoming.while_held(sink.find_url(reader, url)).await {
            Ok(part) => part,
            Err(UrlRefusal::Bad(why)) => {
                tracing::debug!(account = account.name, why, "a URL is refused");
                let action = self.session.url_refused();
                return self.say_or_close(action);
            }
            Err(UrlRefusal::Failed(error)) => return self.url_failed(&error),
        };
        let mut at = 0;
        loop {
            let piece = match incoming.while_held(sink.read_url(&part, at)).await {
                Ok(piece) if piece.is_empty() => break,
                Ok(piece) => piece,
                Err(error) => return self.url_failed(&error),
            };
            at += piece.len() as u64;
            incoming.reserve(piece.len()).await;
            incoming.append(&piece);
            if incoming.refusal().is_some() {
                // The part is empty.
                break;
            }
        }
        if last {
            return self.finish_message(id, incoming).await;
        }
        // RFC 4468 §4
        let reply = incoming
            .refusal()
            .unwrap_or_else(|| Reply::new(250, Enhanced(2, 5, 0), format!("{at} octets read")));
        self.incoming = Some((id, incoming));
        self.say(&reply);
        Ok(Next::Command)
    }

    /// The store cannot be read just now. The transaction is over.
    fn url_failed(&mut self, error: &DeliveryError) -> Result<Next, NetError> {
        tracing::error!(%error, "a message that a URL names cannot be read");
        let reply = Reply::new(451, Enhanced(4, 3, 0), "The message cannot be read now; try again later");
        let reply = self.session.message_refused(reply);
        self.say(&reply);
        Ok(Next::Command)
    }
}
