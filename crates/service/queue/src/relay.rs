//! Accepts mail for other domains, and sends reports to local and remote senders.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use posthaste_authentication::{KeyError, Origin, Senders, Signer, reading_header, srs};
use posthaste_delivery::{Delivery, DeliveryError, ErrorKind, Recipient, ResolveError};
use posthaste_directory::{Account, DirectoryError, Target, normal_domain, unix_time};
use posthaste_net::joined;

use crate::date::date_time;
use crate::error::QueueError;
use crate::header_lines::header_lines;
use crate::item::{
    Address, Destination, Envelope, Item, Local, NewItem, Recipient as Addressee, TlsRequirement, To,
};
use crate::queue::Queue;
use crate::report::{RecipientOutcome, Report};
use crate::success::Success;

/// `Received` fields of a message at most: RFC 5321 §6.3 says that 100 and more are a loop.
const HOPS_MAX: usize = 100;
/// RFC 5321 §4.4: the last host adds it. A report has no sender.
pub(crate) const RETURN_PATH: &[u8] = b"Return-Path: <>\r\n";

/// Why a message for other domains was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The message has passed through too many hosts.
    #[error("the message has passed through {HOPS_MAX} hosts: it is in a mail loop")]
    Loop,
    /// A recipient without a domain that DNS could look up.
    #[error("{0} has no domain that mail could be sent to")]
    Domain(Address),
    /// The message could not be kept.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// For whose mail scripts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptsRun {
    /// For accounts that have a script.
    ForOwners,
    /// For all accounts, because the administrator has scripts. So no report is filed in an INBOX
    /// without them.
    ForAll,
}

/// The target of a message of this server.
pub(crate) enum Addressed {
    /// To an account here that files all its mail in INBOX.
    Inbox(Box<Recipient>),
    /// To an address here: where its scripts, its forward or its group bring other mail.
    Local,
    /// To the hosts of this domain.
    At(String),
    /// To nobody. The log reports it.
    Nowhere,
}

/// The relay of a server. Cheap to clone: all clones share the queue, and what `set_…` sets.
#[derive(Debug, Clone)]
pub struct Relay {
    queue: Queue,
    delivery: Delivery,
    host: Arc<str>,
    signer: Signer,
    senders: Senders,
    rewrites: bool,
    names_members: bool,
    to_addresses: bool,
    /// Whether scripts of the administrator run for the mail of all accounts.
    runs_for_all: Arc<AtomicBool>,
}

impl Relay {
    /// The relay of a store, for a server of this name. Mail of domains that have keys in the store
    /// is signed.
    pub fn new(queue: Queue, delivery: Delivery, host: &str) -> Self {
        let signer = Signer::new(Arc::clone(delivery.store().engine()), host);
        let senders = Senders::new(Arc::clone(delivery.store().engine()));
        Self {
            queue,
            delivery,
            host: host.into(),
            signer,
            senders,
            rewrites: false,
            names_members: false,
            to_addresses: false,
            runs_for_all: Arc::default(),
        }
    }

    /// Sets whether mail for hosts by their addresses is taken: `ana@[192.0.2.1]`, RFC 5321
    /// §4.1.3.
    #[must_use]
    pub fn to_addresses(self, to_addresses: bool) -> Self {
        Self { to_addresses, ..self }
    }

    /// Sets whether mail that is sent on gets senders of ours (SRS). Bounces to senders that were
    /// made before are taken in both cases.
    #[must_use]
    pub fn rewriting(self, rewrites: bool) -> Self {
        Self { rewrites, ..self }
    }

    /// Sets whether each member of a group with an owner gets a sender of its own (VERP).
    #[must_use]
    pub fn naming_members(self, names_members: bool) -> Self {
        Self { names_members, ..self }
    }

    /// Sets for which accounts scripts run, for all clones.
    pub fn set_scripts_run(&self, run: ScriptsRun) {
        self.runs_for_all.store(run == ScriptsRun::ForAll, Ordering::Release);
    }

    /// Sets how many octets may wait in the queue because of each account, for all clones.
    /// Submitted and forwarded mail are counted separately. 0: any number.
    pub fn set_account_octets_max(&self, octets: u64) {
        self.queue.set_account_octets_max(octets);
    }

    /// Sets how many items may wait in the queue, for all clones. The last quarter is for users
    /// who submit mail. Reports to other domains have an eighth.
    pub fn set_items_max(&self, items: u64) {
        self.queue.set_items_max(items);
    }

    /// Whether an account files each message in INBOX: there is no script and no forward.
    pub(crate) fn keeps_all(&self, account: &Account) -> bool {
        let is_plain = account.scripts.active.is_none() && account.forward.is_none();
        is_plain && !self.runs_for_all.load(Ordering::Acquire)
    }

