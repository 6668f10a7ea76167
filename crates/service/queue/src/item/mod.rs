//! The data of the queue about a message, without its bytes.

use posthaste_mail_model::BodyId;
use serde::{Deserialize, Serialize};

use crate::dsn::{EnvelopeId, Notify, OriginalRecipient, Return};
use crate::keys::{Key, Keys, PayerId};
use crate::priority::{Priority, Rank};
use crate::success::Success;

mod record;
mod split;

pub(crate) use record::{CountedFields, pending_rows};
pub(crate) use split::octets;

const PREFIX: &str = "queue/";

/// Number of an item: its UID in the queue's mailbox. Numbers rise, and are never used again.
pub type ItemId = u32;

/// An address as it is sent in MAIL and RCPT, without brackets.
pub type Address = String;

/// The destination of an item: the domain of its recipients, in lower case and A-labels. Messages
/// with different requirements of TLS use separate connections: `DOMAIN+requiretls`,
/// `DOMAIN+anytls` ([`TlsRequirement`]).
pub type Destination = String;

/// The TLS that the sender of a message requires on its way (RFC 8689).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsRequirement {
    /// As the domain's own policy requires.
    #[default]
    Policy,
    /// TLS with a host that is known to be the right one, at every step (REQUIRETLS).
    Required,
    /// Delivery, also where the domain's policy is not met (`TLS-Required: No`).
    Optional,
}

impl TlsRequirement {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Policy => "",
            Self::Required => "+requiretls",
            Self::Optional => "+anytls",
        }
    }

    /// The destination of messages for a domain with this requirement.
    pub fn destination(self, domain: &str) -> Destination {
        format!("{domain}{}", self.suffix())
    }

    /// The domain of a destination, and the requirement. No domain has a `+`.
    pub fn split(destination: &str) -> (&str, Self) {
        for requirement in [Self::Required, Self::Optional] {
            if let Some(domain) = destination.strip_suffix(requirement.suffix()) {
                return (domain, requirement);
            }
        }
        (destination, Self::Policy)
    }
}

/// A message's envelope, as its sender gave it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The address that gets reports. Empty for the null path, which gets no reports (RFC 5321
    /// §4.5.5).
    pub from: Address,
    /// The recipients.
    pub to: Vec<To>,
    /// Whether addresses and header fields may be UTF-8 (RFC 6531).
    pub smtputf8: bool,
    /// Whether the message was declared as binary (RFC 3030 §3).
    pub binary: bool,
    /// The part of the message that a report about a failure returns.
    pub ret: Option<Return>,
    /// The sender's name for the transaction.
    pub envid: Option<EnvelopeId>,
    /// The TLS that the sender requires.
    pub tls: TlsRequirement,
    /// The priority of the message.
    pub priority: Priority,
    /// The account that submitted it, by its name.
    pub account: Option<String>,
    /// The account for which the server sends it on, by its name.
    pub sent_on_by: Option<String>,
}

/// A recipient as the sender gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct To {
    /// The recipient.
    pub address: Address,
    /// The requested reports.
    pub notify: Option<Notify>,
    /// The address before any alias.
    pub orcpt: Option<OriginalRecipient>,
    /// The address that the sender wrote, if the recipient is found again by another one.
    pub named: Option<Address>,
}

impl Envelope {
    /// A message without parameters.
    pub fn new(from: &str, to: &[&str]) -> Self {
        let to = to.iter().map(|to| To::new(to)).collect();
        Self { from: from.to_owned(), to, ..Self::default() }
    }
}

impl To {
    /// A recipient without parameters.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), notify: None, orcpt: None, named: None }
    }
}

/// The outcome of a message for one recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Outcome {
    /// Nothing yet.
    Waiting,
    /// The next host has it.
    Sent,
    /// The next host has it. The sender asked for a report of that, and has none yet.
    Unreported {
        /// The success that is reported. Records of earlier versions do not have it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        success: Option<Success>,
    },
    /// The message is given up, and the sender has no report yet.
    Failed {
        /// The next host's reply, or our own words.
        reply: String,
        /// Status of RFC 3463, as `5.1.1`.
        status: String,
    },
    /// The message is given up, and a report about it is on disk.
    Reported,
}

/// A recipient of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipient {
    /// The recipient.
    pub address: Address,
    /// The outcome.
    pub outcome: Outcome,
    /// The requested reports, if the sender named any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
    /// The address before any alias, if the sender gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orcpt: Option<OriginalRecipient>,
    /// The address that the sender wrote, if the recipient is found by another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<Address>,
}

