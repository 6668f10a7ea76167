//! XLIST: Gmail's extension from before SPECIAL-USE (RFC 6154). Mail programs of that time still
//! use it if it is offered.
//!
//! The answer is that of a basic LIST. It names the special uses with Gmail's words, and INBOX by
//! `\Inbox`, because Gmail translates its name.

use posthaste_imap_codec::command::SpecialUse;
use posthaste_imap_codec::response::{ListAttribute, ListData, Untagged};
use posthaste_imap_codec::{ListPattern, MailboxArg, Tag};

use super::list;
use crate::reply::{Failure, Reply};
use crate::session::Session;

pub(super) async fn run(
    session: &mut Session,
    tag: &Tag,
    reference: MailboxArg,
    pattern: ListPattern,
) -> Result<Reply, Failure> {
    list::run_as(session, tag, &list::basic(reference, pattern), of_gmail).await
}

/// A line with Gmail's words.
fn of_gmail(mut data: ListData) -> Untagged {
    for attribute in &mut data.attributes {
        if let ListAttribute::Use(special_use) = attribute
            && let Some(word) = word_of_gmail(special_use)
        {
            *special_use = SpecialUse::Other(word.to_owned());
        }
    }
    if data.mailbox.text() == Ok("INBOX") {
        data.attributes.push(ListAttribute::Use(SpecialUse::Other("Inbox".to_owned())));
    }
    Untagged::Xlist(data)
}

/// Gmail's word, where it is another one than that of RFC 6154.
fn word_of_gmail(special_use: &SpecialUse) -> Option<&'static str> {
    match special_use {
        SpecialUse::All => Some("AllMail"),
        SpecialUse::Flagged => Some("Starred"),
        SpecialUse::Junk => Some("Spam"),
        _ => None,
    }
}
