//! URLAUTH: RFC 4467, with URLAUTH=BINARY of RFC 5524. GENURLAUTH authorises URLs, URLFETCH reads
//! them, RESETKEY makes them void.
//!
//! The mechanism is INTERNAL: the proof is a hash of the URL with a key that the directory keeps
//! for each mailbox. `posthaste_delivery` checks it, for these commands and for BURL at submission.

use bytes::Bytes;
use posthaste_delivery::{Decoded, UrlPart, UrlReader, UrlRefusal, UrlUse, structure_of_decoded};
use posthaste_directory::Account;
use posthaste_imap_codec::command::{UrlFetchItem, UrlFetchParam};
use posthaste_imap_codec::response::{Code, StatusKind};
use posthaste_imap_codec::{ImapUrl, MailboxArg, SectionText, Tag, print};
use posthaste_net::BytePermit;
use posthaste_store::StoreError;

use super::DONE;
use crate::freed::freed_elsewhere;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::offload::Threads;
use crate::reply::{Failure, Reply};
use crate::resolve::Asker;
use crate::rights::Act;
use crate::selected::Selected;
use crate::service::{ImapService, UNRESERVED_READ_BYTES};
use crate::session::{Session, logged_in};

/// The mechanism that there is.
const INTERNAL: &str = "INTERNAL";

/// Steps of looking up a URL: directory, list and summary.
pub(super) const URL_STEPS: u64 = SLICE_STEPS / 20;

/// Steps of parsing and printing a byte of a structure, most of them for memory.
const STRUCTURE_BYTE_STEPS: u64 = 16;

/// Bytes that are looked at between two counts of the steps.
const PIECE_BYTES: usize = 256 * 1024;

/// The source of the data of a session's URLs.
#[derive(Clone, Copy)]
pub(super) struct UrlSource<'s> {
    pub(super) service: &'s ImapService,
    /// The account, with the selected mailbox.
    pub(super) reader: UrlReader<'s>,
}

impl<'s> UrlSource<'s> {
    pub(super) fn of(service: &'s ImapService, account: &'s Account, selected: Option<&Selected>) -> Self {
        // RFC 4314 §4: the right to read may have been taken away since SELECT.
        let selected = selected.filter(|selected| selected.permit(Act::Read).is_ok());
        let selected = selected.map(|selected| selected.mailbox.id());
        let host = &service.options.hostname;
        Self { service, reader: UrlReader { account, host, selected, used: UrlUse::Imap } }
    }
}

/// RFC 4469 §4: the URL, and why it cannot be used.
pub(super) fn bad_url(url: &str, why: &str) -> Reply {
    let mut text = why.to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Reply::no(Code::BadUrl(url.to_owned()), text)
}