/// A message that waits for one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The number of the item.
    pub id: ItemId,
    /// Version of the record it was read from.
    pub(crate) version: u64,
    /// The message.
    pub body: BodyId,
    /// Octets of it, trace fields included.
    pub size: u64,
    /// The destination of the item.
    pub destination: Destination,
    /// The address that gets reports; empty for the null path.
    pub from: Address,
    /// The recipients.
    pub recipients: Vec<Recipient>,
    /// Whether it needs SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// Whether it needs BINARYMIME (RFC 3030 §3).
    pub binary: bool,
    /// The part of the message that a report about a failure returns.
    pub ret: Option<Return>,
    /// The sender's name for the transaction.
    pub envid: Option<EnvelopeId>,
    /// The priority of the item.
    pub priority: Priority,
    /// The time when the message was accepted, unix seconds.
    pub arrived: i64,
    /// Not before then it is tried again, unix seconds.
    pub next: i64,
    /// The number of deferrals, by a temporary failure of the next host most often.
    pub attempts: u32,
    /// Why it still waits: the last temporary failure.
    pub reason: String,
    /// Whether an administrator holds it: it is not tried until it is released.
    pub held: bool,
    /// Whether the sender got a report that it is late.
    pub warned: bool,
    /// Reports that are stored and not on their way.
    pub(crate) pending: Vec<PendingReport>,
    /// The account that submitted it. Its octets count for that account. So do copies that groups
    /// make of an item for mailboxes here.
    pub account: Option<String>,
    /// The account for which the server sends it on. Its octets count for that account.
    pub sent_on_by: Option<String>,
}

/// The destination of items for mailboxes of this server. It takes the place of a domain: no domain
/// has a `+`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    /// `+here`: where the recipients' scripts put it, or INBOX.
    Inbox,
    /// `+junk`: the junk folder where it would be INBOX.
    Junk,
}

impl Local {
    /// As a domain of destinations.
    pub const fn domain(self) -> &'static str {
        match self {
            Self::Inbox => "+here",
            Self::Junk => "+junk",
        }
    }

    /// The local destination of an item; `None` if it goes to another host.
    pub fn of_item(item: &Item) -> Option<Self> {
        Self::of(TlsRequirement::split(&item.destination).0)
    }

    /// Whether the domain of a destination is one of these.
    pub fn of(domain: &str) -> Option<Self> {
        [Self::Inbox, Self::Junk].into_iter().find(|here| here.domain() == domain)
    }
}

/// A report that is stored and not on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PendingReport {
    /// The row of the queue's mailbox that holds it, and its number as an item.
    pub row: ItemId,
    pub body: String,
    pub size: u64,
    /// The recipient.
    pub to: Address,
    /// The destination of the item that it becomes; empty if it moves to the sender's INBOX.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: Destination,
    #[serde(default)]
    pub smtputf8: bool,
}

/// An item that is about to be added: an envelope, and those of its recipients that are at one
/// destination.
pub(crate) struct NewItem<'e> {
    pub envelope: &'e Envelope,
    pub destination: Destination,
    pub recipients: Vec<Recipient>,
    /// Why it waits, if it was tried already.
    pub reason: String,
}

/// The fields of an item that the schedule needs.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub id: ItemId,
    pub destination: Destination,
    /// The rank by which the item is tried.
    pub rank: Rank,
    /// The time when the item came, unix seconds.
    pub arrived: i64,
    pub payer: PayerId,
}

impl From<To> for Recipient {
    /// A recipient that the message has not reached yet.
    fn from(To { address, notify, orcpt, named }: To) -> Self {
        Self { address, outcome: Outcome::Waiting, notify, orcpt, named }
    }
}

impl Recipient {
    /// A recipient that the message has not reached yet.
    pub(crate) fn waiting(to: &To) -> Self {
        to.clone().into()
    }

    /// The address in reports: the one that the sender wrote (RFC 3464 §4.2). Mail for a
    /// postmaster may go to an account that the sender does not know.
    pub(crate) fn reported_as(&self) -> &str {
        self.named.as_deref().unwrap_or(&self.address)
    }

    /// Whether the sender gets a report if the message was handed on. False without NOTIFY (RFC
    /// 3461 §4.1).
    pub fn wants_success(&self) -> bool {
        self.notify.is_some_and(|notify| notify.success)
    }

