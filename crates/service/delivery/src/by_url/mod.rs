//! Messages and their parts by URL (RFC 5092): what CATENATE, URLFETCH and BURL read.
//!
//! A URL is looked up without opening its mailbox: one summary is read, which has the place of
//! the part. So the cost is that of the message, however large its folder is.
//!
//! Without `;URLAUTH=` a URL names something that the reader's account may read: its own, or one
//! that others share with it. With it (RFC 4467), it may be of another account, which has
//! authorised it. The proof is a hash of the URL with a key of the mailbox. A refusal does not show
//! its reason.

mod structure;
#[cfg(test)]
mod waiting_tests;

pub use structure::{Decoded, has_parts, structure_of_decoded};

use std::ops::{ControlFlow, Range};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_directory::{Account, Address, DirectoryError};
use posthaste_imap_codec::{
    ImapUrl, MailboxArg, Section, SectionText, UrlAccess, UrlAuth, UrlPartial, UrlServer,
};
use posthaste_mail_model::{AccountId, BodyId, MailboxId, NumSet, Rights, Uid};
use posthaste_mime_summary::{self as mime, Encoding, FieldMask, SummaryRef, decode_transfer};
use posthaste_net::on_compute_thread_with;
use posthaste_sharing::{NO_MAILBOX, Namespace, find_mailbox};
use posthaste_store::{MailboxEntry, Place, StoreError};

use crate::deliver::Delivery;
use crate::error::DeliveryError;

/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 256 * 1024;

/// Bytes that are read without a pause: less than 1 ms. The other tasks of the thread wait for it.
const READ_AT_ONCE: u64 = 1 << 20;

/// Bytes of a summary after which others have their turn. The longest one, of 10 MiB, takes some
/// milliseconds, and a command may name a thousand URLs.
const LONG_SUMMARY: usize = 64 * 1024;

/// Bytes of a header of which single fields are read. A permit bounds how many are read at a time:
/// they are in memory beside the data. Headers of real messages have under 100 KiB.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// The mechanism of RFC 4467.
const INTERNAL: &str = "INTERNAL";

/// The user who requests the data of a URL.
#[derive(Debug, Clone, Copy)]
pub struct UrlReader<'r> {
    /// The account that has logged in.
    pub account: &'r Account,
    /// The name of this server.
    pub host: &'r str,
    /// The mailbox that is selected: what relative URLs are relative to.
    pub selected: Option<MailboxId>,
    /// The use that is made of the URL.
    pub used: UrlUse,
}

/// The use of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlUse {
    /// In a session that reads mail.
    Imap,
    /// In a session that sends mail: RFC 4468.
    Submission,
}

/// The data that a URL names: found, and not yet read.
#[derive(Debug)]
pub struct UrlPart {
    /// The account that its computations count for.
    reader: AccountId,
    uid: Uid,
    body: BodyId,
    bytes: Range<u64>,
    /// The fields of these bytes, which are a header.
    fields: Option<FieldMask>,
    partial: Option<UrlPartial>,
    /// The encoding of the bytes, if they are the content of a part.
    encoding: Encoding,
    /// Octets of the structure of the whole message.
    structure: u64,
}

/// The place of a part in its message.
struct PartPlace {
    bytes: Range<u64>,
    fields: Option<FieldMask>,
    partial: Option<UrlPartial>,
    encoding: Encoding,
}

impl PartPlace {
    fn of(self, reader: AccountId, uid: Uid, body: BodyId, structure: u64) -> UrlPart {
        let Self { bytes, fields, partial, encoding } = self;
        UrlPart { reader, uid, body, bytes, fields, partial, encoding, structure }
    }
}

