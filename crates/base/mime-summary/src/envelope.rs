//! The values of ENVELOPE, read from the fields of one header.
//!
//! RFC 9051 §7.5.2: strings as they are in the header, unfolded. An absent field is `None` (NIL).
//! A field that is present but empty is the empty string. An absent or empty Sender or Reply-To
//! has the value of From. An address field that occurs again adds to its list; of all others the
//! first is used. Values that do not fit into [`PrintBudget`] are left out.

use std::borrow::Cow;

use crate::address::{Address, addresses_up_to};
use crate::header::{Field, unfold};
use crate::known::FieldId;
use crate::print_budget::PrintBudget;

/// Longest text that an envelope holds, in bytes: sixty times the longest line of RFC 5322 §2.1.1.
/// A client that needs more of a field fetches the header.
const TEXT_MAX: usize = 64 * 1024;

/// The most bytes of an address field that are read: some eight thousand addresses.
const LIST_MAX: usize = 256 * 1024;

/// The fields of ENVELOPE.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope<'m> {
    /// Date, unchanged.
    pub date: Option<Cow<'m, [u8]>>,
    /// Subject, unchanged: clients decode encoded words.
    pub subject: Option<Cow<'m, [u8]>>,
    /// The addresses of From.
    pub from: Vec<Address<'m>>,
    /// Sender; `None` if it is what From is.
    pub sender: Option<Vec<Address<'m>>>,
    /// Reply-To; `None` if it is what From is.
    pub reply_to: Option<Vec<Address<'m>>>,
    /// The addresses of To.
    pub to: Vec<Address<'m>>,
    /// Cc.
    pub cc: Vec<Address<'m>>,
    /// Bcc.
    pub bcc: Vec<Address<'m>>,
    /// The value of In-Reply-To, unchanged.
    pub in_reply_to: Option<Cow<'m, [u8]>>,
    /// Message-ID, unchanged.
    pub message_id: Option<Cow<'m, [u8]>>,
}

impl<'m> Envelope<'m> {
    /// Reads the envelope from the fields of a header of `message`.
    pub fn of(message: &'m [u8], fields: impl IntoIterator<Item = Field>) -> Self {
        Self::within(message, fields, 1, &mut PrintBudget::of_header())
    }

    /// [`Envelope::of`] for a message with this budget, in whose responses the envelope is
    /// printed this many times.
    pub fn within(
        message: &'m [u8],
        fields: impl IntoIterator<Item = Field>,
        times: usize,
        budget: &mut PrintBudget,
    ) -> Self {
        let mut made = Envelope::default();
        let (mut sender, mut reply_to) = (Vec::new(), Vec::new());
        for field in fields {
            let text = |slot: &mut Option<Cow<'m, [u8]>>| {
                let raw = field.raw_value(message);
                // If there are several, the last counts, as in other servers (RFC 5322 §3.6 allows
                // one).
                *slot = Some(unfold(raw.get(..TEXT_MAX).unwrap_or(raw)));
            };
            let mut list = |slot: &mut Vec<Address<'m>>| {
                let raw = field.raw_value(message);
                let more = addresses_up_to(budget.addresses(), raw.get(..LIST_MAX).unwrap_or(raw));
                budget.count_addresses(more.len());
                if slot.is_empty() { *slot = more } else { slot.extend(more) }
            };
            match FieldId::of(field.name(message)) {
                FieldId::DATE => text(&mut made.date),
                FieldId::SUBJECT => text(&mut made.subject),
                FieldId::FROM => list(&mut made.from),
                FieldId::SENDER => list(&mut sender),
                FieldId::REPLY_TO => list(&mut reply_to),
                FieldId::TO => list(&mut made.to),
                FieldId::CC => list(&mut made.cc),
                FieldId::BCC => list(&mut made.bcc),
                FieldId::IN_REPLY_TO => text(&mut made.in_reply_to),
                FieldId::MESSAGE_ID => text(&mut made.message_id),
                _ => {}
            }
        }
        made.sender = Some(sender).filter(|list| !list.is_empty());
        made.reply_to = Some(reply_to).filter(|list| !list.is_empty());
        made.cut(times, budget);
        made
    }

    /// Leaves out what exceeds the budget. Short fields come first.
    fn cut(&mut self, times: usize, budget: &mut PrintBudget) {
        for text in [&mut self.date, &mut self.message_id, &mut self.in_reply_to, &mut self.subject] {
            *text = budget.text(text.take(), times);
        }
        // A list that is printed three times in a message's own ENVELOPE is kept once.
        let of_from = match (&self.sender, &self.reply_to) {
            (None, None) if times == 1 => 1,
            _ => 3 * times,
        };
        budget.cut(&mut self.from, of_from);
        for list in [&mut self.sender, &mut self.reply_to].into_iter().flatten() {
            budget.cut(list, times);
        }
        for list in [&mut self.to, &mut self.cc, &mut self.bcc] {
            budget.cut(list, times);
        }
    }
}
