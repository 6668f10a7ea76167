//! The form in which a message is stored, by the format of its account. Whatever it is, clients see
//! the same bytes.
//!
//! | format | rich mail (TNEF, `winmail.dat`) | all other mail |
//! | --- | --- | --- |
//! | `keep` | as sent, with a header that says so | as sent |
//! | `mime` | as MIME; with `keep_original`, the rich message after it | as sent |
//! | `rich` | as sent, with a header | as TNEF that gives back what was sent |
//!
//! A body that is stored as clients see it may be compressed ([`posthaste_store::compressed`]).
//!
//! Rich mail is converted once, before it is summarised: its row and summary are those of the
//! converted message. Where it is stored in another form, every reader of the body gets it
//! converted ([`crate::Conversions`], [`posthaste_store::form`]).
//!
//! With [`Precompute::FirstFetch`] and [`Precompute::Never`], a rich message that all its
//! recipients store as sent is not converted at delivery. Its body has the form
//! [`Form::Unconverted`], its summary is empty, and its row says so.
//!
//! Rich mail that cannot be converted is stored and served as sent in every format, and the log
//! says why. So is mail that is signed or encrypted. APPEND is no delivery: RFC 9051 §6.3.12
//! stores the very bytes that the client sent.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_directory::{Account, Format, FormatSettings, Precompute, Recipient};
use posthaste_mail_model::Flag;
use posthaste_metrics::Counter;
use posthaste_mime_summary::Structure;
use posthaste_net::on_compute_thread_with;
use posthaste_store::IncomingMessage;
use posthaste_store::compressed::Compression;
use posthaste_store::form::{Form, FormHeader};
use posthaste_tnef::{Outcome, conversion_memory_max, convert_and_name, might_be_rich, says_it_is_rich};

use crate::conversions::{
    enriched_ordinary, header_of, marked, message_id, stored_plainly, unconverted, with_original,
};
use crate::deliver::Delivery;
use crate::error::DeliveryError;
use crate::long_work::{Room, WorkFor};
use crate::memory::{SummaryMemory, is_long};
use crate::prepared::SummariesHeld;
use crate::summarize::{of_structure, structure_unless_rich};

/// In a longer message another thread looks for marks of rich mail: 1 ms in the worst case.
const LOOKED_AT_HERE_MAX: usize = 256 * 1024;

/// The stored form of a message for some accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    AsSent,
    Mime,
    MimeWithOriginal,
    Enriched,
}

impl Shape {
    pub(crate) const ALL: [Self; 4] = [Self::AsSent, Self::Mime, Self::MimeWithOriginal, Self::Enriched];

    /// The form in which an account stores a message that is not rich.
    pub(crate) fn of_ordinary(settings: FormatSettings) -> Self {
        match settings.format {
            Format::Rich => Self::Enriched,
            Format::Keep | Format::Mime => Self::AsSent,
        }
    }

    /// The form in which an account stores a rich message.
    pub(crate) fn of_rich(settings: FormatSettings) -> Self {
        match settings.format {
            Format::Mime if settings.keep_original => Self::MimeWithOriginal,
            Format::Mime => Self::Mime,
            Format::Keep | Format::Rich => Self::AsSent,
        }
    }
}

/// Which recipients of ordinary mail store it in rich form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InRichForm {
    Nobody,
    Somebody,
    Everybody,
}

/// A message in the forms in which its recipients store it. All who store it in the same form share
/// one body.
#[derive(Debug)]
pub struct StoredForms {
    /// The message that clients of every recipient see.
    served: Bytes,
    is_rich: bool,
    /// The server's format for accounts without a format of their own.
    default: FormatSettings,
    first: IncomingMessage,
    others: Vec<(Shape, IncomingMessage)>,
    /// The memory of their one summary, if it is made.
    _held: Option<SummariesHeld>,
}