/// Why nothing is read.
#[derive(Debug, thiserror::Error)]
pub enum UrlRefusal {
    /// The URL names nothing that may be read.
    #[error("{0}")]
    Bad(String),
    /// The store, or the directory.
    #[error(transparent)]
    Failed(#[from] DeliveryError),
}

impl From<StoreError> for UrlRefusal {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<DirectoryError> for UrlRefusal {
    fn from(error: DirectoryError) -> Self {
        Self::Failed(DeliveryError::Store(match error {
            DirectoryError::Store(error) => error,
            DirectoryError::Busy(_) => StoreError::Busy,
            error => StoreError::Corrupt(error.to_string()),
        }))
    }
}

fn bad(why: impl ToString) -> UrlRefusal {
    UrlRefusal::Bad(why.to_string())
}

fn no_such_mailbox() -> UrlRefusal {
    bad("there is no such mailbox")
}

/// RFC 5092 §4: a mailbox that the URL names, if it is still the one that was meant.
fn of_validity(entry: &MailboxEntry, url: &ImapUrl) -> Result<MailboxId, UrlRefusal> {
    match url.mailbox.as_ref().and_then(|named| named.uid_validity) {
        Some(validity) if validity != entry.uid_validity => Err(bad("the mailbox has another UIDVALIDITY")),
        _ => Ok(entry.id),
    }
}

impl Delivery {
    /// Finds the data that a URL names.
    pub async fn find_url(&self, reader: UrlReader<'_>, text: &str) -> Result<UrlPart, UrlRefusal> {
        let (mailbox, uid, url) = self.message_of_url(reader, text).await?;
        let part = self.part_of(reader.account.id, mailbox, uid, &url).await?;
        let part = part.ok_or_else(|| bad("there is no such message or part"))?;
        match part.fields.is_some() && part.read_len() > HEADER_BYTES_MAX {
            true => Err(bad("the header is too large for single fields of it")),
            false => Ok(part),
        }
    }

    /// The structure of the data that a URL names, as BODYSTRUCTURE has it (RFC 5524 §3); `None`
    /// for what is no part.
    pub async fn structure_of_url(
        &self,
        reader: UrlReader<'_>,
        text: &str,
    ) -> Result<Option<Vec<u8>>, UrlRefusal> {
        let (mailbox, uid, url) = self.message_of_url(reader, text).await?;
        let printed = |summary: SummaryRef<'_>, _| summary.body_structure().to_vec();
        let found = self.of_summary(reader.account.id, (mailbox, uid), printed).await?;
        let printed = found.unwrap_or_default();
        let section = url.section.unwrap_or_default();
        if section.text != SectionText::Whole {
            return Ok(None);
        }
        let work = move || structure::of_part(&printed, &section.part.0);
        Ok(self.compute(reader.account.id, work).await?)
    }

    /// The message that a URL names, which may be read.
    async fn message_of_url(
        &self,
        reader: UrlReader<'_>,
        text: &str,
    ) -> Result<(MailboxId, Uid, ImapUrl), UrlRefusal> {
        let url = ImapUrl::parse(text).map_err(bad)?;
        let mailbox = match &url.auth {
            Some(auth) => self.authorised(reader, text, &url, auth).await?,
            None if reader.used == UrlUse::Submission => {
                return Err(bad("the URL is not authorised: it needs ;URLAUTH="));
            }
            None if url.server.as_ref().is_none_or(|server| reader.is_own(server)) => {
                self.readable_mailbox_of_url(reader, &url).await?
            }
            None => return Err(bad("the URL names another server or another user")),
        };
        let uid = url.uid.ok_or_else(|| bad("the URL names no message: it needs ;UID="))?;
        Ok((mailbox, uid, url))
    }

    /// RFC 4467 §6: authorises a URL that names its readers.
    pub async fn authorise_url(&self, reader: UrlReader<'_>, rump: &str) -> Result<String, UrlRefusal> {
        let url = ImapUrl::parse(rump).map_err(bad)?;
        let is_rump = url.auth.as_ref().is_some_and(|auth| auth.proof.is_none());
        let is_own = url.server.as_ref().is_some_and(|server| server.user.is_some() && reader.is_own(server));
        if !is_rump || !is_own {
            return Err(bad(
                "the URL has to be absolute, with your name, and to end in ;URLAUTH= with the access",
            ));
        }
        let mailbox = self.mailbox_of_url(reader.account.id, None, &url).await?;
        let key = self.directory().url_keys().get_or_make(reader.account.id, mailbox).await?;
        Ok(format!("{rump}:{INTERNAL}:{}", key.token(rump)))
    }

