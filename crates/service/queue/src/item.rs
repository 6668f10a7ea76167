//! What the queue knows of a message beside its bytes, and how that is stored: JSON with a version
//! number, in the directory record `queue/<uid>`.

use bytes::Bytes;
use posthaste_mail_model::{BodyId, Id};
use posthaste_store::DirectoryEntry;
use serde::{Deserialize, Serialize};

use crate::dsn::{EnvelopeId, Notify, OriginalRecipient, Return};
use crate::error::QueueError;
use crate::priority::{Priority, Turn};

/// The form described here. Version 1 had no parameters of RFC 3461 and no `binary`. Version 2 had
/// no `owed`, no [`Here`] and no [`Outcome::Unreported`], and is written for an item without them.
const VERSION: u32 = 3;
const VERSION_WITHOUT_OWED: u32 = 2;
/// The oldest form that is read.
const VERSION_MIN: u32 = 1;

const PREFIX: &str = "queue/";

/// Number of an item: its UID in the queue's mailbox. Numbers rise, and are never used again.
pub type ItemId = u32;

/// An address as it is sent in MAIL and RCPT, without brackets.
pub type Address = String;

/// Where an item goes: the domain of its recipients, in lower case and A-labels. Messages whose
/// sender wants something else of TLS go by connections of their own: `DOMAIN+requiretls`,
/// `DOMAIN+anytls` ([`TlsWish`]).
pub type Destination = String;

/// What the sender of a message wants of TLS on its way (RFC 8689).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsWish {
    /// What the domain's own policy says.
    #[default]
    Policy,
    /// TLS with a host that is known to be the right one, at every step (REQUIRETLS).
    Required,
    /// Delivery, also where the domain's policy is not met (`TLS-Required: No`).
    Optional,
}

impl TlsWish {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Policy => "",
            Self::Required => "+requiretls",
            Self::Optional => "+anytls",
        }
    }

    /// Where messages for a domain with this wish go.
    pub fn destination(self, domain: &str) -> Destination {
        format!("{domain}{}", self.suffix())
    }

    /// The domain of a destination, and the wish. No domain has a `+`.
    pub fn split(destination: &str) -> (&str, Self) {
        for wish in [Self::Required, Self::Optional] {
            if let Some(domain) = destination.strip_suffix(wish.suffix()) {
                return (domain, wish);
            }
        }
        (destination, Self::Policy)
    }
}

/// A message's envelope, as its sender gave it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// Where reports go. Empty for the null path: there are none then (RFC 5321 §4.5.5).
    pub from: Address,
    /// To whom.
    pub to: Vec<To>,
    /// Whether addresses and header fields may be UTF-8 (RFC 6531).
    pub smtputf8: bool,
    /// Whether the message was declared as binary (RFC 3030 §3).
    pub binary: bool,
    /// How much of the message a report about a failure returns.
    pub ret: Option<Return>,
    /// The sender's name for the transaction.
    pub envid: Option<EnvelopeId>,
    /// What the sender wants of TLS.
    pub tls: TlsWish,
    /// How urgent it is.
    pub priority: Priority,
}

/// A recipient as the sender gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct To {
    /// To whom.
    pub address: Address,
    /// What is reported.
    pub notify: Option<Notify>,
    /// The address before any alias.
    pub orcpt: Option<OriginalRecipient>,
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
        Self { address: address.to_owned(), notify: None, orcpt: None }
    }
}

/// What became of a message for one recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Outcome {
    /// Nothing yet.
    Waiting,
    /// The next host has it.
    Sent,
    /// The next host has it. The sender asked for a report of that, and has none yet.
    Unreported,
    /// It is given up, and the sender has no report yet.
    Failed {
        /// The next host's reply, or our own words.
        reply: String,
        /// Status of RFC 3463, as `5.1.1`.
        status: String,
    },
    /// It is given up, and a report about it is on disk.
    Reported,
}

/// One recipient of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipient {
    /// To whom.
    pub address: Address,
    /// What became of it.
    pub outcome: Outcome,
    /// What is reported, if the sender said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
    /// The address before any alias, if the sender gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orcpt: Option<OriginalRecipient>,
}

