//! SEARCH keys compiled: texts folded, days counted, names turned into masks. The compiled
//! criterion is evaluated for one message at a time and reads only the data that the key needs.
//!
//! An evaluation has three results. [`Evaluation::Unknown`] means that more of the message is
//! needed. The message is then evaluated with its summary, and with its body only if the summary
//! does not decide. So `UNSEEN SUBJECT "x" BODY "y"` opens only the bodies of unseen messages whose
//! subject matches.
//!
//! Keys that need a body are numbered ([`Question::texts`]). An open message is read once for all
//! of them, and then evaluated with the results.

use std::collections::HashSet;
use std::sync::Arc;

use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{SeqSet, SequenceSet, UidSet};
use posthaste_mail_model::{BodyId, FlagSet, Id, ModSeq, NumSet, SeqNum};
use posthaste_mime_summary::{EnvelopeText, FieldMask, SearchKey as Text, SummaryRef, TextKey, Within};
use posthaste_store::Row;

use super::fuzzy;
use super::weight::{compile_steps, exact_steps, field_steps, folded_steps};
use crate::command::gather::Source;
use crate::command::walk::{StoredMessage, Visited};
use crate::gmail;
use crate::gmail::attachments::PartCondition;
use crate::heavy::SLICE_STEPS;
use crate::offload::Threads;
use crate::reply::{Failure, Reply};
use crate::selected::{Numbered, Selected};
use crate::thread_id::ThreadId;

/// Seconds of a day.
const DAY_S: i64 = 86_400;

/// The known data of one message.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'m> {
    pub(super) seq: SeqNum,
    pub(super) row: &'m Row,
    /// The stored values other than the row, once they were read.
    pub(super) stored: Option<StoredMessage<'m>>,
    /// The [`Question::texts`] that occur in the message, once its body was searched.
    pub(super) texts: Option<&'m [bool]>,
}

/// Whether a message matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Evaluation {
    Yes,
    No,
    /// The given data does not decide.
    Unknown,
}

impl From<bool> for Evaluation {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

impl Evaluation {
    /// The result of NOT.
    #[inline]
    pub(super) const fn negated(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }

    /// The result of OR. The second one is computed if the first one does not decide.
    #[inline]
    pub(super) fn or(self, second: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Yes => Self::Yes,
            first => match (first, second()) {
                (_, Self::Yes) => Self::Yes,
                (Self::No, Self::No) => Self::No,
                _ => Self::Unknown,
            },
        }
    }
}

/// A search, compiled.
#[derive(Debug)]
pub(crate) struct Question {
    pub(super) criterion: Criterion,
    /// The keys searched in a message's body, or in a field that its summary lacks.
    pub(super) texts: Vec<TextKey>,
    /// Keys in all.
    pub(super) keys: u64,
    /// The keys that are looked for in folded texts.
    on_folded: u64,
    /// Those of them that are compared exactly, whatever the text is.
    on_exact: u64,
    /// The keys that are looked for in fields.
    on_fields: u64,
    /// Steps of looking a message up in sets, in addition to [`KEY_STEPS`] for each.
    set_steps: u64,
    /// Steps of an octet of the structure, for all keys that read it.
    on_structure: u64,
}

/// The parts of a message that may change and matter to a search.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// The flags, by the keyword table of the session's view.
    pub(crate) flags: FlagSet,
    /// The mod-sequence.
    pub(crate) modseq: bool,
}

/// Steps that a key takes per message.
pub(super) const KEY_STEPS: u64 = 16;

/// Steps of each bisection of a set of many ranges: it reads memory that is in no near cache.
const BISECTION_STEPS: u64 = 6;
/// Bisections that [`KEY_STEPS`] includes.
const BISECTIONS_MIN: u32 = 6;

impl Question {
    /// The parts of a row that the keys read, except what never changes.
    pub(crate) fn watched(&self) -> Watched {
        let mut watched = Watched::default();
        self.criterion.watch(&mut watched);
        watched
    }

