//! The compiled form of a script: commands and tests with everything decided that can be decided
//! before a message comes. Tags are fields, names of headers are in lower case, constant keys are
//! patterns, names of variables are numbers.

use crate::error::Position;
use crate::matching::{Comparator, MatchKind, Pattern};
use crate::text::{Text, Variable};

/// Commands in their order.
pub(crate) type Block = Box<[PlacedCommand]>;

/// One command and its position.
#[derive(Debug, Clone)]
pub(crate) struct PlacedCommand {
    pub(crate) place: Position,
    pub(crate) op: Op,
}

/// A list of strings.
pub(crate) type Texts = Box<[Text]>;

/// A command.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// Branches of if and elsif, then else.
    If(Box<[(Test, Block)]>, Block),
    Stop,
    Discard,
    Keep(Option<Texts>),
    FileInto(Box<FileInto>),
    Redirect {
        address: Text,
        copy: bool,
    },
    Reject {
        reason: Text,
        is_strict: bool,
    },
    Set {
        variable: Variable,
        modifiers: Box<[Modifier]>,
        value: Text,
    },
    Flags {
        change: FlagChange,
        variable: Option<Variable>,
        flags: Texts,
    },
    Vacation(Box<Vacation>),
    Notify(Box<Notify>),
    AddHeader {
        name: Text,
        value: Text,
        last: bool,
    },
    DeleteHeader(Box<DeleteHeader>),
    Include(Box<Include>),
    Return,
    ForEveryPart {
        name: Option<Box<str>>,
        block: Block,
    },
    Break(Option<Box<str>>),
    ExtractText {
        variable: Variable,
        modifiers: Box<[Modifier]>,
        first: Option<u64>,
    },
    Error(Text),
}

#[derive(Debug, Clone)]
pub(crate) struct FileInto {
    pub(crate) mailbox: Text,
    pub(crate) options: FileOptions,
    pub(crate) copy: bool,
}

/// The options that `fileinto` and `:fcc` share.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileOptions {
    pub(crate) flags: Option<Texts>,
    pub(crate) create: bool,
    pub(crate) mailbox_id: Option<Text>,
    pub(crate) special_use: Option<Text>,
}

/// `:fcc`. RFC 8580 §3.
#[derive(Debug, Clone)]
pub(crate) struct Fcc {
    pub(crate) mailbox: Text,
    pub(crate) options: FileOptions,
}

/// The modifiers in the order of their precedence, highest first (RFC 5229 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Modifier {
    Lower,
    Upper,
    LowerFirst,
    UpperFirst,
    QuoteWildcard,
    QuoteRegex,
    EncodeUrl,
    Length,
}

