//! Bounds the record of an item: a message with very many recipients at one destination becomes
//! several items.
//!
//! The record of an item is parsed and written as a whole, and an item that is being sent is in
//! memory. A message may have a thousand recipients, whose addresses may have a kilobyte each.

use super::{NewItem, Outcome, Recipient};

/// Octets of the recipients of an item in its record, unless it has only one.
const RECIPIENTS_LEN_MAX: usize = 128 << 10;
/// Recipients of an item. A refusal adds a reply of up to 500 characters for each of them. So a
/// record has 1.2 MB at most, and some 400 KB if the replies are ASCII.
const RECIPIENTS_MAX: usize = 500;
/// Octets that a recipient takes in a record beside its texts: the names of the fields.
const RECIPIENT_LEN: usize = 112;

/// Octets that recipients take in a record. The estimate is hardly too small.
pub(crate) fn octets(recipients: &[Recipient]) -> usize {
    recipients.iter().map(octets_of).sum()
}

fn octets_of(Recipient { address, outcome, orcpt, named, .. }: &Recipient) -> usize {
    let orcpt = orcpt.as_ref().map_or(0, |orcpt| json_len(orcpt.as_str()));
    let named = named.as_ref().map_or(0, |named| r#","named":"""#.len() + json_len(named));
    let reply = match outcome {
        Outcome::Failed { reply, status } => json_len(reply) + status.len(),
        _ => 0,
    };
    RECIPIENT_LEN + json_len(address) + orcpt + named + reply
}

/// Octets of a text in JSON (RFC 8259 §7).
fn json_len(text: &str) -> usize {
    let octets = text.bytes().map(|octet| match octet {
        b'"' | b'\\' => 2,
        0..=31 => 6,
        _ => 1,
    });
    octets.sum()
}

impl NewItem<'_> {
    /// The same for as many recipients each as one item may have.
    pub(crate) fn split(self) -> impl Iterator<Item = Self> {
        let Self { envelope, destination, recipients, reason } = self;
        let (mut shares, mut left) = (Vec::<Vec<Recipient>>::new(), 0);
        for recipient in recipients {
            let octets = octets_of(&recipient);
            match shares.last_mut().filter(|share| share.len() < RECIPIENTS_MAX && octets <= left) {
                Some(share) => {
                    left -= octets;
                    share.push(recipient);
                }
                None => {
                    left = RECIPIENTS_LEN_MAX.saturating_sub(octets);
                    shares.push(vec![recipient]);
                }
            }
        }
        let item = move |recipients| Self {
            envelope,
            destination: destination.clone(),
            recipients,
            reason: reason.clone(),
        };
        shares.into_iter().map(item)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{BodyId, Id};

    use super::*;
    use crate::dsn::OriginalRecipient;
    use crate::item::{Envelope, Item, To};

    /// The items of a message to these recipients.
    fn items(to: &[To]) -> Vec<Item> {
        let envelope = Envelope::new("ana@example.org", &[]);
        let part = NewItem {
            envelope: &envelope,
            destination: "x.test".into(),
            recipients: to.iter().map(Recipient::waiting).collect(),
            reason: "why".into(),
        };
        let item = |part| Item::new(part, 1, (BodyId(Id::new(1, 2)), 3), 4);
        part.split().map(item).collect()
    }

    #[test]
    fn the_record_of_an_item_has_a_bound() {
        // The longest that a client of SMTP can name.
        let orcpt = OriginalRecipient::parse(&format!("rfc822;{}", "x".repeat(490)));
        let long = |n: usize| To { orcpt: orcpt.clone(), ..To::new(&format!("{n:0370}@x.test")) };
        let to: Vec<_> = (0..1_000).map(long).collect();
        let named = |to: &To| To { named: Some(to.address.clone()), orcpt: None, ..to.clone() };
        let too_long = |item: &Item| item.write().unwrap().len() > RECIPIENTS_LEN_MAX + 1_024;
        assert!(!items(&to.iter().map(named).collect::<Vec<_>>()).iter().any(too_long));
        let items = items(&to);
        for item in &items {
            let len = item.write().unwrap().len();
            assert!(len <= RECIPIENTS_LEN_MAX + 1_024, "{len}");
            assert!(len >= octets(&item.recipients) * 3 / 4 && item.reason == "why");
        }
        assert!(items.len() <= 8, "{}", items.len());
        // Each is there once, in order.
        let found = items.iter().flat_map(|item| &item.recipients).map(|found| &found.address);
        assert!(found.eq(to.iter().map(|to| &to.address)));
    }

    #[test]
    fn usual_messages_are_one_item() {
        let to = |count: usize| {
            (0..count).map(|n| To::new(&format!("name.surname{n}@x.test"))).collect::<Vec<_>>()
        };
        for (recipients, wanted) in
            [(1, 1), (RECIPIENTS_MAX, 1), (RECIPIENTS_MAX + 1, 2), (2 * RECIPIENTS_MAX, 2)]
        {
            assert_eq!(items(&to(recipients)).len(), wanted, "{recipients}");
        }
        // One whose address is too long is not lost, and quotes count as JSON has them.
        assert_eq!(items(&[To::new(&"x".repeat(RECIPIENTS_LEN_MAX))]).len(), 1);
        assert_eq!(json_len("\"a\\\n"), 11);
        assert_eq!(serde_json::to_string("\"a\\\u{1}").unwrap().len(), 2 + json_len("\"a\\\u{1}"));
    }
}