/// A message that waits for one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its number.
    pub id: ItemId,
    /// Version of the record it was read from.
    pub(crate) version: u64,
    /// The message.
    pub body: BodyId,
    /// Octets of it, trace fields included.
    pub size: u64,
    /// Where it goes.
    pub destination: Destination,
    /// Where reports go; empty for the null path.
    pub from: Address,
    /// To whom.
    pub recipients: Vec<Recipient>,
    /// Whether it needs SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// Whether it needs BINARYMIME (RFC 3030 §3).
    pub binary: bool,
    /// How much of it a report about a failure returns.
    pub ret: Option<Return>,
    /// The sender's name for the transaction.
    pub envid: Option<EnvelopeId>,
    /// How urgent it is.
    pub priority: Priority,
    /// When it was accepted, unix seconds.
    pub arrived: i64,
    /// Not before then it is tried again, unix seconds.
    pub next: i64,
    /// How often it was put off, by a temporary failure of the next host most often.
    pub attempts: u32,
    /// Why it still waits: the last temporary failure.
    pub reason: String,
    /// Whether an administrator holds it: it is not tried until it is released.
    pub held: bool,
    /// Whether the sender has had a report that it is late.
    pub warned: bool,
    /// Reports that are stored and not on their way.
    pub(crate) owed: Vec<Owed>,
}

/// Where items for mailboxes of this server go. As a destination it stands where others have a
/// domain: no domain has a `+`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// `+here`: where the recipients' scripts put it, or INBOX.
    Inbox,
    /// `+junk`: the junk folder where it would be INBOX.
    Junk,
}

impl Here {
    /// As a domain of destinations.
    pub const fn domain(self) -> &'static str {
        match self {
            Self::Inbox => "+here",
            Self::Junk => "+junk",
        }
    }

    /// Where an item goes here; `None` if it goes to another host.
    pub fn of_item(item: &Item) -> Option<Self> {
        Self::of(TlsWish::split(&item.destination).0)
    }

    /// Whether the domain of a destination is one of these.
    pub fn of(domain: &str) -> Option<Self> {
        [Self::Inbox, Self::Junk].into_iter().find(|here| here.domain() == domain)
    }
}

/// A report that is stored and not on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owed {
    /// The row of the queue's mailbox that holds it, and its number as an item.
    pub row: ItemId,
    pub body: String,
    pub size: u64,
    /// Who gets it.
    pub to: Address,
    /// The destination of the item that it becomes; empty if the sender is here.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: Destination,
    #[serde(default)]
    pub smtputf8: bool,
}

/// An item that is about to be added: an envelope, and those of its recipients that are at one
/// destination.
pub(crate) struct Part<'e> {
    pub envelope: &'e Envelope,
    pub destination: Destination,
    pub recipients: Vec<Recipient>,
    /// Why it waits, if it was tried already.
    pub reason: String,
}

/// What the schedule needs of an item.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub id: ItemId,
    pub destination: Destination,
    /// When it is tried.
    pub turn: Turn,
    /// When it came, unix seconds.
    pub arrived: i64,
}

/// An item as stored, without what its name and version say.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    v: u32,
    body: String,
    size: u64,
    destination: Destination,
    from: Address,
    recipients: Vec<Recipient>,
    #[serde(default)]
    smtputf8: bool,
    #[serde(default)]
    binary: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ret: Option<Return>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    envid: Option<EnvelopeId>,
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    priority: Priority,
    arrived: i64,
    next: i64,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    held: bool,
    #[serde(default)]
    warned: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    owed: Vec<Owed>,
}

impl Recipient {
    /// A recipient that the message has not reached yet.
    pub(crate) fn waiting(to: &To) -> Self {
        let To { address, notify, orcpt } = to.clone();
        Self { address, outcome: Outcome::Waiting, notify, orcpt }
    }

    /// Whether the sender gets a report if the message was handed on. Not if the sender said
    /// nothing (RFC 3461 §4.1).
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

    /// Whether the sender has yet to get a report about what became of it.
    fn is_unreported(&self) -> bool {
        matches!(self.outcome, Outcome::Failed { .. } | Outcome::Unreported)
    }