    /// The sender under which a group's owner sends to a member elsewhere, so that a bounce names
    /// the member whatever its text says: `owner+member=domain@owner's domain`, which is the
    /// owner's with a detail. `None` if that is not configured, or if the address would be
    /// invalid.
    #[boxed]
    pub async fn member_sender(&self, owner: &str, member: &str) -> Result<Option<String>, QueueError> {
        /// RFC 5321 §4.5.3.1.1.
        const LOCAL_LEN_MAX: usize = 64;
        let (Some((local, domain)), Some((name, at))) = (owner.rsplit_once('@'), member.rsplit_once('@'))
        else {
            return Ok(None);
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "!#$&'*+-/=?^_`{|}~.".contains(c);
        let made = format!("{local}+{name}={at}");
        if !self.names_members || made.len() > LOCAL_LEN_MAX || !made.chars().all(is_plain) {
            return Ok(None);
        }
        let is_ours = self.delivery.directory().is_local_domain(domain).await.map_err(unlooked)?;
        Ok(is_ours.then(|| format!("{made}@{domain}")))
    }

    /// The queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The delivery for local mail.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The recipient at an address. `NotLocal` for every address of a domain that is not ours, also
    /// if no account of ours could have such a name.
    #[boxed]
    pub async fn resolve(&self, address: &str) -> Result<Recipient, ResolveError> {
        let found = self.delivery.resolve(address).await;
        if let Err(ResolveError::Invalid(_)) = &found
            && let Some(domain) = domain_of(address)
            && !self.delivery.directory().is_local_domain(&domain).await?
        {
            return Err(ResolveError::NotLocal);
        }
        found
    }

    /// The sender under which an account or a group of ours sends a message on to another domain,
    /// so that SPF holds there. A sender of ours stays, the null sender too (RFC 5321 §4.5.5), and
    /// that of a message whose author may be of the forwarder's domain.
    #[boxed]
    pub async fn forwarded_sender<'f>(
        &self,
        from: &'f str,
        forwarder: &str,
        message: &Bytes,
    ) -> Result<Cow<'f, str>, QueueError> {
        let (Some(theirs), Some(ours)) = (domain_of(from), domain_of(forwarder)) else {
            return Ok(Cow::Borrowed(from));
        };
        if !self.rewrites {
            return Ok(Cow::Borrowed(from));
        }
        let of_ours = ours.clone();
        let may_align =
            reading_header(None, message, move |message| srs::may_align(&message, &of_ours)).await;
        let directory = self.delivery.directory();
        if may_align || directory.is_local_domain(&theirs).await.map_err(unlooked)? {
            return Ok(Cow::Borrowed(from));
        }
        let made = self.senders.rewrite(from, &ours, self.now()).await.map_err(unreadable)?;
        Ok(made.map_or(Cow::Borrowed(from), Cow::Owned))
    }

    /// The original sender of a rewritten one. `None` if we did not make it, or if it has
    /// expired.
    #[boxed]
    pub async fn original_sender(&self, address: &str) -> Result<Option<String>, QueueError> {
        self.senders.original(address, self.now()).await.map_err(unreadable)
    }

    fn now(&self) -> u64 {
        self.delivery.store().unix_ms() / 1000
    }

    /// Takes a message for other domains, and signs it if its origin allows. It is on disk on
    /// return. `message` has its trace fields, without Return-Path, which only the last host adds
    /// (RFC 5321 §4.4).
    pub async fn accept(
        &self,
        message: Bytes,
        envelope: Envelope,
        origin: Origin<'_>,
    ) -> Result<Vec<Item>, Refusal> {
        self.accept_all(message, vec![envelope], origin).await
    }

    /// Takes one message with several envelopes, and stores its bytes once.
    pub fn accept_all<'a>(
        &'a self,
        message: Bytes,
        mut envelopes: Vec<Envelope>,
        origin: Origin<'a>,
    ) -> BoxFuture<'a, Result<Vec<Item>, Refusal>> {
        Box::pin(async move {
            let (hops, is_optional) = hops_and_tls(&message).await;
            if hops > HOPS_MAX {
                return Err(Refusal::Loop);
            }
            // The recipients move into the items: a thousand long ones are some hundred KiB.
            let recipients: Vec<_> = envelopes.iter_mut().map(|one| std::mem::take(&mut one.to)).collect();
            let mut parts = Vec::with_capacity(envelopes.len());
            for (envelope, recipients) in envelopes.iter().zip(recipients) {
                // RFC 8689 §5: with the parameter, the field has no effect.
                let tls = match envelope.tls {
                    TlsRequirement::Policy if is_optional => TlsRequirement::Optional,
                    tls => tls,
                };
                let mut destinations: BTreeMap<Destination, Vec<Addressee>> = BTreeMap::new();
                for to in recipients {
                    let domain = domain_of(&to.address)
                        .or_else(|| literal_of(&to.address).filter(|_| self.to_addresses));
                    let Some(domain) = domain else { return Err(Refusal::Domain(to.address)) };
                    let there = destinations.entry(tls.destination(&domain));
                    // Most destinations have one recipient.
                    there.or_insert_with(|| Vec::with_capacity(1)).push(to.into());
                }
                parts.extend(destinations.into_iter().map(|(destination, recipients)| NewItem {
                    envelope,
                    destination,
                    recipients,
                    reason: String::new(),
                }));
            }
            let message = self.signer.sign(message, origin).await.map_err(QueueError::from)?;
            Ok(self.queue.add(message, parts).await?)
        })
    }

    /// Reports the local outcome of a message to the sender, for recipients whose success it
    /// requested (RFC 3461 §5.2). The report is on disk on return.
    #[boxed]
    pub async fn report_success(
        &self,
        message: &Bytes,
        envelope: &Envelope,
        success: Success,
    ) -> Result<(), QueueError> {
        let is_wanted = |to: &&To| to.notify.is_some_and(|notify| notify.success);
        let reached: Vec<_> = envelope.to.iter().filter(is_wanted).map(Addressee::waiting).collect();
        let (kind, status) = success.report();
        let about = reached.iter().map(|recipient| RecipientOutcome { recipient, status, reply: "" });
        let about: Vec<_> = about.collect();
        if about.is_empty() {
            return Ok(());
        }
        let store = self.delivery.store();
        let now = unix_time::signed(self.now());
        let id = store.new_body_id().to_string();
        self.send(&Report {
            kind,
            to: &envelope.from,
            tls: envelope.tls,
            arrived: now,
            smtputf8: envelope.smtputf8,
            ret: envelope.ret,
            envid: envelope.envid.as_ref(),
            about: &about,
            message,
            host: &self.host,
            id: &id,
            now,
        })
        .await
    }

    /// Sends a report about a message, to its sender. It is on disk on return, or there is nobody
    /// who could get it.
    pub(crate) async fn send(&self, report: &Report<'_>) -> Result<(), QueueError> {
        let to = report.to;
        if to.is_empty() {
            // RFC 5321 §4.5.5: no report about a report.
            tracing::info!(report = report.id, "no report: the message is itself a report");
            return Ok(());
        }
        self.notify(to, report.print().await.text, report.tls).await
    }

    /// Sends a message of this server, without a sender and without trace fields. It is on disk on
    /// return, or there is nobody who could get it, or too many such messages wait.
    #[boxed]
    pub async fn notify(&self, to: &str, text: Bytes, tls: TlsRequirement) -> Result<(), QueueError> {
        let now = unix_time::signed(self.now());
        let (to, found) = self.addressed(to).await?;
        if self.drops_report(&to, &found).await? {
            return Ok(());
        }
        let text = self.traced(text, now).await;
        let domain = match found {
            Addressed::Inbox(recipient) if self.is_filed(&text, &recipient).await? => return Ok(()),
            Addressed::Inbox(_) | Addressed::Local => Local::Inbox.domain().to_owned(),
            Addressed::At(domain) => domain,
            Addressed::Nowhere => return Ok(()),
        };
        let smtputf8 = !to.is_ascii() || !text.is_ascii();
        let envelope = Envelope { smtputf8, ..Envelope::new("", &[&to]) };
        let part = NewItem {
            envelope: &envelope,
            destination: tls.destination(&domain),
            recipients: envelope.to.iter().map(Addressee::waiting).collect(),
            reason: String::new(),
        };
        let message = self.signer.sign(text, Origin::Server).await?;
        match self.queue.add_report(message, part).await {
            Err(error @ (QueueError::ReportsFull { .. } | QueueError::Full { .. })) => {
                self.note_dropped_report(&to, &error);
                Ok(())
            }
            added => added,
        }
    }

    /// Whether a report is dropped, because too many wait. RFC 3461 §5.2.3 (a) requires a report
    /// of each delivery whose sender requests it (§4.1). But strangers may request any number.
    pub(crate) async fn drops_report(&self, to: &str, found: &Addressed) -> Result<bool, QueueError> {
        let Addressed::At(domain) = found else { return Ok(false) };
        match self.queue.check_report(domain).await {
            Ok(()) => Ok(false),
            Err(error @ (QueueError::ReportsFull { .. } | QueueError::Full { .. })) => {
                self.note_dropped_report(to, &error);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn note_dropped_report(&self, to: &str, error: &QueueError) {
        self.queue.note_dropped_report();
        tracing::info!(to, %error, "a report is dropped");
    }

    /// Finds the target and the final address of a message of this server.
    pub(crate) async fn addressed<'t>(&self, to: &'t str) -> Result<(Cow<'t, str>, Addressed), QueueError> {
        let (mut to, mut found) = (Cow::Borrowed(to), self.resolve(to).await);
        // A message that we sent on comes back: its sender gets the report, not the address that
        // replaced it.
        if let Err(ResolveError::NoSuchUser) = &found
            && let Some(original) = self.original_sender(&to).await?
        {
            found = self.resolve(&original).await;
            to = Cow::Owned(original);
        }
        if let Err(ResolveError::NoSuchUser) = &found {
            found = match self.delivery.directory().target(&to).await {
                Ok(Target::Group(_)) => return Ok((to, Addressed::Local)),
                // The other server of a shared domain may have the sender.
                Err(ResolveError::NotLocal) => Err(ResolveError::NotLocal),
                _ => found,
            };
        }
        let addressed = match found {
            Ok(recipient) if self.keeps_all(&recipient.account) => Addressed::Inbox(Box::new(recipient)),
            Ok(_) => Addressed::Local,
            Err(ResolveError::NotLocal) => domain_of(&to).map_or(Addressed::Nowhere, Addressed::At),
            Err(ResolveError::Directory(DirectoryError::Store(error))) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(to = &*to, %error, "the report cannot be delivered");
                Addressed::Nowhere
            }
        };
        Ok((to, addressed))
    }

    /// Files a report in an account's INBOX. `false` if the account has no room now.
    async fn is_filed(&self, text: &Bytes, recipient: &Recipient) -> Result<bool, QueueError> {
        let message = joined([Bytes::from_static(RETURN_PATH), text.clone()]).await;
        let outcomes = self.delivery.deliver(message, std::slice::from_ref(recipient)).await;
        match outcomes.into_iter().next() {
            Some(Err(error)) if error.kind() == ErrorKind::OverQuota => {
                tracing::info!(%error, "the sender has no room for a report: it waits in the queue");
                Ok(false)
            }
            Some(Err(error)) => Err(error.into()),
            Some(Ok(_)) | None => Ok(true),
        }
    }

    /// A report with the trace field of a message that was made here.
    pub(crate) async fn traced(&self, text: Bytes, now: i64) -> Bytes {
        let trace = format!("Received: by {} (Posthaste);\r\n\t{}\r\n", self.host, date_time(now));
        joined([Bytes::from(trace), text]).await
    }

    /// The signer for domains of ours.
    pub(crate) fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Our own name.
    pub fn host(&self) -> &str {
        &self.host
    }
}

