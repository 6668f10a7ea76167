//! The message that clients see of a body in another form: see [`posthaste_store::form`].
//!
//! A conversion always gives the same bytes. The header of a body has their hash, or the number of
//! the conversion. A program whose conversion gives other bytes never shows them under the same
//! UID: the message is *superseded* ([`StoreError::Superseded`]), and becomes a new one
//! ([`crate::Renewals`]).

use std::sync::OnceLock;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_directory::Precompute;
use posthaste_mime_summary::{
    HeaderFields, Span, Structure, SummaryRef, bounded_header_len, summary_memory_max,
};
use posthaste_net::{ByteBudget, on_compute_thread_with};
use posthaste_store::compressed::{self, Compression};
use posthaste_store::form::{Form, FormHeader};
use posthaste_store::{Place, Row, Serve, StoreError, SummaryOf};
use posthaste_tnef::{
    Outcome, conversion_memory_max, convert, convert_and_name, enrich_after, restore, restore_memory_max,
    says_it_is_rich,
};
use sha2::{Digest, Sha256};

use crate::long_work::{LongWork, Room, WorkFor};
use crate::memory::{is_long, one_share};
use crate::summarize::structure_unless_rich;

/// The number of what the conversion to MIME gives for a message. It is in each body that was not
/// converted at delivery. A program that gives other bytes has another number.
pub const CONVERSION: u32 = 13;

/// Octets of a message whose conversion may wait: the room that a row has for them.
const UNCONVERTED_LEN_MAX: usize = (u32::MAX - Row::WITHOUT_ITEMS) as usize;

/// Converts bodies for the clients of a store. Its memory and its places are those of summaries.
pub struct Conversions {
    budget: ByteBudget,
    long_work: LongWork,
    precompute: Precompute,
    renewal: OnceLock<Box<dyn Renew>>,
}

/// Gives superseded messages new UIDs.
#[async_trait]
pub(crate) trait Renew: Send + Sync {
    /// Once for each message, however many readers request it.
    async fn renew(&self, superseded: SummaryOf) -> Result<(), StoreError>;
}

/// Why clients are not shown a stored body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// An earlier version of this program showed other bytes of it.
    Superseded(String),
    /// The body is damaged, or in a form that this program does not know.
    Damaged(String),
}

impl std::fmt::Display for Unserved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Superseded(why) | Self::Damaged(why) => f.write_str(why),
        }
    }
}

impl From<Unserved> for StoreError {
    fn from(why: Unserved) -> Self {
        match why {
            Unserved::Superseded(why) => Self::Superseded(why),
            Unserved::Damaged(why) => Self::Corrupt(why),
        }
    }
}

impl Conversions {
    /// Conversions that take their memory from a budget that deliveries may share.
    pub fn new(budget: ByteBudget) -> Self {
        let (precompute, renewal) = (Precompute::default(), OnceLock::new());
        Self { budget: one_share(budget), long_work: LongWork::new(), precompute, renewal }
    }

    /// Sets the places for conversions. Deliveries share them.
    #[must_use]
    pub fn with_long_work(self, long_work: LongWork) -> Self {
        Self { long_work, ..self }
    }

    /// Sets whether items are kept that are made for a reader.
    #[must_use]
    pub fn with_precompute(self, precompute: Precompute) -> Self {
        Self { precompute, ..self }
    }

    /// From now on superseded messages get new UIDs. Nothing if that was so before.
    pub(crate) fn renew_by(&self, renewal: Box<dyn Renew>) {
        let _ = self.renewal.set(renewal);
    }

    /// Waits for a place of the reader, and then for this much memory.
    async fn room(&self, reader: Place, wanted: usize) -> Result<Room, StoreError> {
        let wanted = wanted.min(self.budget.largest());
        let room = self.long_work.room(WorkFor::reader(reader), &self.budget, wanted).await;
        room.ok_or(StoreError::Busy)
    }
}

