//! STORE and EXPUNGE of many messages: the memory for their commits, and their rounds.
//!
//! A commit takes memory for each of its messages ([`crate::copies`]). A command with more
//! messages than its memory allows is made in rounds, each a commit of its own. RFC 9051 has no
//! rule that a STORE or an EXPUNGE is done as a whole. If a later round fails, the command fails.
//! The session reports what the earlier rounds have changed, as any other change. No round begins
//! after the end of the login.

use posthaste_imap_codec::Tag;
use posthaste_mail_model::NumSet;
use posthaste_store::{Expunged, FlagsStored, Mailbox};

use crate::annotate::reader::AnnotationReader;
use crate::begun::{Begun, reporting_after};
use crate::copies::CHANGED_FREE;
use crate::reply::Failure;
use crate::seen::{self, FlagOrder};
use crate::selected::Selected;
use crate::service::ImapService;
use crate::session::Ctx;
use crate::wire::Wire;

/// Changes flags of the selected mailbox, and reports that it is going on. The memory for many
/// messages is reserved first.
pub(super) async fn store_flags(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    order: FlagOrder<'_>,
) -> Result<FlagsStored, Failure> {
    let (service, account, messages) = (ctx.service, ctx.login.id, order.uids.count());
    let reports = service.reports(tag);
    let (wire, selected) = (&mut *ctx.wire, &mut *ctx.selected);
    let begun = Begun::of(wire);
    if messages <= CHANGED_FREE {
        begun.begin()?;
        return wire.reporting(reports, seen::store_flags(service, selected, order)).await;
    }
    let storing = Box::pin(async {
        let held = service.reserve_to_change(account, messages).await?;
        let order = FlagOrder { held: Some(held), ..order };
        flags_in_rounds((service, &begun), selected, order).await
    });
    // Boxed: few changes have so many messages that they come here.
    Box::pin(reporting_after(wire, reports, &begun, storing)).await?
}

/// Changes flags, in rounds of as many messages as one commit may take.
async fn flags_in_rounds(
    (service, begun): (&ImapService, &Begun),
    selected: &mut Selected,
    order: FlagOrder<'_>,
) -> Result<FlagsStored, Failure> {
    let FlagOrder { uids, change, flags, unchanged_since, held } = order;
    let view = selected.mailbox.view();
    let (modified, changed, modseq) = (NumSet::new(), NumSet::new(), view.modseq());
    let mut all = FlagsStored { modified, changed, modseq, view };
    for round in uids.slices(service.changed_max()) {
        begun.begin()?;
        let order = FlagOrder { uids: &round, change, flags, unchanged_since, held: held.clone() };
        let stored = seen::store_flags(service, selected, order).await?;
        // The UIDs of a round are above those of the rounds before.
        add(&mut all.modified, &stored.modified);
        add(&mut all.changed, &stored.changed);
        (all.modseq, all.view) = (stored.modseq, stored.view);
    }
    Ok(all)
}

/// Adds UIDs that are above all others.
fn add(all: &mut NumSet, more: &NumSet) {
    more.ranges().iter().for_each(|&(low, high)| all.push_range(low, high));
}

/// Removes messages with `\Deleted`: all of them, or those among `only`. Their annotations are
/// forgotten (RFC 5257). The memory for many messages is reserved first.
pub(super) async fn expunge(
    wire: &mut Wire,
    (reader, mailbox): (AnnotationReader<'_>, &Mailbox),
    tag: &Tag,
    only: Option<&NumSet>,
) -> Result<Expunged, Failure> {
    let (service, account, messages) = (reader.service, reader.login, mailbox.deleted_at_most(only));
    let (reports, begun) = (service.reports(tag), Begun::of(wire));
    if messages <= CHANGED_FREE {
        let expunging = expunge_in_rounds((reader, mailbox), &begun, only, CHANGED_FREE);
        return wire.reporting(reports, expunging).await;
    }
    let expunging = Box::pin(async {
        let held = service.reserve_to_change(account, messages).await?;
        let mailbox = mailbox.with_permit(Some(held));
        expunge_in_rounds((reader, &mailbox), &begun, only, messages.min(service.changed_max())).await
    });
    // Boxed: few EXPUNGEs have so many messages that they come here.
    Box::pin(reporting_after(wire, reports, &begun, expunging)).await?
}

/// Removes messages, in rounds of at most this many. Other sessions may mark more of them
/// meanwhile.
async fn expunge_in_rounds(
    (reader, mailbox): (AnnotationReader<'_>, &Mailbox),
    begun: &Begun,
    only: Option<&NumSet>,
    most: u64,
) -> Result<Expunged, Failure> {
    let mut before: Vec<(u32, u32)> = Vec::new();
    loop {
        begun.begin()?;
        let expunged = mailbox.expunge_at_most(only, most).await?;
        if !expunged.uids.is_empty() {
            // Boxed: all sessions would hold its state.
            Box::pin(reader.forget(&expunged.uids)).await;
        }
        let is_last = expunged.uids.count() < most || expunged.view.counts().deleted == 0;
        if is_last && before.is_empty() {
            return Ok(expunged);
        }
        before.extend_from_slice(expunged.uids.ranges());
        if is_last {
            return Ok(Expunged { uids: NumSet::from_ranges(before), ..expunged });
        }
    }
}