    /// Whether the sender gets a report if the message is given up.
    pub fn wants_failure(&self) -> bool {
        self.notify.is_none_or(|notify| notify.failure)
    }

    /// Whether the sender gets a report if the message is late.
    pub fn wants_delay(&self) -> bool {
        self.notify.is_none_or(|notify| notify.delay)
    }

    /// Whether the sender has yet to get a report about its outcome.
    fn is_unreported(&self) -> bool {
        matches!(self.outcome, Outcome::Failed { .. } | Outcome::Unreported { .. })
    }

    /// Notes that the report about its outcome is on disk, or not requested.
    pub(crate) fn reported(&mut self) {
        match self.outcome {
            Outcome::Failed { .. } => self.outcome = Outcome::Reported,
            Outcome::Unreported { .. } => self.outcome = Outcome::Sent,
            Outcome::Waiting | Outcome::Sent | Outcome::Reported => {}
        }
    }
}

impl Item {
    /// [`Item::next`] of an item that an administrator retries at once, whatever its destination
    /// waits for.
    pub const AT_ONCE: i64 = 0;

    /// An item that was never stored, of a message with its octets.
    pub(crate) fn new(part: NewItem<'_>, id: ItemId, (body, size): (BodyId, u64), now: i64) -> Self {
        let NewItem { envelope, destination, recipients, reason } = part;
        Self {
            id,
            version: 0,
            body,
            size,
            destination,
            from: envelope.from.clone(),
            recipients,
            smtputf8: envelope.smtputf8,
            binary: envelope.binary,
            ret: envelope.ret,
            envid: envelope.envid.clone(),
            priority: envelope.priority,
            arrived: now,
            next: now,
            attempts: 0,
            reason,
            held: false,
            warned: false,
            pending: Vec::new(),
            account: envelope.account.clone(),
            sent_on_by: envelope.sent_on_by.clone(),
        }
    }

    /// Takes back what a clock that was ahead has written. Nothing waits before its first failure,
    /// and nothing waits for longer than this after one.
    pub(crate) fn limit_wait(&mut self, now: i64, longest: i64) {
        let latest = if self.attempts == 0 { now } else { now.saturating_add(longest) };
        self.next = self.next.min(latest);
    }

    /// The rank by which the item is sent.
    fn rank(&self) -> Rank {
        Rank { next: self.next, priority: self.priority }
    }

    /// The fields that the schedule needs.
    pub(crate) fn arrival(&self) -> Arrival {
        let Self { id, arrived, .. } = *self;
        let (rank, payer) = (self.rank(), self.payer());
        Arrival { id, destination: self.destination.clone(), rank, arrived, payer }
    }

    /// The account because of which it waits.
    fn payer(&self) -> PayerId {
        PayerId::of(self.account.as_deref(), self.sent_on_by.as_deref())
    }

    /// For whom its message counts while that is in memory.
    pub(crate) fn keys(&self) -> Keys {
        domain_key(&self.destination).map(|domain| [Key::Payer(self.payer()), domain])
    }

    /// The TLS that the sender requires.
    pub fn tls(&self) -> TlsRequirement {
        TlsRequirement::split(&self.destination).1
    }

    /// Recipients that the message has not reached yet and may still reach.
    pub fn waiting(&self) -> impl Iterator<Item = &Recipient> {
        self.recipients.iter().filter(|r| r.outcome == Outcome::Waiting)
    }

