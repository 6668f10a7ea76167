//! Reports changes to the client: the difference between the announced view and the newest one.
//!
//! * EXPUNGE is never sent during FETCH, STORE or SEARCH by sequence number, nor without a command
//!   in progress (RFC 9051 §7.5.1). Until then an expunged message keeps its number in the
//!   announced view. All other changes are reported.
//! * After ENABLE QRESYNC, VANISHED replaces it (RFC 7162 §3.2.10); after ENABLE UIDONLY, too
//!   (RFC 9586 §3.4), and UIDFETCH replaces FETCH.
//! * Results that are kept up to date (RFC 5267) are reported with the change that is their cause:
//!   see `contexts`.
//! * After NOTIFY (RFC 5465) the client may have requested some of the changes, or none. Changes
//!   by its own commands are always reported: see `own`.
//! * FETCH carries the UID (RFC 9051 §7.5.2 demands it) and, if CONDSTORE is enabled, MODSEQ
//!   (RFC 7162 §3.2).

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use posthaste_imap_codec::print::{self, Line};
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{FlagSet, ModSeq, NumSet, Rights, SeqNum};
use posthaste_store::{Difference, Row, RowFinder, View};

use crate::annotate::report;
use crate::contexts::update::{self, Reporter, Searcher, ViewChange};
use crate::enabled::Enabled;
use crate::fetch_head::begin_fetch;
use crate::flag_names::FlagNames;
use crate::heavy::Pace;
use crate::offload::{Threads, difference, print_ranges, range_steps};
use crate::own::{Own, OwnChange};
use crate::reply::Failure;
use crate::rights::changeable;
use crate::selected::Selected;
use crate::table::Numbers;
use crate::turns::{LongWork, Turn};
use crate::wire::Wire;

/// Rows printed between two checks of the output buffer.
const ROWS_PER_RELIEF: usize = 512;

/// Steps of looking at a changed row, whether it is printed or not.
const ROW_STEPS: u64 = 100;
/// Steps of printing an EXPUNGE. A line of 17 octets takes as long as 50 to 100 octets of a body.
const EXPUNGE_STEPS: u64 = 100;
/// Steps of the same if the row is looked up in the client's own change and in the view before.
const OWN_ROW_STEPS: u64 = 300;

/// HIGHESTMODSEQ as reported. A mailbox that never changed reports 1, because 0 would mean that
/// there are no mod-sequences (RFC 7162 §3.1.2.1, §7).
pub(crate) fn reported_modseq(modseq: ModSeq) -> ModSeq {
    modseq.max(ModSeq::ZERO.next())
}

/// The mod-sequence from which a client's own one starts. A client may have 1 from a mailbox that
/// never changed ([`reported_modseq`]), so 1 counts as 0 and the first change is reported.
pub(crate) fn since_modseq(modseq: ModSeq) -> ModSeq {
    if modseq <= ModSeq::ZERO.next() { ModSeq::ZERO } else { modseq }
}

/// The messages of `seqs` that have a mod-sequence above `since`. Only their rows are read.
pub(crate) fn changed_among(view: &View, seqs: &NumSet<SeqNum>, since: ModSeq) -> NumSet<SeqNum> {
    let changed = view.rows(seqs).filter(|(_, row)| row.modseq() > since);
    changed.map(|(seq, _)| seq.value()).collect()
}

/// Enables CONDSTORE: RFC 7162 §3.1. The first command that does so while a mailbox is selected
/// reports the mailbox's HIGHESTMODSEQ. Returns whether it was off.
pub(crate) fn enable_condstore(wire: &mut Wire, selected: Option<&Selected>, enabled: &mut Enabled) -> bool {
    let was_off = !std::mem::replace(&mut enabled.condstore, true);
    if was_off && let Some(selected) = selected {
        report_modseq(wire, selected);
    }
    was_off
}

/// `* OK [HIGHESTMODSEQ n]`: every change up to n was reported.
pub(crate) fn report_modseq(wire: &mut Wire, selected: &Selected) {
    wire.say_code(Code::HighestModSeq(reported_modseq(selected.synchronised_to())), "Highest");
}

