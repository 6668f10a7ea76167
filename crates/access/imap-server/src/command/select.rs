//! SELECT and EXAMINE: RFC 9051 §6.3.2, §6.3.3; CONDSTORE and QRESYNC of RFC 7162; MAILBOXID of
//! RFC 8474, and SELECT by ids of OBJECTID+ (draft-ietf-mailmaint-imap-objectid-bis-06 §7.1).

use std::sync::Arc;

use posthaste_delivery::Opening;
use posthaste_imap_codec::command::{Access, Qresync, SelectParams, SeqMatch};
use posthaste_imap_codec::response::{Code, ListData, Untagged};
use posthaste_imap_codec::{MailboxArg, Tag, print};
use posthaste_mail_model::{MailboxName, NumSet};
use posthaste_store::{Mailbox, MailboxEntry, View};

use crate::annotate;
use crate::announce;
use crate::listed::data_of;
use crate::object_ids::{self, WantedMailbox};
use crate::offload::{print_ranges, range_steps, row_steps};
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, ExistingMailbox};
use crate::rights::{Act, TO_CHANGE};
use crate::seen;
use crate::selected::Selected;
use crate::session::{Ctx, Session};
use crate::sync;

pub(super) async fn run(
    session: &mut Session,
    tag: &Tag,
    mailbox: &MailboxArg,
    (access, params): (Access, SelectParams),
) -> Result<Reply, Failure> {
    if params.qresync.is_some() && !session.enabled.qresync {
        // RFC 7162 §3.2.5
        return Err(Reply::bad("Enable QRESYNC first").into());
    }
    if params.object_ids.is_some() {
        // OBJECTID+ (draft 06 §7.1)
        session.enable_object_ids();
    }
    // The mailbox selected before is closed, even if the new one cannot be opened
    // (RFC 9051 §6.3.2).
    if session.selected.take().is_some() {
        session.wire.say_line(&["* OK [CLOSED] Previous mailbox is closed"]);
    }
    let (asker, wire, reports) = session.reporting(tag)?;
    let wanted = params.object_ids.as_deref().and_then(WantedMailbox::of);
    let opening = Box::pin(open(asker, mailbox, wanted));
    let (ExistingMailbox { resolved, entry, rights }, opened) = wire.reporting(reports, opening).await?;
    let shown = resolved.shown(&entry.name)?;
    let login = session.login()?;
    session.service.delivery.folder_opened(&Opening {
        account: &login.name,
        warn: resolved.account().unwrap_or(login).folder_limits.warn,
        folder: &shown,
        items: opened.view().exists(),
        client: session.wire.peer().address.ip(),
        protocol: "imap",
    });
    let owner = resolved.account().cloned().map(Box::new);
    let is_inbox = owner.is_none() && entry.name.is_inbox();
    let list_data = list_data(session, tag, &shown, mailbox).await?;
    session.enabled.condstore |= params.condstore;
    session.selected = Some(Selected {
        rights,
        owner,
        is_inbox,
        examined: access == Access::ReadOnly,
        read_only: access == Access::ReadOnly || !rights.intersects(TO_CHANGE),
        quiet: session.quiet,
        ..Selected::of(opened)
    });
    if let Err(error) = read_of_user(session, tag, &entry, &params).await {
        session.selected = None;
        return Err(error);
    }
    let mut ctx = session.ctx()?;
    describe(&mut ctx, &entry, list_data);
    if let Some(known) = &params.qresync
        && known.uid_validity == entry.uid_validity
    {
        resynchronise(&mut ctx, tag, known).await?;
    }
    Ok(match access {
        // RFC 4314 §5.2
        Access::ReadWrite if ctx.selected.read_only => Reply::ok("SELECT completed").with(Code::ReadOnly),
        Access::ReadWrite => Reply::ok("SELECT completed").with(Code::ReadWrite),
        Access::ReadOnly => Reply::ok("EXAMINE completed").with(Code::ReadOnly),
    })
}

/// The mailbox of the ids, or else of the name, opened. OBJECTID+ (draft 06 §7.1): the name is
/// only used if no mailbox has the ids.
async fn open(
    asker: Asker<'_>,
    mailbox: &MailboxArg,
    wanted: Option<WantedMailbox>,
) -> Result<(ExistingMailbox, Arc<Mailbox>), Failure> {
    let mut found = None;
    if let Some(wanted) = wanted {
        found = asker.find_by_id(wanted, Act::Read).await?;
    }
    let found = match found {
        Some(found) => found,
        None => asker.find(mailbox, Act::Read).await?,
    };
    let opened = asker.service.store.open_for(asker.login.id, found.entry.id).await?;
    Ok((found, opened))
}

/// RFC 9051 §6.3.2: in rev2 a LIST response names the mailbox that was opened.
async fn list_data(
    session: &mut Session,
    tag: &Tag,
    name: &MailboxName,
    requested: &MailboxArg,
) -> Result<Option<ListData>, Failure> {
    if !session.enabled.rev2 {
        return Ok(None);
    }
    let (asker, wire, reports) = session.reporting(tag)?;
    let list = wire.reporting(reports, Box::pin(asker.list_with(name))).await?;
    Ok(list.find(name).map(|entry| data_of(&list, entry, requested)))
}

/// Reads what the user alone has in this mailbox: \\Seen flags in a mailbox of others, and the
/// annotations that the session reports.
async fn read_of_user(
    session: &mut Session,
    tag: &Tag,
    entry: &MailboxEntry,
    params: &SelectParams,
) -> Result<(), Failure> {
    if let (Some(selected), Some(login)) = (&mut session.selected, &session.login)
        && let Some(reading) = seen::reading(login, selected.owner.as_deref(), entry.id)
    {
        // Boxed: few sessions open mailboxes of others.
        let laying = Box::pin(seen::lay_over(&session.service, reading, selected));
        session.wire.reporting(session.service.reports(tag), laying).await?;
    }
    if let (Some(selected), Some(login)) = (&mut session.selected, &session.login) {
        selected.count_for(login.id, &session.end);
        // RFC 5257 §4.2
        selected.annotate = params.annotate;
    }
    announce::track_annotations(session, Some(tag)).await
}

