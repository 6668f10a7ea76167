//! Tests of rich messages whose header a Sieve script edited: which edits are made in the original,
//! and what is stored where that is not possible.

use posthaste_directory::{AccountChange, Format, FormatSettings};
use posthaste_store::form::{Form, FormHeader};
use posthaste_tnef::{Outcome, convert, encode, samples};

use super::*;
use crate::body_change::{BodyChange, LossPolicy, body_change};
use crate::conversions::served as seen_of;
use crate::tests::delivery;

/// A message that is TNEF and nothing else: most of its header is made of properties.
fn whole() -> Vec<u8> {
    let head = b"From: a@x.example\r\nX-Own: 1\r\nContent-Type: application/ms-tnef\r\n\
        Content-Transfer-Encoding: binary\r\n\r\n";
    [&head[..], &encode(&samples::note()).unwrap()].concat()
}

fn mime_of(sent: &[u8]) -> Bytes {
    match convert(sent).unwrap() {
        Outcome::Converted(mime) => Bytes::from(mime),
        other => panic!("the sample is rich: {other:?}"),
    }
}

/// The message with a field before all others.
fn after(field: &str, message: &[u8]) -> Vec<u8> {
    [field.as_bytes(), message].concat()
}

/// The message with a field after all others.
fn with_last(field: &str, message: &[u8]) -> Vec<u8> {
    let end = memmem::find(message, b"\r\n\r\n").unwrap() + 2;
    [&message[..end], field.as_bytes(), &message[end..]].concat()
}

/// The message without a text, which is in its header.
fn without(text: &str, message: &[u8]) -> Vec<u8> {
    let at = memmem::find(message, text.as_bytes()).unwrap();
    [&message[..at], &message[at + text.len()..]].concat()
}

async fn ana_with(delivery: &Delivery, settings: FormatSettings) -> Account {
    let change = AccountChange {
        format: Some(Some(settings.format)),
        keep_original: Some(settings.keep_original),
        ..AccountChange::default()
    };
    delivery.directory().set("ana@example.org", change).await.unwrap()
}

#[tokio::test]
async fn an_edited_message_keeps_its_original() {
    let (delivery, _) = delivery().await;
    let added = "X-Seen-By: sieve\r\n";
    for (format, keep_original, form) in [
        (Format::Mime, true, Form::WithOriginal),
        (Format::Keep, false, Form::Rich),
        (Format::Rich, false, Form::Rich),
    ] {
        let ana = ana_with(&delivery, FormatSettings { format, keep_original }).await;
        for sent in [samples::mail(&samples::note()), whole()] {
            let sent = Bytes::from(sent);
            let served = mime_of(&sent);
            let edited = Bytes::from(after(added, &served));
            let (message, _) = delivery.edited(&ana, &sent, &served, edited.clone()).await.unwrap();
            assert_eq!(FormHeader::of(&message.bytes).unwrap().form, form);
            let original = original_of(&message.bytes).unwrap();
            assert_eq!(original.len(), sent.len() + added.len());
            let seen = seen_of(&message.bytes).unwrap();
            assert!(seen.starts_with(added.as_bytes()) && seen.len() == edited.len());
            assert_eq!(seen, mime_of(&original));
            assert_eq!(message.summary, crate::summarize(&seen));
            // There and back, with the same bytes for clients.
            let keep = FormatSettings { format: Format::Keep, keep_original: false };
            let stored = &message.bytes;
            match body_change(stored, "ana", (keep, LossPolicy::Refuse), 1 << 20).unwrap() {
                BodyChange::Recode(rich) if form == Form::WithOriginal => {
                    assert_eq!(seen_of(&rich).unwrap(), seen);
                }
                BodyChange::Stays if form == Form::Rich => {}
                _ => panic!("{format:?}: the message changes otherwise"),
            }
        }
    }
}

/// A field at the end, and the removal of one that came.
#[tokio::test]
async fn edits_are_made_in_the_message_as_it_came() {
    let (delivery, _) = delivery().await;
    let ana = ana_with(&delivery, FormatSettings { format: Format::Mime, keep_original: true }).await;
    let sent = Bytes::from(whole());
    let served = mime_of(&sent);
    let edited = Bytes::from(without("X-Own: 1\r\n", &with_last("X-Last: y\r\n", &served)));
    let (message, _) = delivery.edited(&ana, &sent, &served, edited.clone()).await.unwrap();
    let original = original_of(&message.bytes).unwrap();
    assert!(original.starts_with(b"From: a@x.example\r\nX-Last: y\r\nContent-Type: application/ms-tnef\r\n"));
    let seen = seen_of(&message.bytes).unwrap();
    assert!(are_equal_but_for_hashes((&seen[..], &original[..]), (&edited[..], &sent[..])));
    assert_eq!(seen, mime_of(&original));
}

