//! Signs outgoing mail of our own domains (DKIM: RFC 6376, RFC 8463).
//!
//! Invariants:
//! * A message is signed for the domain of its author (`From`), as DMARC compares it, or not at
//!   all. Each key that signs makes one signature.
//! * A user gets a signature only for the domain of an address that was verified to be the user's
//!   own. So on a server of several domains no user gets a signature of another user's domain.
//! * Mail of other authors that a script forwards is not signed: an untrusted host that wrote our
//!   domain in its `From` would get our signature. It is sealed (ARC) if it was verified on
//!   arrival.
//! * A domain's record is read for each message. On the embedded engine that takes about a
//!   microsecond, and a rotation in another process counts from the next message on. The parsed
//!   key is cached, by the version of its record.
//! * Long messages are signed on fewer threads than there are processors, and those of one
//!   address one at a time. A message that waits for its turn holds nothing that signing needs.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use mail_auth::AuthenticatedMessage;
use parking_lot::Mutex;
use posthaste_directory::{normal_domain, unix_time};
use posthaste_net::{KeyedSemaphore, compute_threads, freed_elsewhere, on_compute_thread_with};
use posthaste_store::{DirectoryEntry, Engine};

use crate::arc;
use crate::canonical;
use crate::header::reading_header;
use crate::keys::{DomainKeys, KeyError, KeyState, name_of};
use crate::shown::{is_same, shown_addresses, unquoted};
use crate::signature::{Ready, ReadyKey, SEALED, body_hash, covered, sign_field};

/// Messages up to this size are signed on the thread of the caller. Both signatures together take
/// 0.4 ms for a small message; RSA alone takes 0.3 ms (measured). A body of this size takes some
/// 0.1 ms more, and 1 ms if each line has a letter. Four times as much would be 5 ms.
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Fields that are signed if the message has them. Mailing lists may add those that it lacks.
const SIGNED: [&str; 8] = [
    "Sender",
    "Content-Description",
    "Resent-From",
    "Resent-To",
    "Resent-Date",
    "Resent-Message-ID",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
];

/// The author of a message that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A user who logged in, or a user's script.
    User {
        /// An address that was found to be the user's own; empty if none was.
        sender: &'a str,
    },
    /// This server: a report.
    Server,
    /// Somebody else: it came in and is sent on. It gets a seal (ARC) if this server verified it.
    Elsewhere {
        /// The value of the field with the results: see [`crate::results::own`].
        results: Option<&'a str>,
        /// The address whose owner sends it on.
        forwarder: &'a str,
    },
}

impl<'a> Origin<'a> {
    /// The address whose long messages are signed one at a time. Reports of the server have none
    /// and count together.
    fn address(self) -> &'a str {
        match self {
            Self::User { sender } => sender,
            Self::Server => "",
            Self::Elsewhere { forwarder, .. } => forwarder,
        }
    }
}

