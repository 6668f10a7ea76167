//! STORE X-GM-LABELS: labels of Gmail are keywords here, so this is a STORE of flags. See
//! [`crate::gmail::labels`].
//!
//! The label of the selected mailbox may be named, as a copy of all labels of a message does: its
//! messages have it already. That is its name, or the label of its use. No STORE removes it, and
//! none adds or removes the label of another mailbox's use.
//!
//! The changed flags are reported as for any STORE, and then the labels, as Gmail does. A STORE
//! without + or - is two changes: first the other labels are removed, then the new ones are added.
//! The second one is made of all messages that are still there, and answers for both.

use posthaste_imap_codec::command::{FetchItem, FetchModifiers, StoreAction, StoreAnswer};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MessageSet, Tag};
use posthaste_mail_model::{Flag, FlagSet, ModSeq};

use super::fetch::{self, FetchCommand};
use super::store::{self, StoreCommand};
use crate::gmail::labels::{self, Label};
use crate::reply::{Failure, Reply};
use crate::session::Ctx;

/// A STORE of labels.
pub(super) struct StoreLabels {
    pub(super) set: MessageSet,
    pub(super) unchanged_since: Option<ModSeq>,
    pub(super) action: StoreAction,
    pub(super) answer: StoreAnswer,
    pub(super) labels: Vec<String>,
}

pub(super) async fn run(ctx: &mut Ctx<'_>, tag: &Tag, command: StoreLabels) -> Result<Reply, Failure> {
    ctx.selected.must_write()?;
    let StoreLabels { set, unchanged_since, action, answer, labels } = command;
    let flags = flags(ctx, tag, action, &labels).await?;
    if action == StoreAction::Replace && unchanged_since.is_some() {
        // The first of the two changes raises the mod-sequences, so the test of the second would
        // fail.
        return Err(Reply::no(Code::Cannot, "UNCHANGEDSINCE needs +X-GM-LABELS or -X-GM-LABELS").into());
    }
    let change = |action, flags| StoreCommand { set: set.clone(), unchanged_since, action, answer, flags };
    let action = match action {
        StoreAction::Replace => {
            let others = others(ctx, &flags);
            if !others.is_empty() {
                // No response is sent for this change, unless it is the only one.
                let answer = if flags.is_empty() { answer } else { StoreAnswer::Silent };
                let reply =
                    store::run(ctx, tag, StoreCommand { answer, ..change(StoreAction::Remove, others) })
                        .await?;
                // Messages that others have expunged do not keep the rest from getting their new
                // labels.
                if flags.is_empty() {
                    return done(ctx, tag, set, (answer, reply)).await;
                }
            }
            StoreAction::Add
        }
        action => action,
    };
    let reply = store::run(ctx, tag, change(action, flags)).await?;
    done(ctx, tag, set, (answer, reply)).await
}

/// The flags of these labels, without that of the selected mailbox.
async fn flags(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    action: StoreAction,
    sent: &[String],
) -> Result<Vec<Flag>, Failure> {
    let refused = |why: String| Failure::from(Reply::no(Code::Cannot, why));
    let reading = ctx.service.store.list(ctx.selected_owner());
    let list = ctx.reporting(tag, reading).await?;
    let here = list.entries.iter().find(|entry| entry.id == ctx.selected.mailbox.id());
    let mut flags = Vec::with_capacity(sent.len());
    for sent in sent {
        let text = labels::decoded(sent, ctx.wire.names);
        let text = text.ok_or_else(|| refused(format!("{sent} is no modified UTF-7")))?;
        let label = labels::label_of(&text).map_err(refused)?;
        let is_here = match &label {
            Label::Mailbox(place) => here.is_some_and(|here| place.is(here)),
            // Another program may have set a keyword of that name.
            Label::Flag(flag) => {
                here.is_some_and(|here| here.name.as_str().eq_ignore_ascii_case(&text))
                    && ctx.selected.announced.head().keywords.set_of(flag).is_none()
            }
        };
        match label {
            _ if is_here && action != StoreAction::Remove => {}
            Label::Flag(flag) if !is_here => flags.push(flag),
            _ => return Err(refused(format!("{text} is a mailbox here: use COPY or MOVE"))),
        }
    }
    Ok(flags)
}

/// The labels that messages of this mailbox may have, without these.
fn others(ctx: &Ctx<'_>, flags: &[Flag]) -> Vec<Flag> {
    let table = &ctx.selected.announced.head().keywords;
    let mut labels = labels::labels_of(table, FlagSet::ALL);
    labels.retain(|label| !flags.contains(label));
    labels
}

async fn done(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    set: MessageSet,
    (answer, reply): (StoreAnswer, Reply),
) -> Result<Reply, Failure> {
    if answer == StoreAnswer::Flags {
        let modifiers = FetchModifiers::default();
        let command = FetchCommand { set, items: vec![FetchItem::GmLabels], modifiers };
        Box::pin(fetch::run(ctx, tag, command)).await?;
    }
    Ok(reply)
}
