//! What a client has to be told: the difference between the view it knows and the newest one.
//!
//! * EXPUNGE is never told during FETCH, STORE or SEARCH by sequence number, nor without a command
//!   in progress (RFC 9051 §7.5.1). What has gone meanwhile stays in the announced view, where it
//!   keeps its number; all else of the difference is told.
//! * After ENABLE QRESYNC it is VANISHED instead (RFC 7162 §3.2.10).
//! * FETCH carries the UID (RFC 9051 §7.5.2 demands it) and, for those who asked for CONDSTORE,
//!   MODSEQ (RFC 7162 §3.2).

use std::sync::Arc;

use posthaste_imap_codec::print;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{Flag, FlagSet, KeywordTable, ModSeq, NumSet, SeqNum};
use posthaste_store::{Difference, FlagChange, Row, View};

use crate::enabled::Enabled;
use crate::flag_names::FlagNames;
use crate::reply::Failure;
use crate::selected::Selected;
use crate::table::Numbers;
use crate::wire::Wire;

/// Rows printed between two looks at the buffer.
const ROWS_PER_RELIEF: usize = 512;

/// HIGHESTMODSEQ as it is told. Of a mailbox never changed it is 1, because 0 would say that there
/// are no mod-sequences (RFC 7162 §3.1.2.1, §7).
pub(crate) fn told_modseq(modseq: ModSeq) -> ModSeq {
    modseq.max(ModSeq::ZERO.next())
}

/// A mod-sequence a client remembers. 1 may be what a mailbox never changed told it
/// ([`told_modseq`]), so the first change is told again.
pub(crate) fn asked_since(modseq: ModSeq) -> ModSeq {
    if modseq <= ModSeq::ZERO.next() { ModSeq::ZERO } else { modseq }
}

/// Switches CONDSTORE on: RFC 7162 §3.1. The first command that does so while a mailbox is
/// selected is told that mailbox's HIGHESTMODSEQ. Whether it was off.
pub(crate) fn enable_condstore(wire: &mut Wire, selected: Option<&Selected>, enabled: &mut Enabled) -> bool {
    let was_off = !std::mem::replace(&mut enabled.condstore, true);
    if was_off && let Some(selected) = selected {
        tell_synchronised(wire, selected);
    }
    was_off
}

/// `* OK [HIGHESTMODSEQ n]`: up to where the client has been told everything.
pub(crate) fn tell_synchronised(wire: &mut Wire, selected: &Selected) {
    wire.say_code(Code::HighestModSeq(told_modseq(selected.synchronised_to())), "Highest");
}

/// A change the client made and that needs no response of its own if nobody else had a hand in it:
/// with `.SILENT`, or by reading a body, when the response to FETCH carries the flags.
pub(crate) struct Silently<'c> {
    /// Which messages.
    pub(crate) uids: &'c NumSet,
    /// How.
    pub(crate) change: FlagChange,
    /// Which flags.
    pub(crate) flags: &'c [Flag],
    /// Whether mod-sequences are told all the same: RFC 7162 §3.1.3 wants them after `.SILENT`.
    pub(crate) with_modseq: bool,
}

impl Silently<'_> {
    /// Its flags by a view's table. `None` if others have removed one of the keywords since, so
    /// that no message has it.
    fn flags_by(&self, table: &KeywordTable) -> Option<FlagSet> {
        self.flags.iter().try_fold(FlagSet::EMPTY, |set, flag| match table.set_of(flag) {
            Some(bit) => Some(set.union(bit)),
            None if self.change == FlagChange::Remove => Some(set),
            None => None,
        })
    }

    /// The flags the client expects of a message that had `old` when it asked for `own`.
    fn expected(&self, old: FlagSet, own: FlagSet) -> FlagSet {
        match self.change {
            FlagChange::Replace => own,
            FlagChange::Add => old.union(own),
            FlagChange::Remove => old.difference(own),
        }
    }
}

