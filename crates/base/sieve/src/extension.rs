//! The names that `require` takes.

use std::fmt;

macro_rules! extensions {
    ($($variant:ident $name:literal $rfc:literal,)*) => {
        /// The names that a script may require.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Extension { $(#[doc = $rfc] $variant,)* }

        impl Extension {
            /// The extensions that exist.
            pub const ALL: &[Extension] = &[$(Extension::$variant,)*];

            /// The extension's name in `require`.
            pub const fn name(self) -> &'static str {
                match self { $(Extension::$variant => $name,)* }
            }
        }
    };
}

extensions! {
    Fileinto "fileinto" "RFC 5228 §4.1",
    Envelope "envelope" "RFC 5228 §5.4",
    EncodedCharacter "encoded-character" "RFC 5228 §2.4.2.4",
    ComparatorOctet "comparator-i;octet" "RFC 5228 §2.7.3",
    ComparatorAsciiCasemap "comparator-i;ascii-casemap" "RFC 5228 §2.7.3",
    ComparatorAsciiNumeric "comparator-i;ascii-numeric" "RFC 4790 §9.1",
    ComparatorUnicodeCasemap "comparator-i;unicode-casemap" "RFC 5051",
    Copy "copy" "RFC 3894",
    Variables "variables" "RFC 5229",
    Vacation "vacation" "RFC 5230",
    VacationSeconds "vacation-seconds" "RFC 6131",
    Relational "relational" "RFC 5231",
    Imap4Flags "imap4flags" "RFC 5232",
    Subaddress "subaddress" "RFC 5233",
    Body "body" "RFC 5173",
    Date "date" "RFC 5260",
    Index "index" "RFC 5260 §6",
    EditHeader "editheader" "RFC 5293",
    Reject "reject" "RFC 5429",
    Ereject "ereject" "RFC 5429",
    Enotify "enotify" "RFC 5435",
    Ihave "ihave" "RFC 5463",
    Mailbox "mailbox" "RFC 5490",
    MboxMetadata "mboxmetadata" "RFC 5490",
    ServerMetadata "servermetadata" "RFC 5490",
    MailboxId "mailboxid" "RFC 9042",
    SpecialUse "special-use" "RFC 8579",
    ForEveryPart "foreverypart" "RFC 5703 §3",
    Mime "mime" "RFC 5703 §4",
    ExtractText "extracttext" "RFC 5703 §7",
    Include "include" "RFC 6609",
    Duplicate "duplicate" "RFC 7352",
    Fcc "fcc" "RFC 8580",
    Regex "regex" "draft-ietf-sieve-regex",
    Environment "environment" "RFC 5183",
    ImapSieve "imapsieve" "RFC 6785",
}

impl Extension {
    /// The extension of this name; names are case-sensitive.
    pub fn named(name: &str) -> Option<Extension> {
        Extension::ALL.iter().copied().find(|extension| extension.name() == name)
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtensionSet(u64);

impl ExtensionSet {
    /// The set without an extension.
    pub const EMPTY: ExtensionSet = ExtensionSet(0);

    /// The set of all extensions that this crate has.
    pub fn all() -> Self {
        Extension::ALL.iter().copied().collect()
    }

    /// Whether it is among them.
    pub const fn has(self, extension: Extension) -> bool {
        self.0 & (1 << extension as u32) != 0
    }

    /// Puts one in.
    pub const fn insert(&mut self, extension: Extension) {
        self.0 |= 1 << extension as u32;
    }

    /// The set without one extension.
    pub const fn without(self, extension: Extension) -> Self {
        ExtensionSet(self.0 & !(1 << extension as u32))
    }

    /// The set's members, in the order of [`Extension::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Extension> {
        Extension::ALL.iter().copied().filter(move |extension| self.has(*extension))
    }
}

impl FromIterator<Extension> for ExtensionSet {
    fn from_iter<I: IntoIterator<Item = Extension>>(extensions: I) -> Self {
        let mut set = ExtensionSet::EMPTY;
        extensions.into_iter().for_each(|extension| set.insert(extension));
        set
    }
}
