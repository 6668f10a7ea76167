//! A mailbox as LIST shows it: RFC 9051 §7.3.1.

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::command::ListSelection;
use posthaste_imap_codec::response::{ListAttribute, ListData, Untagged};
use posthaste_mail_model::{MailboxName, SEPARATOR};
use posthaste_net::NetError;
use posthaste_store::{MailboxEntry, MailboxList};

use crate::heavy::Pace;
use crate::special_use;
use crate::wire::Wire;

/// Steps that a line of the answer takes, without those of the octets of its name.
const LINE_STEPS: u64 = 500;
/// Steps of an octet of a name: it is copied, and looked at for what needs quotes.
const OCTET_STEPS: u64 = 2;

/// Steps that the line of a name takes.
pub(crate) fn line_steps(name: &MailboxName) -> u64 {
    LINE_STEPS + name.as_str().len() as u64 * OCTET_STEPS
}

/// Prints lines of an answer that were made before. Sending them counts as well.
pub(crate) async fn print_lines(
    wire: &mut Wire,
    lines: impl IntoIterator<Item = Untagged>,
) -> Result<(), NetError> {
    let mut pace = Pace::default();
    for line in lines {
        wire.say(line);
        wire.relieve().await?;
        pace.worked(LINE_STEPS).await;
    }
    Ok(())
}

/// The attributes of a listed name that its entry does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameAttributes {
    /// Below it are mailboxes.
    pub(crate) has_children: bool,
    /// The name is subscribed, and the answer shows it.
    pub(crate) subscribed: bool,
}

/// A name with its attributes. The attributes of children and special use are always sent, because
/// clients expect them. `absent` is the attribute of a level that is not a mailbox.
pub(crate) fn described(
    name: &MailboxName,
    entry: Option<&MailboxEntry>,
    traits: NameAttributes,
    absent: ListAttribute,
) -> ListData {
    let mut attributes = Vec::with_capacity(4);
    if entry.is_none() {
        attributes.push(absent);
    }
    if traits.has_children {
        attributes.push(ListAttribute::HasChildren);
    } else {
        attributes.push(ListAttribute::HasNoChildren);
    }
    if traits.subscribed {
        attributes.push(ListAttribute::Subscribed);
    }
    if let Some(special_use) = entry.and_then(|entry| entry.special_use) {
        attributes.push(ListAttribute::Use(special_use::attribute(special_use)));
    }
    ListData {
        attributes,
        separator: Some(SEPARATOR),
        mailbox: MailboxArg::from(name),
        child_info: ListSelection::default(),
        old_name: None,
    }
}

/// One mailbox, as SELECT, CREATE, RENAME and NOTIFY report it. If the client used another name,
/// the line contains that as OLDNAME (RFC 9051 §6.3.9.7).
pub(crate) fn data_of(list: &MailboxList, entry: &MailboxEntry, requested: &MailboxArg) -> ListData {
    let traits = NameAttributes {
        has_children: list.has_children(&entry.name),
        subscribed: list.subscribed.contains(&entry.name),
    };
    let other = requested.text() != Ok(entry.name.as_str());
    ListData {
        old_name: other.then(|| requested.clone()),
        ..described(&entry.name, Some(entry), traits, ListAttribute::NonExistent)
    }
}
