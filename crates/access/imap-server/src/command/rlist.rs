//! RLIST: LIST with mailboxes of other servers (RFC 2193 §5.1).
//!
//! The REMOTE of an extended LIST does the same (RFC 5258 §3.1).

use posthaste_imap_codec::command::{ListArgs, ListSelection};
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
    let selection = ListSelection { remote: true, ..ListSelection::default() };
    list::run(session, tag, &ListArgs { selection, ..list::basic(reference, pattern) }).await
}
