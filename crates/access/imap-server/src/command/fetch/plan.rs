//! The compiled form of a FETCH: the items of the response, which need no further decisions, and
//! the data that they need.
//!
//! Everything that is the same for every message is computed here once. Labels are printed and
//! header field names become a mask. The plan knows whether rows suffice, whether it needs
//! summaries, or whether it must read bodies.

use std::collections::HashSet;
use std::sync::Arc;

use posthaste_imap_codec::command::{FetchItem, SnippetName};
use posthaste_imap_codec::{Partial, Section, SectionText, print};
use posthaste_mime_summary::{self as mime, FieldMask};
use posthaste_store::View;

use crate::annotate::render::Rendered;

/// The data a plan reads. Each level includes the levels before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reads {
    /// The view's rows.
    Rows,
    /// Summaries; bodies only where a summary lacks a header field.
    Summaries,
    /// Bodies.
    Bodies,
}

/// One item of the response.
#[derive(Clone, Debug)]
pub(super) enum ResponseItem {
    Uid,
    Flags,
    Size,
    InternalDate,
    ModSeq,
    EmailId,
    ThreadId,
    /// EMAILID and THREADID in one list: OBJECTID+.
    ObjectIds,
    GmMessageId,
    GmThreadId,
    GmLabels,
    /// Annotations: what is printed for each message is made before.
    Annotation(Arc<Rendered>),
    SaveDate,
    CreatedModSeq,
    Preview,
    /// The preview under a name of the drafts.
    Snippet(SnippetName),
    Envelope,
    Body,
    BodyStructure,
    /// Fields of the message's own header.
    Fields(Fields),
    /// Fields of the header of a message within the message.
    NestedFields(Fields),
    /// Bytes as they are in the message.
    Bytes(Bytes),
    /// A part with its transfer encoding undone: RFC 9051 §6.4.5, BINARY.
    Decoded(Bytes),
    /// The length of such a part.
    DecodedSize(Bytes),
    /// The SHA-1 of the whole message: DIGEST=SHA1 of Cyrus.
    Digest(Bytes),
}

/// Selected header fields.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    /// The text before the value, as `BODY[HEADER.FIELDS (DATE)] `.
    pub(super) label: Vec<u8>,
    pub(super) path: Vec<u32>,
    pub(super) mask: FieldMask,
    pub(super) partial: Option<Partial>,
}

/// A section of the message.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    /// The text before the value, as `BODY[1.2]<0> `.
    pub(super) label: Vec<u8>,
    pub(super) path: Vec<u32>,
    pub(super) section: mime::Section,
    pub(super) partial: Option<Partial>,
}

/// A compiled FETCH.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) items: Vec<ResponseItem>,
    pub(super) reads: Reads,
    /// Whether a message may have to be read for it. Fields of the header may be in the summary.
    pub(super) may_need_body: bool,
    /// Comparisons that each stored header field takes: a few for each list of names.
    per_field: u64,
    /// Bytes of all labels, and how often a summary is copied at most.
    labels: usize,
    copies: usize,
}

impl Plan {
    /// Compiles the items. An item requested twice is answered once.
    pub(super) fn compile(items: &[FetchItem]) -> Self {
        // A command may have thousands of items, so each is not compared with all before it.
        let mut seen = HashSet::with_capacity(items.len());
        let items: Vec<ResponseItem> =
            items.iter().filter(|item| seen.insert(*item)).map(response_item).collect();
        let reads = items.iter().map(ResponseItem::reads).max().unwrap_or(Reads::Rows);
        let masks = items.iter().filter_map(|item| match item {
            ResponseItem::Fields(fields) => Some(fields.mask.comparisons()),
            _ => None,
        });
        let per_field = masks.sum();
        let may_need_body =
            reads == Reads::Bodies || items.iter().any(|item| matches!(item, ResponseItem::Fields(_)));
        let labels = items.iter().map(|item| item.label().len()).sum();
        let copies = items.iter().map(ResponseItem::copies).sum();
        Self { items, reads, may_need_body, per_field, labels, copies }
    }

    /// The most bytes that are printed of a message with this summary, without its body.
    #[inline]
    pub(super) fn printed_max(&self, summary: &mime::SummaryRef<'_>) -> usize {
        self.labels + self.copies * summary.record_len()
    }

    /// The data that it reads of a view. The row of a message without items does not have its size.
    pub(super) fn reads_of(&self, view: &View) -> Reads {
        let has_size = || self.items.iter().any(|item| matches!(item, ResponseItem::Size));
        match view.counts().without_items() > 0 && has_size() {
            true => self.reads.max(Reads::Summaries),
            false => self.reads,
        }
    }