/// Tells all that may be told with a command of this kind, and remembers that it was.
pub(crate) async fn announce(
    wire: &mut Wire,
    selected: &mut Selected,
    enabled: Enabled,
    numbers: Numbers,
    silently: Option<&Silently<'_>>,
) -> Result<(), Failure> {
    let newest = selected.mailbox.current().await?;
    if Arc::ptr_eq(&newest, &selected.announced) {
        return Ok(());
    }
    let old = Arc::clone(&selected.announced);
    let mut diff = newest.difference_from(&old);
    let mut new = newest;
    let was_held = selected.held_since;
    if numbers == Numbers::Held && !diff.expunged.is_empty() {
        new = old.holding_expunged(&new, &diff);
        diff = new.difference_from(&old);
        selected.held_since = was_held.or(Some(old.modseq()));
    } else {
        selected.held_since = None;
    }
    selected.announced = Arc::clone(&new);
    tell_expunged(wire, &diff, enabled).await?;
    if !diff.arrived.is_empty() {
        tell_arrived(wire, selected, enabled);
    }
    if diff.new_keywords {
        tell_flags(wire, selected);
    }
    let told = Told::new(&old, &new, enabled, silently);
    tell_changed(wire, selected, &diff.changed, &told).await?;
    // RFC 7162 §3.2: who is told a MODSEQ beyond that of an EXPUNGE held back must not take it for
    // all there was, or would never hear of the EXPUNGE if the connection broke now.
    let overtaken = selected.held_since.is_some() && !diff.changed.is_empty();
    let caught_up = was_held.is_some() && selected.held_since.is_none();
    if enabled.condstore && (overtaken || caught_up) {
        tell_synchronised(wire, selected);
    }
    Ok(())
}

/// EXPUNGE or VANISHED.
async fn tell_expunged(wire: &mut Wire, diff: &Difference, enabled: Enabled) -> Result<(), Failure> {
    if diff.expunged.is_empty() {
        return Ok(());
    }
    if enabled.qresync {
        let out = wire.out();
        out.extend_from_slice(b"* VANISHED ");
        print::num_set(out, &diff.expunged_uids);
        out.extend_from_slice(b"\r\n");
        return Ok(());
    }
    for seq in diff.expunged_descending() {
        let out = wire.out();
        out.extend_from_slice(b"* ");
        print::number(out, u64::from(seq.value()));
        out.extend_from_slice(b" EXPUNGE\r\n");
        if wire.is_full() {
            wire.relieve().await?;
        }
    }
    Ok(())
}

/// EXISTS and, for IMAP4rev1, RECENT.
pub(crate) fn tell_arrived(wire: &mut Wire, selected: &mut Selected, enabled: Enabled) {
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

/// FLAGS and PERMANENTFLAGS: RFC 9051 §7.3.5, §7.1. Where a client cannot add keywords of its
/// own, the common ones, which it still can, are named one by one.
pub(crate) fn tell_flags(wire: &mut Wire, selected: &Selected) {
    let (view, mut all) = (&selected.announced, Vec::new());
    let table = &view.head().keywords;
    let has_room = table.has_room(view.totals().flags_any);
    all.extend_from_slice(b"\\Answered \\Flagged \\Deleted \\Seen \\Draft");
    let mut add = |keyword: &str| {
        all.push(b' ');
        all.extend_from_slice(keyword.as_bytes());
    };
    table.keywords().iter().for_each(|keyword| add(keyword.as_str()));
    if !has_room {
        table.absent_common().for_each(&mut add);
    }
    let out = wire.out();
    out.extend_from_slice(b"* FLAGS (");
    out.extend_from_slice(&all);
    out.extend_from_slice(b")\r\n* OK [PERMANENTFLAGS (");
    if !selected.read_only {
        out.extend_from_slice(&all);
        if has_room {
            out.extend_from_slice(b" \\*");
        }
    }
    out.extend_from_slice(b")] Flags that last\r\n");
}

/// What FETCH responses are printed from.
struct Told<'v> {
    old: &'v View,
    new: &'v View,
    enabled: Enabled,
    /// What the client did itself, and its flags by the new view's table.
    own: Option<(&'v Silently<'v>, FlagSet)>,
    with_modseq: bool,
    /// Slots that mean another keyword in the new view than in the old. Flags without them are the
    /// same by both tables.
    renamed: FlagSet,
}