    /// Keys that are looked for in texts.
    pub(super) const fn text_keys(&self) -> u64 {
        self.on_folded + self.texts.len() as u64
    }

    /// Steps of an evaluation with the row only.
    pub(super) const fn row_steps(&self) -> u64 {
        self.keys * KEY_STEPS + self.set_steps
    }

    /// Steps of an evaluation with this summary.
    #[inline]
    pub(super) fn summary_steps(&self, summary: &SummaryRef<'_>) -> u64 {
        let folded = if self.on_folded == 0 { 0 } else { self.on_folded * folded_steps(summary) };
        let exact = if self.on_exact == 0 { 0 } else { self.on_exact * exact_steps(summary) };
        let fields = if self.on_fields == 0 { 0 } else { self.on_fields * field_steps(summary) };
        let structure = self.on_structure * summary.body_structure().len() as u64;
        self.row_steps() + folded + exact + fields + structure
    }

    /// Whether an evaluation with the summary takes so long that another thread does it.
    #[inline]
    pub(super) fn is_long(&self, message: &Visited<'_>) -> bool {
        self.summary_steps(&message.stored.summary) > SLICE_STEPS
    }

    /// Whether a message matches, by its summary and the results of a search in its body.
    #[inline]
    pub(super) fn evaluate(&self, message: &Visited<'_>, texts: Option<&[bool]>) -> Evaluation {
        let &Visited { seq, row, stored } = message;
        self.criterion.evaluate(Candidate { seq, row, stored: Some(stored), texts })
    }

    /// Steps of a search through a body of this many bytes.
    pub(super) fn body_steps(&self, bytes: u64) -> u64 {
        bytes * (8 + self.texts.len() as u64)
    }

    /// Compiles a key for the messages in the session's view. `now` is in unix seconds.
    pub(crate) fn compile(key: &SearchKey, selected: &Selected, now: i64) -> Result<Self, Failure> {
        Compiler::of(&selected.numbered(), selected.recent.clone(), now).run(key)
    }

    /// The same, on another thread if the key is long.
    pub(crate) async fn compiled(source: Source<'_>, key: &SearchKey, now: i64) -> Result<Self, Failure> {
        let Source { service, account, selected } = source;
        let steps = compile_steps(key);
        if steps <= SLICE_STEPS {
            return Self::compile(key, selected, now);
        }
        let (key, numbered, recent) = (key.clone(), selected.numbered(), selected.recent.clone());
        let work = move || Compiler::of(&numbered, recent, now).run(&key);
        Threads { service, account }.run(steps, work).await?
    }
}

/// The inputs and results of compiling.
struct Compiler<'s> {
    numbered: &'s Numbered,
    /// The recent messages. A client may use them in each of its keys.
    recent: Arc<NumSet>,
    now: i64,
    texts: Vec<TextKey>,
    keys: u64,
    on_folded: u64,
    on_exact: u64,
    on_fields: u64,
    set_steps: u64,
    on_structure: u64,
    /// Whether the key is under FUZZY.
    is_approximate: bool,
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
    Recent(Arc<NumSet>),
    Seqs(Arc<NumSet<SeqNum>>),
    Uids(Arc<NumSet>),
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
    /// The field's text, with the number of its key, for messages whose summary lacks the field.
    Header {
        mask: FieldMask,
        text: Text,
        any: bool,
        number: usize,
    },
    /// The key of this number.
    Opened(usize),
    Email(BodyId),
    Thread(ThreadId),
    /// X-GM-MSGID
    GmMessage(u64),
    /// X-GM-THRID
    GmThread(u64),
    /// `has:attachment` and `filename:` of X-GM-RAW.
    Parts(PartCondition),
}

impl<'s> Compiler<'s> {
    fn of(numbered: &'s Numbered, recent: NumSet, now: i64) -> Self {
        Self {
            numbered,
            recent: Arc::new(recent),
            now,
            texts: Vec::new(),
            keys: 0,
            on_folded: 0,
            on_exact: 0,
            on_fields: 0,
            on_structure: 0,
            set_steps: 0,
            is_approximate: false,
        }
    }