impl StoredForms {
    /// The message as an account stores it.
    pub fn of(&self, account: &Account) -> &IncomingMessage {
        let settings = account.stored_as(self.default);
        let wanted = if self.is_rich { Shape::of_rich(settings) } else { Shape::of_ordinary(settings) };
        self.others.iter().find(|(shape, _)| *shape == wanted).map_or(&self.first, |(_, message)| message)
    }

    /// The message as clients see it.
    pub fn served(&self) -> &Bytes {
        &self.served
    }
}

/// A rich message that can be converted.
pub(crate) struct Rich {
    /// As clients see it.
    pub(crate) mime: Bytes,
    /// The header of a body that keeps it as sent.
    header: FormHeader,
    /// The body that has it as MIME, if that needs a header.
    marked: Option<Bytes>,
}

impl Rich {
    /// The stored body of this shape; `None` for plain MIME, unless its attachments look like rich
    /// mail.
    pub(crate) fn stored(&self, shape: Shape, sent: &[u8]) -> Option<Bytes> {
        match shape {
            Shape::AsSent => Some(self.header.before(sent)),
            Shape::MimeWithOriginal => with_original(&self.mime, sent),
            Shape::Mime | Shape::Enriched => self.marked.clone(),
        }
    }
}

impl Delivery {
    /// A message ready for the mailboxes of these recipients: see [`Delivery::incoming_held`].
    #[boxed]
    pub async fn forms(
        &self,
        whose: WorkFor,
        bytes: Bytes,
        recipients: &[Recipient],
        memory: SummaryMemory,
    ) -> Result<StoredForms, DeliveryError> {
        self.check_size(bytes.len())?;
        if let Some(forms) = self.ordinary_forms(&bytes, recipients, memory).await? {
            return Ok(forms);
        }
        let rich = match self.may_be_rich(whose, &bytes).await? {
            true => self.as_mime(whose, recipients, &bytes).await?,
            false => None,
        };
        self.forms_of(whose, (bytes, rich), recipients, memory).await
    }

    /// The stored forms of a message that no recipient reads now. If they store a rich message as
    /// sent, it is converted later.
    pub(crate) async fn forms_to_file(
        &self,
        whose: WorkFor,
        bytes: Bytes,
        recipients: &[Recipient],
    ) -> Result<StoredForms, DeliveryError> {
        self.check_size(bytes.len())?;
        if let Some(forms) = self.ordinary_forms(&bytes, recipients, SummaryMemory::Counted).await? {
            return Ok(forms);
        }
        // Boxed: most mail is short and ordinary.
        Box::pin(self.other_forms_to_file(whose, bytes, recipients)).await
    }

    /// The stored forms of a message that is long or may be rich, as [`Self::forms_to_file`].
    async fn other_forms_to_file(
        &self,
        whose: WorkFor,
        bytes: Bytes,
        recipients: &[Recipient],
    ) -> Result<StoredForms, DeliveryError> {
        let mut rich = None;
        if self.may_be_rich(whose, &bytes).await? {
            let accounts = recipients.iter().map(|recipient| &*recipient.account);
            if let Some(first) = self.unconverted(accounts, &bytes, (Vec::new(), None)) {
                let (default, others) = (self.options().format, Vec::new());
                return Ok(StoredForms { served: bytes, is_rich: true, default, first, others, _held: None });
            }
            rich = self.as_mime(whose, recipients, &bytes).await?;
        }
        self.forms_of(whose, (bytes, rich), recipients, SummaryMemory::Counted).await
    }