    /// The mailbox of a URL that an account has authorised.
    async fn authorised(
        &self,
        reader: UrlReader<'_>,
        text: &str,
        url: &ImapUrl,
        auth: &UrlAuth,
    ) -> Result<MailboxId, UrlRefusal> {
        let refused = || bad("the URL is not authorised, or not for you, or not any more");
        let now_s = (self.store().unix_ms() / 1000).cast_signed();
        let server = url.server.as_ref().ok_or_else(refused)?;
        let proof = auth.proof.as_ref().filter(|proof| proof.mechanism == INTERNAL).ok_or_else(refused)?;
        if auth.expires.is_some_and(|expires| expires <= now_s) || !reader.may_use(&auth.access) {
            return Err(refused());
        }
        let rump = ImapUrl::rump(text).ok_or_else(refused)?;
        let owner = self.user_of_url(reader, server).await?.filter(|owner| !owner.disabled);
        // As much is read and hashed if the account or the mailbox does not exist. A command may
        // name a thousand URLs, so its time would show it.
        let account = owner.as_ref().map_or(reader.account.id, |owner| owner.id);
        let found = match self.mailbox_of_url(account, None, url).await {
            Err(UrlRefusal::Bad(_)) => None,
            found => Some(found?),
        };
        let (mailbox, keys) = (found.unwrap_or(NO_MAILBOX), self.directory().url_keys());
        let is_proved = keys.prove(account, mailbox, rump, &proof.token).await?;
        found.filter(|_| is_proved && owner.is_some()).ok_or_else(refused)
    }

    /// The account that an absolute URL names, if it is of this server. A user without a domain may
    /// be one of the host's: `imap://ana@example.org/` as people write it.
    async fn user_of_url(
        &self,
        reader: UrlReader<'_>,
        server: &UrlServer,
    ) -> Result<Option<Account>, UrlRefusal> {
        let Some(user) = server.user.as_deref() else { return Ok(None) };
        let of_domain = (!user.contains('@')).then(|| format!("{user}@{}", server.host));
        let whole = Some(user.to_owned()).filter(|_| reader.is_host(server, None));
        for name in [whole, of_domain].into_iter().flatten() {
            match self.directory().account(&name).await {
                Ok(None) | Err(DirectoryError::Address { .. }) => {}
                found => return Ok(found?),
            }
        }
        Ok(None)
    }

    /// The mailbox of a URL that is not authorised: one of the reader's own, or one of another
    /// account in which the reader has `r` (RFC 4314 §4). Without it the answer is the one for a
    /// mailbox that does not exist.
    async fn readable_mailbox_of_url(
        &self,
        reader: UrlReader<'_>,
        url: &ImapUrl,
    ) -> Result<MailboxId, UrlRefusal> {
        let name = url.mailbox.as_ref().and_then(|named| MailboxArg::from_text(&named.name).name().ok());
        let Some(shown) = name.as_ref().and_then(Namespace::split) else {
            return self.mailbox_of_url(reader.account.id, reader.selected, url).await;
        };
        if shown.is_among(&*self.store().list(reader.account.id).await?) {
            return self.mailbox_of_url(reader.account.id, None, url).await;
        }
        let found = find_mailbox(self.directory(), self.store(), reader.account, &shown).await?;
        let found = found.filter(|found| found.rights.contains(Rights::READ));
        of_validity(&found.ok_or_else(no_such_mailbox)?.entry, url)
    }

    /// A mailbox of the account's own list.
    async fn mailbox_of_url(
        &self,
        account: AccountId,
        selected: Option<MailboxId>,
        url: &ImapUrl,
    ) -> Result<MailboxId, UrlRefusal> {
        let Some(named) = &url.mailbox else {
            return selected.ok_or_else(|| bad("the URL is relative and no mailbox is selected"));
        };
        let name = MailboxArg::from_text(&named.name).name().map_err(|_| no_such_mailbox())?;
        let list = self.store().list(account).await?;
        of_validity(list.find(&name).ok_or_else(no_such_mailbox)?, url)
    }