#[async_trait]
impl Serve for Conversions {
    async fn serve(&self, reader: Place, stored: Bytes) -> Result<Bytes, StoreError> {
        if is_plain(&stored) {
            return Ok(FormHeader::content(&stored));
        }
        if is_short_ordinary(&stored) {
            posthaste_metrics::count(posthaste_metrics::Counter::Conversions, 1);
            return served(&stored).map_err(StoreError::from);
        }
        let room = self.room(reader, memory_to_serve(&stored)).await?;
        posthaste_metrics::count(posthaste_metrics::Counter::Conversions, 1);
        let work = on_compute_thread_with(room, move || served(&stored));
        let served =
            work.await.map_err(|error| StoreError::Corrupt(format!("a conversion failed: {error}")))?;
        served.map_err(StoreError::from)
    }

    async fn renew(&self, superseded: SummaryOf) -> Result<(), StoreError> {
        let nobody = || StoreError::Unavailable("this program gives no message a new UID".to_owned());
        self.renewal.get().ok_or_else(nobody)?.renew(superseded).await
    }

    async fn summarize(&self, reader: Place, served: Bytes) -> Result<Bytes, StoreError> {
        let room = self.room(reader, summary_memory_max(served.len())).await?;
        let work = on_compute_thread_with(room, move || Bytes::from(crate::summarize(&served)));
        work.await.map_err(|error| StoreError::Corrupt(format!("a summary was not made: {error}")))
    }

    fn octets(&self, summary: &[u8]) -> Option<u32> {
        SummaryRef::new(summary).ok().map(|summary| summary.message_size())
    }

    fn keeps_summaries(&self) -> bool {
        self.precompute != Precompute::Never
    }
}

fn is_plain(stored: &[u8]) -> bool {
    FormHeader::of(stored).is_none_or(|header| header.form == Form::Plain)
}

/// Whether a body is short, and that of ordinary mail in rich form. Its message is restored where
/// it is read.
fn is_short_ordinary(stored: &[u8]) -> bool {
    let is_ordinary = FormHeader::of(stored).is_some_and(|header| header.form == Form::Enriched);
    is_ordinary && !is_long(stored.len())
}

/// Memory to make what clients see of a stored body, besides that body.
fn memory_to_serve(stored: &[u8]) -> usize {
    match FormHeader::of(stored) {
        Some(FormHeader { form: Form::Enriched, served_len, .. }) => restore_memory_max(served_len as usize),
        // The message is a part of the body.
        Some(FormHeader { form: Form::WithOriginal, .. }) => 0,
        _ => conversion_memory_max(stored.len()),
    }
}

/// The message that clients see of a stored body, or why it cannot be shown. Takes as long as a
/// conversion.
pub(crate) fn served(stored: &Bytes) -> Result<Bytes, Unserved> {
    let Some(header) = FormHeader::of(stored) else { return Ok(stored.clone()) };
    let content = FormHeader::content(stored);
    let damaged = |why: String| Unserved::Damaged(why);
    let served = match header.form {
        Form::Plain => return Ok(content),
        Form::Rich => converted(&content).map_err(Unserved::Superseded)?,
        Form::Enriched => match restore(&content, header.served_len as usize) {
            Ok(mime) => Bytes::from(mime),
            Err(why) => return Err(damaged(format!("its rich form is damaged: {why}"))),
        },
        Form::WithOriginal => content.slice(..content.len().min(header.served_len as usize)),
        Form::Compressed => {
            let served = compressed::decompress(stored).map_err(|why| damaged(why.to_owned()))?;
            return Ok(served.into());
        }
        Form::Unconverted => return converted_later(header, content),
        Form::Unknown(number) => return Err(damaged(format!("form {number} is unknown to this program"))),
    };
    match header_of(header.form, &served) {
        Some(again) if again == header => Ok(served),
        // An engine returns no byte that differs from those that were written.
        _ if header.form == Form::Rich => {
            Err(Unserved::Superseded("its conversion gives other bytes now".to_owned()))
        }
        _ => Err(damaged("its content differs from the one in its summary".to_owned())),
    }
}

