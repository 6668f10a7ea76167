//! The words of one message, each once: collected, and kept as its terms.

use crate::Scope;
use crate::query::Query;
use crate::sort_keys::SortKeys;
use crate::word_set::{SEPARATOR, Word, WordSet};
use crate::words::{Splitter, WordSink};

/// Words of a message in one scope at most, and their bytes. A message with more is not split any
/// further: it may hold anything.
const WORDS_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 1 << 20;

/// Takes the words of a text, up to the bounds.
struct Sink<'s> {
    set: &'s mut WordSet,
    /// Whether a word was not taken.
    is_over: bool,
}

impl WordSink for Sink<'_> {
    #[inline]
    fn word(&mut self, word: Word<'_>) {
        if self.set.len() < WORDS_MAX && self.set.bytes().len() < BYTES_MAX {
            self.set.add(word);
        } else {
            self.is_over = true;
        }
    }
}

/// Collects the words of a message. It is used for one message after the other.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    sets: [WordSet; 2],
    splitters: [Splitter; 2],
    text_bytes: u64,
    is_opaque: bool,
    sort_keys: Option<Box<[u8]>>,
}

impl Collector {
    /// Takes the message's keys of SORT and THREAD. Values that are too long are left out.
    pub fn set_sort_keys(&mut self, keys: &SortKeys<'_>) {
        self.sort_keys = keys.pack();
    }

    /// Adds a folded text.
    pub fn add(&mut self, scope: Scope, text: &[u8]) {
        self.add_piece(scope, text);
        self.end_text(scope);
    }

    /// Adds a piece of a folded text. Pieces end between characters.
    pub fn add_piece(&mut self, scope: Scope, text: &[u8]) {
        if scope == Scope::Texts {
            self.text_bytes += text.len() as u64;
        }
        self.add_repeated_piece(scope, text);
    }

    /// Adds a piece of a text that another one of the message repeats: its length does not count.
    pub fn add_repeated_piece(&mut self, scope: Scope, text: &[u8]) {
        self.with(scope, |splitter, sink| splitter.add(text, sink));
    }

    /// The text ends: the next one begins with a word of its own.
    pub fn end_text(&mut self, scope: Scope) {
        self.with(scope, |splitter, sink| splitter.end(sink));
    }

    fn with(&mut self, scope: Scope, split: impl FnOnce(&mut Splitter, &mut Sink<'_>)) {
        if self.is_opaque {
            return;
        }
        let ([envelope, texts], [of_envelope, of_texts]) = (&mut self.sets, &mut self.splitters);
        let (set, splitter) =
            if scope == Scope::Envelope { (envelope, of_envelope) } else { (texts, of_texts) };
        let mut sink = Sink { set, is_over: false };
        split(splitter, &mut sink);
        self.is_opaque = sink.is_over;
    }

    /// The number of different words that were added.
    pub fn count(&self) -> usize {
        self.sets.iter().map(WordSet::len).sum()
    }

    /// Ends the message: its terms. The next message begins.
    pub fn finish(&mut self) -> Terms {
        // A text that was not ended ends here.
        Scope::ALL.into_iter().for_each(|scope| self.end_text(scope));
        let terms = Terms {
            words: if self.is_opaque {
                [[SEPARATOR].into(), [SEPARATOR].into()]
            } else {
                self.sets.each_ref().map(|set| set.bytes().into())
            },
            count: if self.is_opaque { 0 } else { self.count() },
            text_bytes: std::mem::take(&mut self.text_bytes),
            is_opaque: std::mem::take(&mut self.is_opaque),
            sort_keys: self.sort_keys.take(),
        };
        self.sets.iter_mut().for_each(WordSet::clear);
        self.splitters = Default::default();
        terms
    }
}

/// The terms of one message for the index: its words, how long its text is, and its sort keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// By scope, with separators before, between and after them.
    words: [Box<[u8]>; 2],
    count: usize,
    text_bytes: u64,
    /// There are too many words: it may hold anything.
    is_opaque: bool,
    /// The keys of SORT and THREAD, packed.
    sort_keys: Option<Box<[u8]>>,
}

impl Terms {
    /// Whether the message may match a query: it does not if this is false.
    pub fn may_match(&self, query: &Query) -> bool {
        self.is_opaque || {
            let words = self.words(query.scope());
            query.needles().iter().all(|needle| needle.find(words).is_some())
        }
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.sort_keys.as_ref().map_or(0, |keys| keys.len());
        std::mem::size_of::<Self>() + keys + self.words.iter().map(|words| words.len()).sum::<usize>()
    }

    /// The number of its words.
    pub fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn words(&self, scope: Scope) -> &[u8] {
        let [envelope, texts] = &self.words;
        if scope == Scope::Envelope { envelope } else { texts }
    }

    pub(crate) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    pub(crate) fn sort_keys(&self) -> Option<SortKeys<'_>> {
        SortKeys::unpack(self.sort_keys.as_ref()?)
    }

    pub(crate) fn is_opaque(&self) -> bool {
        self.is_opaque
    }
}
