//! A rich message whose header a Sieve script edited (RFC 5293).
//!
//! The script edits the message that clients see. The same edits are made in the message as it
//! came, and that is converted again. If the result is what the script made, the account stores
//! the message in its format, with the rich original. The new boundaries differ, since they have
//! a hash of the whole message. Where a script deletes a field that was made of a property, the
//! conversion would make it again. A further field in the message as it came says that it must not
//! ([`leaving_out`]).
//!
//! Some edits cannot be made in the message as it came: those of fields that describe another
//! content there. Then the message is stored as MIME alone.
//!
//! Ordinary mail that a script edited is stored as other ordinary mail of the account is.

use std::collections::HashSet;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use memchr::memmem;
use posthaste_directory::Account;
use posthaste_mail_model::BodyId;
use posthaste_mime_summary::{HeaderFields, Span};
use posthaste_net::on_compute_thread_with;
use posthaste_store::IncomingMessage;
use posthaste_store::compressed::Compression;
use posthaste_tnef::{hash_in_boundaries, leaving_out};

use crate::conversions::{marked, original_of};
use crate::deliver::Delivery;
use crate::error::DeliveryError;
use crate::long_work::WorkFor;
use crate::memory::SummaryMemory;
use crate::prepared::SummariesHeld;
use crate::rich::{Rich, Shape, as_mime_blocking};

impl Delivery {
    /// A message that a script edited, ready for the mailboxes of an account, and the memory of
    /// its summary. Hold that until the message is stored. `sent` is the message as it came, and
    /// `served` the one that the script saw.
    #[boxed]
    pub async fn edited(
        &self,
        account: &Account,
        sent: &Bytes,
        served: &Bytes,
        edited: Bytes,
    ) -> Result<(IncomingMessage, SummariesHeld), DeliveryError> {
        let whose = WorkFor::mail_of(account.id);
        let (_turn, held) = self.turn_and_room(whose, edited.len(), SummaryMemory::Last).await?;
        let message = self.edited_for(whose, (account, sent, served), edited).await?;
        self.take_room(&held, &message);
        Ok((message, held))
    }

    async fn edited_for(
        &self,
        whose: WorkFor,
        (account, sent, served): (&Account, &Bytes, &Bytes),
        edited: Bytes,
    ) -> Result<IncomingMessage, DeliveryError> {
        let settings = account.stored_as(self.options().format);
        if sent == served {
            return self.edited_ordinary(whose, Shape::of_ordinary(settings), edited).await;
        }
        let shape = Shape::of_rich(settings);
        if shape == Shape::Mime {
            return self.edited_mime(whose, edited).await;
        }
        let largest = sent.len().saturating_add(edited.len().saturating_sub(served.len()));
        let Some(room) = self.room_to_convert(whose, largest).await? else {
            return self.edited_mime(whose, edited).await;
        };
        let (name, limit) = (account.name.clone(), self.options().message_len_max);
        let (came, seen, wanted) = (sent.clone(), served.clone(), edited.clone());
        let work = on_compute_thread_with(room, move || {
            let is_wanted = |sent: &[u8], rich: &Rich| {
                are_equal_but_for_hashes((&wanted[..], &came[..]), (&rich.mime[..], sent))
            };
            let mut sent = with_edits(&came, &seen, &wanted);
            let mut rich = as_mime_blocking(&name, &sent, limit)?;
            if !is_wanted(&sent, &rich) {
                sent = leaving_out(&sent, &made_again(&rich.mime, &wanted)?);
                rich = as_mime_blocking(&name, &sent, limit)?;
                if !is_wanted(&sent, &rich) {
                    return None;
                }
            }
            rich.stored(shape, &sent).map(|stored| (stored, rich.mime))
        });
        let made = work.await.unwrap_or_else(|error| {
            tracing::error!(account = account.name, %error, "an edited message is stored as MIME: its conversion failed");
            None
        });
        let Some((stored, mime)) = made else { return self.edited_mime(whose, edited).await };
        let new = (mime.clone(), Vec::new(), None);
        let message = self.incoming_with(whose, new, Compression::None).await?;
        self.store().has_converted(message.body, &mime);
        Ok(IncomingMessage { bytes: stored, ..message })
    }

    /// The rich message as it came, if a stored body has it.
    #[boxed]
    pub async fn original(&self, body: BodyId) -> Result<Option<Bytes>, DeliveryError> {
        let stored = self.store().engine().read_body(body, 0..u64::MAX).await?;
        Ok(original_of(&stored))
    }

    /// An edited message that did not come as rich mail.
    async fn edited_ordinary(
        &self,
        whose: WorkFor,
        shape: Shape,
        edited: Bytes,
    ) -> Result<IncomingMessage, DeliveryError> {
        let stored = match shape {
            Shape::Enriched => self.as_rich(whose, &edited).await?,
            Shape::AsSent | Shape::Mime | Shape::MimeWithOriginal => None,
        };
        let compress = if stored.is_some() { Compression::None } else { self.options().compress };
        let message = self.incoming_with(whose, (edited.clone(), Vec::new(), None), compress).await?;
        Ok(match stored {
            Some(stored) => self.stored_as(&message, stored, &edited),
            None => message,
        })
    }

