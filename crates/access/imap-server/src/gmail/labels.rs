//! Labels of Gmail, and what they are here.
//!
//! With Gmail, a label is a mailbox that also holds the message. To know those mailboxes, the
//! store would need an index of mailboxes by body. Each commit would update it, and every FETCH of
//! labels would look it up. So here a label is a flag or a keyword of the message:
//!
//! | label | here |
//! | --- | --- |
//! | `\Starred`, `\Draft` | the flags `\Flagged`, `\Draft` |
//! | `\Important`, `\Muted` | the keywords `$Important`, `$Muted` |
//! | `\Inbox`, `\Sent`, `\Trash`, `\Spam`, `\All`, `\Archive` | the mailbox with that use |
//! | any other text | a keyword |
//!
//! The keyword of a text is the text itself. Octets that an atom cannot hold are written as `=`
//! and two hexadecimal digits for each byte: `two words` is the keyword `two=20words`. Base64 as
//! in modified UTF-7 would not do, because keywords have no case.
//!
//! A message has the label of its mailbox. As with Gmail, FETCH leaves it out. No STORE changes
//! it: COPY and MOVE do.

use std::borrow::Cow;

use posthaste_imap_codec::{MailboxArg, NameEncoding, print, utf7};
use posthaste_mail_model::{Flag, FlagSet, Keyword, KeywordError, KeywordTable};
use posthaste_store::{MailboxEntry, SpecialUse};

/// Labels that are keywords by another name. The first one is of RFC 8457.
const RENAMED: [(&str, &str); 2] = [("\\Important", "$Important"), ("\\Muted", "$Muted")];

/// A label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Label {
    /// A flag of the message.
    Flag(Flag),
    /// The mailbox of the message.
    Mailbox(LabelledMailbox),
}

/// A mailbox that Gmail has a label of its own for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LabelledMailbox {
    Inbox,
    Use(SpecialUse),
}

impl LabelledMailbox {
    /// The mailbox with this name at Gmail, in lower case and without the backslash.
    pub(super) fn named(word: &str) -> Option<Self> {
        Some(match word {
            "inbox" => Self::Inbox,
            "sent" => Self::Use(SpecialUse::Sent),
            "trash" => Self::Use(SpecialUse::Trash),
            "spam" | "junk" => Self::Use(SpecialUse::Junk),
            "all" | "allmail" => Self::Use(SpecialUse::All),
            "archive" => Self::Use(SpecialUse::Archive),
            _ => return None,
        })
    }

    /// Whether it is this mailbox.
    pub(crate) fn is(self, mailbox: &MailboxEntry) -> bool {
        match self {
            Self::Inbox => mailbox.name.is_inbox(),
            Self::Use(special_use) => mailbox.special_use == Some(special_use),
        }
    }
}

/// The text of a label as the client sent it: in modified UTF-7, as names of mailboxes, until
/// names are in UTF-8. `None` if it is no modified UTF-7.
pub(crate) fn decoded(sent: &str, names: NameEncoding) -> Option<String> {
    match names {
        NameEncoding::Utf7 => utf7::decode(sent.as_bytes()).ok(),
        NameEncoding::Utf8 => Some(sent.to_owned()),
    }
}

/// The label of a text, or why it is not a label.
pub(crate) fn label_of(text: &str) -> Result<Label, String> {
    let Some(name) = text.strip_prefix('\\') else {
        let why = |error| match error {
            KeywordError::NotAnAtom => "A label has at least one character".to_owned(),
            _ => format!("The label {text} is too long: its keyword has over 128 bytes"),
        };
        return Ok(Label::Flag(Flag::Keyword(Keyword::new(&keyword_text(text)).map_err(why)?)));
    };
    let name = name.to_ascii_lowercase();
    if let Some(place) = LabelledMailbox::named(&name) {
        return Ok(Label::Mailbox(place));
    }
    match name.as_str() {
        "starred" => return Ok(Label::Flag(Flag::Flagged)),
        "draft" | "drafts" => return Ok(Label::Flag(Flag::Draft)),
        _ => {}
    }
    let renamed = RENAMED.iter().find(|(label, _)| label.eq_ignore_ascii_case(text));
    let keyword = renamed.and_then(|(_, keyword)| Keyword::new(keyword).ok());
    keyword
        .map(|keyword| Label::Flag(Flag::Keyword(keyword)))
        .ok_or_else(|| format!("There is no label {text}"))
}

/// Appends `(\Starred work "two words")`.
pub(crate) fn print_labels(out: &mut Vec<u8>, table: &KeywordTable, flags: FlagSet, names: NameEncoding) {
    out.push(b'(');
    let start = out.len();
    for flag in table.flags_of(flags) {
        let Some(label) = text_of(&flag) else { continue };
        if out.len() > start {
            out.push(b' ');
        }
        match label.strip_prefix('\\') {
            Some(_) => out.extend_from_slice(label.as_bytes()),
            None => print::mailbox(out, &MailboxArg::from_text(&label), names),
        }
    }
    out.push(b')');
}

/// The flags of a table that are labels.
pub(crate) fn labels_of(table: &KeywordTable, flags: FlagSet) -> Vec<Flag> {
    table.flags_of(flags).filter(|flag| text_of(flag).is_some()).collect()
}

