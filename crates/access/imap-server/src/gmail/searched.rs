//! The meaning of labels and queries in one mailbox.

use posthaste_imap_codec::NameEncoding;
use posthaste_imap_codec::command::SearchKey;
use posthaste_mail_model::{Flag, KeywordTable};
use posthaste_store::{MailboxEntry, SpecialUse};

use super::labels::{self, Label, LabelledMailbox};

/// Words after `in:` and `is:` for states that messages do not have here.
const NO_STATES: [&str; 6] = ["snoozed", "scheduled", "chat", "chats", "outbox", "pinned"];

/// The state that gives labels and queries their meaning.
#[derive(Clone, Copy)]
pub(crate) struct Searched<'s> {
    /// The mailbox. `None` if it was deleted meanwhile.
    pub(crate) mailbox: Option<&'s MailboxEntry>,
    /// Its name, and the labels of its messages.
    pub(crate) written: &'s WrittenNames,
    /// The encoding in which the client writes labels.
    pub(crate) names: NameEncoding,
    /// The address that `from:me` means.
    pub(crate) me: &'s str,
    /// The time of the search, unix seconds.
    pub(crate) now: i64,
}

/// The name of a mailbox and the labels of its messages, as queries write them. They are made once
/// for a search, which may name thousands of labels.
#[derive(Debug)]
pub(crate) struct WrittenNames {
    mailbox: Option<String>,
    /// Those of the user. Gmail's own labels are left out.
    labels: Vec<(Flag, String)>,
}

impl WrittenNames {
    /// Of this mailbox, and of the keywords of its messages.
    pub(crate) fn of(mailbox: Option<&MailboxEntry>, keywords: &KeywordTable) -> Self {
        let own = keywords.keywords().iter().filter(|keyword| !keyword.as_str().starts_with('$'));
        let written = |flag: Flag| {
            let text = dashed(&labels::text_of(&flag)?);
            Some((flag, text))
        };
        Self {
            mailbox: mailbox.map(|mailbox| dashed(mailbox.name.as_str())),
            labels: own.cloned().map(Flag::Keyword).filter_map(written).collect(),
        }
    }
}

impl Searched<'_> {
    /// X-GM-LABELS.
    pub(super) fn label(self, label: &str) -> Result<SearchKey, String> {
        if self.mailbox.is_some_and(|mailbox| mailbox.name.as_str().eq_ignore_ascii_case(label)) {
            return Ok(SearchKey::All);
        }
        Ok(match labels::label_of(label)? {
            Label::Flag(flag) => self.flag(flag),
            Label::Mailbox(place) if self.is_at(place) => SearchKey::All,
            Label::Mailbox(_) => none(),
        })
    }

    fn is_at(self, place: LabelledMailbox) -> bool {
        self.mailbox.is_some_and(|mailbox| place.is(mailbox))
    }

    /// A flag that may also be the use of a mailbox.
    fn flag(self, flag: Flag) -> SearchKey {
        let special_use = match flag {
            Flag::Draft => Some(SpecialUse::Drafts),
            Flag::Flagged => Some(SpecialUse::Flagged),
            _ => None,
        };
        match special_use.is_some_and(|special_use| self.is_at(LabelledMailbox::Use(special_use))) {
            true => SearchKey::All,
            false => SearchKey::Has(flag),
        }
    }

    /// `label:` and `in:`. The label `My family/2026` is also found by `my-family-2026`.
    pub(super) fn labelled(self, value: &str) -> Result<SearchKey, String> {
        let word = value.to_lowercase();
        let dashed_word = dashed(value);
        let is_here = LabelledMailbox::named(&word).is_some_and(|place| self.is_at(place))
            || self.written.mailbox.as_ref().is_some_and(|name| *name == dashed_word);
        if is_here || word == "anywhere" {
            return Ok(SearchKey::All);
        }
        if NO_STATES.contains(&word.as_str()) {
            return Err(format!("there is no state {word} here"));
        }
        let named = self.written.labels.iter().filter(|(_, text)| *text == dashed_word);
        let named = named.map(|(flag, _)| SearchKey::Has(flag.clone()));
        Ok(self.known(&word).into_iter().chain(named).reduce(either).unwrap_or_else(none))
    }

    /// States that are flags.
    fn known(self, word: &str) -> Option<SearchKey> {
        match word {
            "unread" => Some(SearchKey::Lacks(Flag::Seen)),
            "read" => Some(SearchKey::Has(Flag::Seen)),
            "starred" | "draft" | "drafts" | "important" | "muted" => self.label(&format!("\\{word}")).ok(),
            _ => None,
        }
    }

    /// `is:`
    pub(super) fn state(self, value: &str) -> Option<SearchKey> {
        self.known(&value.to_lowercase())
    }

    /// `has:userlabels`
    pub(super) fn any_user_label(self) -> SearchKey {
        let labels = self.written.labels.iter().map(|(flag, _)| SearchKey::Has(flag.clone()));
        labels.reduce(either).unwrap_or_else(none)
    }
}

pub(super) fn either(a: SearchKey, b: SearchKey) -> SearchKey {
    SearchKey::Or(Box::new(a), Box::new(b))
}

/// The key that finds nothing.
fn none() -> SearchKey {
    SearchKey::Not(Box::new(SearchKey::All))
}

/// A label as Gmail's queries write it: in lower case, with `-` for all but letters and digits.
fn dashed(label: &str) -> String {
    label.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).flat_map(char::to_lowercase).collect()
}