pub(crate) fn unlooked(error: DirectoryError) -> QueueError {
    match error {
        DirectoryError::Store(error) => error.into(),
        DirectoryError::Record { record, why } => QueueError::Record { record, why },
        error => DeliveryError::Interrupted(error.to_string()).into(),
    }
}

fn unreadable(error: KeyError) -> QueueError {
    match error {
        KeyError::Store(error) => error.into(),
        KeyError::Record { record, why } => QueueError::Record { record, why },
        error => error.into(),
    }
}

/// The domain that mail for an address is sent to.
fn domain_of(address: &str) -> Option<Destination> {
    let (_, domain) = address.rsplit_once('@')?;
    normal_domain(domain).ok()
}

/// The address literal of an address, in one spelling (RFC 5321 §4.1.3): `[192.0.2.1]`,
/// `[ipv6:2001:db8::1]`.
fn literal_of(address: &str) -> Option<Destination> {
    let (_, domain) = address.rsplit_once('@')?;
    let literal = address_of(domain)?;
    Some(match literal {
        IpAddr::V4(v4) => format!("[{v4}]"),
        IpAddr::V6(v6) => format!("[ipv6:{v6}]"),
    })
}

/// The address of a destination that is an address literal.
pub fn address_of(domain: &str) -> Option<IpAddr> {
    let inside = domain.strip_prefix('[')?.strip_suffix(']')?;
    match inside.split_at_checked(5).filter(|(tag, _)| tag.eq_ignore_ascii_case("IPv6:")) {
        Some((_, v6)) => v6.parse().ok().map(IpAddr::V6),
        None => inside.parse().ok().map(IpAddr::V4),
    }
}