    /// A message that may be rich, without its items, if these accounts store it so.
    fn unconverted<'a>(
        &self,
        mut accounts: impl Iterator<Item = &'a Account>,
        bytes: &Bytes,
        (flags, date): (Vec<Flag>, Option<u32>),
    ) -> Option<IncomingMessage> {
        let options = self.options();
        let is_as_sent =
            |account: &Account| Shape::of_rich(account.stored_as(options.format)) == Shape::AsSent;
        if options.precompute == Precompute::Delivery
            || conversion_memory_max(bytes.len()) > self.summaries.largest()
            || !accounts.all(is_as_sent)
        {
            return None;
        }
        Some(IncomingMessage {
            bytes: unconverted(bytes, options.message_len_max)?,
            summary: Bytes::new(),
            body: self.store().new_body_id(),
            flags,
            date: date.unwrap_or_else(|| self.now()),
            saved: None,
        })
    }

    /// A short message ready for these recipients, unless it says that it is rich. One pass over
    /// it finds that out and makes its summary.
    async fn ordinary_forms(
        &self,
        bytes: &Bytes,
        recipients: &[Recipient],
        memory: SummaryMemory,
    ) -> Result<Option<StoredForms>, DeliveryError> {
        if is_long(bytes.len()) {
            return Ok(None);
        }
        let held = self.room_for_message(bytes.len(), memory).await?;
        let Some(structure) = structure_unless_rich(bytes) else { return Ok(None) };
        let in_rich_form = self.in_rich_form(recipients);
        let enriched = match in_rich_form {
            InRichForm::Nobody => None,
            InRichForm::Somebody | InRichForm::Everybody => enriched_and_counted(&structure, bytes),
        };
        let compress = self.compression_beside(enriched.as_ref(), in_rich_form);
        let stored = stored_plainly(bytes.clone(), compress);
        let first = self.with_summary(stored, of_structure(bytes, structure), Vec::new(), None);
        Ok(Some(self.forms_of_ordinary(first, bytes, enriched, held)))
    }

    async fn forms_of(
        &self,
        whose: WorkFor,
        (bytes, rich): (Bytes, Option<Rich>),
        recipients: &[Recipient],
        memory: SummaryMemory,
    ) -> Result<StoredForms, DeliveryError> {
        let seen = rich.as_ref().map_or(&bytes, |rich| &rich.mime).len();
        let (_turn, held) = self.turn_and_room(whose, seen, memory).await?;
        let Some(rich) = rich else {
            let in_rich_form = self.in_rich_form(recipients);
            let enriched = match in_rich_form {
                InRichForm::Nobody => None,
                InRichForm::Somebody | InRichForm::Everybody => self.as_rich(whose, &bytes).await?,
            };
            let compress = self.compression_beside(enriched.as_ref(), in_rich_form);
            let first = self.incoming_with(whose, (bytes.clone(), Vec::new(), None), compress).await?;
            return Ok(self.forms_of_ordinary(first, &bytes, enriched, held));
        };
        let default = self.options().format;
        let wanted =
            |shape: Shape| recipients.iter().any(|r| Shape::of_rich(r.account.stored_as(default)) == shape);
        let mut others = Vec::new();
        // Its body is compressed only if it is stored.
        let compress = match wanted(Shape::Mime) && rich.marked.is_none() {
            true => self.options().compress,
            false => Compression::None,
        };
        let mut first = self.incoming_with(whose, (rich.mime.clone(), Vec::new(), None), compress).await?;
        if let Some(marked) = rich.stored(Shape::Mime, &bytes) {
            first.bytes = marked;
        }
        for shape in [Shape::AsSent, Shape::MimeWithOriginal].into_iter().filter(|shape| wanted(*shape)) {
            let stored = rich.stored(shape, &bytes).map(|stored| self.stored_as(&first, stored, &rich.mime));
            others.extend(stored.map(|stored| (shape, stored)));
        }
        self.take_room(&held, &first);
        Ok(StoredForms { served: rich.mime, is_rich: true, default, first, others, _held: Some(held) })
    }

    /// The stored forms of a message that is not rich, with its summary. `enriched` is the body
    /// for those who store it in rich form.
    fn forms_of_ordinary(
        &self,
        first: IncomingMessage,
        bytes: &Bytes,
        enriched: Option<Bytes>,
        held: SummariesHeld,
    ) -> StoredForms {
        let enriched = enriched.map(|stored| (Shape::Enriched, self.stored_as(&first, stored, bytes)));
        self.take_room(&held, &first);
        let (default, others) = (self.options().format, enriched.into_iter().collect());
        StoredForms { served: bytes.clone(), is_rich: false, default, first, others, _held: Some(held) }
    }

    /// Which of the recipients store ordinary mail in rich form.
    fn in_rich_form(&self, recipients: &[Recipient]) -> InRichForm {
        let default = self.options().format;
        let is_one = |r: &&Recipient| Shape::of_ordinary(r.account.stored_as(default)) == Shape::Enriched;
        match recipients.iter().filter(is_one).count() {
            0 => InRichForm::Nobody,
            count if count == recipients.len() => InRichForm::Everybody,
            _ => InRichForm::Somebody,
        }
    }

    /// The compression of the body as MIME. If everyone stores the rich form, nobody stores it.
    fn compression_beside(&self, enriched: Option<&Bytes>, in_rich_form: InRichForm) -> Compression {
        match enriched {
            Some(_) if in_rich_form == InRichForm::Everybody => Compression::None,
            _ => self.options().compress,
        }
    }

    /// The message with another stored body. The store keeps what clients see of it for the first
    /// readers, so that they do not convert it again.
    pub(crate) fn stored_as(
        &self,
        message: &IncomingMessage,
        stored: Bytes,
        served: &[u8],
    ) -> IncomingMessage {
        let body = self.store().new_body_id();
        self.store().has_converted(body, served);
        IncomingMessage { bytes: stored, body, ..message.clone() }
    }

    /// A place and memory to convert a message of this many bytes; `None` if the limit is lower.
    pub(crate) async fn room_to_convert(
        &self,
        whose: WorkFor,
        len: usize,
    ) -> Result<Option<Room>, DeliveryError> {
        let wanted = conversion_memory_max(len);
        if wanted > self.summaries.largest() {
            return Ok(None);
        }
        self.room(whose, wanted).await.map(Some)
    }

    /// A message that came as MIME in rich form, if it can have one. A short one takes about as
    /// long as its summary, and less memory than is worth counting.
    pub(crate) async fn as_rich(
        &self,
        whose: WorkFor,
        bytes: &Bytes,
    ) -> Result<Option<Bytes>, DeliveryError> {
        if !is_long(bytes.len()) {
            return Ok(enriched_blocking(bytes));
        }
        let Some(room) = self.room_to_convert(whose, bytes.len()).await? else { return Ok(None) };
        let bytes = bytes.clone();
        let work = on_compute_thread_with(room, move || enriched_blocking(&bytes));
        Ok(work.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a message is stored as sent: its conversion to rich mail failed");
            None
        }))
    }

    /// Whether a message says that it is rich. A short one does, if it is not among the ordinary
    /// ones: see [`Delivery::ordinary_forms`].
    async fn may_be_rich(&self, whose: WorkFor, bytes: &Bytes) -> Result<bool, DeliveryError> {
        if !is_long(bytes.len()) {
            return Ok(true);
        }
        if bytes.len() <= LOOKED_AT_HERE_MAX && !might_be_rich(bytes) {
            return Ok(false);
        }
        // A look at 20,000 parts takes milliseconds, so another thread does it.
        let (look, place) = (bytes.clone(), self.place(whose).await?);
        let work = on_compute_thread_with(place, move || says_it_is_rich(&look));
        Ok(!matches!(work.await, Ok(false)))
    }

    /// A message that may be rich as MIME, if it is rich and can be converted.
    async fn as_mime(
        &self,
        whose: WorkFor,
        to: &[Recipient],
        bytes: &Bytes,
    ) -> Result<Option<Rich>, DeliveryError> {
        let account = to.first().map_or("", |first| first.account.name.as_str());
        let Some(room) = self.room_to_convert(whose, bytes.len()).await? else {
            let (wanted, most) = (conversion_memory_max(bytes.len()), self.summaries.largest());
            tracing::warn!(
                account,
                bytes = bytes.len(),
                "rich mail is stored as sent: its conversion may take {wanted} bytes, and `limits.summary_bytes` allows {most}"
            );
            return Ok(None);
        };
        let (limit, name, bytes) = (self.options().message_len_max, account.to_owned(), bytes.clone());
        // Always on another thread: text in a small message may expand to megabytes.
        let work = on_compute_thread_with(room, move || as_mime_blocking(&name, &bytes, limit));
        Ok(work.await.unwrap_or_else(|error| {
            tracing::error!(account, %error, "rich mail is stored as sent: its conversion failed");
            None
        }))
    }

    /// A message in the form in which an account stores it, on this thread, which may block. For
    /// programs that read one message after the other.
    pub(crate) fn incoming_blocking(
        &self,
        account: &Account,
        bytes: Bytes,
        flags: Vec<Flag>,
        date: Option<u32>,
    ) -> Result<IncomingMessage, DeliveryError> {
        self.check_size(bytes.len())?;
        let structure = structure_unless_rich(&bytes);
        if structure.is_none()
            && self.options().precompute != Precompute::Delivery
            && let Some(message) = self.unconverted(std::iter::once(account), &bytes, (flags.clone(), date))
        {
            return Ok(message);
        }
        let rich = match &structure {
            Some(_) => None,
            None => as_mime_blocking(&account.name, &bytes, self.options().message_len_max),
        };
        let settings = account.stored_as(self.options().format);
        let wanted = if rich.is_some() { Shape::of_rich(settings) } else { Shape::of_ordinary(settings) };
        let served = rich.as_ref().map_or(&bytes, |rich| &rich.mime);
        let stored = match (&rich, &structure) {
            (Some(rich), _) => rich.stored(wanted, &bytes),
            (None, Some(structure)) if wanted == Shape::Enriched => enriched_and_counted(structure, &bytes),
            // Mail that says it is rich has no other form if it cannot be converted.
            (None, _) => None,
        };
        let stored = stored.unwrap_or_else(|| stored_plainly(served.clone(), self.options().compress));
        let summary = match structure {
            Some(structure) => of_structure(&bytes, structure),
            None => self.summary_of(served),
        };
        Ok(self.with_summary(stored, summary, flags, date))
    }
}

