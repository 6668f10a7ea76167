//! Reads everything and proves that it fits together.
//!
//! One reading transaction gives one moment of the index; commits go on beside it. What is proved: every record of every pack
//! below its end is intact; every body of the index lies where it says and is held by as many messages as it says; every mailbox's
//! rows are in order, within its head, add up to its counts, and each has its summary and a body of its size; nothing is left that belongs to
//! no one. Memory: 24 bytes a body for the references, 28 a message of the largest mailbox.

use heed::RoTxn;
use posthaste_mail_model::{AccountId, BodyId, FlagSet, Id, MailboxId, NumSet};
use posthaste_store::{Counts, Report, Result, Row};
use std::collections::{BTreeSet, HashMap};

use crate::chunk::{self, uid_key, uid_of};
use crate::index::{Index, Indexed, between, copied_from, damaged, number_of_key};
use crate::links;
use crate::lists::{self, ALL_OF_MAILBOX};
use crate::packs::reader::ReadFault;
use crate::packs::record::{Form, Kind};
use crate::packs::scan::{Scan, pack_form};
use crate::packs::{number_of, path_of};
use crate::read;
use crate::shared::Shared;
use crate::sum::seed;
use crate::values::{BodyPlace, Kept, PackState, directory_from, summary_from};

/// Faults listed; a store in ruins shall not fill the memory with sentences about it.
const FAULTS_MAX: usize = 1_000;

/// Share of the whole that reading the packs is taken to be.
const PACKS_SHARE: f64 = 0.8;

struct Check<'a> {
    shared: &'a Shared,
    index: &'a Index,
    txn: RoTxn<'a, heed::WithoutTls>,
    report: Report,
    more_faults: u64,
    /// How often each body is held, less the holders that are not counted yet.
    held: HashMap<BodyId, i64>,
    /// Body records met where the index says they are.
    bodies_met: u64,
    summaries_met: u64,
    links_met: u64,
    chunks_met: u64,
}