/// The responses that every client gets when it opens a mailbox.
fn describe(ctx: &mut Ctx<'_>, entry: &MailboxEntry, list_data: Option<ListData>) {
    let rev2 = ctx.enabled.rev2;
    sync::report_flags(ctx.wire, ctx.selected);
    sync::report_exists(ctx.wire, ctx.selected, *ctx.enabled);
    let view = Arc::clone(&ctx.selected.announced);
    let out = ctx.wire.out();
    if let Some(seq) = view.first_unseen()
        && !rev2
        && !ctx.enabled.uid_only
    {
        coded(out, b"UNSEEN ", u64::from(seq.value()), b"First unseen");
    }
    coded(out, b"UIDVALIDITY ", u64::from(entry.uid_validity.value()), b"UIDs are valid");
    coded(out, b"UIDNEXT ", u64::from(view.head().uid_next.value()), b"Next UID");
    coded(out, b"HIGHESTMODSEQ ", sync::reported_modseq(view.modseq()).value(), b"Highest");
    if ctx.enabled.object_ids {
        // OBJECTID+ (draft 06 §2.2): in place of MAILBOXID.
        let ids = object_ids::of_mailbox(ctx.selected_owner(), Some(entry.id));
        ctx.wire.say_code(Code::ObjectIds(ids), "Ok");
    } else {
        out.extend_from_slice(b"* OK [MAILBOXID (");
        out.extend_from_slice(&entry.id.0.text());
        out.extend_from_slice(b")] Ok\r\n");
    }
    if ctx.service.options.annotations {
        // RFC 5257 §4.1
        let annotations = Code::Annotations(annotate::support(ctx.selected));
        ctx.wire.say_code(annotations, "Annotations of messages");
    }
    if let Some(data) = list_data {
        ctx.wire.say(Untagged::List(data));
    }
}

/// `* OK [CODE n] text`
fn coded(out: &mut Vec<u8>, code: &[u8], n: u64, text: &[u8]) {
    out.extend_from_slice(b"* OK [");
    out.extend_from_slice(code);
    print::number(out, n);
    out.extend_from_slice(b"] ");
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// VANISHED (EARLIER) and FETCH for the changes since the client's mod-sequence: RFC 7162 §3.2.5.
async fn resynchronise(ctx: &mut Ctx<'_>, tag: &Tag, known: &Qresync) -> Result<(), Failure> {
    let since = sync::since_modseq(known.modseq);
    let looking = Box::pin(ctx.selected.mailbox.vanished_since(since));
    let (expunged, complete) = ctx.wire.reporting(ctx.service.reports(tag), looking).await?;
    let view = Arc::clone(&ctx.selected.announced);
    let ranges = expunged.ranges().len() + known.known_uids.as_ref().map_or(0, |set| set.0.ranges().len());
    // Rows may be read three times: by mod-sequence, for gaps, and one by one for the match data.
    let steps = 4 * range_steps(ranges) + 3 * row_steps(&view);
    let known = known.clone();
    let work = move || {
        let client_has = match &known.known_uids {
            Some(set) => set.resolve(None, &NumSet::new()),
            None => NumSet::range(1, view.head().uid_next.value() - 1),
        };
        let expunged = complete.then_some(&expunged);
        let mut changed = view.changed_since(since);
        if known.known_uids.is_some() {
            changed = changed.intersection(&view.seqs_of_uids(&client_has));
        }
        (vanished(&view, &known, &client_has, expunged), changed)
    };
    let (vanished, changed) = ctx.threads().run(steps, work).await?;
    if !vanished.is_empty() {
        ctx.wire.out().extend_from_slice(b"* VANISHED (EARLIER) ");
        print_ranges(ctx.wire, vanished.ranges()).await?;
        ctx.wire.out().extend_from_slice(b"\r\n");
    }
    sync::report_messages(ctx.wire, ctx.selected, *ctx.enabled, &changed, None).await
}

/// The client's UIDs that were expunged after its mod-sequence. If the engine no longer knows them,
/// the answer is all missing UIDs. It leaves out the expunges that the client has seen, as its
/// sequence match data shows (RFC 7162 §3.2.5.2).
fn vanished(view: &View, known: &Qresync, client_has: &NumSet, expunged: Option<&NumSet>) -> NumSet {
    if let Some(expunged) = expunged {
        // RFC 7162 §3.2.6: VANISHED may name unknown UIDs, but none that still exists.
        let expunged = expunged.intersection(client_has);
        return expunged.difference(&view.existing(&expunged));
    }
    let missing = view.missing(client_has);
    let Some(SeqMatch { seqs, uids }) = &known.seq_match else { return missing };
    // The grammar admits neither `$` nor `*` here.
    let seqs = seqs.resolve(0);
    let uids = uids.resolve(None, &NumSet::new());
    // The client's n-th message had this UID. If the view's n-th message has the same UID, no
    // message below it is missing.
    let agreed = seqs
        .iter()
        .zip(uids.iter())
        .take_while(|(seq, uid)| {
            posthaste_mail_model::SeqNum::new(*seq)
                .and_then(|seq| view.uid_of(seq))
                .is_some_and(|ours| ours.value() == *uid)
        })
        .map(|(_, uid)| uid)
        .last();
    match agreed {
        Some(uid) => missing.difference(&NumSet::range(1, uid)),
        None => missing,
    }
}