/// Whether a message's header says `TLS-Required: No` (RFC 8689 §5).
fn has_tls_required_no(message: &[u8]) -> bool {
    const NAME: &[u8] = b"TLS-Required:";
    first_lines(message).any(|line| {
        let (name, value) = line.split_at_checked(NAME.len()).unwrap_or((line, b""));
        name.eq_ignore_ascii_case(NAME) && value.trim_ascii().eq_ignore_ascii_case(b"no")
    })
}

/// `Received` fields in a message's header.
fn hops(message: &[u8]) -> usize {
    let is_received =
        |line: &&[u8]| line.get(..9).is_some_and(|name| name.eq_ignore_ascii_case(b"Received:"));
    first_lines(message).filter(is_received).count()
}

/// The number of `Received` fields of a message, and whether TLS is optional for it. Another
/// thread reads a long header: both looks take 4 ms for 1 MiB.
async fn hops_and_tls(message: &Bytes) -> (usize, bool) {
    reading_header(None, message, |message| (hops(&message), has_tls_required_no(&message))).await
}

/// Octets in which the end of a header is looked for. A header that comes in has 1 MiB at most, and
/// this server adds 256 KiB at most. A message without a blank line is all header: walking through
/// 60 MB would take some 50 ms in one poll.
const HEADER_READ_MAX: usize = 2 << 20;