/// The label for a flag, if the flag is a label.
pub(super) fn text_of(flag: &Flag) -> Option<Cow<'_, str>> {
    Some(match flag {
        Flag::Flagged => "\\Starred".into(),
        Flag::Draft => "\\Draft".into(),
        Flag::Keyword(keyword) if keyword.as_str().starts_with('$') => {
            let is_it = |(_, name): &&(&str, &str)| name.eq_ignore_ascii_case(keyword.as_str());
            RENAMED.iter().find(is_it)?.0.into()
        }
        Flag::Keyword(keyword) => own_text(keyword.as_str()),
        Flag::Answered | Flag::Deleted | Flag::Seen => return None,
    })
}

/// Bytes that the keyword of a label has as they are.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"(){%*\"\\]".contains(&byte)
}

/// The byte of two hexadecimal digits at the beginning.
fn hex(digits: &[u8]) -> Option<u8> {
    let two = str::from_utf8(digits.get(..2)?).ok()?;
    u8::from_str_radix(two, 16).ok().filter(|_| two.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The keyword of a label.
fn keyword_text(label: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(label.len());
    let bytes = label.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        // An `=` is escaped if it would be read as an escape. So is a leading `$`, which marks a
        // keyword that is not a label.
        let is_mark = match byte {
            b'=' => hex(&bytes[at + 1..]).is_some(),
            b'$' => at == 0,
            _ => false,
        };
        if is_plain(byte) && !is_mark {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "={byte:02X}");
        }
    }
    text
}

/// The label of a keyword. A keyword that no label has is its own label.
fn own_text(keyword: &str) -> Cow<'_, str> {
    let bytes = keyword.as_bytes();
    if !bytes.contains(&b'=') {
        return keyword.into();
    }
    let (mut text, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        match hex(&bytes[at + 1..]).filter(|_| byte == b'=') {
            Some(escaped) => {
                text.push(escaped);
                at += 3;
            }
            None => {
                text.push(byte);
                at += 1;
            }
        }
    }
    match String::from_utf8(text) {
        Ok(label) if !label.starts_with('\\') && keyword_text(&label).eq_ignore_ascii_case(keyword) => {
            label.into()
        }
        _ => keyword.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyword(text: &str) -> Flag {
        Flag::Keyword(Keyword::new(text).unwrap())
    }

    #[test]
    fn every_label_has_one_keyword() {
        for (label, text) in [
            ("work", "work"),
            ("two words", "two=20words"),
            ("a/b", "a/b"),
            ("(x) [y] {z} 5% * \"q\"", "=28x=29=20[y=5D=20=7Bz}=205=25=20=2A=20=22q=22"),
            ("Pr\u{fc}fung", "Pr=C3=BCfung"),
            ("a&b", "a&b"),
            ("a=b", "a=b"),
            ("a=20b", "a=3D20b"),
            ("==41", "==3D41"),
            ("$100", "=24100"),
            ("5$", "5$"),
            ("back\\slash", "back=5Cslash"),
        ] {
            assert_eq!(label_of(label), Ok(Label::Flag(keyword(text))), "{label}");
            assert_eq!(text_of(&keyword(text)).as_deref(), Some(label), "{text}");
            assert_eq!(text_of(&keyword(&text.to_ascii_lowercase())).map(|label| label.to_lowercase()), {
                Some(label.to_lowercase())
            });
        }
        for label in ["", "\\Chats", "\\", &"\u{434}".repeat(22)] {
            assert!(label_of(label).is_err(), "{label}");
        }
        assert!(label_of(&"\u{434}".repeat(21)).is_ok());
    }

    #[test]
    fn keywords_of_other_programs_are_labels_as_they_stand() {
        for text in ["=", "a=", "a=4", "a=41", "=FF", "=5CInbox", "&-", "=+1"] {
            assert_eq!(text_of(&keyword(text)).as_deref(), Some(text));
        }
        for flag in [Flag::Seen, Flag::Deleted, Flag::Answered, keyword("$Junk")] {
            assert_eq!(text_of(&flag), None);
        }
    }

    #[test]
    fn gmail_s_own_labels_are_flags_or_mailboxes() {
        for (label, flag) in [
            ("\\Starred", Flag::Flagged),
            ("\\draft", Flag::Draft),
            ("\\IMPORTANT", keyword("$Important")),
            ("\\Muted", keyword("$Muted")),
        ] {
            assert_eq!(label_of(label), Ok(Label::Flag(flag.clone())));
            assert!(text_of(&flag).unwrap().eq_ignore_ascii_case(label));
        }
        assert_eq!(label_of("\\Inbox"), Ok(Label::Mailbox(LabelledMailbox::Inbox)));
        assert_eq!(label_of("\\Spam"), Ok(Label::Mailbox(LabelledMailbox::Use(SpecialUse::Junk))));
    }

    #[test]
    fn labels_are_printed_as_names_of_mailboxes_are() {
        let keywords =
            ["two=20words", "Pr=C3=BCfung", "a&b", "$Junk"].map(|name| Keyword::new(name).unwrap());
        let table = KeywordTable::from_keywords(keywords.to_vec()).unwrap();
        let printed = |flags, names| {
            let mut out = Vec::new();
            print_labels(&mut out, &table, flags, names);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(FlagSet::EMPTY, NameEncoding::Utf7), "()");
        assert_eq!(
            printed(FlagSet::ALL, NameEncoding::Utf7),
            "(\\Starred \\Draft \"two words\" Pr&APw-fung a&-b)"
        );
        assert_eq!(
            printed(FlagSet::ALL, NameEncoding::Utf8),
            "(\\Starred \\Draft \"two words\" \"Pr\u{fc}fung\" a&b)"
        );
    }
}