    /// The places of those among all.
    pub fn waiting_places(&self) -> impl Iterator<Item = usize> + '_ {
        let waiting = self.recipients.iter().enumerate().filter(|(_, r)| r.outcome == Outcome::Waiting);
        waiting.map(|(at, _)| at)
    }

    /// The recipients at these places.
    pub fn at<'p>(&'p self, places: &'p [usize]) -> impl Iterator<Item = &'p Recipient> {
        places.iter().filter_map(|at| self.recipients.get(*at))
    }

    /// Whether nothing is left to be tried.
    pub fn is_done(&self) -> bool {
        self.waiting().next().is_none()
    }

    /// Whether the sender has yet to get a report about a recipient.
    pub(crate) fn is_unreported(&self) -> bool {
        self.recipients.iter().any(Recipient::is_unreported)
    }

    /// Whether its sender may get reports. The null sender gets none (RFC 5321 §4.5.5), nor does
    /// the sender of junk, who is perhaps not who sent it.
    pub(crate) fn may_be_reported(&self) -> bool {
        !self.from.is_empty() && Local::of_item(self) != Some(Local::Junk)
    }

    /// Notes for which recipients there is no report: it was not requested, or it may not be
    /// sent.
    pub(crate) fn skip_unwanted_reports(&mut self) {
        let may_be_reported = self.may_be_reported();
        let is_unwanted = |to: &&mut Recipient| {
            !may_be_reported || matches!(to.outcome, Outcome::Failed { .. }) && !to.wants_failure()
        };
        self.recipients.iter_mut().filter(is_unwanted).for_each(Recipient::reported);
    }

    /// Whether reports are pending, or only reports are left to do.
    pub(crate) fn has_only_reports(&self) -> bool {
        !self.pending.is_empty() || self.is_done()
    }

    /// Whether it can leave the queue: nothing is left to be tried or reported.
    pub(crate) fn is_over(&self) -> bool {
        self.is_done() && !self.is_unreported() && self.pending.is_empty()
    }

    /// Adopts concurrent changes by others, except where this process knows better.
    pub(crate) fn follow(&mut self, now: &Self) {
        self.version = now.version;
        self.held = now.held;
        self.warned |= now.warned;
        for (ours, theirs) in self.recipients.iter_mut().zip(&now.recipients) {
            let is_reported = matches!(theirs.outcome, Outcome::Sent | Outcome::Reported);
            if ours.outcome == Outcome::Waiting || ours.is_unreported() && is_reported {
                ours.outcome.clone_from(&theirs.outcome);
            }
        }
    }

    /// Gives up all recipients that still wait.
    pub(crate) fn give_up(&mut self, status: &str, reply: &str) {
        for recipient in self.recipients.iter_mut().filter(|r| r.outcome == Outcome::Waiting) {
            recipient.outcome = Outcome::Failed { reply: reply.to_owned(), status: status.to_owned() };
        }
    }
}

/// The registered domain of a destination; `None` if that is a mailbox here.
pub(crate) fn domain_key(destination: &str) -> Option<Key> {
    let domain = TlsRequirement::split(destination).0;
    Local::of(domain).is_none().then(|| Key::of_domain(domain))
}

/// Name of an item's record. Names sort as numbers do.
pub(crate) fn name(id: ItemId) -> String {
    format!("{PREFIX}{id:010}")
}

/// The number in the name of a record.
pub(crate) fn number(name: &str) -> Option<ItemId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// The prefix of all names.
pub(crate) const fn prefix() -> &'static str {
    PREFIX
}

#[cfg(test)]
pub(crate) mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    pub(crate) fn sample() -> Item {
        let recipient =
            |address: &str, outcome| Recipient { outcome, ..Recipient::waiting(&To::new(address)) };
        let failed = Outcome::Failed { reply: "550 5.1.1 \"No\" such user".into(), status: "5.1.1".into() };
        Item {
            id: 7,
            version: 3,
            body: BodyId(Id::new(1, 2)),
            size: 99,
            destination: "example.net".into(),
            from: "ana@example.org".into(),
            recipients: vec![
                recipient("bo@example.net", Outcome::Waiting),
                recipient("cy@example.net", Outcome::Sent),
                recipient("no@example.net", failed),
            ],
            smtputf8: true,
            binary: true,
            ret: Some(Return::Full),
            envid: EnvelopeId::parse("QQ+2B1"),
            priority: Priority::parse("-4").unwrap(),
            arrived: 1_000,
            next: 2_000,
            attempts: 4,
            reason: "421 busy".into(),
            held: true,
            warned: true,
            pending: Vec::new(),
            account: None,
            sent_on_by: None,
        }
    }

    #[test]
    fn the_requirement_of_tls_is_part_of_the_destination() {
        for requirement in [TlsRequirement::Policy, TlsRequirement::Required, TlsRequirement::Optional] {
            assert_eq!(TlsRequirement::split(&requirement.destination("x.test")), ("x.test", requirement));
        }
    }

    #[test]
    fn giving_up_leaves_what_was_decided() {
        let mut item = sample();
        item.give_up("4.4.7", "too late");
        let outcomes: Vec<_> = item.recipients.iter().map(|r| &r.outcome).collect();
        assert!(matches!(outcomes[0], Outcome::Failed { status, .. } if status == "4.4.7"));
        assert!(matches!(outcomes[1], Outcome::Sent));
        assert!(matches!(outcomes[2], Outcome::Failed { status, .. } if status == "5.1.1"));
        assert!(item.is_done());
    }
}