    /// Adds the annotations to print: one for each item that requests them, each item once.
    pub(super) fn annotated(mut self, rendered: Vec<Rendered>) -> Self {
        let items = self.items.iter_mut().filter(|item| matches!(item, ResponseItem::Annotation(_)));
        for (item, rendered) in items.zip(rendered) {
            *item = ResponseItem::Annotation(Arc::new(rendered));
        }
        self
    }

    /// Steps that printing from this summary takes, without those of copying it.
    #[inline]
    pub(super) fn steps_of(&self, summary: &mime::SummaryRef<'_>) -> u64 {
        match self.per_field {
            0 => 0,
            per_field => per_field * summary.field_count() as u64,
        }
    }
}

impl ResponseItem {
    /// The most times that the item copies the summary.
    fn copies(&self) -> usize {
        match self {
            // From is copied again for Sender and Reply-To.
            Self::Envelope => 2,
            Self::Body | Self::BodyStructure | Self::Fields(_) | Self::Preview | Self::Snippet(_) => 1,
            _ => 0,
        }
    }

    /// The label that the command determines; empty if the item prints its own.
    pub(super) fn label(&self) -> &[u8] {
        match self {
            Self::Fields(fields) | Self::NestedFields(fields) => &fields.label,
            Self::Bytes(bytes) | Self::Decoded(bytes) | Self::DecodedSize(bytes) | Self::Digest(bytes) => {
                &bytes.label
            }
            _ => b"",
        }
    }

    /// Steps that printing this item from the summary takes, without those of copying.
    pub(super) fn steps_of(&self, summary: &mime::SummaryRef<'_>) -> u64 {
        match self {
            Self::Fields(fields) => fields.mask.comparisons() * summary.field_count() as u64,
            _ => 0,
        }
    }

    fn reads(&self) -> Reads {
        match self {
            Self::Uid
            | Self::Flags
            | Self::Size
            | Self::InternalDate
            | Self::ModSeq
            | Self::GmLabels
            | Self::Annotation(_) => Reads::Rows,
            Self::EmailId
            | Self::ThreadId
            | Self::ObjectIds
            | Self::GmMessageId
            | Self::GmThreadId
            | Self::SaveDate
            | Self::CreatedModSeq
            | Self::Preview
            | Self::Snippet(_)
            | Self::Envelope
            | Self::Body
            | Self::BodyStructure
            | Self::Fields(_) => Reads::Summaries,
            Self::NestedFields(_)
            | Self::Bytes(_)
            | Self::Decoded(_)
            | Self::DecodedSize(_)
            | Self::Digest(_) => Reads::Bodies,
        }
    }
}

fn response_item(item: &FetchItem) -> ResponseItem {
    match item {
        FetchItem::Uid => ResponseItem::Uid,
        FetchItem::Flags => ResponseItem::Flags,
        FetchItem::Rfc822Size => ResponseItem::Size,
        FetchItem::InternalDate => ResponseItem::InternalDate,
        FetchItem::ModSeq => ResponseItem::ModSeq,
        FetchItem::EmailId => ResponseItem::EmailId,
        FetchItem::ThreadId => ResponseItem::ThreadId,
        FetchItem::ObjectIds => ResponseItem::ObjectIds,
        FetchItem::GmMessageId => ResponseItem::GmMessageId,
        FetchItem::GmThreadId => ResponseItem::GmThreadId,
        FetchItem::GmLabels => ResponseItem::GmLabels,
        FetchItem::Annotation(_) => ResponseItem::Annotation(Arc::default()),
        FetchItem::SaveDate => ResponseItem::SaveDate,
        FetchItem::CreatedModSeq => ResponseItem::CreatedModSeq,
        FetchItem::Preview { .. } => ResponseItem::Preview,
        FetchItem::Snippet { name, .. } => ResponseItem::Snippet(*name),
        FetchItem::Envelope => ResponseItem::Envelope,
        FetchItem::Body => ResponseItem::Body,
        FetchItem::BodyStructure => ResponseItem::BodyStructure,
        FetchItem::Rfc822 => ResponseItem::Bytes(whole_message(b"RFC822 ", mime::Section::Body)),
        FetchItem::Rfc822Header => {
            ResponseItem::Bytes(whole_message(b"RFC822.HEADER ", mime::Section::Header))
        }
        FetchItem::Rfc822Text => ResponseItem::Bytes(whole_message(b"RFC822.TEXT ", mime::Section::Text)),
        FetchItem::DigestSha1 => ResponseItem::Digest(whole_message(b"DIGEST.SHA1 ", mime::Section::Body)),
        FetchItem::BodySection { section, partial, .. } => body_section(section, *partial),
        FetchItem::Binary { part, partial, .. } => {
            ResponseItem::Decoded(binary(b"BINARY[", &part.0, *partial))
        }
        FetchItem::BinarySize { part } => ResponseItem::DecodedSize(binary(b"BINARY.SIZE[", &part.0, None)),
    }
}