/// Reports all changes that a command of this kind may report, and records them as reported.
/// Changes that NOTIFY excludes are reported only if they are the command's own.
pub(crate) async fn announce(
    wire: &mut Wire,
    selected: &mut Selected,
    by: Searcher<'_>,
    enabled: Enabled,
    numbers: Numbers,
    own: Own<'_>,
) -> Result<(), Failure> {
    // A deleted mailbox is noticed even if nothing is reported.
    let mut newest = match selected.mailbox.known_current()? {
        Some(view) => view,
        // Boxed: on one machine no session needs it.
        None => Box::pin(wire.reporting_if(by.reports(), selected.mailbox.current())).await?,
    };
    if selected.quiet.messages && matches!(own, Own::Nothing) {
        return Ok(());
    }
    if let Some(overlay) = &mut selected.overlay {
        // Boxed: nearly no session needs it.
        newest = Box::pin(wire.reporting_if(by.reports(), overlay.follow(by.threads(), newest))).await?;
    }
    if Arc::ptr_eq(&newest, &selected.announced) {
        if selected.contexts.has_pending() {
            let step = ViewChange { old: &newest, new: &newest, diff: &Difference::default(), enabled };
            Box::pin(update::report_changes(wire, selected, by, &step)).await?;
        }
        return Ok(());
    }
    // Boxed: most commands have nothing to report.
    Box::pin(announce_changes(wire, (selected, newest), by, (enabled, numbers), own)).await
}

async fn announce_changes(
    wire: &mut Wire,
    (selected, newest): (&mut Selected, Arc<View>),
    by: Searcher<'_>,
    (enabled, numbers): (Enabled, Numbers),
    own: Own<'_>,
) -> Result<(), Failure> {
    let mut turn = Turn::of(by.threads());
    let old = Arc::clone(&selected.announced);
    let was_held = selected.held_since;
    turn.take(LongWork::Compared(u64::from(old.exists().max(newest.exists())))).await;
    let (new, diff) = match selected.quiet.messages {
        true => own_view(selected, newest, own, by.threads()).await?,
        false => next_view(selected, newest, numbers, by.threads()).await?,
    };
    selected.announced = Arc::clone(&new);
    selected.is_moved = true;
    turn.give();
    if !diff.expunged.is_empty() && !selected.contexts.is_empty() {
        // RFC 5267 §4.3.4: before EXPUNGE.
        let (contexts, to) = (&mut selected.contexts, &mut Reporter { wire, turn: &mut turn, by });
        Box::pin(update::report_expunged(to, contexts, &old, &diff.expunged_uids)).await?;
    }
    report_expunged(wire, &diff, enabled).await?;
    if !diff.arrived.is_empty() {
        report_exists(wire, selected, enabled);
    }
    if diff.new_keywords {
        report_flags(wire, selected);
    }
    let mut context = ReportContext::new(&old, &new, enabled, own.known());
    context.turns = Some(by.threads());
    let changed = match selected.leaves_out_flags() {
        false => Cow::Borrowed(&diff.changed),
        true => Cow::Owned(changed_by(own, &new, &diff.changed, by.threads()).await?),
    };
    report_changed(wire, selected, &changed, &context).await?;
    if selected.annotations.is_some() && !selected.quiet.annotations {
        // Boxed: few sessions request it.
        Box::pin(report::report_changes(wire, selected, by, enabled, &diff)).await?;
    }
    if !selected.contexts.is_empty() {
        // RFC 5267 §4.3.3: after EXISTS.
        let step = ViewChange { old: &old, new: &new, diff: &diff, enabled };
        Box::pin(update::report_changes(wire, selected, by, &step)).await?;
    }
    // RFC 7162 §3.2: a held back EXPUNGE has a lower MODSEQ than a change that is reported now.
    // If the connection broke now, the client would take its state for complete, and never learn
    // of the EXPUNGE.
    let overtaken = selected.held_since.is_some() && !diff.changed.is_empty();
    let caught_up = was_held.is_some() && selected.held_since.is_none();
    if enabled.condstore && (overtaken || caught_up) {
        report_modseq(wire, selected);
    }
    Ok(())
}

