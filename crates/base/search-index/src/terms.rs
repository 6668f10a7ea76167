//! The words of one message, each once: collected, and kept as its terms.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;

use crate::Scope;
use crate::query::{Query, SEPARATOR};
use crate::sort_keys::SortKeys;
use crate::words::Splitter;

/// Words of a message in one scope at most, and their bytes. A message with more is not split any
/// further: it may hold anything.
const WORDS_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 1 << 20;

/// Places of the table in which words are looked up, at the beginning: enough for 4 KiB of text.
const PLACES: usize = 4096;

/// Different words, numbered in the order in which they came.
#[derive(Debug, Clone)]
pub(crate) struct WordSet {
    /// A separator, and each word with one after it.
    bytes: Vec<u8>,
    /// The position where each word begins.
    starts: Vec<u32>,
    /// Numbers of words, plus 1; 0 for a free place. A word's place is found by its hash.
    table: Vec<u32>,
    /// Keyed, so that no sender can choose words with equal hashes.
    hasher: RandomState,
}

impl Default for WordSet {
    fn default() -> Self {
        let (bytes, table) = (vec![SEPARATOR], vec![0; PLACES]);
        Self { bytes, starts: Vec::new(), table, hasher: RandomState::default() }
    }
}

impl WordSet {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The word of this number.
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        let from = self.starts[number as usize] as usize;
        let next = self.starts.get(number as usize + 1).map_or(self.bytes.len(), |next| *next as usize);
        &self.bytes[from..next - 1]
    }

    /// The place where the search for a word begins. No two words are hashed one after the other,
    /// so the length need not be hashed.
    fn first_place(&self, word: &[u8], mask: usize) -> usize {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(word);
        hasher.finish() as usize & mask
    }

    /// Adds a word, unless it is there. Returns its number.
    pub(crate) fn add(&mut self, word: &[u8]) -> u32 {
        let mask = self.table.len() - 1;
        let mut place = self.first_place(word, mask);
        while self.table[place] != 0 {
            let number = self.table[place] - 1;
            if self.word(number) == word {
                return number;
            }
            place = (place + 1) & mask;
        }
        self.starts.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(word);
        self.bytes.push(SEPARATOR);
        let number = self.starts.len() as u32;
        self.table[place] = number;
        if self.starts.len() * 2 > self.table.len() {
            self.grow();
        }
        number - 1
    }

    fn grow(&mut self) {
        let mut table = vec![0_u32; self.table.len() * 2];
        let mask = table.len() - 1;
        for number in 0..self.starts.len() as u32 {
            let mut place = self.first_place(self.word(number), mask);
            while table[place] != 0 {
                place = (place + 1) & mask;
            }
            table[place] = number + 1;
        }
        self.table = table;
    }

    fn clear(&mut self) {
        self.bytes.truncate(1);
        self.bytes.shrink_to(BYTES_MAX / 16);
        self.starts.clear();
        self.starts.shrink_to(WORDS_MAX / 16);
        self.table.truncate(PLACES);
        self.table.shrink_to_fit();
        self.table.fill(0);
    }
}

/// The words of bytes that have separators before, between and after them.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> + '_ {
    let inner = bytes.get(1..).unwrap_or_default();
    inner.split(|byte| *byte == SEPARATOR).filter(|word| !word.is_empty())
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

    /// Adds a folded text that another one of the message repeats: its length does not count.
    pub fn add_repeated(&mut self, scope: Scope, text: &[u8]) {
        self.add_repeated_piece(scope, text);
        self.end_text(scope);
    }

    /// Adds a piece of a folded text. Pieces end between characters.
    pub fn add_piece(&mut self, scope: Scope, text: &[u8]) {
        if scope == Scope::Texts {
            self.text_bytes += text.len() as u64;
        }
        self.add_repeated_piece(scope, text);
    }

    /// Adds a piece of a text that another one of the message repeats.
    pub fn add_repeated_piece(&mut self, scope: Scope, text: &[u8]) {
        self.with(scope, |splitter, emit| splitter.add(text, emit));
    }

    /// The text ends: the next one begins with a word of its own.
    pub fn end_text(&mut self, scope: Scope) {
        self.with(scope, |splitter, emit| splitter.end(emit));
    }

    fn with(&mut self, scope: Scope, split: impl FnOnce(&mut Splitter, &mut dyn FnMut(&[u8]))) {
        if self.is_opaque {
            return;
        }
        let ([envelope, texts], [of_envelope, of_texts]) = (&mut self.sets, &mut self.splitters);
        let (set, splitter) =
            if scope == Scope::Envelope { (envelope, of_envelope) } else { (texts, of_texts) };
        let mut is_opaque = false;
        split(splitter, &mut |word| {
            if set.len() < WORDS_MAX && set.bytes.len() < BYTES_MAX {
                set.add(word);
            } else {
                is_opaque = true;
            }
        });
        self.is_opaque = is_opaque;
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
                self.sets.each_ref().map(|set| set.bytes.as_slice().into())
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