    async fn part_of(
        &self,
        reader: AccountId,
        mailbox: MailboxId,
        uid: Uid,
        url: &ImapUrl,
    ) -> Result<Option<UrlPart>, UrlRefusal> {
        let part = |summary: SummaryRef<'_>, body| {
            let found = locate(&summary, url)?;
            Some(found.of(reader, uid, body, summary.body_structure().len() as u64))
        };
        Ok(self.of_summary(reader, (mailbox, uid), part).await?.flatten())
    }

    /// Reads the summary of a message; `None` if there is no such message.
    async fn of_summary<T>(
        &self,
        reader: AccountId,
        (mailbox, uid): (MailboxId, Uid),
        mut take: impl FnMut(SummaryRef<'_>, BodyId) -> T + Send,
    ) -> Result<Option<T>, StoreError>
    where
        T: Send,
    {
        let (mut taken, mut len) = (Ok(None), 0);
        let mut visit = |stored: posthaste_store::Stored<'_>| {
            len = stored.summary.len();
            taken = match SummaryRef::new(stored.summary) {
                Ok(summary) => Ok(Some(take(summary, stored.body))),
                Err(error) => Err(StoreError::Corrupt(format!("the summary of UID {uid}: {error}"))),
            };
            ControlFlow::Break(())
        };
        let uids = NumSet::range(uid.value(), uid.value());
        let reader = Place::Account(reader);
        self.store().made_summaries(reader, mailbox, &uids, &mut visit).await?.refuse()?;
        if len > LONG_SUMMARY {
            tokio::task::yield_now().await;
        }
        taken
    }

    /// Reads the found data, and appends it to the present bytes.
    #[boxed]
    pub async fn read_url(&self, part: &UrlPart, into: &mut Vec<u8>) -> Result<(), DeliveryError> {
        let Some(mask) = &part.fields else {
            return self.read_range(part, part.cut(), into).await;
        };
        // The permit comes first: a session that waits for it holds no header.
        let permit = self.url_permits.acquire(part.reader.0.to_bytes()).await;
        let mut header = Vec::with_capacity(part.read_len() as usize);
        self.read_range(part, part.bytes.clone(), &mut header).await?;
        let (mask, partial) = (mask.clone(), part.partial);
        let work = move || {
            let mut text = Vec::new();
            mask.append_from_header(&header, &mut text);
            let part = cut(text.len() as u64, partial);
            Bytes::from(text).slice(part.start as usize..part.end as usize)
        };
        // A header may be large, and its fields are compared with many names.
        into.extend_from_slice(&computed(permit, work).await?);
        Ok(())
    }

    /// Reads a part with its transfer encoding undone (RFC 5524 §3). `None` if the encoding is not
    /// known. It takes the memory of the part twice.
    #[boxed]
    pub async fn read_url_decoded(&self, part: &UrlPart) -> Result<Option<Vec<u8>>, DeliveryError> {
        let mut bytes = Vec::new();
        if part.encoding.is_identity() {
            self.read_url(part, &mut bytes).await?;
            return Ok(Some(bytes));
        }
        self.read_range(part, part.bytes.clone(), &mut bytes).await?;
        let (encoding, partial) = (part.encoding, part.partial);
        let work = move || {
            let mut decoded = decode_transfer(encoding, &bytes).ok()?;
            let part = cut(decoded.len() as u64, partial);
            decoded.truncate(part.end as usize);
            decoded.drain(..part.start as usize);
            Some(decoded)
        };
        self.compute(part.reader, work).await
    }

    /// Computes on a thread of its own: an account has one such thread at a time.
    async fn compute<T: Send + 'static>(
        &self,
        account: AccountId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DeliveryError> {
        computed(self.url_permits.acquire(account.0.to_bytes()).await, work).await
    }