    fn run(mut self, key: &SearchKey) -> Result<Question, Failure> {
        let criterion = self.key(key)?;
        let Self { texts, keys, on_folded, on_exact, on_fields, on_structure, set_steps, .. } = self;
        Ok(Question { criterion, texts, keys, on_folded, on_exact, on_fields, on_structure, set_steps })
    }

    /// All of these keys. A set that is named again, as `$` may be a thousand times, is taken once.
    fn all(&mut self, keys: &[SearchKey]) -> Result<Criterion, Failure> {
        let (mut all, mut known) = (Vec::with_capacity(keys.len()), HashSet::new());
        for key in keys {
            let (before, criterion) = (self.set_steps, self.key(key)?);
            if criterion.shared_set().is_none_or(|set| known.insert(set)) {
                all.push(criterion);
            } else {
                self.set_steps = before;
            }
        }
        Ok(Criterion::And(all))
    }

    fn set_of(&mut self, uids: Arc<NumSet>) -> Criterion {
        let bisections = uids.ranges().len().max(1).ilog2().saturating_sub(BISECTIONS_MIN);
        self.set_steps += u64::from(bisections) * BISECTION_STEPS;
        Criterion::Uids(uids)
    }

    /// Keys may be nested hundreds of levels deep, so this function has a small frame.
    fn key(&mut self, key: &SearchKey) -> Result<Criterion, Failure> {
        self.keys += 1;
        match key {
            SearchKey::And(keys) => self.all(keys),
            SearchKey::Or(a, b) => Ok(Criterion::Or(Box::new(self.key(a)?), Box::new(self.key(b)?))),
            SearchKey::Not(key) => Ok(Criterion::Not(Box::new(self.negated(key)?))),
            SearchKey::Fuzzy(key) => self.fuzzy(key),
            key => self.single(key),
        }
    }