fn enriched_blocking(bytes: &[u8]) -> Option<Bytes> {
    enriched_and_counted(&structure_unless_rich(bytes)?, bytes)
}

/// A message that does not say that it is rich, and has this structure, in rich form.
fn enriched_and_counted(structure: &Structure, bytes: &[u8]) -> Option<Bytes> {
    let rich = enriched_ordinary(structure, bytes)?;
    posthaste_metrics::count(Counter::Conversions, 1);
    Some(rich)
}

pub(crate) fn as_mime_blocking(account: &str, bytes: &[u8], len_max: u64) -> Option<Rich> {
    let mut left = |why| {
        let message_id = message_id(bytes);
        tracing::warn!(account, message_id, %why, "a part of rich mail is not converted");
    };
    match convert_and_name(bytes, &mut left) {
        Ok(Outcome::Converted(mime)) if mime.len() as u64 <= len_max => {
            posthaste_metrics::count(Counter::Conversions, 1);
            let mime = Bytes::from(mime);
            let header = header_of(Form::Rich, &mime)?;
            let marked = marked(&mime);
            Some(Rich { mime, header, marked })
        }
        Ok(Outcome::Converted(mime)) => {
            let (len, message_id) = (mime.len(), message_id(bytes));
            tracing::warn!(
                account,
                message_id,
                "rich mail is stored as sent: as MIME it has {len} bytes, and `limits.message_size` is {len_max}"
            );
            None
        }
        Ok(Outcome::Sealed) => {
            tracing::debug!(account, "rich mail is stored as sent: it is signed or encrypted");
            None
        }
        Ok(Outcome::Ordinary) => None,
        Err(why) => {
            let message_id = message_id(bytes);
            tracing::warn!(account, message_id, %why, "rich mail is stored as sent: it is damaged");
            None
        }
    }
}

#[cfg(test)]
#[path = "rich_tests.rs"]
mod tests;