/// See the head of this file.
pub(crate) fn check(shared: &Shared, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Report> {
    let index = &shared.index;
    let mut check = Check {
        shared,
        index,
        txn: index.read()?,
        report: Report::default(),
        more_faults: 0,
        held: HashMap::new(),
        bodies_met: 0,
        summaries_met: 0,
        links_met: 0,
        chunks_met: 0,
    };
    check.packs(progress)?;
    check.mailboxes(progress)?;
    check.removed_mailboxes()?;
    check.bodies()?;
    check.totals()?;
    check.lists()?;
    check.directory()?;
    progress(1.0);
    if check.more_faults > 0 {
        check.report.faults.push(format!("{} more faults are not listed", check.more_faults));
    }
    Ok(check.report)
}

impl Check<'_> {
    fn fault(&mut self, sentence: String) {
        if self.report.faults.len() < FAULTS_MAX {
            self.report.faults.push(sentence);
        } else {
            self.more_faults += 1;
        }
    }

    fn packs(&mut self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<()> {
        let packs = self.index.all_packs(&self.txn)?;
        let total = packs.iter().map(|(_, s)| s.end).sum::<u64>().max(1);
        let mut done = 0;
        for &(number, state) in &packs {
            self.pack(number, state, &mut |at| progress((done + at) as f64 / total as f64 * PACKS_SHARE))?;
            done += state.end;
        }
        let highest = packs.last().map_or(0, |(n, _)| *n);
        for name in self.shared.disk.list(&self.shared.packs).unwrap_or_default() {
            if number_of(&name).is_some_and(|n| n > highest) && self.still_unknown(&name)? {
                self.fault(format!("packs/{name} is not in the index: the index is older than the packs"));
            }
        }
        Ok(())
    }

    /// Whether a pack beyond the index of this transaction has records and is not in the index now either.
    fn still_unknown(&self, name: &str) -> Result<bool> {
        let size = self.shared.disk.open(&self.shared.packs.join(name)).and_then(|f| f.size()).unwrap_or(0);
        let Some(number) = number_of(name) else { return Ok(false) };
        Ok(size > 0 && self.index.pack(&*self.index.read()?, number)?.is_none())
    }

    fn pack(&mut self, number: u32, state: PackState, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let file = match self.shared.disk.open(&path_of(&self.shared.packs, number)) {
            Ok(file) => file,
            // Emptied and removed since this transaction began.
            Err(_) if self.index.pack(&*self.index.read()?, number)?.is_none() => {
                return self.pass_over(number);
            }
            Err(error) => {
                self.fault(format!("pack {number} cannot be opened: {error}"));
                return Ok(());
            }
        };
        if state.end == 0 {
            return Ok(());
        }
        let form = match pack_form(&*file, number, self.shared.store) {
            Ok(Some(form)) => form,
            Ok(None) => {
                self.fault(format!("pack {number} does not begin as this store's pack {number}"));
                Form::bound(self.shared.store, number)
            }
            Err(fault) => {
                self.fault(format!("pack {number}: {}", said(&fault)));
                return Ok(());
            }
        };
        let mut scan = Scan::new(&*file, form, 0, state.end);
        loop {
            let at = scan.offset();
            let found = match scan.advance() {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(()),
                Err(fault) => {
                    self.fault(format!(
                        "pack {number} at byte {at}: {}; what follows was not read",
                        said(&fault)
                    ));
                    return Ok(());
                }
            };
            self.report.examined += 1;
            if let Err(fault) = scan.whole(&found) {
                let what = format!("{:?} record {}", found.header.kind, found.header.id);
                self.fault(format!("pack {number} at byte {at}: {what}: {}", said(&fault)));
            }
            if found.header.kind == Kind::Body {
                let place = self.index.body(&self.txn, BodyId(found.header.id)).ok().flatten();
                let here =
                    |p: &BodyPlace| (p.pack, p.offset, p.len) == (number, found.offset, found.header.len);
                self.bodies_met += u64::from(place.as_ref().is_some_and(here));
            }
            progress(at);
        }
    }

    /// A pack that went while we looked: its bodies count as met.
    fn pass_over(&mut self, number: u32) -> Result<()> {
        let met = self.index.all_bodies(&self.txn)?;
        self.bodies_met += met.filter(|b| b.as_ref().is_ok_and(|(_, p)| p.pack == number)).count() as u64;
        Ok(())
    }

    fn mailboxes(&mut self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<()> {
        self.uncounted_copies()?;
        let mut ids = Vec::new();
        for item in self.index.heads.iter(&self.txn).indexed()? {
            let key = item.indexed()?.0;
            ids.push(MailboxId(id_of(key).ok_or_else(damaged("key of a head"))?));
        }
        for (done, id) in ids.iter().enumerate() {
            if let Err(error) = self.mailbox(*id) {
                self.fault(error.to_string());
            }
            progress(PACKS_SHARE + (1.0 - PACKS_SHARE) * done as f64 / ids.len() as f64);
        }
        Ok(())
    }

    /// Copies whose bodies maintenance has not counted yet.
    fn uncounted_copies(&mut self) -> Result<()> {
        for item in self.index.copied.iter(&self.txn).indexed()? {
            let (key, value) = item.indexed()?;
            let (mailbox, set) = copied_from(key, value)?;
            for &(low, high) in set.ranges() {
                let (low, high) = (uid_key(mailbox, low), uid_key(mailbox, high));
                for item in self.index.summaries.range(&self.txn, &between(&low, &high)).indexed()? {
                    let (key, value) = item.indexed()?;
                    let uid = uid_of(mailbox, key).unwrap_or(0);
                    if let Some(found) = summary_from(seed(mailbox.0), uid, value) {
                        *self.held.entry(found.body).or_default() -= 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn mailbox(&mut self, mailbox: MailboxId) -> Result<()> {
        let Some(stored) = self.index.head(&self.txn, mailbox)? else { return Ok(()) };
        let rows = self.rows(mailbox)?;
        let head = &stored.head;
        let mut counts = Counts::default();
        for row in &rows {
            counts.messages += 1;
            counts.unseen += u32::from(!row.flags().contains(FlagSet::SEEN));
            counts.deleted += u32::from(row.flags().contains(FlagSet::DELETED));
            counts.bytes += u64::from(row.size());
            if row.uid() >= head.uid_next || row.modseq() > head.modseq {
                self.fault(format!("mailbox {mailbox}: UID {} is beyond the head", row.uid()));
            }
        }
        if counts != head.counts {
            self.fault(format!("mailbox {mailbox}: the head counts {:?}, the rows {counts:?}", head.counts));
        }
        let leftovers = read::leftovers(self.index, &self.txn, mailbox)?;
        self.summaries(mailbox, &rows, &leftovers)
    }

    fn rows(&mut self, mailbox: MailboxId) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        for item in self.index.rows.prefix_iter(&self.txn, &mailbox.0.to_bytes()).indexed()? {
            let (key, value) = item.indexed()?;
            let low = uid_of(mailbox, key).ok_or_else(damaged("key of a chunk"))?;
            let (before, last) = (rows.len(), rows.last().map_or(0, chunk::number));
            chunk::decode(mailbox, low, value, &mut rows)
                .ok_or_else(damaged(format_args!("rows of mailbox {mailbox} from UID {low}")))?;
            let new = &rows[before..];
            let rising = new.windows(2).all(|w| w[0].uid() < w[1].uid());
            if !rising || last >= low || new.first().is_none_or(|r| chunk::number(r) < low) {
                return Err(
                    damaged(format_args!("mailbox {mailbox}: rows from UID {low} are out of order"))(),
                );
            }
            self.chunks_met += 1;
            self.report.examined += 1;
        }
        Ok(rows)
    }

    /// Each row has its summary, each summary a row, or a note that it is to be removed.
    fn summaries(&mut self, mailbox: MailboxId, rows: &[Row], leftovers: &NumSet) -> Result<()> {
        let index = self.index;
        let seed = seed(mailbox.0);
        let mut rest = rows.iter().peekable();
        let (low, high) = (uid_key(mailbox, 0), uid_key(mailbox, u32::MAX));
        let (mut faults, mut bare) = (Vec::new(), Vec::new());
        // Of a removed mailbox, rows are the last to go.
        let mut lacking = |row: &Row| {
            if !leftovers.contains(chunk::number(row)) {
                bare.push(format!("mailbox {mailbox}: UID {} has no summary", row.uid()));
            }
        };
        for item in index.summaries.range(&self.txn, &between(&low, &high)).indexed()? {
            let (key, value) = item.indexed()?;
            let uid = uid_of(mailbox, key).ok_or_else(damaged("key of a summary"))?;
            self.report.examined += 1;
            self.summaries_met += 1;
            while let Some(row) = rest.next_if(|r| chunk::number(r) < uid) {
                lacking(row);
            }
            let row = rest.next_if(|r| chunk::number(r) == uid);
            let Some(found) = summary_from(seed, uid, value) else {
                faults.push(format!("mailbox {mailbox}: the summary of UID {uid} is damaged"));
                continue;
            };
            *self.held.entry(found.body).or_default() += 1;
            if let Kept::At(origin) = found.kept {
                self.links_met += 1;
                if !links::has_origin(index, &self.txn, origin, found.body)? {
                    let (from, at) = origin;
                    faults.push(format!(
                        "mailbox {mailbox}: UID {uid} has its summary at UID {at} of mailbox {from}, and it is not there"
                    ));
                }
            }
            match row {
                Some(row) => match index.body(&self.txn, found.body) {
                    Ok(Some(place)) if place.len == u64::from(row.size()) => {}
                    Ok(Some(place)) => faults.push(format!(
                        "mailbox {mailbox}: UID {uid} says {} octets, its body has {}",
                        row.size(),
                        place.len
                    )),
                    Ok(None) => {
                        faults.push(format!("mailbox {mailbox}: UID {uid} has no body {}", found.body))
                    }
                    Err(error) => faults.push(error.to_string()),
                },
                None if leftovers.contains(uid) => {}
                None => {
                    faults.push(format!("mailbox {mailbox}: there is a summary of UID {uid}, but no row"))
                }
            }
        }
        rest.for_each(lacking);
        faults.into_iter().chain(bare).for_each(|f| self.fault(f));
        Ok(())
    }

    /// What removed mailboxes still have.
    fn removed_mailboxes(&mut self) -> Result<()> {
        let mut removed = Vec::new();
        for item in self.index.expunging.iter(&self.txn).indexed()? {
            let key = item.indexed()?.0;
            if number_of_key(key) == Some(ALL_OF_MAILBOX) {
                removed.extend(id_of(&key[..16]).map(MailboxId));
            }
        }
        for mailbox in removed {
            match self.rows(mailbox) {
                Ok(rows) => self.summaries(mailbox, &rows, &NumSet::range(0, u32::MAX))?,
                Err(error) => self.fault(error.to_string()),
            }
        }
        Ok(())
    }

    fn bodies(&mut self) -> Result<()> {
        let mut faults = Vec::new();
        let mut bodies = 0;
        for item in self.index.all_bodies(&self.txn)? {
            bodies += 1;
            let (body, place) = match item {
                Ok(found) => found,
                Err(error) => {
                    faults.push(error.to_string());
                    continue;
                }
            };
            let held = self.held.remove(&body).unwrap_or(0);
            if held != i64::from(place.refs) {
                faults.push(format!("body {body} counts {} holders and has {held}", place.refs));
            }
        }
        self.report.examined += bodies;
        faults.into_iter().for_each(|f| self.fault(f));
        let missing: Vec<BodyId> = self.held.drain().map(|(body, _)| body).collect();
        for body in missing {
            self.fault(format!("body {body} is held by a message and not in the index"));
        }
        if self.bodies_met != bodies {
            self.misplaced_bodies()?;
        }
        Ok(())
    }

    /// Names the bodies whose place holds something else.
    fn misplaced_bodies(&mut self) -> Result<()> {
        let mut faults = Vec::new();
        for (body, place) in self.index.all_bodies(&self.txn)?.flatten() {
            match self.shared.reader.read(body, place, 0..1) {
                Ok(_) | Err(ReadFault::Gone) => {}
                Err(fault) => faults.push(format!("body {body} in pack {}: {}", place.pack, said(&fault))),
            }
        }
        faults.into_iter().for_each(|f| self.fault(f));
        Ok(())
    }

    /// Records that no mailbox laid claim to.
    fn totals(&mut self) -> Result<()> {
        let summaries = self.index.summaries.len(&self.txn).indexed()?;
        let chunks = self.index.rows.len(&self.txn).indexed()?;
        for (what, there, met) in
            [("summaries", summaries, self.summaries_met), ("row chunks", chunks, self.chunks_met)]
        {
            if there != met {
                self.fault(format!("{} {what} belong to no mailbox", there.abs_diff(met)));
            }
        }
        let mut faults = Vec::new();
        let noted = links::noted(self.index, &self.txn, &mut faults)?;
        faults.into_iter().for_each(|f| self.fault(f));
        if noted != self.links_met {
            let lost = noted.abs_diff(self.links_met);
            self.fault(format!("{lost} copies have their summaries where nothing is known of them"));
        }
        Ok(())
    }

    fn lists(&mut self) -> Result<()> {
        let mut accounts = BTreeSet::new();
        for item in self.index.lists.iter(&self.txn).indexed()? {
            accounts.extend(item.indexed()?.0.get(..16).and_then(id_of));
        }
        for account in accounts {
            self.report.examined += 1;
            match lists::load(self.index, &self.txn, AccountId(account)) {
                Ok(list) => {
                    for entry in &list.entries {
                        if self.index.head(&self.txn, entry.id)?.is_none() {
                            self.fault(format!("mailbox {} ({}) has no head", entry.name, entry.id));
                        }
                    }
                }
                Err(error) => self.fault(error.to_string()),
            }
        }
        Ok(())
    }

    fn directory(&mut self) -> Result<()> {
        let mut faults = Vec::new();
        for item in self.index.directory.iter(&self.txn).indexed()? {
            let (key, value) = item.indexed()?;
            self.report.examined += 1;
            let name = String::from_utf8_lossy(key);
            if directory_from(&name, value).is_none() {
                faults.push(format!("directory record {name} is damaged"));
            }
        }
        faults.into_iter().for_each(|f| self.fault(f));
        Ok(())
    }
}

fn id_of(key: &[u8]) -> Option<Id> {
    key.try_into().ok().map(Id::from_bytes)
}

fn said(fault: &ReadFault) -> String {
    match fault {
        ReadFault::Gone => "the file is missing".into(),
        ReadFault::Io(error) => error.to_string(),
        ReadFault::Damaged(why) => (*why).into(),
    }
}