impl<'v> Told<'v> {
    fn new(old: &'v View, new: &'v View, enabled: Enabled, silently: Option<&'v Silently<'v>>) -> Self {
        let table = &new.head().keywords;
        Self {
            old,
            new,
            enabled,
            own: silently.and_then(|own| Some((own, own.flags_by(table)?))),
            with_modseq: enabled.condstore && silently.is_some_and(|own| own.with_modseq),
            renamed: table.renamed_since(&old.head().keywords),
        }
    }
}

/// FETCH for every message whose flags or mod-sequence are other than the client knows.
async fn tell_changed(
    wire: &mut Wire,
    selected: &Selected,
    changed: &NumSet,
    told: &Told<'_>,
) -> Result<(), Failure> {
    if changed.is_empty() {
        return Ok(());
    }
    let mut names = FlagNames::new(&told.new.head().keywords);
    for (seq, rows) in told.new.runs(changed) {
        for (part, rows) in rows.chunks(ROWS_PER_RELIEF).enumerate() {
            let first = seq.value() + (part * ROWS_PER_RELIEF) as u32;
            for (row, seq) in rows.iter().zip(first..) {
                let what = told.what(row);
                if what != What::Nothing
                    && let Some(seq) = SeqNum::new(seq)
                {
                    let recent = !told.enabled.rev2 && selected.is_recent(row.uid());
                    print_row(wire.out(), &mut names, seq, row, recent, what, told.enabled);
                }
            }
            if wire.is_full() {
                wire.relieve().await?;
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Nothing,
    ModSeq,
    Flags,
}

impl Told<'_> {
    /// What is to be told of a changed row.
    fn what(&self, row: &Row) -> What {
        // Only a silent change makes it worth looking at what was there before.
        let expected = self.own.is_some_and(|(own, flags)| {
            own.uids.contains(row.uid().value())
                && self.old.row_of_uid(row.uid()).is_some_and(|(_, old)| {
                    !old.flags().intersects(self.renamed) && own.expected(old.flags(), flags) == row.flags()
                })
        });
        match (expected, self.with_modseq) {
            (true, true) => What::ModSeq,
            (true, false) => What::Nothing,
            (false, _) => What::Flags,
        }
    }
}

/// `* 3 FETCH (UID 7 FLAGS (\Seen) MODSEQ (12))`
fn print_row(
    out: &mut Vec<u8>,
    names: &mut FlagNames<'_>,
    seq: SeqNum,
    row: &Row,
    recent: bool,
    what: What,
    enabled: Enabled,
) {
    out.extend_from_slice(b"* ");
    print::number(out, u64::from(seq.value()));
    out.extend_from_slice(b" FETCH (UID ");
    print::number(out, u64::from(row.uid().value()));
    if what == What::Flags {
        out.extend_from_slice(b" FLAGS ");
        out.extend_from_slice(names.list(row.flags(), recent));
    }
    if enabled.condstore {
        out.extend_from_slice(b" MODSEQ (");
        print::number(out, row.modseq().value());
        out.push(b')');
    }
    out.extend_from_slice(b")\r\n");
}

/// FETCH for messages of the announced view, changed or not: the answer to a STORE that found them
/// as asked, and to QRESYNC. With flags, or with mod-sequences alone if it is to be silent of them.
pub(crate) async fn tell_again(
    wire: &mut Wire,
    selected: &Selected,
    enabled: Enabled,
    seqs: &NumSet,
    silently: Option<&Silently<'_>>,
) -> Result<(), Failure> {
    let view = Arc::clone(&selected.announced);
    // With itself as the old view every row is told.
    let told = Told::new(&view, &view, enabled, silently);
    tell_changed(wire, selected, seqs, &told).await
}