/// The view that the client knows after this report, and the difference. A command with sequence
/// numbers holds expunged messages back.
async fn next_view(
    selected: &mut Selected,
    newest: Arc<View>,
    numbers: Numbers,
    threads: Threads<'_>,
) -> Result<(Arc<View>, Difference), Failure> {
    let old = Arc::clone(&selected.announced);
    let diff = difference(&newest, &old).await;
    if numbers != Numbers::Held || diff.expunged.is_empty() {
        selected.held_since = None;
        return Ok((newest, diff));
    }
    let count = diff.changed.count() + diff.arrived.count() + diff.expunged.count();
    let before = Arc::clone(&old);
    let held = threads.run(count * ROW_STEPS, move || before.holding_expunged(&newest, &diff)).await?;
    selected.held_since = selected.held_since.or(Some(old.modseq()));
    let diff = difference(&held, &old).await;
    Ok((held, diff))
}

/// The view after a command of a client to which NOTIFY reports nothing of this mailbox: what the
/// command has changed, and all else as it was reported (RFC 5465 §3.1).
async fn own_view(
    selected: &mut Selected,
    newest: Arc<View>,
    own: Own<'_>,
    threads: Threads<'_>,
) -> Result<(Arc<View>, Difference), Failure> {
    let old = Arc::clone(&selected.announced);
    let diff = difference(&newest, &old).await;
    let steps = (diff.changed.count() + diff.expunged.count()) * OWN_ROW_STEPS;
    let (uids, before, after) = (own.uids(), Arc::clone(&old), Arc::clone(&newest));
    let taken = threads.run(steps, move || uids.taken_from(&after, &before, &diff)).await?;
    let Some(new) = taken else { return Ok((old, Difference::default())) };
    selected.held_since = match Arc::ptr_eq(&new, &newest) {
        true => None,
        false => selected.held_since.or(Some(old.modseq())),
    };
    let diff = difference(&new, &old).await;
    Ok((new, diff))
}

/// The changed messages that the command itself has changed.
async fn changed_by(
    own: Own<'_>,
    new: &Arc<View>,
    changed: &NumSet<SeqNum>,
    threads: Threads<'_>,
) -> Result<NumSet<SeqNum>, Failure> {
    let Some(uids) = own.changed().filter(|_| !changed.is_empty()) else { return Ok(NumSet::new()) };
    let steps = 2 * range_steps(uids.ranges().len()) + range_steps(changed.ranges().len());
    let (uids, view, changed) = (uids.clone(), Arc::clone(new), changed.clone());
    threads.run(steps, move || view.seqs_of_uids(&uids).intersection(&changed)).await
}

/// Sends EXPUNGE or VANISHED.
async fn report_expunged(wire: &mut Wire, diff: &Difference, enabled: Enabled) -> Result<(), Failure> {
    if diff.expunged.is_empty() {
        return Ok(());
    }
    if enabled.reports_vanished() {
        wire.out().extend_from_slice(b"* VANISHED ");
        print_ranges(wire, diff.expunged_uids.ranges()).await?;
        wire.out().extend_from_slice(b"\r\n");
        return Ok(());
    }
    let (mut pace, mut printed) = (Pace::default(), 0);
    for seq in diff.expunged_descending() {
        let out = wire.out();
        out.extend_from_slice(b"* ");
        print::number(out, u64::from(seq.value()));
        out.extend_from_slice(b" EXPUNGE\r\n");
        printed += 1;
        if wire.is_full() {
            wire.relieve().await?;
            pace.worked(std::mem::take(&mut printed) * EXPUNGE_STEPS).await;
        }
    }
    Ok(())
}

/// Sends EXISTS and, for IMAP4rev1, RECENT.
pub(crate) fn report_exists(wire: &mut Wire, selected: &mut Selected, enabled: Enabled) {
    let out = wire.out();
    out.extend_from_slice(b"* ");
    print::number(out, u64::from(selected.announced.exists()));
    out.extend_from_slice(b" EXISTS\r\n");
    if !enabled.rev2 {
        selected.claim_recent();
        out.extend_from_slice(b"* ");
        print::number(out, u64::from(selected.recent_count()));
        out.extend_from_slice(b" RECENT\r\n");
    }
}

