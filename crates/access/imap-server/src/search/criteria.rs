//! SEARCH keys compiled: texts folded, days counted, names made masks; then asked of one message at a time, with no more
//! of it read than the question needs.
//!
//! Each question has three answers. [`Answer::Unknown`] means "not from what is at hand": the message is asked again with
//! its summary, and only if that does not settle it with its body. `UNSEEN SUBJECT "x" BODY "y"` so opens the bodies of
//! those unseen messages alone whose subject matches.

use posthaste_imap_codec::Numbering;
use posthaste_imap_codec::command::SearchKey;
use posthaste_mail_model::{BodyId, FlagSet, Id, ModSeq, NumSet, SeqNum};
use posthaste_mime_summary::{FieldMask, HeaderFields, SearchKey as Text, Section, SummaryRef};
use posthaste_store::Row;

use crate::reply::Failure;
use crate::selected::Selected;

/// Seconds of a day.
const DAY_S: i64 = 86_400;

/// What is known of one message.
#[derive(Clone, Copy)]
pub(super) struct Message<'m> {
    pub(super) seq: SeqNum,
    pub(super) row: &'m Row,
    pub(super) kept: Option<Kept<'m>>,
    /// All its bytes.
    pub(super) bytes: Option<&'m [u8]>,
}

/// What is stored beside the row.
#[derive(Clone, Copy)]
pub(super) struct Kept<'m> {
    pub(super) body: BodyId,
    pub(super) saved: i64,
    pub(super) summary: SummaryRef<'m>,
}

/// Whether a message matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Yes,
    No,
    /// Not from what is at hand.
    Unknown,
}