    /// An edited message without its rich original.
    async fn edited_mime(&self, whose: WorkFor, edited: Bytes) -> Result<IncomingMessage, DeliveryError> {
        let (look, place) = (edited.clone(), self.place(whose).await?);
        let marked = on_compute_thread_with(place, move || marked(&look)).await.unwrap_or_default();
        let mut message = self.incoming_for(whose, edited, Vec::new(), None).await?;
        if let Some(marked) = marked {
            message.bytes = marked;
        }
        Ok(message)
    }
}

/// The message as it came, with the edits that made `edited` of `served`. Fields that describe the
/// content (RFC 2045 §3) may describe another one there: the conversion shows whether they do.
fn with_edits(sent: &[u8], served: &[u8], edited: &[u8]) -> Vec<u8> {
    let (came, seen, wanted) = (Header::of(sent), Header::of(served), Header::of(edited));
    let in_sent: HashSet<&[u8]> = came.fields.iter().map(|(_, field)| *field).collect();
    let in_served: HashSet<&[u8]> = seen.fields.iter().map(|(_, field)| *field).collect();
    let mut out = Vec::with_capacity(sent.len() + edited.len().saturating_sub(served.len()));
    for (_, field) in &wanted.fields {
        // The conversion makes the others again.
        if in_sent.contains(field) || !in_served.contains(field) {
            out.extend_from_slice(field);
        }
    }
    for (_, field) in &came.fields {
        // The conversion takes these away again.
        if !in_served.contains(field) {
            out.extend_from_slice(field);
        }
    }
    out.extend_from_slice(came.rest);
    out
}

/// The names of fields that the script deleted, and that a conversion makes of properties again.
/// `None` if there are none.
fn made_again<'m>(mime: &'m [u8], wanted: &[u8]) -> Option<Vec<&'m str>> {
    let wanted = Header::of(wanted);
    let names: HashSet<Vec<u8>> = wanted.fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let made = Header::of(mime).fields.into_iter().map(|(name, _)| name);
    let again = made.filter(|name| !names.contains(&name.to_ascii_lowercase()));
    let again: Vec<_> = again.filter_map(|name| std::str::from_utf8(name).ok()).take(AGAIN_MAX).collect();
    (!again.is_empty()).then_some(again)
}

/// More fields than a conversion makes of properties.
const AGAIN_MAX: usize = 20;

/// Whether two messages are equal except for the hashes in their boundaries. The order of fields
/// with different names does not count (RFC 5322 §3.6). Each message comes with the one that was
/// hashed.
fn are_equal_but_for_hashes((one, hashed): (&[u8], &[u8]), (other, also_hashed): (&[u8], &[u8])) -> bool {
    let (hash, other_hash) = (hash_in_boundaries(hashed), hash_in_boundaries(also_hashed));
    let are_equal = |a: &[u8], b: &[u8]| pieces(a, hash.as_bytes()).eq(pieces(b, other_hash.as_bytes()));
    let (one, other) = (Header::of(one).by_name(), Header::of(other).by_name());
    one.fields.len() == other.fields.len()
        && one.fields.iter().zip(&other.fields).all(|((_, a), (_, b))| are_equal(a, b))
        && are_equal(one.rest, other.rest)
}

/// The pieces of a text between the places of a hash.
fn pieces<'t>(text: &'t [u8], hash: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
    let mut from = 0;
    let ends = memmem::find_iter(text, hash).chain(std::iter::once(text.len()));
    ends.map(move |end| {
        let piece = text.get(from..end).unwrap_or_default();
        from = end + hash.len();
        piece
    })
}

/// A header, and what follows it.
struct Header<'m> {
    /// The name of each field, and the whole field.
    fields: Vec<(&'m [u8], &'m [u8])>,
    /// The blank line and the body.
    rest: &'m [u8],
}

impl<'m> Header<'m> {
    fn of(message: &'m [u8]) -> Self {
        let all = Span::new(0, u32::try_from(message.len()).unwrap_or(u32::MAX));
        let mut end = 0;
        let fields = HeaderFields::new(message, all)
            .map(|field| {
                end = field.span().range().end;
                (field.name(message), field.span().of(message))
            })
            .collect();
        Self { fields, rest: message.get(end..).unwrap_or_default() }
    }

    /// The fields by their names. Those of one name stay in their order.
    fn by_name(mut self) -> Self {
        self.fields.sort_by_cached_key(|(name, _)| name.to_ascii_lowercase());
        self
    }
}

#[cfg(test)]
#[path = "edited_tests.rs"]
mod tests;