/// Signs messages. Cheap to clone: all clones share one cache.
#[derive(Clone)]
pub struct Signer {
    engine: Arc<dyn Engine>,
    host: Arc<str>,
    /// By domain.
    ready: Arc<Mutex<HashMap<String, Arc<Ready>>>>,
    /// For long messages, by [`Origin::address`].
    permits: KeyedSemaphore<String>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Signer {
    /// With the keys of a store, for a server of this name.
    pub fn new(engine: Arc<dyn Engine>, host: &str) -> Self {
        let permits = KeyedSemaphore::new(compute_threads(), 1);
        Self { engine, host: host.into(), ready: Arc::default(), permits }
    }

    /// A message with its signatures in front, or as it is if nothing signs it. An error means that
    /// it must not be sent: it would leave unsigned.
    pub fn sign<'a>(&'a self, message: Bytes, origin: Origin<'a>) -> BoxFuture<'a, Result<Bytes, KeyError>> {
        Box::pin(async move {
            let domain = match origin {
                Origin::User { sender } => {
                    let author = read_author_domain(&message).await;
                    author.filter(|domain| domain_of(sender).as_ref() == Some(domain))
                }
                Origin::Server => read_author_domain(&message).await,
                Origin::Elsewhere { results: Some(_), forwarder } => domain_of(forwarder),
                Origin::Elsewhere { results: None, .. } => None,
            };
            let Some(domain) = domain else { return Ok(message) };
            let Some(keys) = self.keys_for(&domain).await? else { return Ok(message) };
            let results = match origin {
                Origin::Elsewhere { results, .. } => results.map(str::to_owned),
                Origin::User { .. } | Origin::Server => None,
            };
            let (now, len) = (unix_time::now(), message.len());
            let work = move || match results {
                Some(results) => arc::sealed(message, &keys, &results, now),
                None => signed(message, &keys, now),
            };
            if len <= INLINE_BYTES_MAX {
                return work();
            }
            let permit = self.permits.acquire(origin.address().to_ascii_lowercase()).await;
            let work = on_compute_thread_with(permit, work);
            let signed =
                work.await.unwrap_or(Err(KeyError::Crypto { domain, what: "signing was interrupted" }));
            signed.map(freed_elsewhere)
        })
    }

    /// The keys for mail of a domain; `None` for one that this server does not send for. Reports of
    /// this server have its own name as domain: the keys of a domain above it sign them, which is
    /// aligned (RFC 7489 §3.1.1).
    pub(crate) async fn keys_for(&self, domain: &str) -> Result<Option<Arc<Ready>>, KeyError> {
        let mut name = domain;
        loop {
            if let Some(entry) = self.engine.directory_entry(&name_of(name)).await? {
                let ready = self.ready(name, &entry)?;
                return Ok((!ready.keys.is_empty()).then_some(ready));
            }
            match name.split_once('.') {
                Some((_, above)) if domain.eq_ignore_ascii_case(&self.host) => name = above,
                _ => return Ok(None),
            }
        }
    }

    /// The parsed keys of a record.
    fn ready(&self, domain: &str, entry: &DirectoryEntry) -> Result<Arc<Ready>, KeyError> {
        if let Some(ready) = self.ready.lock().get(domain)
            && ready.version == entry.version
        {
            return Ok(Arc::clone(ready));
        }
        let all = DomainKeys::read(entry)?;
        let mut keys = Vec::new();
        for key in all.in_state(KeyState::Signing) {
            if let Some(pair) = key.pair(domain)? {
                keys.push(ReadyKey { selector: key.selector.clone(), algorithm: key.algorithm, pair });
            }
        }
        let ready = Arc::new(Ready { version: entry.version, domain: domain.to_owned(), keys });
        self.ready.lock().insert(domain.to_owned(), Arc::clone(&ready));
        Ok(ready)
    }
}

fn domain_of(address: &str) -> Option<String> {
    normal_domain(address.rsplit_once('@')?.1).ok()
}

/// The addresses of each `From` of a message (RFC 5322 §3.6.2 requires one such field), from the
/// top. `None` for a field without an address.
fn authors(message: &[u8]) -> Vec<Vec<String>> {
    let authors = canonical::fields(message).filter(|field| field.is("From"));
    authors.map(|from| addresses(from.value)).collect()
}

/// The addresses in the value of a field: those that DMARC compares, and then others that mail
/// programs show. Of too many, not all are named.
fn addresses(value: &[u8]) -> Vec<String> {
    let field = [b"From:", value, b"\r\n\r\n"].concat();
    let mut found = AuthenticatedMessage::parse(&field).map_or(Vec::new(), |parsed| parsed.froms().to_vec());
    if found.len() <= SENDER_ADDRESSES_MAX {
        let known: Vec<String> = found.iter().map(|address| unquoted(address)).collect();
        let is_new = |shown: &String| {
            let shown = unquoted(shown);
            known.iter().all(|known| !is_same(&shown, known))
        };
        let others = shown_addresses(value).into_iter().filter(is_new);
        found.extend(others.take(SENDER_ADDRESSES_MAX + 1));
    }
    found
}

/// The fields that say who wrote or sent a message (RFC 5322 §3.6.2, §3.6.6).
const SENDING: [&str; 4] = ["From", "Sender", "Resent-From", "Resent-Sender"];

/// Addresses of one message's fields that name a sender, at most, where each must be an address
/// of one account. Each costs a look-up in the directory.
pub const SENDER_ADDRESSES_MAX: usize = 16;

/// A field of a message that says who wrote or sent it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NamedSender {
    /// Its name and its addresses; none if it holds no address.
    Field(&'static str, Vec<String>),
    /// It has such a name for a reader that skips characters it cannot show, such as a vertical
    /// tab. For others it is no field (RFC 5322 §2.2).
    Imitated(&'static str),
}

/// The fields that say who wrote or sent a message, from the top.
pub fn named_senders(message: &[u8]) -> impl Iterator<Item = NamedSender> {
    canonical::fields(message).filter_map(|field| {
        if let Some(name) = SENDING.into_iter().find(|name| field.is(name)) {
            return Some(NamedSender::Field(name, addresses(field.value)));
        }
        let shown: Vec<u8> = field.name.iter().copied().filter(u8::is_ascii_graphic).collect();
        let name = SENDING.into_iter().find(|name| shown.eq_ignore_ascii_case(name.as_bytes()))?;
        Some(NamedSender::Imitated(name))
    })
}

/// The domain of the author, if there is one `From` and all its addresses have the same (RFC 7489
/// §6.6.1).
pub(crate) fn author_domain(message: &[u8]) -> Option<String> {
    let authors = authors(message);
    let [from] = authors.as_slice() else { return None };
    let mut domains = from.iter().map(|address| domain_of(address));
    let first = domains.next()??;
    domains.all(|other| other.as_deref() == Some(first.as_str())).then_some(first)
}

/// The same. Another thread reads a long header.
async fn read_author_domain(message: &Bytes) -> Option<String> {
    reading_header(None, message, |message| author_domain(&message)).await
}

/// A message with a signature by each key in front.
fn signed(message: Bytes, ready: &Ready, now: u64) -> Result<Bytes, KeyError> {
    let message = canonical::with_line_ends(message);
    let (fields, body) = canonical::split(&message);
    let body_hash = STANDARD.encode(body_hash(body));
    let covered = covered(&fields, &SEALED, &SIGNED);
    let mut out = BytesMut::with_capacity(message.len() + 4096);
    for key in &ready.keys {
        let tags = [
            format!("v=1; a={}; c=relaxed/relaxed; d={};", key.algorithm.name(), ready.domain),
            format!("s={}; t={now};", key.selector),
        ];
        let field = sign_field("DKIM-Signature", &tags, &covered, &body_hash, &ready.domain, &key.pair)?;
        out.extend_from_slice(field.as_bytes());
    }
    out.extend_from_slice(&message);
    Ok(out.freeze())
}

#[cfg(test)]
mod tests {
    use posthaste_net::given_to_compute_threads;
    use posthaste_property::properties;
    use posthaste_store::MemoryEngine;
    use proptest::prelude::*;

    use super::*;
    use crate::signature::Covered;

    const MESSAGE: &str = "Received: by mail.example.org\r\nFrom: Ana <ana@Example.Org>\r\nTo: bo@example.net\r\n\
                           Subject: a \r\n  b\r\n\r\nHi  there. \r\n\r\n";

    async fn signer() -> (Arc<MemoryEngine>, Signer) {
        let engine = Arc::new(MemoryEngine::new());
        let mut keys = DomainKeys::new("example.org");
        keys.generate(KeyState::Signing, 0).unwrap();
        keys.save(&*engine).await.unwrap();
        let signer = Signer::new(Arc::<MemoryEngine>::clone(&engine), "mail.example.org");
        (engine, signer)
    }

    async fn sign(signer: &Signer, message: &str, origin: Origin<'_>) -> String {
        let out = signer.sign(Bytes::from(message.to_owned()), origin).await.unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn mail_that_is_signed() {
        let (engine, signer) = signer().await;
        let own = Origin::User { sender: "ana@example.org" };
        let message = sign(&signer, MESSAGE, own).await;
        assert_eq!(message.matches("DKIM-Signature: v=1; a=").count(), 2);
        assert!(message.ends_with(MESSAGE));
        assert!(message.lines().all(|line| line.len() <= 78), "{message}");
        for origin in [
            Origin::User { sender: "ana@example.net" },
            Origin::User { sender: "" },
            Origin::User { sender: "ana@sub.example.org" },
            Origin::Elsewhere { results: None, forwarder: "ana@example.org" },
        ] {
            assert_eq!(sign(&signer, MESSAGE, origin).await, MESSAGE, "{origin:?}");
        }
        // Reports come from the server's own name, below a domain of ours.
        let report = MESSAGE.replace("Example.Org", "mail.example.org");
        assert!(sign(&signer, &report, Origin::Server).await.contains("d=example.org;"));
        let other = MESSAGE.replace("Example.Org", "other.example.org");
        assert_eq!(sign(&signer, &other, Origin::Server).await, other);
        // A removed domain counts at once.
        DomainKeys::find(&*engine, "example.org").await.unwrap().unwrap().remove(&*engine).await.unwrap();
        assert_eq!(sign(&signer, MESSAGE, own).await, MESSAGE);
    }

    #[tokio::test]
    async fn a_rotation_counts_for_the_next_message() {
        let (engine, signer) = signer().await;
        let own = Origin::User { sender: "ana@example.org" };
        assert!(sign(&signer, MESSAGE, own).await.contains("s=r19700101;"));
        let mut keys = DomainKeys::find(&*engine, "example.org").await.unwrap().unwrap();
        keys.generate(KeyState::Next, 0).unwrap();
        keys.save(&*engine).await.unwrap();
        assert!(sign(&signer, MESSAGE, own).await.contains("s=r19700101;"));
        keys.switch(1);
        keys.save(&*engine).await.unwrap();
        let message = sign(&signer, MESSAGE, own).await;
        assert!(message.contains("s=r19700101-2;") && !message.contains("s=r19700101;"));
    }

    #[tokio::test]
    async fn mail_that_cannot_be_signed_is_an_error() {
        let (engine, signer) = signer().await;
        let entry = engine.directory_entry("dkim/example.org").await.unwrap().unwrap();
        let value = Some(Bytes::from_static(b"{}"));
        let change = posthaste_store::DirectoryChange { name: entry.name, expected: entry.version, value };
        engine.directory_commit(change).await.unwrap();
        let own = Origin::User { sender: "ana@example.org" };
        assert!(signer.sign(Bytes::from(MESSAGE), own).await.is_err());
    }

    #[tokio::test]
    async fn long_headers_and_long_messages_are_work_of_another_thread() {
        let (_engine, signer) = signer().await;
        let authors = format!("From: {}\r\n\r\n", "a@b.test, ".repeat(10_000));
        let lines = format!("{MESSAGE}{}", "a\r\n".repeat(40_000));
        for (message, is_long) in [(MESSAGE, false), (authors.as_str(), true), (lines.as_str(), true)] {
            let given = given_to_compute_threads();
            sign(&signer, message, Origin::User { sender: "ana@example.org" }).await;
            assert_eq!(given_to_compute_threads() - given, usize::from(is_long), "{} octets", message.len());
        }
    }

    #[tokio::test]
    async fn long_messages_of_an_address_are_signed_one_at_a_time() {
        let (_engine, signer) = signer().await;
        let long = Bytes::from(format!("{MESSAGE}{}", "a\r\n".repeat(40_000)));
        let sign = |sender| signer.sign(long.clone(), Origin::User { sender });
        let held = signer.permits.acquire_own("ana@example.org".to_owned()).await;
        let mut second = sign("Ana@example.org");
        let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending()));
        assert!(waits.await);
        assert_eq!(signer.permits.count(&"ana@example.org".to_owned()), 2);
        sign("bo@example.org").await.unwrap();
        drop(held);
        assert!(second.await.unwrap().len() > long.len());
        assert_eq!(signer.permits.keys(), 0);
    }

    #[test]
    fn who_is_named_as_a_sender() {
        let found: Vec<NamedSender> = named_senders(
            b"From : a@b\r\nsender: c@d\r\nFrom\x0b: e@f\r\n\xef\xbb\xbfFrom: g@h\r\nRe sent-From: i@j\r\n\
              Resent-From: k@l, m@n\r\nFrom x@y Mon Jan 1 00:00:00\r\nX-From: o@p\r\nResent-Sender:\r\n\r\nFrom: q@r\r\n",
        )
        .collect();
        let field =
            |name, all: &[&str]| NamedSender::Field(name, all.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(
            found,
            [
                field("From", &["a@b"]),
                field("Sender", &["c@d"]),
                NamedSender::Imitated("From"),
                NamedSender::Imitated("From"),
                NamedSender::Imitated("Resent-From"),
                field("Resent-From", &["k@l", "m@n"]),
                field("Resent-Sender", &[]),
            ]
        );
    }

    /// Mail programs show Ben. His domain must not sign for Ana, nor hers for him.
    #[test]
    fn who_is_shown_as_a_sender_is_named() {
        let from = "From: =?utf-8?q?Ben <ben@b.test>, x?= <ana@a.test>\r\n\r\n";
        let named: Vec<NamedSender> = named_senders(from.as_bytes()).collect();
        let both = ["ana@a.test", "ben@b.test"].map(str::to_owned).to_vec();
        assert_eq!(named, [NamedSender::Field("From", both)]);
        assert_eq!(author_domain(from.as_bytes()), None);
        for (from, count) in [
            ("<\"a b\"@c.test>", 1),
            // Scripts leave out the angle brackets.
            ("\"Ana\" ana@c.test", 1),
            ("=?utf-8?q?Ana?= ana@c.test", 1),
            ("=?utf-8?q?ben@b.test x?= ana@c.test", 2),
        ] {
            let named = addresses(format!(" {from}").as_bytes());
            assert_eq!(named.len(), count, "{from}: {named:?}");
        }
    }

    #[test]
    fn authors() {
        let of = |text: &str| author_domain(format!("{text}\r\n\r\nFrom: x@body.test\r\n").as_bytes());
        assert_eq!(of("From: a@B.Test").as_deref(), Some("b.test"));
        assert_eq!(of("from : \"x@y\" (c@d) <a@b.test>").as_deref(), Some("b.test"));
        assert_eq!(of("From: a@b.test,\r\n c@b.test").as_deref(), Some("b.test"));
        assert_eq!(of("From: a@b\u{fc}cher.test").as_deref(), Some("xn--bcher-kva.test"));
        for none in [
            "Subject: a",
            "From: a@b.test\r\nFrom: a@b.test",
            "From: a@b.test, c@d.test",
            "From: nobody",
            "From:",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    properties! {
        /// Each field that is there is covered once. A field that nobody may add is named once more
        /// than it is there.
        #[test]
        fn every_listed_field_is_covered(names in proptest::collection::vec("(From|Subject|Sender|X-A)", 0..8)) {
            let text: String = names.iter().map(|name| format!("{name}: v\r\n")).collect();
            let (fields, _) = canonical::split(text.as_bytes());
            let Covered { names: listed, canonical } = covered(&fields, &SEALED, &SIGNED);
            let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
            let named = |wanted: &str| listed.iter().filter(|name| **name == wanted).count();
            prop_assert_eq!(named("From"), count("From") + 1);
            prop_assert_eq!(named("Sender"), count("Sender"));
            let lines = canonical.split(|byte| *byte == b'\n').count() - 1;
            prop_assert_eq!(lines, names.len() - count("X-A"));
        }

        #[test]
        fn no_message_is_too_odd(text in "(From: ?|a@b|[\r\n:;<>\" \t(),]|\r\n){0,30}") {
            let message = Bytes::from(text);
            let _ = author_domain(&canonical::with_line_ends(message));
        }
    }
}