impl From<bool> for Answer {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// A compiled key.
#[derive(Debug)]
pub(super) enum Criterion {
    All,
    None,
    And(Vec<Criterion>),
    Or(Box<Criterion>, Box<Criterion>),
    Not(Box<Criterion>),
    Flags {
        with: FlagSet,
        without: FlagSet,
    },
    Recent,
    Seqs(NumSet),
    Uids(NumSet),
    /// Internal date in `from..to`, unix seconds.
    Arrived {
        from: i64,
        to: i64,
    },
    /// Day of the Date field in `from..to`, days since 1970.
    Sent {
        from: i64,
        to: i64,
    },
    Saved {
        from: i64,
        to: i64,
    },
    Larger(u64),
    Smaller(u64),
    ModSeq(ModSeq),
    Subject(Text),
    From(Text),
    To(Text),
    Cc(Text),
    Bcc(Text),
    Header {
        mask: FieldMask,
        text: Text,
        any: bool,
    },
    Body(Text),
    Text(Text),
    Email(BodyId),
}

impl Criterion {
    /// Compiles a key for the messages that the session knows. `now` is in unix seconds.
    pub(super) fn compile(key: &SearchKey, selected: &Selected, now: i64) -> Result<Self, Failure> {
        let inner = |key: &SearchKey| Self::compile(key, selected, now);
        let keywords = &selected.announced.head().keywords;
        Ok(match key {
            SearchKey::All | SearchKey::SaveDateSupported => Self::All,
            SearchKey::And(keys) => Self::And(keys.iter().map(inner).collect::<Result<_, _>>()?),
            SearchKey::Or(a, b) => Self::Or(Box::new(inner(a)?), Box::new(inner(b)?)),
            SearchKey::Not(key) => Self::Not(Box::new(inner(key)?)),
            // A keyword nobody ever used here is set on no message.
            SearchKey::Has(flag) => match keywords.set_of(flag) {
                Some(with) => Self::Flags { with, without: FlagSet::EMPTY },
                None => Self::None,
            },
            SearchKey::Lacks(flag) => match keywords.set_of(flag) {
                Some(without) => Self::Flags { with: FlagSet::EMPTY, without },
                None => Self::All,
            },
            SearchKey::Recent => Self::Recent,
            SearchKey::Old => Self::Not(Box::new(Self::Recent)),
            SearchKey::New => {
                let unseen = Self::Flags { with: FlagSet::EMPTY, without: FlagSet::SEEN };
                Self::And(vec![Self::Recent, unseen])
            }
            SearchKey::Seq(set) => Self::Seqs(selected.seqs(set, Numbering::Seq)?),
            SearchKey::Uid(set) => Self::Uids(selected.uid_set(set)),
            SearchKey::Subject(text) => Self::Subject(Text::new(text)),
            SearchKey::From(text) => Self::From(Text::new(text)),
            SearchKey::To(text) => Self::To(Text::new(text)),
            SearchKey::Cc(text) => Self::Cc(Text::new(text)),
            SearchKey::Bcc(text) => Self::Bcc(Text::new(text)),
            SearchKey::Header(name, text) => {
                Self::Header { mask: FieldMask::only([name]), text: Text::new(text), any: text.is_empty() }
            }
            SearchKey::Body(text) => Self::Body(Text::new(text)),
            SearchKey::Text(text) => Self::Text(Text::new(text)),
            SearchKey::Before(day) => Self::Arrived { from: i64::MIN, to: day.unix_days() * DAY_S },
            SearchKey::On(day) => {
                Self::Arrived { from: day.unix_days() * DAY_S, to: (day.unix_days() + 1) * DAY_S }
            }
            SearchKey::Since(day) => Self::Arrived { from: day.unix_days() * DAY_S, to: i64::MAX },
            SearchKey::SentBefore(day) => Self::Sent { from: i64::MIN, to: day.unix_days() },
            SearchKey::SentOn(day) => Self::Sent { from: day.unix_days(), to: day.unix_days() + 1 },
            SearchKey::SentSince(day) => Self::Sent { from: day.unix_days(), to: i64::MAX },
            SearchKey::SavedBefore(day) => Self::Saved { from: i64::MIN, to: day.unix_days() * DAY_S },
            SearchKey::SavedOn(day) => {
                Self::Saved { from: day.unix_days() * DAY_S, to: (day.unix_days() + 1) * DAY_S }
            }
            SearchKey::SavedSince(day) => Self::Saved { from: day.unix_days() * DAY_S, to: i64::MAX },
            SearchKey::Larger(size) => Self::Larger(*size),
            SearchKey::Smaller(size) => Self::Smaller(*size),
            // RFC 5032 §3: OLDER takes in the moment itself, YOUNGER does too.
            SearchKey::Older(seconds) => {
                Self::Arrived { from: i64::MIN, to: now.saturating_sub(i64::from(*seconds)) + 1 }
            }
            SearchKey::Younger(seconds) => {
                Self::Arrived { from: now.saturating_sub(i64::from(*seconds)), to: i64::MAX }
            }
            // One mod-sequence a message: the entry says nothing here (RFC 7162 §3.1.5).
            SearchKey::ModSeq { modseq, .. } => Self::ModSeq(*modseq),
            SearchKey::EmailId(id) => Id::parse(id).map_or(Self::None, |id| Self::Email(BodyId(id))),
            // There are no threads (RFC 8474 §5.2: NIL).
            SearchKey::ThreadId(_) => Self::None,
        })
    }

    /// The flags that every match has and lacks, as far as they can be told: lets the view skip whole chunks.
    pub(super) fn flags(&self) -> (FlagSet, FlagSet) {
        match self {
            Self::Flags { with, without } => (*with, *without),
            Self::And(all) => all
                .iter()
                .map(Self::flags)
                .fold((FlagSet::EMPTY, FlagSet::EMPTY), |a, b| (a.0.union(b.0), a.1.union(b.1))),
            _ => (FlagSet::EMPTY, FlagSet::EMPTY),
        }
    }

    /// The sequence numbers outside of which nothing matches; `None` if the key names none.
    pub(super) fn within(&self, selected: &Selected) -> Option<NumSet> {
        match self {
            Self::Seqs(seqs) => Some(seqs.clone()),
            Self::Uids(uids) => Some(selected.announced.seqs_of_uids(uids)),
            Self::And(all) => all.iter().filter_map(|c| c.within(selected)).reduce(|a, b| a.intersection(&b)),
            _ => None,
        }
    }

