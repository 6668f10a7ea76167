//! The queue's way into mailboxes here: recipients that a message has not reached at once.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use posthaste_directory::{ResolveError, Target};
use posthaste_net::joined;
use posthaste_queue::{
    Body, Channel, Destination, Failure, Item, Local, Sent, Success, TlsRequirement, Transport, Unreachable,
};

use crate::compose;
use crate::dsn_request::DsnRequest;
use crate::filter::{Envelope, Filter, Refusals, Undelivered};
use crate::mail::RemoteClient;
use crate::required_extensions::RequiredExtensions;

/// The reply to a sender that is deferred because of the copies that groups make.
pub const COPIES_LATER: &str = "Groups here have made many copies of your mail: try again later";

/// The filter that mail is delivered by at present. Cheap to clone: all clones are one.
#[derive(Debug, Clone)]
pub struct CurrentFilter(Arc<RwLock<Filter>>);

impl CurrentFilter {
    /// Creates it with this filter.
    pub fn new(filter: Filter) -> Self {
        Self(Arc::new(RwLock::new(filter)))
    }

    /// Replaces the filter.
    pub fn set(&self, filter: Filter) {
        *self.0.write() = filter;
    }

    /// The current filter.
    pub fn get(&self) -> Filter {
        self.0.read().clone()
    }
}

/// Sends items for mailboxes here to a filter, and all others to other hosts.
pub struct ToMailboxes {
    filter: CurrentFilter,
    hosts: Arc<dyn Transport>,
}

impl ToMailboxes {
    /// Wraps `hosts`.
    pub fn beside(hosts: Arc<dyn Transport>, filter: CurrentFilter) -> Self {
        Self { filter, hosts }
    }
}

#[async_trait]
impl Transport for ToMailboxes {
    fn kind(&self, destination: &Destination) -> &'static str {
        match Local::of(TlsRequirement::split(destination).0) {
            Some(_) => "here",
            None => self.hosts.kind(destination),
        }
    }

    async fn connect(&self, destination: &Destination) -> Result<Box<dyn Channel>, Unreachable> {
        match Local::of(TlsRequirement::split(destination).0) {
            Some(here) => Ok(Box::new(Mailboxes { filter: self.filter.get(), here })),
            None => self.hosts.connect(destination).await,
        }
    }
}

/// Mailboxes as a host that takes mail.
struct Mailboxes {
    filter: Filter,
    here: Local,
}

#[async_trait]
impl Channel for Mailboxes {
    async fn send(&mut self, item: &Item, to: &[usize], message: Body) -> Sent {
        let (mut targets, mut asked, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for recipient in item.at(to) {
            found.push(match self.filter.target(&recipient.address).await {
                Ok(target) => {
                    targets.push(target);
                    let (ret, envid, notify) = (item.ret, item.envid.as_ref(), recipient.notify);
                    let (orcpt, named) = (recipient.orcpt.as_ref(), recipient.named.as_deref());
                    asked.push(DsnRequest { ret, envid, notify, orcpt, named });
                    Ok(())
                }
                Err(error) => Err(unresolved(&error)),
            });
        }
        let mut delivered = self.deliver(item, &message, (&targets, &asked)).await.into_iter();
        let lost = || Err(Failure::temporary("4.3.0", "451 4.3.0 No answer for this recipient"));
        let outcomes = found.into_iter().map(|one| one.and_then(|()| delivered.next().unwrap_or_else(lost)));
        Sent { outcomes: outcomes.collect(), usable: true }
    }

    async fn close(self: Box<Self>) {}
}

impl Mailboxes {
    async fn deliver(
        &self,
        item: &Item,
        message: &Body,
        (targets, asked): (&[Target], &[DsnRequest<'_>]),
    ) -> Vec<Result<Option<Success>, Failure>> {
        if targets.is_empty() {
            return Vec::new();
        }
        // RFC 5321 §4.4: the last host adds it.
        let text = message.bytes().slice_ref(compose::without_return_path(message.bytes()));
        let text = joined([Bytes::from(format!("Return-Path: <{}>\r\n", item.from)), text]).await;
        let envelope = Envelope {
            from: &item.from,
            // Others have the message: a refusal needs a report.
            refusals: Refusals::Never,
            is_quarantined: self.here == Local::Junk,
            tls: item.tls(),
            client: RemoteClient { account: item.account.as_deref(), ..RemoteClient::default() },
            needs: RequiredExtensions { binary: item.binary, smtputf8: item.smtputf8 },
            asked,
            lease_end: Some(message.lease_end()),
        };
        let outcomes = self.filter.deliver_to(text, envelope, targets).await;
        outcomes.into_iter().map(|one| one.map_err(|error| error.failure())).collect()
    }
}

impl Undelivered {
    /// The error as a failure of the queue.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Delivery(error) => Failure::of_delivery(error),
            // RFC 3463 §3.3: mailing list expansion problem.
            Self::TooManyCopies(_) => Failure::temporary("4.2.4", format!("450 4.2.4 {COPIES_LATER}")),
            Self::Rejected(reason) => Failure::permanent("5.7.1", format!("550 5.7.1 {reason}")),
        }
    }
}

/// RFC 3463 §3.2.
fn unresolved(error: &ResolveError) -> Failure {
    let status = match error {
        ResolveError::Directory(_) => {
            return Failure::temporary("4.3.0", "451 4.3.0 Account data is unavailable; try again later");
        }
        ResolveError::Invalid(_) => "5.1.3",
        ResolveError::NotLocal => "5.1.2",
        ResolveError::NoSuchUser => "5.1.1",
        ResolveError::Disabled => "5.2.1",
    };
    Failure::permanent(status, format!("550 {status} {error}"))
}