fn whole_message(label: &[u8], section: mime::Section) -> Bytes {
    Bytes { label: label.to_vec(), path: Vec::new(), section, partial: None }
}

fn body_section(section: &Section, partial: Option<Partial>) -> ResponseItem {
    let mut label = b"BODY".to_vec();
    print::section(&mut label, section);
    origin(&mut label, partial);
    let path = section.part.0.clone();
    let fields = |label, path: Vec<u32>, mask| {
        let nested = !path.is_empty();
        let fields = Fields { label, path, mask, partial };
        if nested { ResponseItem::NestedFields(fields) } else { ResponseItem::Fields(fields) }
    };
    let bytes = |label, path, section| ResponseItem::Bytes(Bytes { label, path, section, partial });
    match &section.text {
        SectionText::Whole => bytes(label, path, mime::Section::Body),
        SectionText::Header => bytes(label, path, mime::Section::Header),
        SectionText::Text => bytes(label, path, mime::Section::Text),
        SectionText::Mime => bytes(label, path, mime::Section::Mime),
        SectionText::HeaderFields(names) => fields(label, path, FieldMask::only(names)),
        SectionText::HeaderFieldsNot(names) => fields(label, path, FieldMask::all_but(names)),
    }
}

fn binary(start: &[u8], part: &[u32], partial: Option<Partial>) -> Bytes {
    let mut label = start.to_vec();
    print::part_path(&mut label, part);
    label.push(b']');
    origin(&mut label, partial);
    Bytes { label, path: part.to_vec(), section: mime::Section::Body, partial }
}

/// `<offset>` of a partial answer, which contains no count (RFC 9051 §7.5.2), and the space before
/// the value.
fn origin(label: &mut Vec<u8>, partial: Option<Partial>) {
    if let Some(partial) = partial {
        label.push(b'<');
        print::number(label, partial.offset);
        label.push(b'>');
    }
    label.push(b' ');
}

/// The bytes of `0..len` that a partial names: empty beyond the end (RFC 9051 §6.4.5.1).
pub(super) fn cut(len: u64, partial: Option<Partial>) -> std::ops::Range<u64> {
    match partial {
        None => 0..len,
        Some(partial) => {
            let start = partial.offset.min(len);
            start..start.saturating_add(partial.count).min(len)
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_imap_codec::PartPath;

    use super::*;

    fn partial(offset: u64, count: u64) -> Option<Partial> {
        Some(Partial { offset, count })
    }

    #[test]
    fn a_plan_reads_no_more_than_it_must() {
        let reads = |items: &[FetchItem]| Plan::compile(items).reads;
        assert_eq!(reads(&[FetchItem::Uid, FetchItem::Flags]), Reads::Rows);
        assert_eq!(reads(&[FetchItem::Uid, FetchItem::Envelope]), Reads::Summaries);
        let text = SectionText::HeaderFields(vec!["DATE".into()]);
        let section = Section { part: PartPath(vec![]), text };
        let item = FetchItem::BodySection { section, partial: None, peek: true };
        assert_eq!(reads(&[item]), Reads::Summaries);
        assert_eq!(reads(&[FetchItem::Rfc822, FetchItem::Uid]), Reads::Bodies);
    }

    #[test]
    fn labels_are_as_the_answer_has_them() {
        let section = Section { part: PartPath(vec![1, 2]), text: SectionText::Mime };
        let item = FetchItem::BodySection { section, partial: partial(7, 9), peek: true };
        let plan = Plan::compile(&[item.clone(), item]);
        let [ResponseItem::Bytes(bytes)] = plan.items.as_slice() else { panic!("{plan:?}") };
        assert_eq!(String::from_utf8_lossy(&bytes.label), "BODY[1.2.MIME]<7> ");
    }

    #[test]
    fn partials_end_where_the_message_ends() {
        assert_eq!(cut(10, None), 0..10);
        assert_eq!(cut(10, partial(2, 3)), 2..5);
        assert_eq!(cut(10, partial(8, u64::MAX)), 8..10);
        assert_eq!(cut(10, partial(11, 1)), 10..10);
        assert_eq!(cut(10, partial(2, 0)), 2..2);
    }
}