    /// A key without others in it. The frame of this function has some 20 KiB in a build without
    /// optimisation.
    #[inline(never)]
    fn single(&mut self, key: &SearchKey) -> Result<Criterion, Failure> {
        use Criterion as C;
        let (numbered, now) = (self.numbered, self.now);
        let keywords = &numbered.view.head().keywords;
        Ok(match key {
            // `key` has these.
            SearchKey::And(_) | SearchKey::Or(..) | SearchKey::Not(_) | SearchKey::Fuzzy(_) => {
                self.key(key)?
            }
            SearchKey::All | SearchKey::SaveDateSupported => C::All,
            // A keyword that was never used in this mailbox is set on no message.
            SearchKey::Has(flag) => match keywords.set_of(flag) {
                Some(with) => C::Flags { with, without: FlagSet::EMPTY },
                None => C::None,
            },
            SearchKey::Lacks(flag) => match keywords.set_of(flag) {
                Some(without) => C::Flags { with: FlagSet::EMPTY, without },
                None => C::All,
            },
            SearchKey::Recent => C::Recent(Arc::clone(&self.recent)),
            SearchKey::Old => C::Not(Box::new(C::Recent(Arc::clone(&self.recent)))),
            SearchKey::New => {
                let unseen = C::Flags { with: FlagSet::EMPTY, without: FlagSet::SEEN };
                C::And(vec![C::Recent(Arc::clone(&self.recent)), unseen])
            }
            // `annotate::search` has replaced those of this mailbox.
            SearchKey::Annotation(_) => {
                return Err(Reply::no(Code::Cannot, "Annotations cannot be searched here").into());
            }
            // `filters` has replaced those that are defined.
            SearchKey::Filter(name) => {
                let code = Code::UndefinedFilter(name.clone());
                return Err(Reply::no(code, "The filter is not defined").into());
            }
            SearchKey::Seq(set) => self.seqs(set),
            SearchKey::Uid(set) => self.uids(set),
            // RFC 9738 §3.2
            SearchKey::UidAfter(uid) => C::Uids(Arc::new(match uid.value().checked_add(1) {
                Some(next) => NumSet::range(next, u32::MAX),
                None => NumSet::new(),
            })),
            SearchKey::UidBefore(uid) => C::Uids(Arc::new(match uid.value() - 1 {
                0 => NumSet::new(),
                last => NumSet::range(1, last),
            })),
            // RFC 9051 §6.4.4: a message without the field has no text there, not even the empty
            // one.
            SearchKey::Subject(text) if text.is_empty() => self.has_field("Subject")?,
            SearchKey::From(text) if text.is_empty() => self.has_field("From")?,
            SearchKey::To(text) if text.is_empty() => self.has_field("To")?,
            SearchKey::Cc(text) if text.is_empty() => self.has_field("Cc")?,
            SearchKey::Bcc(text) if text.is_empty() => self.has_field("Bcc")?,
            SearchKey::Subject(text) => C::Subject(self.on_folded(text)),
            SearchKey::From(text) => C::From(self.on_folded(text)),
            SearchKey::To(text) => C::To(self.on_folded(text)),
            SearchKey::Cc(text) => C::Cc(self.on_folded(text)),
            SearchKey::Bcc(text) => C::Bcc(self.on_folded(text)),
            SearchKey::Header(name, text) => {
                self.on_fields += 1;
                let (mask, key) = (FieldMask::only([name]), self.text(text));
                let number = self.opened(key.clone(), Within::Fields(mask.clone()));
                C::Header { mask, text: key, any: text.is_empty(), number }
            }
            SearchKey::Body(text) => C::Opened(self.opened(self.text(text), Within::Body)),
            SearchKey::Text(text) => C::Opened(self.opened(self.text(text), Within::Text)),
            SearchKey::Before(day) => C::Arrived { from: i64::MIN, to: day.unix_days() * DAY_S },
            SearchKey::On(day) => {
                C::Arrived { from: day.unix_days() * DAY_S, to: (day.unix_days() + 1) * DAY_S }
            }
            SearchKey::Since(day) => C::Arrived { from: day.unix_days() * DAY_S, to: i64::MAX },
            SearchKey::SentBefore(day) => C::Sent { from: i64::MIN, to: day.unix_days() },
            SearchKey::SentOn(day) => C::Sent { from: day.unix_days(), to: day.unix_days() + 1 },
            SearchKey::SentSince(day) => C::Sent { from: day.unix_days(), to: i64::MAX },
            SearchKey::SavedBefore(day) => C::Saved { from: i64::MIN, to: day.unix_days() * DAY_S },
            SearchKey::SavedOn(day) => {
                C::Saved { from: day.unix_days() * DAY_S, to: (day.unix_days() + 1) * DAY_S }
            }
            SearchKey::SavedSince(day) => C::Saved { from: day.unix_days() * DAY_S, to: i64::MAX },
            SearchKey::Larger(size) => C::Larger(*size),
            SearchKey::Smaller(size) => C::Smaller(*size),
            // RFC 5032 §3: OLDER includes the moment itself, and so does YOUNGER.
            SearchKey::Older(seconds) => {
                C::Arrived { from: i64::MIN, to: now.saturating_sub(i64::from(*seconds)) + 1 }
            }
            SearchKey::Younger(seconds) => {
                C::Arrived { from: now.saturating_sub(i64::from(*seconds)), to: i64::MAX }
            }
            // A message has one mod-sequence, so the entry name is ignored (RFC 7162 §3.1.5).
            SearchKey::ModSeq { modseq, .. } => C::ModSeq(*modseq),
            SearchKey::EmailId(id) => Id::parse(id).map_or(C::None, |id| C::Email(BodyId(id))),
            // RFC 8474 §5.3
            SearchKey::GmMessageId(number) => C::GmMessage(*number),
            SearchKey::GmThreadId(number) => C::GmThread(*number),
            // `gmail::search` has replaced labels, and all terms of a query except this one.
            SearchKey::GmLabel(_) => {
                return Err(Reply::no(Code::Cannot, "Labels cannot be searched here").into());
            }
            SearchKey::GmRaw(condition) => {
                let condition = PartCondition::of_key(condition);
                self.parts(condition)
            }
            SearchKey::ThreadId(id) => ThreadId::parse(id).map_or(C::None, C::Thread),
        })
    }

