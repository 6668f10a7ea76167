//! CANCELUPDATE: RFC 5267 §4.3.5.

use posthaste_imap_codec::Tag;

use super::DONE;
use crate::reply::Reply;
use crate::session::Ctx;

/// Ends these contexts. A tag without one is no error: the server may have ended it meanwhile.
pub(super) fn run(ctx: &mut Ctx<'_>, tags: &[Tag]) -> Reply {
    ctx.selected.contexts.cancel(tags);
    DONE
}
