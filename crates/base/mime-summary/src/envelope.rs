//! The values of ENVELOPE, read from the fields of one header.
//!
//! RFC 9051 §7.5.2: strings as they stand in the header, unfolded; a field that is absent is none (NIL), one that
//! is present but empty is the empty string; Sender and Reply-To that are absent or empty are what From is. An
//! address field that occurs again adds to its list; of all others the first counts.

use std::borrow::Cow;

use crate::address::{ADDRESSES_MAX, Address, address_list};
use crate::header::{Field, unfold};
use crate::known::FieldId;

/// Longest text that an envelope holds, in bytes: sixty times the longest line of RFC 5322 §2.1.1. What a header has
/// beyond that is for whoever fetches the header.
const TEXT_MAX: usize = 64 * 1024;

/// How much of an address field is read, in bytes: some eight thousand addresses.
const LIST_MAX: usize = 256 * 1024;

/// What ENVELOPE tells of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope<'m> {
    /// Date, as it stands.
    pub date: Option<Cow<'m, [u8]>>,
    /// Subject, as it stands: encoded words are the client's.
    pub subject: Option<Cow<'m, [u8]>>,
    /// From.
    pub from: Vec<Address<'m>>,
    /// Sender, or From.
    pub sender: Vec<Address<'m>>,
    /// Reply-To, or From.
    pub reply_to: Vec<Address<'m>>,
    /// To.
    pub to: Vec<Address<'m>>,
    /// Cc.
    pub cc: Vec<Address<'m>>,
    /// Bcc.
    pub bcc: Vec<Address<'m>>,
    /// In-Reply-To, as it stands.
    pub in_reply_to: Option<Cow<'m, [u8]>>,
    /// Message-ID, as it stands.
    pub message_id: Option<Cow<'m, [u8]>>,
}

impl<'m> Envelope<'m> {
    /// Reads the envelope from the fields of a header of `message`.
    pub fn of(message: &'m [u8], fields: impl IntoIterator<Item = Field>) -> Self {
        let mut made = Envelope::default();
        for field in fields {
            let text = |slot: &mut Option<Cow<'m, [u8]>>| {
                let raw = field.raw_value(message);
                slot.get_or_insert_with(|| unfold(raw.get(..TEXT_MAX).unwrap_or(raw)));
            };
            let list = |slot: &mut Vec<Address<'m>>| {
                let raw = field.raw_value(message);
                let room = ADDRESSES_MAX.saturating_sub(slot.len());
                slot.extend(address_list(raw.get(..LIST_MAX).unwrap_or(raw)).into_iter().take(room));
            };
            match FieldId::of(field.name(message)) {
                FieldId::DATE => text(&mut made.date),
                FieldId::SUBJECT => text(&mut made.subject),
                FieldId::FROM => list(&mut made.from),
                FieldId::SENDER => list(&mut made.sender),
                FieldId::REPLY_TO => list(&mut made.reply_to),
                FieldId::TO => list(&mut made.to),
                FieldId::CC => list(&mut made.cc),
                FieldId::BCC => list(&mut made.bcc),
                FieldId::IN_REPLY_TO => text(&mut made.in_reply_to),
                FieldId::MESSAGE_ID => text(&mut made.message_id),
                _ => {}
            }
        }
        if made.sender.is_empty() {
            made.sender.clone_from(&made.from);
        }
        if made.reply_to.is_empty() {
            made.reply_to.clone_from(&made.from);
        }
        made
    }
}