    /// Whether a message matches, from what is at hand of it.
    pub(super) fn asks(&self, message: Message<'_>, selected: &Selected) -> Answer {
        let row = message.row;
        let kept = |ask: &dyn Fn(Kept<'_>) -> bool| message.kept.map_or(Answer::Unknown, |k| ask(k).into());
        match self {
            Self::All => Answer::Yes,
            Self::None => Answer::No,
            Self::And(all) => all_of(all.iter().map(|c| c.asks(message, selected))),
            Self::Or(a, b) => match a.asks(message, selected) {
                Answer::Yes => Answer::Yes,
                first => match (first, b.asks(message, selected)) {
                    (_, Answer::Yes) => Answer::Yes,
                    (Answer::No, Answer::No) => Answer::No,
                    _ => Answer::Unknown,
                },
            },
            Self::Not(inner) => match inner.asks(message, selected) {
                Answer::Yes => Answer::No,
                Answer::No => Answer::Yes,
                Answer::Unknown => Answer::Unknown,
            },
            Self::Flags { with, without } => {
                let flags = row.flags();
                (flags.contains(*with) && flags.bits() & without.bits() == 0).into()
            }
            Self::Recent => selected.is_recent(row.uid()).into(),
            Self::Seqs(seqs) => seqs.contains(message.seq.value()).into(),
            Self::Uids(uids) => uids.contains(row.uid().value()).into(),
            Self::Arrived { from, to } => (*from..*to).contains(&i64::from(row.date())).into(),
            Self::Larger(size) => (u64::from(row.size()) > *size).into(),
            Self::Smaller(size) => (u64::from(row.size()) < *size).into(),
            Self::ModSeq(modseq) => (row.modseq() >= *modseq).into(),
            Self::Email(id) => kept(&|k| k.body == *id),
            Self::Saved { from, to } => kept(&|k| (*from..*to).contains(&k.saved)),
            Self::Sent { from, to } => kept(&|k| {
                // A message without a Date that can be read was sent when it arrived, as far as anyone knows.
                let arrived = i64::from(row.date()).div_euclid(DAY_S);
                let day = k.summary.sent().map_or(arrived, |sent| i64::from(sent.local_day));
                (*from..*to).contains(&day)
            }),
            Self::Subject(text) => kept(&|k| text.is_in(k.summary.subject_folded())),
            Self::From(text) => kept(&|k| text.is_in(k.summary.from_folded())),
            Self::To(text) => kept(&|k| text.is_in(k.summary.to_folded())),
            Self::Cc(text) => kept(&|k| text.is_in(k.summary.cc_folded())),
            Self::Bcc(text) => kept(&|k| text.is_in(k.summary.bcc_folded())),
            Self::Header { mask, text, any } => header(message, mask, text, *any),
            Self::Body(text) => opened(message, |bytes, summary| text.is_in_body(bytes, summary)),
            Self::Text(text) => opened(message, |bytes, summary| text.is_in_text(bytes, summary)),
        }
    }
}

/// Stops at the first `No`: what comes after it is not asked.
fn all_of(answers: impl Iterator<Item = Answer>) -> Answer {
    let mut all = Answer::Yes;
    for answer in answers {
        match answer {
            Answer::No => return Answer::No,
            Answer::Unknown => all = Answer::Unknown,
            Answer::Yes => {}
        }
    }
    all
}

/// What only the body tells.
fn opened(message: Message<'_>, ask: impl Fn(&[u8], &SummaryRef<'_>) -> bool) -> Answer {
    match (message.bytes, message.kept) {
        (Some(bytes), Some(kept)) => ask(bytes, &kept.summary).into(),
        _ => Answer::Unknown,
    }
}

/// RFC 9051 §6.4.4, HEADER: from the kept fields if the summary has them, else from the message.
fn header(message: Message<'_>, mask: &FieldMask, text: &Text, any: bool) -> Answer {
    let Some(kept) = message.kept else { return Answer::Unknown };
    if !kept.summary.needs_body(mask) {
        return kept.summary.field_values(mask).any(|value| any || text.is_in_field(value)).into();
    }
    let (Some(bytes), Some(header)) = (message.bytes, kept.summary.locate(&[], Section::Header)) else {
        return Answer::Unknown;
    };
    let mut fields = HeaderFields::new(bytes, header.span);
    fields.any(|f| mask.selects_name(f.name(bytes)) && (any || text.is_in_field(f.raw_value(bytes)))).into()
}