    /// The next bytes of a part from a place on, at most some; none at its end. All selected
    /// fields at once. Some reads begin with a pause: the engine may have none.
    #[boxed]
    pub async fn read_url_at(&self, part: &UrlPart, at: u64) -> Result<Bytes, DeliveryError> {
        let mut bytes = Vec::new();
        if part.fields.is_some() {
            if at == 0 {
                self.read_url(part, &mut bytes).await?;
            }
            return Ok(bytes.into());
        }
        if at > 0 && at.is_multiple_of(READ_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        let range = part.cut();
        let from = range.start.saturating_add(at).min(range.end);
        self.read_range(part, from..range.end.min(from + PIECE_BYTES), &mut bytes).await?;
        Ok(bytes.into())
    }

    async fn read_range(
        &self,
        part: &UrlPart,
        range: Range<u64>,
        into: &mut Vec<u8>,
    ) -> Result<(), DeliveryError> {
        let (mut at, mut pause) = (range.start, range.start + READ_AT_ONCE);
        while at < range.end {
            if at >= pause {
                pause = at + READ_AT_ONCE;
                tokio::task::yield_now().await;
            }
            let piece = at..range.end.min(at + PIECE_BYTES);
            let bytes = self.store().read_body(Place::Account(part.reader), part.body, piece).await?;
            if bytes.is_empty() {
                let why = "it ends early".to_owned();
                return Err(StoreError::Body { uid: part.uid, body: part.body, why }.into());
            }
            at += bytes.len() as u64;
            into.extend_from_slice(&bytes);
        }
        Ok(())
    }
}

/// Computes on a thread of its own, with a permit.
async fn computed<T: Send + 'static>(
    permit: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DeliveryError> {
    let done = on_compute_thread_with(permit, work);
    done.await.map_err(|error| DeliveryError::Interrupted(error.to_string()))
}

impl UrlReader<'_> {
    /// Whether an absolute URL names this account on this server. The port and the mechanism of the
    /// login say nothing: the session has logged in.
    fn is_own(&self, server: &UrlServer) -> bool {
        let name = self.account.name.as_str();
        // Spelled as LOGIN takes it.
        let is_mine = |user: &str| Address::parse(user).is_ok_and(|user| user.as_str() == name);
        let is_here = self.is_host(server, name.rsplit_once('@').map(|(_, domain)| domain));
        match server.user.as_deref() {
            None => is_here,
            Some(user) if user.contains('@') => is_here && is_mine(user),
            Some(user) => is_here && is_mine(user) || is_mine(&format!("{user}@{}", server.host)),
        }
    }

    /// Whether a URL names this server, by its name or the domain of its user.
    fn is_host(&self, server: &UrlServer, domain: Option<&str>) -> bool {
        let of_user = server.user.as_deref().and_then(|user| user.rsplit_once('@'));
        let is_host = |host: &str| server.host.eq_ignore_ascii_case(host);
        is_host(self.host)
            || domain.is_some_and(is_host)
            || of_user.is_some_and(|(_, domain)| is_host(domain))
    }

    /// RFC 4467 §3, RFC 4468 §3.
    fn may_use(&self, access: &UrlAccess) -> bool {
        let is_me = |user: &str| user.eq_ignore_ascii_case(&self.account.name);
        match access {
            UrlAccess::Submit(user) => self.used == UrlUse::Submission && is_me(user),
            UrlAccess::User(user) => is_me(user),
            // This server has no anonymous login.
            UrlAccess::AuthUser | UrlAccess::Anonymous => true,
        }
    }
}

impl UrlPart {
    /// Bytes that reading it decoded takes.
    pub fn decoded_len(&self) -> u64 {
        2 * (self.bytes.end - self.bytes.start)
    }

    /// Bytes that must be read for it. It is never longer.
    pub fn read_len(&self) -> u64 {
        match self.fields {
            Some(_) => self.bytes.end - self.bytes.start,
            None => self.cut().end - self.cut().start,
        }
    }

    /// Bytes that its structure takes, at most.
    pub fn structure_len(&self) -> u64 {
        self.structure
    }