/// Sends FLAGS and PERMANENTFLAGS: RFC 9051 §7.3.5, §7.1. Where a client cannot add keywords of
/// its own, the common ones, which it still can set, are listed.
pub(crate) fn report_flags(wire: &mut Wire, selected: &Selected) {
    let view = &selected.announced;
    let table = &view.head().keywords;
    let has_room = table.has_room(view.totals().flags_any);
    let out = wire.out();
    out.extend_from_slice(b"* FLAGS (");
    let from = out.len();
    out.extend_from_slice(b"\\Answered \\Flagged \\Deleted \\Seen \\Draft");
    let mut add = |keyword: &str| {
        out.push(b' ');
        out.extend_from_slice(keyword.as_bytes());
    };
    table.keywords().iter().for_each(|keyword| add(keyword.as_str()));
    if !has_room {
        table.absent_common().for_each(&mut add);
    }
    let all = from..out.len();
    out.extend_from_slice(b")\r\n* OK [PERMANENTFLAGS (");
    if !selected.read_only {
        print_permanent(out, all, selected.rights);
        if has_room && selected.rights.contains(Rights::WRITE) {
            out.extend_from_slice(b" \\*");
        }
    }
    out.extend_from_slice(b")] Flags that last\r\n");
}

/// The changes that a session may make in its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changeable {
    read_only: bool,
    flags: FlagSet,
}

impl Changeable {
    pub(crate) fn of(selected: &Selected) -> Self {
        let flags = if selected.read_only { FlagSet::EMPTY } else { changeable(selected.rights) };
        Self { read_only: selected.read_only, flags }
    }
}

/// Reports what the session may change now, if rights were granted or revoked since.
/// RFC 9051 §7.1: READ-ONLY, READ-WRITE and PERMANENTFLAGS.
pub(crate) fn report_rights(wire: &mut Wire, selected: &Selected, before: Changeable) {
    let now = Changeable::of(selected);
    if now.flags != before.flags {
        report_flags(wire, selected);
    }
    match (before.read_only, now.read_only) {
        (true, false) => wire.say_code(Code::ReadWrite, "You may change the mailbox now"),
        (false, true) => wire.say_code(Code::ReadOnly, "You may no longer change the mailbox"),
        _ => {}
    }
}

/// RFC 4314 §5.2: those of the flags printed before that the session may change.
fn print_permanent(out: &mut Vec<u8>, all: Range<usize>, rights: Rights) {
    if rights == Rights::ALL {
        return out.extend_from_within(all);
    }
    let needed = |flag: &[u8]| match flag {
        b"\\Seen" => Rights::SEEN,
        b"\\Deleted" => Rights::DELETE_MESSAGES,
        _ => Rights::WRITE,
    };
    let flags = out[all].split(|byte| *byte == b' ').filter(|flag| rights.contains(needed(flag)));
    let permanent = flags.collect::<Vec<_>>().join(&b' ');
    out.extend_from_slice(&permanent);
}

/// The data from which FETCH responses are printed.
struct ReportContext<'v> {
    old: &'v View,
    new: &'v View,
    enabled: Enabled,
    /// The client's own change, and its flags by the new view's table.
    own: Option<(&'v OwnChange<'v>, FlagSet)>,
    with_modseq: bool,
    /// Set if the session takes turns with others of its account, because they may report the
    /// same.
    turns: Option<Threads<'v>>,
    /// Slots that mean another keyword in the new view than in the old one. Flags without them mean
    /// the same in both tables.
    renamed: FlagSet,
}

impl<'v> ReportContext<'v> {
    fn new(old: &'v View, new: &'v View, enabled: Enabled, own_change: Option<&'v OwnChange<'v>>) -> Self {
        let table = &new.head().keywords;
        Self {
            old,
            new,
            enabled,
            own: own_change.and_then(|own| Some((own, own.flags_by(table)?))),
            turns: None,
            with_modseq: enabled.condstore && own_change.is_some_and(|own| own.with_modseq),
            renamed: table.renamed_since(&old.head().keywords),
        }
    }
}