    /// Notes that the report about its outcome is on disk, or that nobody wants one.
    pub(crate) fn reported(&mut self) {
        match self.outcome {
            Outcome::Failed { .. } => self.outcome = Outcome::Reported,
            Outcome::Unreported => self.outcome = Outcome::Sent,
            Outcome::Waiting | Outcome::Sent | Outcome::Reported => {}
        }
    }
}

impl Item {
    /// [`Item::next`] of an item that an administrator wants tried at once, whatever its
    /// destination waits for.
    pub const AT_ONCE: i64 = 0;

    /// An item that was never stored, of a message with its octets.
    pub(crate) fn new(part: Part<'_>, id: ItemId, (body, size): (BodyId, u64), now: i64) -> Self {
        let Part { envelope, destination, recipients, reason } = part;
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
            owed: Vec::new(),
        }
    }

    /// When it is sent.
    fn turn(&self) -> Turn {
        Turn { next: self.next, priority: self.priority }
    }

    /// What the schedule needs of it.
    pub(crate) fn arrival(&self) -> Arrival {
        let Self { id, arrived, .. } = *self;
        Arrival { id, destination: self.destination.clone(), turn: self.turn(), arrived }
    }

    /// What the sender wants of TLS.
    pub fn tls(&self) -> TlsWish {
        TlsWish::split(&self.destination).1
    }

    /// Recipients that the message has not reached yet and may still reach.
    pub fn waiting(&self) -> impl Iterator<Item = &Recipient> {
        self.recipients.iter().filter(|r| r.outcome == Outcome::Waiting)
    }

    /// Whether nothing is left to be tried.
    pub fn is_done(&self) -> bool {
        self.waiting().next().is_none()
    }

    /// Whether the sender has yet to get a report about a recipient.
    pub(crate) fn is_unreported(&self) -> bool {
        self.recipients.iter().any(Recipient::is_unreported)
    }

    /// Notes for which recipients there is no report: nobody wants it, or nobody can get it
    /// (RFC 5321 §4.5.5).
    pub(crate) fn forgo_reports(&mut self) {
        let has_sender = !self.from.is_empty();
        let is_unwanted = |to: &&mut Recipient| {
            !has_sender || matches!(to.outcome, Outcome::Failed { .. }) && !to.wants_failure()
        };
        self.recipients.iter_mut().filter(is_unwanted).for_each(Recipient::reported);
    }

    /// Whether reports are owed, or nothing but reports is left to do.
    pub(crate) fn has_only_reports(&self) -> bool {
        !self.owed.is_empty() || self.is_done()
    }

    /// Whether it can leave the queue: nothing is left to be tried or reported.
    pub(crate) fn is_over(&self) -> bool {
        self.is_done() && !self.is_unreported() && self.owed.is_empty()
    }

    /// Takes over what others wrote meanwhile, apart from what is known better here.
    pub(crate) fn follow(&mut self, now: &Self) {
        self.version = now.version;
        self.held = now.held;
        self.warned |= now.warned;
        for (ours, theirs) in self.recipients.iter_mut().zip(&now.recipients) {
            if ours.outcome == Outcome::Waiting {
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

    /// Reads a record.
    pub(crate) fn read(entry: &DirectoryEntry) -> Result<Self, QueueError> {
        let wrong = |why: String| QueueError::Record { record: entry.name.clone(), why };
        let id = number(&entry.name).ok_or_else(|| wrong("its name is not queue/NUMBER".into()))?;
        let record: Record = serde_json::from_slice(&entry.value).map_err(|e| wrong(e.to_string()))?;
        if !(VERSION_MIN..=VERSION).contains(&record.v) {
            let known = format!("{VERSION_MIN} to {VERSION}");
            return Err(wrong(format!("it is of version {}, and this program knows {known}", record.v)));
        }
        let body =
            Id::parse(&record.body).map(BodyId).ok_or_else(|| wrong("its body is not an id".into()))?;
        Ok(Self {
            id,
            version: entry.version,
            body,
            size: record.size,
            destination: record.destination,
            from: record.from,
            recipients: record.recipients,
            smtputf8: record.smtputf8,
            binary: record.binary,
            ret: record.ret,
            envid: record.envid,
            priority: record.priority,
            arrived: record.arrived,
            next: record.next,
            attempts: record.attempts,
            reason: record.reason,
            held: record.held,
            warned: record.warned,
            owed: record.owed,
        })
    }

    /// The record's content.
    pub(crate) fn write(&self) -> Result<Bytes, QueueError> {
        // An older program would look for a host of that name.
        let is_known_to_version_2 = self.owed.is_empty()
            && Here::of_item(self).is_none()
            && self.recipients.iter().all(|to| to.outcome != Outcome::Unreported);
        let record = Record {
            v: if is_known_to_version_2 { VERSION_WITHOUT_OWED } else { VERSION },
            body: self.body.to_string(),
            size: self.size,
            destination: self.destination.clone(),
            from: self.from.clone(),
            recipients: self.recipients.clone(),
            smtputf8: self.smtputf8,
            binary: self.binary,
            ret: self.ret,
            envid: self.envid.clone(),
            priority: self.priority,
            arrived: self.arrived,
            next: self.next,
            attempts: self.attempts,
            reason: self.reason.clone(),
            held: self.held,
            warned: self.warned,
            owed: self.owed.clone(),
        };
        let json = serde_json::to_vec(&record);
        json.map(Bytes::from).map_err(|e| QueueError::Record { record: name(self.id), why: e.to_string() })
    }
}

/// Name of an item's record. Names sort as numbers do.
pub(crate) fn name(id: ItemId) -> String {
    format!("{PREFIX}{id:010}")
}

/// The number in the name of a record.
pub(crate) fn number(name: &str) -> Option<ItemId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// What all names begin with.
pub(crate) const fn prefix() -> &'static str {
    PREFIX
}

#[cfg(test)]
pub(crate) mod tests {
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
            owed: Vec::new(),
        }
    }

    #[test]
    fn a_wish_is_part_of_the_destination() {
        for wish in [TlsWish::Policy, TlsWish::Required, TlsWish::Optional] {
            assert_eq!(TlsWish::split(&wish.destination("x.test")), ("x.test", wish));
        }
    }

    #[test]
    fn an_item_is_its_record() {
        let mut item = sample();
        item.recipients[0].notify = Notify::parse("SUCCESS,DELAY");
        item.recipients[1].orcpt = OriginalRecipient::parse("rfc822;cy+2Bx@example.net");
        assert!(item.write().unwrap().starts_with(b"{\"v\":2,"));
        item.recipients[1].outcome = Outcome::Unreported;
        assert!(item.write().unwrap().starts_with(b"{\"v\":3,"));
        for owed in [vec![], vec![Owed::sample("x.test"), Owed::sample("")]] {
            item.owed = owed;
            let entry = DirectoryEntry { name: name(item.id), version: 3, value: item.write().unwrap() };
            assert_eq!(Item::read(&entry).unwrap(), item);
        }
    }

    #[test]
    fn a_record_that_is_not_ours_says_why() {
        let entry = |name: &str, json: &str| DirectoryEntry {
            name: name.into(),
            version: 1,
            value: Bytes::from(json.to_owned()),
        };
        let why = |name, json| Item::read(&entry(name, json)).unwrap_err().to_string();
        assert!(why("queue/x", "{}").contains("NUMBER"));
        assert!(why("queue/0000000001", "{}").contains("queue/0000000001"));
        let item = Item { held: false, ..sample() };
        let later = String::from_utf8(item.write().unwrap().to_vec()).unwrap().replace("\"v\":2", "\"v\":4");
        assert!(why("queue/0000000001", &later).contains("version 4"));
    }

    #[test]
    fn records_of_the_first_form_are_read() {
        let json = r#"{"v":1,"body":"BODY","size":9,"destination":"x.test","from":"ana@example.org",
            "recipients":[{"address":"bo@x.test","outcome":{"is":"waiting"}}],"arrived":1,"next":2}"#;
        let json = json.replace("BODY", &BodyId(Id::new(1, 2)).to_string());
        let entry = DirectoryEntry { name: name(7), version: 1, value: Bytes::from(json) };
        let item = Item::read(&entry).unwrap();
        assert_eq!(item.recipients, [Recipient::waiting(&To::new("bo@x.test"))]);
        assert_eq!((item.ret, item.envid, item.binary, item.smtputf8), (None, None, false, false));
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