/// GENURLAUTH: RFC 4467 §8. All URLs are authorised, or none.
pub(super) async fn generate(
    session: &mut Session,
    tag: &Tag,
    urls: &[(String, String)],
) -> Result<Reply, Failure> {
    let account = logged_in(session.login.as_deref())?;
    let source = UrlSource::of(&session.service, account, session.selected.as_ref());
    let reports = session.service.reports(tag);
    let authorised = session.wire.reporting(reports, Box::pin(authorise(source, urls))).await?;
    let out = session.wire.out();
    out.extend_from_slice(b"* GENURLAUTH");
    for url in authorised {
        out.push(b' ');
        print::string(out, url.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    Ok(DONE)
}

/// The authorised URLs, in their order.
async fn authorise(source: UrlSource<'_>, urls: &[(String, String)]) -> Result<Vec<String>, Failure> {
    let UrlSource { service, reader } = source;
    let (mut authorised, mut pace) = (Vec::with_capacity(urls.len()), Pace::default());
    for (rump, mechanism) in urls {
        known(mechanism)?;
        pace.worked(URL_STEPS).await;
        authorised.push(match service.delivery.authorise_url(reader, rump).await {
            Ok(url) => url,
            // RFC 4467 §7: the answer to a URL that fails its checks is BAD.
            Err(UrlRefusal::Bad(why)) => {
                return Err(Reply { kind: StatusKind::Bad, ..bad_url(rump, &why) }.into());
            }
            Err(UrlRefusal::Failed(error)) => return Err(error.into()),
        });
    }
    Ok(authorised)
}

/// RESETKEY: RFC 4467 §8. Without a mailbox, the keys of all of them.
pub(super) async fn reset(
    session: &mut Session,
    tag: &Tag,
    mailbox: Option<&MailboxArg>,
    mechanisms: &[String],
) -> Result<Reply, Failure> {
    mechanisms.iter().try_for_each(|mechanism| known(mechanism))?;
    let (asker, wire, reports) = session.reporting(tag)?;
    wire.reporting(reports, Box::pin(forget_keys(asker, mailbox))).await?;
    Ok(Reply::ok("Earlier URLs are no longer valid").with(Code::UrlMech(Vec::new())))
}

async fn forget_keys(asker: Asker<'_>, mailbox: Option<&MailboxArg>) -> Result<(), Failure> {
    let Asker { service, login } = asker;
    match mailbox {
        None => service.directory.url_keys().forget_all(login.id).await?,
        Some(mailbox) => {
            let list = service.store.list(login.id).await?;
            let entry = list.find(&mailbox.name()?).ok_or(StoreError::NoSuchName)?;
            service.directory.url_keys().forget(login.id, entry.id).await?;
        }
    }
    Ok(())
}

fn known(mechanism: &str) -> Result<(), Failure> {
    match mechanism == INTERNAL {
        true => Ok(()),
        false => Err(Reply::no(Code::Cannot, "The mechanism of authorised URLs is INTERNAL").into()),
    }
}

/// URLFETCH: RFC 4467 §8. A URL that is not valid, for whatever reason, is answered with NIL.
pub(super) async fn fetch(
    session: &mut Session,
    tag: &Tag,
    items: &[UrlFetchItem],
) -> Result<Reply, Failure> {
    let mut pace = Pace::default();
    for item in items {
        answer(session, tag, item).await?;
        pace.worked(URL_STEPS).await;
        session.wire.relieve().await?;
    }
    Ok(DONE)
}

/// `* URLFETCH url nstring`, or of RFC 5524 §3 `* URLFETCH url (BINARY {5}…) (BODYPARTSTRUCTURE
/// (…))`.
async fn answer(session: &mut Session, tag: &Tag, item: &UrlFetchItem) -> Result<(), Failure> {
    let UrlFetchItem { url, params } = item;
    // RFC 4467 §9, url-full: without authorisation it is not one.
    let is_full = ImapUrl::parse(url).is_ok_and(|url| url.auth.is_some());
    let mut found = UrlData::default();
    if is_full {
        let account = logged_in(session.login.as_deref())?;
        let source = UrlSource::of(&session.service, account, session.selected.as_ref());
        let reports = session.service.reports(tag);
        // All that can fail is done before the response begins.
        found = session.wire.reporting(reports, Box::pin(UrlData::read(source, item))).await?;
    }
    let out = session.wire.out();
    out.extend_from_slice(b"* URLFETCH ");
    print::string(out, url.as_bytes());
    if !found.is_there {
        session.wire.out().extend_from_slice(b" NIL");
    }
    for (param, value) in found.values {
        let out = session.wire.out();
        out.push(b' ');
        if params.is_none() {
            value.send(session).await?;
            continue;
        }
        out.push(b'(');
        out.extend_from_slice(param.name().as_bytes());
        out.push(b' ');
        value.send(session).await?;
        session.wire.out().push(b')');
    }
    session.wire.out().extend_from_slice(b"\r\n");
    Ok(())
}

/// The data of a URL.
#[derive(Default)]
struct UrlData {
    is_there: bool,
    values: Vec<(UrlFetchParam, ParamValue)>,
    /// Memory of the values.
    _paid: Option<BytePermit>,
}

impl UrlData {
    async fn read(source: UrlSource<'_>, item: &UrlFetchItem) -> Result<Self, Failure> {
        let UrlFetchItem { url, params } = item;
        let part = or_nil(source.service.delivery.find_url(source.reader, url).await)?;
        let Some(part) = part else { return Ok(Self::default()) };
        let params = params.as_deref().unwrap_or(&[UrlFetchParam::Body]);
        let (_paid, mut values) = (reserve(source, &part, params).await?, Vec::new());
        for param in params {
            values.push((*param, value(source, url, &part, *param).await?));
        }
        describe_decoded(source, url, &mut values).await?;
        Ok(Self { is_there: true, values, _paid })
    }
}

/// The answer to one parameter.
enum ParamValue {
    Nil,
    Literal(Bytes),
    /// Without transfer encoding.
    Decoded {
        bytes: Bytes,
        has_nul: bool,
    },
    Printed(Vec<u8>),
}

impl ParamValue {
    async fn send(self, session: &mut Session) -> Result<(), Failure> {
        let wire = &mut session.wire;
        match &self {
            Self::Nil => wire.out().extend_from_slice(b"NIL"),
            Self::Literal(bytes) => {
                print::literal_head(wire.out(), bytes.len() as u64);
                wire.put(bytes).await?;
            }
            Self::Decoded { bytes, has_nul } => {
                // RFC 5524 §3.1, RFC 3516 §4.3: literal8 where there is a NUL.
                let head = if *has_nul { print::literal8_head } else { print::literal_head };
                head(wire.out(), bytes.len() as u64);
                wire.put(bytes).await?;
            }
            Self::Printed(bytes) => wire.put(bytes).await?,
        }
        Ok(())
    }
}

/// Reserves the memory of what parameters request. It stays reserved until the response is sent.
async fn reserve(
    source: UrlSource<'_>,
    part: &UrlPart,
    params: &[UrlFetchParam],
) -> Result<Option<BytePermit>, Failure> {
    let UrlSource { service, reader } = source;
    let (mut data, mut structure) = (0, 0);
    for param in params {
        match param {
            UrlFetchParam::Body => data = part.read_len(),
            UrlFetchParam::Binary => data = part.decoded_len(),
            UrlFetchParam::Structure => structure = part.structure_len(),
        }
    }
    // A part that could be read without its structure can be read with it.
    let needed = data.max((data + structure).min(service.reads.largest() as u64));
    if needed <= UNRESERVED_READ_BYTES {
        return Ok(None);
    }
    service.reserve_to_read(reader.account.id, needed).await.map(Some)
}

/// Reads the data that a parameter requests.
async fn value(
    source: UrlSource<'_>,
    url: &str,
    part: &UrlPart,
    param: UrlFetchParam,
) -> Result<ParamValue, Failure> {
    let service = source.service;
    Ok(match param {
        UrlFetchParam::Body => {
            let mut bytes = Vec::new();
            service.delivery.read_url(part, &mut bytes).await?;
            // RFC 9051 §9, CHAR8: as in FETCH BODY.
            without_nul(&mut bytes).await;
            ParamValue::Literal(freed_elsewhere(bytes))
        }
        UrlFetchParam::Binary => {
            let decoded = service.delivery.read_url_decoded(part).await?;
            let Some(bytes) = decoded else { return Ok(ParamValue::Nil) };
            let has_nul = has_nul(&bytes).await;
            ParamValue::Decoded { bytes: freed_elsewhere(bytes), has_nul }
        }
        UrlFetchParam::Structure => {
            let found = or_nil(service.delivery.structure_of_url(source.reader, url).await)?;
            found.flatten().map_or(ParamValue::Nil, ParamValue::Printed)
        }
    })
}

/// RFC 5524 §3: with BINARY, the structure describes the bytes that are sent. Those of a
/// composite part or of a whole message are sent as they are. The structure of an encoded message
/// is long if it has many parts.
async fn describe_decoded(
    source: UrlSource<'_>,
    url: &str,
    values: &mut [(UrlFetchParam, ParamValue)],
) -> Result<(), Failure> {
    let is_whole_part = ImapUrl::parse(url).is_ok_and(|url| {
        let section = url.section.unwrap_or_default();
        url.partial.is_none() && section.text == SectionText::Whole && !section.part.0.is_empty()
    });
    let sent = values.iter().find_map(|(_, value)| match value {
        ParamValue::Decoded { bytes, .. } => Some(bytes),
        _ => None,
    });
    let Some(sent) = sent.filter(|_| is_whole_part) else { return Ok(()) };
    let (mut decoded, mut pace) = (Decoded::default(), Pace::default());
    for piece in sent.chunks(PIECE_BYTES) {
        decoded.count(piece);
        pace.worked(piece.len() as u64).await;
    }
    let threads = Threads { service: source.service, account: source.reader.account.id };
    for (_, value) in values {
        let ParamValue::Printed(printed) = value else { continue };
        let was = std::mem::take(printed);
        let steps = was.len() as u64 * STRUCTURE_BYTE_STEPS;
        *printed = threads.run(steps, move || structure_of_decoded(&was, decoded).unwrap_or(was)).await?;
    }
    Ok(())
}

/// Looks for a NUL, in pieces.
async fn has_nul(bytes: &[u8]) -> bool {
    let mut pace = Pace::default();
    for piece in bytes.chunks(PIECE_BYTES) {
        if piece.contains(&0) {
            return true;
        }
        pace.worked(piece.len() as u64).await;
    }
    false
}

/// Replaces each NUL, in pieces.
async fn without_nul(bytes: &mut [u8]) {
    let mut pace = Pace::default();
    for piece in bytes.chunks_mut(PIECE_BYTES) {
        piece.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = 0x80);
        pace.worked(piece.len() as u64).await;
    }
}

/// A part that does not exist is NIL.
fn or_nil<T>(found: Result<T, UrlRefusal>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(UrlRefusal::Bad(_)) => Ok(None),
        Err(UrlRefusal::Failed(error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use posthaste_directory::NewAccount;
    use posthaste_mail_model::Secret;
    use posthaste_net::{Connection, Shutdown, Stream};

    use super::*;
    use crate::size_tests::service;

    /// Each costs a read of the directory, of a list and of a summary.
    #[tokio::test]
    async fn many_urls_are_looked_up_in_slices() {
        let (_trigger, shutdown) = Shutdown::new();
        let (_client, server) = tokio::io::duplex(1 << 16);
        let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let connection = Connection::new(Stream::over(server, address(40_000), address(143)));
        let mut session = Session::on(Arc::new(service()), connection, shutdown);
        let tag = Tag::new("a").unwrap();
        let item = || UrlFetchItem { url: "/INBOX/;UID=1".to_owned(), params: None };
        let items: Vec<UrlFetchItem> = std::iter::repeat_with(item).take(200).collect();
        let mut polls = 1;
        {
            let mut work = pin!(fetch(&mut session, &tag, &items));
            while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                polls += 1;
            }
        }
        assert_eq!(polls, 1 + 200 * URL_STEPS / SLICE_STEPS);
    }

    #[test]
    fn a_long_part_is_looked_at_in_pieces() {
        let mut bytes = vec![0; 4 * SLICE_STEPS as usize];
        let mut polls = 1;
        {
            let mut work = pin!(without_nul(&mut bytes));
            while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                polls += 1;
            }
        }
        assert!(polls >= 3, "{polls} polls");
        assert!(bytes.iter().all(|byte| *byte == 0x80));
    }

    async fn ana_of(service: &ImapService) -> Account {
        let password = Secret::new("correct horse".to_owned());
        service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap()
    }

    /// Each session of an account held a structure of 8 MiB in no budget: while it waited for a
    /// thread, and while its client read.
    #[tokio::test]
    async fn memory_is_reserved_for_a_long_structure() {
        let service = service();
        let ana = ana_of(&service).await;
        let to = [service.delivery.resolve(&ana.name).await.unwrap()];
        let head = "Content-Type: multipart/mixed; boundary=b\r\n\r\n";
        for parts in [1, 5_000] {
            let message = head.to_owned() + &"--b\r\n\r\ntwenty octets of text\r\n".repeat(parts);
            for delivered in service.delivery.deliver(Bytes::from(message), &to).await {
                delivered.unwrap();
            }
        }
        let source = UrlSource::of(&service, &ana, None);
        let reserved = async |url: &str| {
            let part = service.delivery.find_url(source.reader, url).await.unwrap();
            let paid = reserve(source, &part, &[UrlFetchParam::Structure]).await.unwrap();
            paid.map(|paid| paid.bytes())
        };
        assert_eq!(reserved("/INBOX/;UID=1").await, None);
        assert!(reserved("/INBOX/;UID=2").await.is_some_and(|bytes| bytes > 200_000));
    }

    /// A message in base64 may have 20,000 parts: its structure was parsed and printed in one poll.
    #[tokio::test]
    async fn a_long_structure_is_described_by_another_thread() {
        let service = service();
        let ana = ana_of(&service).await;
        let source = UrlSource::of(&service, &ana, None);
        let nils = |count: usize| vec!["NIL"; count].join(" ");
        let sent = Bytes::from_static(b"a\r\n");
        for (parts, is_elsewhere) in [(1, false), (5_000, true)] {
            let text = r#"("TEXT" "PLAIN" NIL NIL NIL "7BIT" 3 1 NIL NIL NIL NIL)"#.repeat(parts);
            let multipart = format!(r#"({text} "MIXED" {})"#, nils(4));
            let around = format!(r#""MESSAGE" "RFC822" NIL NIL NIL "base64" 99 ({})"#, nils(10));
            let printed = format!("({around} {multipart} 5 {})", nils(4));
            let mut values = [
                (UrlFetchParam::Structure, ParamValue::Printed(printed.into_bytes())),
                (UrlFetchParam::Binary, ParamValue::Decoded { bytes: sent.clone(), has_nul: false }),
            ];
            // Another session of the account computes.
            let held = service.heavy.acquire(ana.id).await;
            {
                let mut work = pin!(describe_decoded(source, "/INBOX/;UID=1/;SECTION=1", &mut values));
                let first = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
                assert_eq!(first.is_pending(), is_elsewhere, "{parts} parts");
                drop(held);
                if is_elsewhere {
                    work.await.unwrap();
                }
            }
            let ParamValue::Printed(described) = &values[0].1 else { panic!("no structure") };
            let described = String::from_utf8_lossy(described);
            assert!(!described.contains("base64") && described.contains("\"7bit\" 3 "), "{described}");
        }
    }
}