/// Sends FETCH for every message whose flags or mod-sequence differ from those the client knows.
async fn report_changed(
    wire: &mut Wire,
    selected: &Selected,
    changed: &NumSet<SeqNum>,
    context: &ReportContext<'_>,
) -> Result<(), Failure> {
    if changed.is_empty() {
        return Ok(());
    }
    let (mut names, mut pace) = (FlagNames::new(&context.new.head().keywords), Pace::default());
    let row_steps = if context.own.is_some() { OWN_ROW_STEPS } else { ROW_STEPS };
    let mut turn = context.turns.map(Turn::of);
    let mut old_rows = context.old.finder();
    // Counted once: counting reads all ranges.
    let count = changed.count();
    for (seq, rows) in context.new.runs(changed) {
        for (part, rows) in rows.chunks(ROWS_PER_RELIEF).enumerate() {
            if let Some(turn) = &mut turn {
                turn.take(LongWork::Rows(count)).await;
            }
            let first = seq.value() + (part * ROWS_PER_RELIEF) as u32;
            for (row, seq) in rows.iter().zip(first..) {
                let what = context.row_items(row, &mut old_rows);
                if what != RowItems::Nothing
                    && let Some(seq) = SeqNum::new(seq)
                {
                    let recent = !context.enabled.rev2 && selected.is_recent(row.uid());
                    let reported = Reported { seq, row, recent, what };
                    print_row(wire.out(), &mut names, context.enabled, reported);
                }
            }
            match &mut turn {
                Some(turn) => turn.relieve(wire).await?,
                None => wire.relieve().await?,
            }
            pace.worked(rows.len() as u64 * row_steps).await;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RowItems {
    Nothing,
    ModSeq,
    Flags,
}

impl ReportContext<'_> {
    /// The items to report for a changed row. `old_rows` finds rows of the old view: changed rows
    /// come with rising UIDs, so that most are the next one there.
    fn row_items(&self, row: &Row, old_rows: &mut RowFinder<'_>) -> RowItems {
        // Only the client's own change needs a comparison with the old row.
        let expected = self.own.is_some_and(|(own, flags)| {
            own.uids.contains(row.uid().value())
                && old_rows.find(row.uid()).is_some_and(|old| {
                    !old.flags().intersects(self.renamed) && own.expected(old.flags(), flags) == row.flags()
                })
        });
        match (expected, self.with_modseq) {
            (true, true) => RowItems::ModSeq,
            (true, false) => RowItems::Nothing,
            (false, _) => RowItems::Flags,
        }
    }
}

/// A changed message, and the items that are reported of it.
struct Reported<'r> {
    seq: SeqNum,
    row: &'r Row,
    recent: bool,
    what: RowItems,
}

/// `* 3 FETCH (UID 7 FLAGS (\Seen) MODSEQ (12))`
fn print_row(out: &mut Vec<u8>, names: &mut FlagNames<'_>, enabled: Enabled, reported: Reported<'_>) {
    let Reported { seq, row, recent, what } = reported;
    Line::print(out, |line| {
        begin_fetch(line, enabled, seq, row);
        let mut items: [&[u8]; 2] = [b" FLAGS ", b" MODSEQ ("];
        if enabled.uid_only {
            // No item precedes the first one, so there is no space.
            items = [b"FLAGS ", if what == RowItems::Flags { b" MODSEQ (" } else { b"MODSEQ (" }];
        } else {
            line.put(b"UID ");
            line.number(u64::from(row.uid().value()));
        }
        if what == RowItems::Flags {
            line.put_slice(items[0]);
            line.put_slice(names.list(row.flags(), recent));
        }
        if enabled.condstore {
            line.put_slice(items[1]);
            line.number(row.modseq().value());
            line.put(b")");
        }
        line.put(b")\r\n");
    });
}

/// Sends FETCH for messages of the announced view, changed or not. It answers a STORE whose
/// messages already were as requested, and QRESYNC. With an `own_change` it sends mod-sequences
/// without flags.
pub(crate) async fn report_messages(
    wire: &mut Wire,
    selected: &Selected,
    enabled: Enabled,
    seqs: &NumSet<SeqNum>,
    own_change: Option<&OwnChange<'_>>,
) -> Result<(), Failure> {
    let view = Arc::clone(&selected.announced);
    // The view is also passed as the old one, so every row is reported.
    let context = ReportContext::new(&view, &view, enabled, own_change);
    report_changed(wire, selected, seqs, &context).await
}