/// A conversion would make these fields of the properties again.
#[tokio::test]
async fn a_deleted_field_of_a_property_does_not_come_back() {
    let (delivery, _) = delivery().await;
    let parts = samples::mail(&samples::note());
    for sent in [parts, whole()] {
        let sent = Bytes::from(sent);
        let served = mime_of(&sent);
        let header = Header::of(&served);
        let fields = header.fields.iter().filter(|(name, _)| *name == b"Subject" || *name == b"Date");
        let lines: Vec<_> = fields.map(|(_, field)| String::from_utf8_lossy(field).into_owned()).collect();
        assert_eq!(lines.len(), 2);
        let edited = without(&lines[1], &without(&lines[0], &served));
        let edited = Bytes::from(after("X-Seen-By: sieve\r\n", &edited));
        for (format, keep_original) in [(Format::Mime, true), (Format::Keep, false), (Format::Rich, false)] {
            let ana = ana_with(&delivery, FormatSettings { format, keep_original }).await;
            let (message, _) = delivery.edited(&ana, &sent, &served, edited.clone()).await.unwrap();
            let original = original_of(&message.bytes).unwrap();
            let seen = seen_of(&message.bytes).unwrap();
            assert!(are_equal_but_for_hashes((&seen[..], &original[..]), (&edited[..], &sent[..])));
            assert_eq!(seen, mime_of(&original));
            assert_eq!(message.summary, crate::summarize(&seen));
        }
    }
}

/// Fields that describe the content, where they describe the same in the message as it came.
#[tokio::test]
async fn fields_of_the_content_are_edited_where_they_mean_the_same() {
    let (delivery, _) = delivery().await;
    let ana = ana_with(&delivery, FormatSettings { format: Format::Mime, keep_original: true }).await;
    let sent = Bytes::from(samples::mail(&samples::note()));
    let served = mime_of(&sent);
    for edited in [after("Content-Language: en\r\n", &served), without("MIME-Version: 1.0\r\n", &served)] {
        let (message, _) = delivery.edited(&ana, &sent, &served, edited.clone().into()).await.unwrap();
        let original = original_of(&message.bytes).unwrap();
        let seen = seen_of(&message.bytes).unwrap();
        assert!(are_equal_but_for_hashes((&seen[..], &original[..]), (&edited[..], &sent[..])));
        assert_eq!(seen, mime_of(&original));
    }
}

/// What the script wrote counts more than the original.
#[tokio::test]
async fn edits_without_a_counterpart_leave_mime_alone() {
    let (delivery, _) = delivery().await;
    let sent = Bytes::from(samples::mail(&samples::note()));
    let served = mime_of(&sent);
    let mixed = "Content-Type: multipart/mixed; boundary=\"b\"\r\n";
    let alone = Bytes::from(whole());
    let alone_served = mime_of(&alone);
    for (sent, served, edited) in [
        // Without its type, the message as it came is not rich.
        (&sent, &served, without(mixed, &served)),
        (&sent, &served, after("Content-Type: text/plain\r\n", &served)),
        // Of the message as it came, this field would describe the TNEF.
        (&alone, &alone_served, after("Content-Language: en\r\n", &alone_served)),
        (&alone, &alone_served, without("MIME-Version: 1.0\r\n", &alone_served)),
    ] {
        for (format, keep_original) in [(Format::Mime, true), (Format::Keep, false)] {
            let ana = ana_with(&delivery, FormatSettings { format, keep_original }).await;
            let edited = Bytes::from(edited.clone());
            let (message, _) = delivery.edited(&ana, sent, served, edited.clone()).await.unwrap();
            assert_eq!(message.bytes, edited);
        }
    }
    let ana = ana_with(&delivery, FormatSettings { format: Format::Mime, keep_original: false }).await;
    let edited = Bytes::from(after("X-Seen-By: sieve\r\n", &served));
    let (message, _) = delivery.edited(&ana, &sent, &served, edited.clone()).await.unwrap();
    assert_eq!(message.bytes, edited);
    // Ordinary mail has no original.
    let ana = ana_with(&delivery, FormatSettings { format: Format::Mime, keep_original: true }).await;
    let plain = Bytes::from_static(b"Subject: plain\r\n\r\nwords\r\n");
    let edited = Bytes::from(after("X-Seen-By: sieve\r\n", &plain));
    let (message, _) = delivery.edited(&ana, &plain, &plain, edited.clone()).await.unwrap();
    assert_eq!(message.bytes, edited);
    // The format `rich` makes TNEF of it.
    let ana = ana_with(&delivery, FormatSettings { format: Format::Rich, keep_original: false }).await;
    let (message, _) = delivery.edited(&ana, &plain, &plain, edited.clone()).await.unwrap();
    assert_eq!(FormHeader::of(&message.bytes).unwrap().form, Form::Enriched);
    assert_eq!(seen_of(&message.bytes).unwrap(), edited);
}