/// A rich message as MIME. A program before this one has converted it.
fn converted(sent: &[u8]) -> Result<Bytes, String> {
    match convert(sent) {
        Ok(Outcome::Converted(mime)) => Ok(mime.into()),
        Ok(_) => Err("its rich part is not found".to_owned()),
        Err(why) => Err(format!("its rich part is damaged: {why}")),
    }
}

/// The body of a message that may be rich and is converted later; `None` if it is too large for
/// that. As MIME it has at most `len_max` octets, or is always shown as sent, so that clients see
/// the same.
pub(crate) fn unconverted(sent: &[u8], len_max: u64) -> Option<Bytes> {
    let served_len = u32::try_from(sent.len()).ok().filter(|_| sent.len() <= UNCONVERTED_LEN_MAX)?;
    let len_max = u32::try_from(len_max).unwrap_or(u32::MAX);
    let mut digest = [0; 8];
    let bytes = len_max.to_le_bytes().into_iter().chain(CONVERSION.to_le_bytes());
    digest.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    Some(FormHeader { form: Form::Unconverted, served_len, digest }.before(sent))
}

/// Whether a body that begins so names another conversion than this program's.
pub(crate) fn has_other_number(header: &FormHeader) -> bool {
    let [_, _, _, _, number @ ..] = header.digest;
    header.form == Form::Unconverted && u32::from_le_bytes(number) != CONVERSION
}

fn converted_later(header: FormHeader, sent: Bytes) -> Result<Bytes, Unserved> {
    if has_other_number(&header) {
        return Err(Unserved::Superseded("its conversion has another number now".to_owned()));
    }
    let [l0, l1, l2, l3, ..] = header.digest;
    let len_max = u32::from_le_bytes([l0, l1, l2, l3]);
    let mut left = |why| {
        let message_id = message_id(&sent);
        tracing::warn!(message_id, %why, "a part of rich mail is not converted");
    };
    match convert_and_name(&sent, &mut left) {
        Ok(Outcome::Converted(mime)) if mime.len() as u64 <= u64::from(len_max) => return Ok(mime.into()),
        Ok(Outcome::Converted(mime)) => {
            let (len, message_id) = (mime.len(), message_id(&sent));
            tracing::warn!(
                message_id,
                "rich mail is shown as sent: as MIME it has {len} bytes, and its limit is {len_max}"
            );
        }
        Ok(Outcome::Sealed | Outcome::Ordinary) => {}
        Err(why) => {
            let message_id = message_id(&sent);
            tracing::warn!(message_id, %why, "rich mail is shown as sent: it is damaged");
        }
    }
    Ok(sent)
}

/// The Message-ID of a message, for the log. Messages of several accounts may share a body, so no
/// account is known where a body is read.
pub(crate) fn message_id(message: &[u8]) -> String {
    const LEN_MAX: usize = 250;
    let len = bounded_header_len(message).and_then(|len| u32::try_from(len).ok()).unwrap_or_default();
    let mut fields = HeaderFields::new(message, Span::new(0, len));
    let value = fields.find(|field| field.is(message, "message-id")).map(|field| field.value(message));
    let value = String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned();
    value.trim().chars().filter(|c| !c.is_control()).take(LEN_MAX).collect()
}

/// The body of a message with the rich one that it was made of.
pub(crate) fn with_original(served: &[u8], original: &[u8]) -> Option<Bytes> {
    Some(header_of(Form::WithOriginal, served)?.before(&[served, original].concat()))
}

/// The rich message as it was sent, if a stored body has it.
pub(crate) fn original_of(stored: &Bytes) -> Option<Bytes> {
    let header = FormHeader::of(stored)?;
    let content = FormHeader::content(stored);
    match header.form {
        Form::Rich | Form::Unconverted => Some(content),
        Form::WithOriginal => Some(content.slice(content.len().min(header.served_len as usize)..)),
        _ => None,
    }
}

