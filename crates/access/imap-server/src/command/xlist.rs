//! XLIST: Gmail's extension from before SPECIAL-USE (RFC 6154). Mail programs of that time still
//! use it if it is offered.
//!
//! The answer is that of a basic LIST. It names the special uses with Gmail's words, and INBOX by
//! `\Inbox`, because Gmail translates its name.

use posthaste_imap_codec::command::SpecialUse;
use posthaste_imap_codec::response::{ListAttribute, Untagged};
use posthaste_imap_codec::{ListPattern, MailboxArg, Tag};

use super::{DONE, list};
use crate::listed::print_lines;
use crate::reply::{Failure, Reply};
use crate::session::Session;

pub(super) async fn run(
    session: &mut Session,
    tag: &Tag,
    reference: MailboxArg,
    pattern: ListPattern,
) -> Result<Reply, Failure> {
    let mut lines = list::lines(session, tag, &list::basic(reference, pattern)).await?;
    for data in &mut lines {
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
    }
    print_lines(&mut session.wire, lines.into_iter().map(Untagged::Xlist)).await?;
    Ok(DONE)
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
