//! What a client has to be told: the difference between the view it knows and the newest one.
//!
//! * EXPUNGE is never told during FETCH, STORE or SEARCH by sequence number, nor without a command in progress
//!   (RFC 9051 §7.5.1). What has gone meanwhile stays in the announced view, where it keeps its number; all else
//!   of the difference is told.
//! * After ENABLE QRESYNC it is VANISHED instead (RFC 7162 §3.2.10).
//! * FETCH carries the UID (RFC 9051 §7.5.2 demands it) and, for those who asked for CONDSTORE, MODSEQ
//!   (RFC 7162 §3.2).

use std::sync::Arc;

use posthaste_imap_codec::print;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{FlagSet, ModSeq, NumSet, SeqNum, Uid};
use posthaste_store::{Difference, FlagChange, Row, View};

use crate::enabled::Enabled;
use crate::flag_names::FlagNames;
use crate::reply::Failure;
use crate::selected::Selected;
use crate::table::Numbers;
use crate::wire::Wire;

/// Rows printed between two looks at the buffer.
const ROWS_PER_RELIEF: usize = 512;

/// HIGHESTMODSEQ as it is told. Of a mailbox never changed it is 1, because 0 would say that there are no
/// mod-sequences (RFC 7162 §3.1.2.1, §7).
pub(crate) fn told_modseq(modseq: ModSeq) -> ModSeq {
    modseq.max(ModSeq::ZERO.next())
}

/// A mod-sequence a client remembers. 1 may be what a mailbox never changed told it ([`told_modseq`]), so the first
/// change is told again.
pub(crate) fn asked_since(modseq: ModSeq) -> ModSeq {
    if modseq <= ModSeq::ZERO.next() { ModSeq::ZERO } else { modseq }
}

/// Switches CONDSTORE on: RFC 7162 §3.1. The first command that does so while a mailbox is selected is told that
/// mailbox's HIGHESTMODSEQ. Whether it was off.
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

/// A change the client made and that needs no response of its own if nobody else had a hand in it: with `.SILENT`, or by
/// reading a body, when the response to FETCH carries the flags.
pub(crate) struct Silently<'c> {
    /// Which messages.
    pub(crate) uids: &'c NumSet,
    /// How.
    pub(crate) change: FlagChange,
    /// Which flags, in the newest view's bits.
    pub(crate) flags: FlagSet,
    /// Whether mod-sequences are told all the same: RFC 7162 §3.1.3 wants them after `.SILENT`.
    pub(crate) with_modseq: bool,
}

impl Silently<'_> {
    /// Whether the client expects these flags.
    fn expects(&self, uid: Uid, old: FlagSet, new: FlagSet) -> bool {
        let expected = match self.change {
            FlagChange::Replace => self.flags,
            FlagChange::Add => old.union(self.flags),
            FlagChange::Remove => old.difference(self.flags),
        };
        expected == new && self.uids.contains(uid.value())
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
    let told = Told { old: &old, new: &new, enabled, silently };
    tell_changed(wire, selected, &diff.changed, &told).await?;
    // RFC 7162 §3.2: who is told a MODSEQ beyond that of an EXPUNGE held back must not take it for all there was, or
    // would never hear of the EXPUNGE if the connection broke now.
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

/// FLAGS and PERMANENTFLAGS: RFC 9051 §7.3.5, §7.1.
pub(crate) fn tell_flags(wire: &mut Wire, selected: &Selected) {
    use posthaste_mail_model::KeywordTable;
    const SYSTEM: &[u8] = b"\\Answered \\Flagged \\Deleted \\Seen \\Draft";
    let keywords = selected.announced.head().keywords.keywords();
    let out = wire.out();
    out.extend_from_slice(b"* FLAGS (");
    out.extend_from_slice(SYSTEM);
    for keyword in keywords {
        out.push(b' ');
        out.extend_from_slice(keyword.as_str().as_bytes());
    }
    out.extend_from_slice(b")\r\n* OK [PERMANENTFLAGS (");
    if !selected.read_only {
        out.extend_from_slice(SYSTEM);
        for keyword in keywords {
            out.push(b' ');
            out.extend_from_slice(keyword.as_str().as_bytes());
        }
        if keywords.len() < KeywordTable::SLOTS {
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
    silently: Option<&'v Silently<'v>>,
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
        let expected = self.silently.is_some_and(|own| {
            self.old
                .row_of_uid(row.uid())
                .is_some_and(|(_, old)| own.expects(row.uid(), old.flags(), row.flags()))
        });
        let with_modseq = self.enabled.condstore && self.silently.is_some_and(|own| own.with_modseq);
        match (expected, with_modseq) {
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

/// FETCH for messages of the announced view, changed or not: the answer to a STORE that found them as asked, and to QRESYNC. With
/// flags, or with mod-sequences alone if it is to be silent of them.
pub(crate) async fn tell_again(
    wire: &mut Wire,
    selected: &Selected,
    enabled: Enabled,
    seqs: &NumSet,
    silently: Option<&Silently<'_>>,
) -> Result<(), Failure> {
    let view = Arc::clone(&selected.announced);
    // With itself as the old view every row is told.
    let told = Told { old: &view, new: &view, enabled, silently };
    tell_changed(wire, selected, seqs, &told).await
}