    /// RFC 6203 §3: under NOT nothing is approximate.
    fn negated(&mut self, key: &SearchKey) -> Result<Criterion, Failure> {
        let was = std::mem::take(&mut self.is_approximate);
        let key = self.key(key);
        self.is_approximate = was;
        key
    }

    fn fuzzy(&mut self, key: &SearchKey) -> Result<Criterion, Failure> {
        let was = std::mem::replace(&mut self.is_approximate, true);
        let key = self.key(&fuzzy::relaxed(key, fuzzy::Level::Stems))?;
        self.is_approximate = was;
        fuzzy::check(self.keys)?;
        Ok(key)
    }

    fn parts(&mut self, condition: PartCondition) -> Criterion {
        self.on_structure += condition.octet_steps();
        Criterion::Parts(condition)
    }

    fn on_folded(&mut self, text: &str) -> Text {
        let text = self.text(text);
        self.on_folded += 1;
        self.on_exact += u64::from(!text.is_plain());
        text
    }

    fn text(&self, text: &str) -> Text {
        if self.is_approximate { Text::approximate(text) } else { Text::new(text) }
    }

    fn opened(&mut self, key: Text, within: Within) -> usize {
        self.texts.push(TextKey { key, within });
        self.texts.len() - 1
    }

    /// RFC 5182 §2.1: `$` names messages, in whichever numbering. It may have half as many ranges
    /// as the mailbox has messages, so it is not copied.
    fn saved(&mut self) -> Criterion {
        self.set_of(self.numbered.saved.shared())
    }

    fn has_field(&mut self, name: &str) -> Result<Criterion, Failure> {
        self.key(&SearchKey::Header(name.to_owned(), String::new()))
    }

    fn seqs(&mut self, set: &SeqSet) -> Criterion {
        // A number beyond the mailbox matches nothing: clients rely on it, and RFC 9051 §9
        // leaves the choice.
        let seqs = set.resolve(self.numbered.view.exists());
        // `$` is kept as UIDs.
        match (set.0.has_saved(), seqs.is_empty()) {
            (false, _) => Criterion::Seqs(Arc::new(seqs)),
            (true, true) => self.saved(),
            (true, false) => self.or_saved(Criterion::Seqs(Arc::new(seqs))),
        }
    }

    fn uids(&mut self, set: &UidSet) -> Criterion {
        match &set.0 {
            SequenceSet::Saved(ranges) if ranges.is_empty() => self.saved(),
            SequenceSet::Saved(ranges) => {
                let named = UidSet(SequenceSet::Ranges(ranges.clone()));
                let named = self.set_of(Arc::new(self.numbered.uids_of(&named)));
                self.or_saved(named)
            }
            SequenceSet::Ranges(_) => self.set_of(Arc::new(self.numbered.uids_of(set))),
        }
    }

    /// Messages that are named together with `$`. A client may do so in each of its keys.
    fn or_saved(&mut self, named: Criterion) -> Criterion {
        self.keys += 1;
        Criterion::Or(Box::new(named), Box::new(self.saved()))
    }
}

