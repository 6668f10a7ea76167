//! Changed occurrences of a series: MS-OXOCAL §2.2.1.44.2 to §2.2.1.44.4.

use crate::charset;
use crate::decode::utf_16;
use crate::error::Damage;
use crate::reader::Reader;

const WHAT: &str = "a changed occurrence";

/// A changed occurrence. Times are minutes since 1601 on the organizer's clock. What is `None` is
/// as in the series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// The time when the occurrence would begin without the change.
    pub original: i64,
    pub start: i64,
    pub end: i64,
    pub subject: Option<String>,
    pub place: Option<String>,
    pub busy: Option<u32>,
    pub has_whole_days: Option<bool>,
    flags: u16,
}

/// The values that an occurrence has of its own: OverrideFlags.
mod has {
    pub const SUBJECT: u16 = 0x0001;
    pub const MEETING_TYPE: u16 = 0x0002;
    pub const REMINDER_DELTA: u16 = 0x0004;
    pub const REMINDER: u16 = 0x0008;
    pub const PLACE: u16 = 0x0010;
    pub const BUSY: u16 = 0x0020;
    pub const ATTACHMENT: u16 = 0x0040;
    pub const WHOLE_DAYS: u16 = 0x0080;
    pub const COLOR: u16 = 0x0100;
}

/// Writers from this version on add what clients highlight.
const HIGHLIGHTS: u32 = 0x3009;

/// Reads the changed occurrences: at most `limit`.
pub(super) fn changes(
    reader: &mut Reader<'_>,
    writer: u32,
    code_page: u32,
    limit: usize,
) -> Result<Vec<Change>, Damage> {
    let count = usize::from(reader.u16(WHAT)?);
    if count > limit {
        return Err(Damage::TooMany { limit });
    }
    let changes: Result<Vec<_>, Damage> = (0..count).map(|_| Change::read(reader, code_page)).collect();
    let mut changes = changes?;
    // Each text is there twice. The one in 8 bits is enough if the other is missing.
    let _ = unicode_texts(&mut changes, reader, writer);
    Ok(changes)
}

impl Change {
    /// ExceptionInfo: MS-OXOCAL §2.2.1.44.2.
    fn read(reader: &mut Reader<'_>, code_page: u32) -> Result<Self, Damage> {
        let mut minutes = || Ok::<i64, Damage>(i64::from(reader.u32(WHAT)?));
        let (start, end, original) = (minutes()?, minutes()?, minutes()?);
        let flags = reader.u16(WHAT)?;
        let is_set = |flag: u16| flags & flag != 0;
        let text = |reader: &mut Reader<'_>, flag: u16| {
            if !is_set(flag) {
                return Ok(None);
            }
            // The first length counts a NUL that is not there.
            let _with_nul = reader.u16(WHAT)?;
            let len = usize::from(reader.u16(WHAT)?);
            Ok::<_, Damage>(Some(charset::decode(code_page, reader.take(len, WHAT)?).into_owned()))
        };
        let number = |reader: &mut Reader<'_>, flag: u16| match is_set(flag) {
            true => reader.u32(WHAT).map(Some),
            false => Ok(None),
        };
        let subject = text(reader, has::SUBJECT)?;
        for flag in [has::MEETING_TYPE, has::REMINDER_DELTA, has::REMINDER] {
            number(reader, flag)?;
        }
        let place = text(reader, has::PLACE)?;
        let busy = number(reader, has::BUSY)?;
        number(reader, has::ATTACHMENT)?;
        let has_whole_days = number(reader, has::WHOLE_DAYS)?.map(|kind| kind == 1);
        number(reader, has::COLOR)?;
        Ok(Self { original, start, end, subject, place, busy, has_whole_days, flags })
    }
}

/// The same texts again, in UTF-16: ExtendedException, MS-OXOCAL §2.2.1.44.4.
fn unicode_texts(changes: &mut [Change], reader: &mut Reader<'_>, writer: u32) -> Result<(), Damage> {
    let block = |reader: &mut Reader<'_>| {
        let len = reader.len(WHAT)?;
        reader.take(len, WHAT).map(|_| ())
    };
    let text = |reader: &mut Reader<'_>| {
        let len = usize::from(reader.u16(WHAT)?);
        Ok::<_, Damage>(Some(utf_16(reader.take(2 * len, WHAT)?)))
    };
    block(reader)?;
    for change in changes {
        if writer >= HIGHLIGHTS {
            block(reader)?;
        }
        block(reader)?;
        if change.flags & (has::SUBJECT | has::PLACE) == 0 {
            continue;
        }
        let _times = (reader.u32(WHAT)?, reader.u32(WHAT)?, reader.u32(WHAT)?);
        if change.flags & has::SUBJECT != 0 {
            change.subject = text(reader)?;
        }
        if change.flags & has::PLACE != 0 {
            change.place = text(reader)?;
        }
        block(reader)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