    fn cut(&self) -> Range<u64> {
        let part = cut(self.bytes.end - self.bytes.start, self.partial);
        self.bytes.start + part.start..self.bytes.start + part.end
    }
}

/// The bytes of `0..len` that a partial names: RFC 5092 §6.
fn cut(len: u64, partial: Option<UrlPartial>) -> Range<u64> {
    let Some(UrlPartial { offset, count }) = partial else { return 0..len };
    let start = offset.min(len);
    start..count.map_or(len, |count| start.saturating_add(count.get()).min(len))
}

/// The place of the bytes that the section of a URL names.
fn locate(summary: &SummaryRef<'_>, url: &ImapUrl) -> Option<PartPlace> {
    let whole = Section::default();
    let section = url.section.as_ref().unwrap_or(&whole);
    let (of, fields) = match &section.text {
        SectionText::Whole => (mime::Section::Body, None),
        SectionText::Header => (mime::Section::Header, None),
        SectionText::Text => (mime::Section::Text, None),
        SectionText::Mime => (mime::Section::Mime, None),
        SectionText::HeaderFields(names) => (mime::Section::Header, Some(FieldMask::only(names))),
        SectionText::HeaderFieldsNot(names) => (mime::Section::Header, Some(FieldMask::all_but(names))),
    };
    let located = summary.locate(&section.part.0, of)?;
    let bytes = u64::from(located.span.start)..u64::from(located.span.end);
    Some(PartPlace { bytes, fields, partial: url.partial, encoding: located.encoding })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::num::NonZeroU64;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::deliver::DeliveryOptions;
    use crate::tests::delivery_with;

    /// How often other tasks have their turn while this one works.
    async fn pauses<T>(work: impl Future<Output = T>) -> (usize, T) {
        let (mut work, mut pauses) = (pin!(work), 0);
        loop {
            match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
                Poll::Ready(done) => return (pauses, done),
                Poll::Pending => pauses += 1,
            }
            tokio::task::yield_now().await;
        }
    }

    /// A part of 60 MB was copied in one poll, and a thousand long summaries were looked through.
    #[tokio::test]
    async fn a_long_part_is_read_with_pauses_and_so_are_long_summaries() {
        let (delivery, ana) = delivery_with(DeliveryOptions::default()).await;
        let to = [delivery.resolve(&ana.name).await.unwrap()];
        let long = format!("Subject: long\r\n\r\n{}", "x".repeat(4 << 20));
        let parts = "Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_owned();
        let parts = parts + &"--b\r\n\r\n".repeat(5_000);
        for text in [&long, &parts] {
            for delivered in delivery.deliver(Bytes::from(text.clone()), &to).await {
                delivered.unwrap();
            }
        }
        let reader = UrlReader { account: &ana, host: "a.example", selected: None, used: UrlUse::Imap };
        let (looked, part) = pauses(delivery.find_url(reader, "/INBOX/;UID=1")).await;
        let mut bytes = Vec::new();
        let part = part.unwrap();
        let (read, done) = pauses(delivery.read_url(&part, &mut bytes)).await;
        done.unwrap();
        assert_eq!((looked, read, bytes.len()), (0, 4, long.len()));
        // BURL reads it in pieces.
        let in_pieces = async {
            let mut at = 0;
            while let Ok(piece) = delivery.read_url_at(&part, at).await
                && !piece.is_empty()
            {
                at += piece.len() as u64;
            }
            at
        };
        assert_eq!(pauses(in_pieces).await, (4, long.len() as u64));
        let (looked, found) = pauses(delivery.find_url(reader, "/INBOX/;UID=2;SECTION=7")).await;
        assert_eq!(looked, 1);
        found.unwrap();
    }

    #[test]
    fn partials_end_where_the_part_ends() {
        let partial = |offset, count| Some(UrlPartial { offset, count: NonZeroU64::new(count) });
        assert_eq!(cut(10, None), 0..10);
        assert_eq!(cut(10, partial(2, 3)), 2..5);
        assert_eq!(cut(10, partial(2, 0)), 2..10);
        assert_eq!(cut(10, partial(8, u64::MAX)), 8..10);
        assert_eq!(cut(10, partial(11, 1)), 10..10);
    }
}