impl Criterion {
    /// Whether a message matches, by the data given.
    pub(super) fn evaluate(&self, message: Candidate<'_>) -> Evaluation {
        let row = message.row;
        let stored = |ask: &dyn Fn(StoredMessage<'_>) -> bool| {
            message.stored.map_or(Evaluation::Unknown, |s| ask(s).into())
        };
        match self {
            Self::All => Evaluation::Yes,
            Self::None => Evaluation::No,
            Self::And(all) => all_of(all.iter().map(|c| c.evaluate(message))),
            Self::Or(a, b) => a.evaluate(message).or(|| b.evaluate(message)),
            Self::Not(inner) => inner.evaluate(message).negated(),
            Self::Flags { with, without } => {
                let flags = row.flags();
                (flags.contains(*with) && flags.bits() & without.bits() == 0).into()
            }
            Self::Recent(recent) => recent.contains(row.uid().value()).into(),
            Self::Seqs(seqs) => seqs.contains(message.seq.value()).into(),
            Self::Uids(uids) => uids.contains(row.uid().value()).into(),
            Self::Arrived { from, to } => (*from..*to).contains(&i64::from(row.date())).into(),
            // Its size is in its summary: the walk puts it into the row.
            Self::Larger(_) | Self::Smaller(_) if row.lacks_items() => Evaluation::Unknown,
            Self::Larger(size) => (u64::from(row.size()) > *size).into(),
            Self::Smaller(size) => (u64::from(row.size()) < *size).into(),
            Self::ModSeq(modseq) => (row.modseq() >= *modseq).into(),
            Self::Email(id) => stored(&|s| s.body == *id),
            Self::GmMessage(number) => stored(&|s| gmail::message_number(s.body) == *number),
            Self::GmThread(number) => {
                stored(&|s| gmail::thread_number(ThreadId::of(&s.summary, s.body)) == *number)
            }
            Self::Thread(id) => stored(&|s| ThreadId::of(&s.summary, s.body) == *id),
            Self::Saved { from, to } => stored(&|s| (*from..*to).contains(&s.saved)),
            Self::Sent { from, to } => stored(&|s| {
                // A message without a readable Date counts as sent when it arrived.
                let arrived = i64::from(row.date()).div_euclid(DAY_S);
                let day = s.summary.sent().map_or(arrived, |sent| i64::from(sent.local_day));
                (*from..*to).contains(&day)
            }),
            Self::Subject(text) => stored(&|s| text.is_in_envelope(EnvelopeText::Subject, &s.summary)),
            Self::From(text) => stored(&|s| text.is_in_envelope(EnvelopeText::From, &s.summary)),
            Self::To(text) => stored(&|s| text.is_in_envelope(EnvelopeText::To, &s.summary)),
            Self::Cc(text) => stored(&|s| text.is_in_envelope(EnvelopeText::Cc, &s.summary)),
            Self::Bcc(text) => stored(&|s| text.is_in_envelope(EnvelopeText::Bcc, &s.summary)),
            Self::Parts(condition) => stored(&|s| condition.holds(s.summary.body_structure())),
            Self::Header { mask, text, any, number } => header(message, mask, text, *any, *number),
            Self::Opened(number) => opened(message, *number),
        }
    }
}

/// Stops at the first `No`; the rest is not evaluated.
pub(super) fn all_of(answers: impl Iterator<Item = Evaluation>) -> Evaluation {
    let mut all = Evaluation::Yes;
    for answer in answers {
        match answer {
            Evaluation::No => return Evaluation::No,
            Evaluation::Unknown => all = Evaluation::Unknown,
            Evaluation::Yes => {}
        }
    }
    all
}

/// The answer of a key that needs the body.
fn opened(message: Candidate<'_>, number: usize) -> Evaluation {
    let found = message.texts.and_then(|texts| texts.get(number));
    found.map_or(Evaluation::Unknown, |found| (*found).into())
}

/// RFC 9051 §6.4.4, HEADER: from the stored fields if the summary has them, else from the message.
fn header(message: Candidate<'_>, mask: &FieldMask, text: &Text, any: bool, number: usize) -> Evaluation {
    let Some(stored) = message.stored else { return Evaluation::Unknown };
    if stored.summary.needs_body(mask) {
        return opened(message, number);
    }
    stored.summary.field_values(mask).any(|value| any || text.is_in_field(value)).into()
}
