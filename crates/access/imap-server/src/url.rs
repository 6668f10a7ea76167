//! Messages and their parts by URL (RFC 5092): what CATENATE puts together.
//!
//! A URL is looked up without opening its mailbox: one summary is read, which says where the part
//! lies. So the cost is that of the message, however large its folder is.

use std::ops::{ControlFlow, Range};

use bytes::Bytes;
use posthaste_directory::Account;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{ImapUrl, MailboxArg, Section, SectionText, UrlPartial, UrlServer};
use posthaste_mail_model::{BodyId, MailboxId, NumSet, Uid};
use posthaste_mime_summary::{self as mime, FieldMask, SummaryRef};
use posthaste_store::StoreError;

use crate::reply::{Failure, Reply};
use crate::service::ImapService;

/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 256 * 1024;

/// Whose URLs are looked up, and where.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'l> {
    pub(crate) service: &'l ImapService,
    pub(crate) account: &'l Account,
    /// The mailbox that is selected: what relative URLs are relative to.
    pub(crate) selected: Option<MailboxId>,
}

/// What a URL names: found, and not yet read.
#[derive(Debug)]
pub(crate) struct Found {
    uid: Uid,
    body: BodyId,
    bytes: Range<u64>,
    /// The fields of these bytes, which are a header.
    fields: Option<FieldMask>,
    partial: Option<UrlPartial>,
}

/// RFC 4469 §4: the URL, and why it cannot be used.
pub(crate) fn bad(url: &str, why: impl std::fmt::Display) -> Failure {
    let why = why.to_string();
    Reply::no(Code::BadUrl(url.to_owned()), format!("{}{}", why[..1].to_uppercase(), &why[1..])).into()
}

impl Lookup<'_> {
    /// Finds what a URL names.
    pub(crate) async fn find(&self, text: &str) -> Result<Found, Failure> {
        let url = ImapUrl::parse(text).map_err(|error| bad(text, error))?;
        if !url.server.as_ref().is_none_or(|server| self.is_ours(server)) {
            return Err(bad(text, "the URL names another server or another user"));
        }
        if url.auth.is_some() {
            return Err(bad(text, "a URL with ;URLAUTH= cannot be used here"));
        }
        let mailbox = self.mailbox(&url, text).await?;
        let uid = url.uid.ok_or_else(|| bad(text, "the URL names no message: it needs ;UID="))?;
        self.find_part(mailbox, uid, &url).await?.ok_or_else(|| bad(text, "there is no such message or part"))
    }

    /// Whether an absolute URL names this account on this server. The port and the mechanism of the
    /// login say nothing: the session has logged in.
    fn is_ours(&self, server: &UrlServer) -> bool {
        let name = &self.account.name;
        let domain = name.rsplit_once('@').map(|(_, domain)| domain);
        let is_host = |host: &str| server.host.eq_ignore_ascii_case(host);
        (is_host(&self.service.options.hostname) || domain.is_some_and(is_host))
            && server.user.as_ref().is_none_or(|user| user.eq_ignore_ascii_case(name))
    }

    async fn mailbox(&self, url: &ImapUrl, text: &str) -> Result<MailboxId, Failure> {
        let Some(named) = &url.mailbox else {
            return self.selected.ok_or_else(|| bad(text, "the URL is relative and no mailbox is selected"));
        };
        let no_such = || bad(text, "there is no such mailbox");
        let name = MailboxArg::from_text(&named.name).name().map_err(|_| no_such())?;
        let list = self.service.store.list(self.account.id).await?;
        let entry = list.find(&name).ok_or_else(no_such)?;
        match named.uid_validity {
            Some(validity) if validity != entry.uid_validity => {
                Err(bad(text, "the mailbox has another UIDVALIDITY"))
            }
            _ => Ok(entry.id),
        }
    }

    async fn find_part(&self, mailbox: MailboxId, uid: Uid, url: &ImapUrl) -> Result<Option<Found>, Failure> {
        let mut found = Ok(None);
        let mut visit = |stored: posthaste_store::Stored<'_>| {
            found = match SummaryRef::new(stored.summary) {
                Ok(summary) => Ok(locate(&summary, url).map(|(bytes, fields)| Found {
                    uid,
                    body: stored.body,
                    bytes,
                    fields,
                    partial: url.partial,
                })),
                Err(error) => Err(StoreError::Corrupt(format!("the summary of UID {uid}: {error}"))),
            };
            ControlFlow::Break(())
        };
        let uids = NumSet::range(uid.value(), uid.value());
        self.service.store.engine().summaries(mailbox, &uids, &mut visit).await?.refuse()?;
        Ok(found?)
    }

    /// Reads what was found behind the bytes that are there.
    pub(crate) async fn read(&self, found: &Found, into: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(mask) = &found.fields else {
            return self.read_range(found, found.cut(), into).await;
        };
        let mut header = Vec::with_capacity(found.read_len() as usize);
        self.read_range(found, found.bytes.clone(), &mut header).await?;
        let (mask, partial) = (mask.clone(), found.partial);
        let work = move || {
            let mut text = Vec::new();
            mask.append_from_header(&header, &mut text);
            let part = cut(text.len() as u64, partial);
            Bytes::from(text).slice(part.start as usize..part.end as usize)
        };
        into.extend_from_slice(&self.service.heavy.run(self.account.id, work).await?);
        Ok(())
    }

    async fn read_range(&self, found: &Found, range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Failure> {
        let mut at = range.start;
        while at < range.end {
            let piece = at..range.end.min(at + PIECE_BYTES);
            let bytes = self.service.store.read_body(found.body, piece).await?;
            if bytes.is_empty() {
                let why = "it ends early".to_owned();
                return Err(StoreError::Body { uid: found.uid, body: found.body, why }.into());
            }
            at += bytes.len() as u64;
            into.extend_from_slice(&bytes);
        }
        Ok(())
    }
}

impl Found {
    /// Bytes that have to be read for it. It has no more.
    pub(crate) fn read_len(&self) -> u64 {
        match self.fields {
            Some(_) => self.bytes.end - self.bytes.start,
            None => self.cut().end - self.cut().start,
        }
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

/// Where the bytes lie that the section of a URL names.
fn locate(summary: &SummaryRef<'_>, url: &ImapUrl) -> Option<(Range<u64>, Option<FieldMask>)> {
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
    let span = summary.locate(&section.part.0, of)?.span;
    Some((u64::from(span.start)..u64::from(span.end), fields))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

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