/// The body of a message that came as MIME, in rich form; `None` if it cannot have one. Mail that
/// says it is rich and is shown as sent gets none: with another limit, or a later program, it can
/// be converted. Nothing would distinguish its rich form from that of a message with an attached
/// `winmail.dat`, which is never converted.
pub(crate) fn enriched(served: &[u8]) -> Option<Bytes> {
    enriched_ordinary(&structure_unless_rich(served)?, served)
}

/// [`enriched`] of a message that does not say that it is rich, and has this structure.
pub(crate) fn enriched_ordinary(structure: &Structure, served: &[u8]) -> Option<Bytes> {
    let mut stored = enrich_after(&[0; FormHeader::LEN], structure, served)?;
    let header = header_of(Form::Enriched, served)?.before(&[]);
    stored.get_mut(..FormHeader::LEN)?.copy_from_slice(&header);
    Some(stored.into())
}

/// A message as it is stored where it needs no other form. Bytes that look like a header are no
/// header: they get one.
pub(crate) fn as_plain(served: Bytes) -> Bytes {
    match FormHeader::of(&served).and_then(|_| header_of(Form::Plain, &served)) {
        Some(header) => header.before(&served),
        None => served,
    }
}

/// A message that was converted, as it is stored as MIME. A header says so if its attachments look
/// like rich mail: they are part of the message, and are not converted again.
pub(crate) fn as_converted(mime: Bytes) -> Bytes {
    match marked(&mime) {
        Some(stored) => stored,
        None => as_plain(mime),
    }
}

/// The MIME message with that header, if it needs one.
pub(crate) fn marked(mime: &[u8]) -> Option<Bytes> {
    let header = if says_it_is_rich(mime) { header_of(Form::Plain, mime)? } else { return None };
    Some(header.before(mime))
}

/// Whether a stored body has that header.
pub(crate) fn is_marked(stored: &[u8]) -> bool {
    FormHeader::of(stored).is_some_and(|header| header.form == Form::Plain)
        && stored.get(FormHeader::LEN..).is_some_and(says_it_is_rich)
}

/// A message as it is stored where its form need not say more than what clients see.
pub(crate) fn stored_plainly(served: Bytes, compress: Compression) -> Bytes {
    match compress {
        Compression::None => as_plain(served),
        Compression::Zstd => compressed::compress(&served).unwrap_or_else(|| as_plain(served)),
    }
}

/// A stored body compressed, or decompressed; `None` if it is as it should be, or in a form that is
/// never compressed.
pub(crate) fn recompressed(stored: &Bytes, compress: Compression) -> Option<Bytes> {
    match (FormHeader::of(stored).map_or(Form::Plain, |header| header.form), compress) {
        (Form::Compressed, Compression::None) => served(stored).ok().map(as_plain),
        (Form::Plain, Compression::Zstd) if !is_marked(stored) => {
            let seen = served(stored).ok()?;
            compressed::compress(&seen).filter(|new| served(new).is_ok_and(|again| again == seen))
        }
        _ => None,
    }
}

/// The header for a body in another form. Clients see these bytes of it; `None` over 4 GiB.
pub(crate) fn header_of(form: Form, served: &[u8]) -> Option<FormHeader> {
    let mut digest = [0; 8];
    digest.copy_from_slice(Sha256::digest(served).get(..8)?);
    Some(FormHeader { form, served_len: u32::try_from(served.len()).ok()?, digest })
}

/// The summary of a stored body, in any form. Engines call it where a summary was lost. A
/// body that cannot be shown has an empty one.
pub fn summarize_stored(stored: &[u8]) -> Vec<u8> {
    if FormHeader::of(stored).is_none() {
        return crate::summarize(stored);
    }
    match served(&Bytes::copy_from_slice(stored)) {
        Ok(served) => crate::summarize(&served),
        Err(why) => {
            tracing::error!(%why, "a stored body cannot be converted");
            Vec::new()
        }
    }
}

#[cfg(test)]
#[path = "compress_tests.rs"]
mod tests;