/// The lines of the header that are looked at. After a bare LF, one poll would walk through the
/// body.
fn first_lines(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    header_lines(message.get(..HEADER_READ_MAX).unwrap_or(message))
}

#[cfg(test)]
mod tests {
    use posthaste_net::given_to_compute_threads;

    use super::*;

    #[test]
    fn domains_have_one_spelling() {
        assert_eq!(domain_of("\"a@b\"@Bücher.Example").as_deref(), Some("xn--bcher-kva.example"));
        assert_eq!(domain_of("ana"), None);
        assert_eq!(domain_of("ana@[192.0.2.1]"), None);
    }

    #[test]
    fn address_literals_have_one_spelling() {
        assert_eq!(literal_of("ana@[192.0.2.1]").as_deref(), Some("[192.0.2.1]"));
        let v6 = literal_of("ana@[IPv6:2001:DB8:0::1]").unwrap();
        assert_eq!((v6.as_str(), address_of(&v6)), ("[ipv6:2001:db8::1]", "2001:db8::1".parse().ok()));
        for other in ["ana@example.org", "ana@[192.0.2.256]", "ana@[2001:db8::1]", "ana@[x]", "ana"] {
            assert_eq!(literal_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_field_frees_from_policies_of_tls() {
        assert!(has_tls_required_no(b"Subject: a\r\ntls-required:  NO \r\n\r\nx"));
        for other in ["TLS-Required: Yes\r\n\r\n", "Subject: a\r\n\r\nTLS-Required: No\r\n", "TLS-Required"] {
            assert!(!has_tls_required_no(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn hops_are_counted_in_the_header_alone() {
        let message = b"Received: a\r\n\tb\r\nreceived: c\r\nX-Received: d\r\n\r\nReceived: no\r\n";
        assert_eq!(hops(message), 2);
    }

    /// A blank line that ends with LF alone was not seen, and 2 MiB of the body were read.
    #[test]
    fn a_header_ends_at_a_blank_line_of_any_kind() {
        for (end, blank) in [("\n", "\n"), ("\n", "\r\n"), ("\r\n", "\n"), ("\r\n", "\r\n")] {
            let message = format!("Received: a{end}{blank}Received: b\r\nTLS-Required: No\r\n\r\n");
            assert_eq!(hops(message.as_bytes()), 1, "{message:?}");
            assert!(!has_tls_required_no(message.as_bytes()), "{message:?}");
        }
    }

    #[tokio::test]
    async fn the_hops_of_a_long_header_are_counted_on_another_thread() {
        for (lines, is_long) in [(10, false), (30_000, true)] {
            let message = Bytes::from(format!("A: b\r\n{}\r\n", " x\r\n".repeat(lines)));
            let given = given_to_compute_threads();
            hops_and_tls(&message).await;
            assert_eq!(given_to_compute_threads() - given, usize::from(is_long), "{lines} lines");
        }
    }

    #[test]
    fn a_message_without_a_blank_line_is_read_at_its_start_alone() {
        let mut message = b"Received: a\r\n".to_vec();
        message.resize(HEADER_READ_MAX - 2, b'x');
        message.extend_from_slice(b"\r\nReceived: b\r\nTLS-Required: No\r\n\r\n");
        assert_eq!(hops(&message), 1);
        assert!(!has_tls_required_no(&message));
    }
}