impl Modifier {
    /// RFC 5229 §4.1: of one precedence, only one may be used.
    pub(crate) const fn precedence(self) -> u8 {
        match self {
            Modifier::Lower | Modifier::Upper => 40,
            Modifier::LowerFirst | Modifier::UpperFirst => 30,
            Modifier::QuoteWildcard | Modifier::QuoteRegex => 20,
            Modifier::EncodeUrl => 15,
            Modifier::Length => 10,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagChange {
    Set,
    Add,
    Remove,
}

#[derive(Debug, Clone)]
pub(crate) struct Vacation {
    pub(crate) seconds: Option<u64>,
    pub(crate) subject: Option<Text>,
    pub(crate) from: Option<Text>,
    pub(crate) addresses: Texts,
    pub(crate) mime: bool,
    pub(crate) handle: Option<Text>,
    pub(crate) reason: Text,
    pub(crate) fcc: Option<Fcc>,
}

#[derive(Debug, Clone)]
pub(crate) struct Notify {
    pub(crate) from: Option<Text>,
    pub(crate) importance: Option<Text>,
    pub(crate) options: Texts,
    pub(crate) message: Option<Text>,
    pub(crate) method: Text,
    pub(crate) fcc: Option<Fcc>,
}

#[derive(Debug, Clone)]
pub(crate) struct DeleteHeader {
    pub(crate) index: Option<Index>,
    pub(crate) matcher: Matcher,
    pub(crate) name: Text,
    /// `None` means every value.
    pub(crate) values: Option<Keys>,
}

#[derive(Debug, Clone)]
pub(crate) struct Include {
    pub(crate) name: Box<str>,
    pub(crate) is_global: bool,
    pub(crate) once: bool,
    pub(crate) optional: bool,
}

/// `:index` with `:last`: counts from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) number: u64,
    pub(crate) from_end: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Matcher {
    pub(crate) kind: MatchKind,
    pub(crate) comparator: Comparator,
}

/// The keys of a test, compiled where they are constant.
#[derive(Debug, Clone)]
pub(crate) struct Keys(pub(crate) Box<[Key]>);

#[derive(Debug, Clone)]
pub(crate) enum Key {
    Ready(Pattern),
    Later(Text),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressPart {
    All,
    LocalPart,
    Domain,
    /// RFC 5233.
    User,
    Detail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnvelopePart {
    From,
    To,
}

/// The options of `:mime`. RFC 5703 §4.
#[derive(Debug, Clone)]
pub(crate) struct Mime {
    pub(crate) any_child: bool,
    pub(crate) option: MimeOption,
}

#[derive(Debug, Clone)]
pub(crate) enum MimeOption {
    Whole,
    Type,
    Subtype,
    ContentType,
    Param(Texts),
}

#[derive(Debug, Clone)]
pub(crate) enum Transform {
    Raw,
    Text,
    Content(Texts),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatePart {
    Year,
    Month,
    Day,
    Date,
    Julian,
    Hour,
    Minute,
    Second,
    Time,
    Iso8601,
    Std11,
    Zone,
    Weekday,
}

#[derive(Debug, Clone)]
pub(crate) enum Zone {
    Local,
    Original,
    Given(Text),
}

/// A test.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    Constant(bool),
    Not(Box<Test>),
    AllOf(Box<[Test]>),
    AnyOf(Box<[Test]>),
    /// Everything with a key list.
    Compare(Box<Compare>),
    Exists {
        names: Texts,
        mime: Option<Mime>,
    },
    Size {
        over: bool,
        limit: u64,
    },
    Duplicate(Box<Duplicate>),
    ValidNotifyMethod(Texts),
    MailboxExists(Texts),
    MailboxIdExists(Texts),
    SpecialUseExists {
        mailbox: Option<Text>,
        flags: Texts,
    },
    MetadataExists {
        mailbox: Option<Text>,
        annotations: Texts,
    },
}

/// A test that compares values with keys.
#[derive(Debug, Clone)]
pub(crate) struct Compare {
    pub(crate) what: Subject,
    pub(crate) matcher: Matcher,
    pub(crate) keys: Keys,
}

/// The source of the values.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Header { names: Texts, index: Option<Index>, mime: Option<Mime> },
    Address { names: Texts, part: AddressPart, index: Option<Index>, mime: Option<Mime> },
    Envelope { parts: Box<[EnvelopePart]>, part: AddressPart },
    String(Texts),
    HasFlag(Box<[Variable]>),
    Body(Transform),
    Date { header: Text, index: Option<Index>, zone: Zone, part: DatePart },
    CurrentDate { zone: Zone, part: DatePart },
    Environment(Text),
    NotifyCapability { method: Text, capability: Text },
    Metadata { mailbox: Option<Text>, annotation: Text },
}

#[derive(Debug, Clone)]
pub(crate) struct Duplicate {
    pub(crate) handle: Option<Text>,
    pub(crate) source: DuplicateSource,
    pub(crate) seconds: Option<u64>,
    pub(crate) last: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum DuplicateSource {
    MessageId,
    Header(Text),
    UniqueId(Text),
}
