//! Opens a store with one damage, and compares its answers with its former contents.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read as _, Seek, Write as _};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use posthaste_mail_model::{BodyId, MailboxId, ModSeq, NumSet};
use posthaste_store::{Engine, Stored};
use posthaste_store_lmdb::{LmdbEngine, Rebuild, report_fault_signals};

use super::{Damage, INDEX, Kind, Sample};
use crate::driver::{Opening, rebuild_index};
use crate::image::materialise;
use crate::model::{Message, ModelMailbox};
use crate::record::Recorder;
use crate::runtime::Runtime;
use crate::unreadable;
use crate::verify::Violation;

impl Sample {
    /// Judges one damage in this process; `rebuild`: also the result of a rebuild.
    pub fn judge(&self, damage: &Damage, base: &Path, rebuild: bool) -> Result<(), Violation> {
        let runtime = Runtime::new().map_err(failed)?;
        let root = tempfile::Builder::new().prefix("posthaste-damage").tempdir_in(base).map_err(failed)?;
        let dir = root.path().join("store");
        materialise(&self.damaged(damage), &dir).map_err(failed)?;
        let recorder = Recorder::watch(&dir).map_err(failed)?;
        let judged = self.judge_stages(damage, &dir, &runtime, rebuild);
        unreadable::clear();
        recorder.stop();
        judged
    }

    fn judge_stages(
        &self,
        damage: &Damage,
        dir: &Path,
        runtime: &Runtime,
        rebuild: bool,
    ) -> Result<(), Violation> {
        if damage.kind == Kind::Fails {
            self.judge_failing(damage, dir, runtime)?;
        }
        if matches!(damage.kind, Kind::Unreadable | Kind::Fails) {
            set_unreadable(damage, dir)?;
        }
        self.judge_open(damage, dir, runtime)?;
        match rebuild {
            true => self.judge_rebuilt(damage, dir, runtime).map_err(|e| format!("after a rebuild: {e}")),
            false => Ok(()),
        }
    }

    fn judge_open(&self, damage: &Damage, dir: &Path, runtime: &Runtime) -> Result<(), Violation> {
        match Opening::Serving.open(dir, self.options.clone()) {
            Ok(engine) => runtime.block_on(self.judge_engine(damage, &engine)),
            // A damaged index or format file may stop the store from opening. A damaged pack
            // affects only its own messages.
            Err(error) if damage.file.ends_with(".pack") || damage.file == "lock" => {
                Err(format!("opening fails: {error}"))
            }
            Err(error) if damage.file == INDEX && !error.to_string().contains("check --rebuild") => {
                Err(format!("opening fails and names no remedy: {error}"))
            }
            Err(_) => Ok(()),
        }
    }

    async fn judge_engine(&self, damage: &Damage, engine: &LmdbEngine) -> Result<(), Violation> {
        let in_pack = damage.file.ends_with(".pack");
        let hit = self.bodies_hit(damage);
        let mut errors = 0;
        for (id, held) in &self.world.boxes {
            let read = self.read(engine, *id, held).await?;
            errors += read.errors;
            if in_pack && let Some(body) = read.unread.iter().find(|body| !hit.contains(body)) {
                return Err(format!("body {body} cannot be read, and is not where the damage is"));
            }
            if in_pack && read.errors > read.unread.len() {
                return Err(format!("mailbox {id} cannot be listed, and the index is intact"));
            }
        }
        let lists = self.read_lists(engine).await;
        let checked = engine.check(&mut |_| {}).await;
        let faults = checked.as_ref().map_or(1, |report| report.faults.len());
        errors += lists.map_err(|wrong| format!("{wrong}; check finds {faults} faults"))?;
        let clean = checked.is_ok_and(|report| report.faults.is_empty());
        match clean {
            true if errors > 0 => Err(format!("check finds no fault, and {errors} errors were met")),
            true if in_pack && self.overlapping(damage).next().is_some() => {
                Err("check does not find a damaged record".into())
            }
            _ => Ok(()),
        }
    }

    /// The damage comes after the store was opened. Answers are right or errors, and so is what
    /// was read before SIGBUS. A process that it ends has left word.
    fn judge_failing(&self, damage: &Damage, dir: &Path, runtime: &Runtime) -> Result<(), Violation> {
        let mut verdict = tempfile::tempfile().map_err(failed)?;
        let status = in_a_fork(|| {
            report_fault_signals(dir);
            let judged = self.open_then_fail(damage, dir, runtime);
            let written = judged.err().map_or(Ok(()), |violation| verdict.write_all(violation.as_bytes()));
            i32::from(written.is_err())
        })?;
        verdict.rewind().map_err(failed)?;
        let mut violation = String::new();
        verdict.read_to_string(&mut violation).map_err(failed)?;
        match status.signal() {
            _ if !violation.is_empty() => Err(violation),
            Some(libc::SIGBUS) if dir.join("index/suspect").exists() => Ok(()),
            None if status.success() => Ok(()),
            _ => Err(format!("the process ended, and left no word: {status}")),
        }
    }

    fn open_then_fail(&self, damage: &Damage, dir: &Path, runtime: &Runtime) -> Result<(), Violation> {
        let engine = Opening::Serving.open(dir, self.options.clone());
        let engine = engine.map_err(|e| format!("opening the intact store fails: {e}"))?;
        set_unreadable(damage, dir)?;
        runtime.block_on(self.judge_engine(damage, &engine))
    }

    /// Reads a mailbox as clients do. Wrong or missing without an error is a violation.
    async fn read(&self, engine: &LmdbEngine, id: MailboxId, held: &ModelMailbox) -> Result<Read, Violation> {
        let mut read = Read::default();
        let mut rows = Vec::new();
        match engine.load(id, &mut |slice| rows.extend_from_slice(slice)).await {
            Ok(head) if head != held.head => {
                return Err(format!(
                    "mailbox {id}: {}",
                    held.difference(&ModelMailbox { head, ..held.clone() })
                ));
            }
            Ok(_) if !rows.iter().eq(held.messages.values().map(|m| &m.row)) => {
                return Err(format!("mailbox {id}: {} rows of {}", rows.len(), held.messages.len()));
            }
            Ok(_) => {}
            Err(_) => read.errors += 1,
        }
        let mut seen = BTreeMap::new();
        let mut visit = |s: Stored<'_>| {
            seen.insert(s.uid.value(), (s.body, s.created, s.summary.to_vec()));
            ControlFlow::Continue(())
        };
        // The UIDs that a client can request: those that have rows.
        let all: NumSet = held.messages.keys().copied().collect();
        let listed = engine.summaries(id, &all, &mut visit).await;
        for (uid, (body, created, summary)) in &seen {
            let message = held.messages.get(uid);
            // A repaired record may have lost the first mod-sequence.
            let is_created = |m: &Message| *created == m.created || *created == ModSeq::ZERO;
            if message.is_none_or(|m| m.body != *body || m.summary != *summary || !is_created(m)) {
                let (now, was) = (String::from_utf8_lossy(summary), message.map(|m| (m.body, m.bytes.len())));
                return Err(format!(
                    "mailbox {id}: the summary of UID {uid} is wrong: body {body}, {now}; it was {was:?}"
                ));
            }
        }
        match listed {
            Ok(unreadable) if seen.len() as u64 + unreadable.0.count() != held.messages.len() as u64 => {
                return Err(format!("mailbox {id}: {} summaries of {}", seen.len(), held.messages.len()));
            }
            Ok(unreadable) => read.errors += usize::from(!unreadable.0.is_empty()),
            Err(_) => read.errors += 1,
        }
        for (uid, message) in &held.messages {
            match engine.read_body(message.body, 0..u64::MAX).await {
                Ok(bytes) if bytes != message.bytes => {
                    return Err(format!("mailbox {id}: UID {uid} has wrong bytes"));
                }
                Ok(_) => {}
                Err(_) => {
                    read.errors += 1;
                    read.unread.push(message.body);
                }
            }
        }
        Ok(read)
    }

    /// Lists and directory: each is right or an error. Returns the number of errors.
    async fn read_lists(&self, engine: &LmdbEngine) -> Result<usize, Violation> {
        let mut errors = 0;
        for (account, list) in &self.world.lists {
            match engine.load_list(*account).await {
                Ok(there) if there != **list => {
                    let (now, was) = (there.entries.len(), list.entries.len());
                    let versions = (there.version, list.version);
                    return Err(format!(
                        "list {account} is wrong: {now} entries of {was}, version {} for {}",
                        versions.0, versions.1
                    ));
                }
                Ok(_) => {}
                Err(_) => errors += 1,
            }
        }
        match engine.directory_scan("", None, usize::MAX).await {
            Ok(all) => {
                let all = all.into_iter().map(|e| (e.name, (e.version, e.value)));
                if !all.eq(self.world.directory.clone()) {
                    return Err("the directory is wrong".into());
                }
            }
            Err(_) => errors += 1,
        }
        Ok(errors)
    }

    /// After a rebuild: everything outside the damage exists, and everything that exists is right.
    fn judge_rebuilt(&self, damage: &Damage, dir: &Path, runtime: &Runtime) -> Result<(), Violation> {
        let rebuilt = rebuild_index(dir, &self.options, Rebuild::Force);
        match rebuilt {
            Ok(_) => {}
            Err(error) => return Err(format!("it fails: {error}")),
        }
        let engine = Opening::Command.open(dir, self.options.clone());
        let engine = engine.map_err(|e| format!("opening fails: {e}"))?;
        let hit = self.bodies_hit(damage);
        runtime.block_on(async {
            for (account, list) in &self.world.lists {
                let there = engine.load_list(*account).await.map_err(|e| e.to_string())?;
                for entry in &list.entries {
                    let now = there.entries.iter().find(|e| e.name == entry.name);
                    let Some(now) = now else { return Err(format!("mailbox {} is not there", entry.id)) };
                    let Some(held) = self.world.boxes.get(&entry.id) else { continue };
                    let same = now.uid_validity == entry.uid_validity;
                    kept(&engine, now.id, held, same, &hit).await?;
                }
            }
            Ok(())
        })
    }
}

fn failed(error: std::io::Error) -> Violation {
    error.to_string()
}

fn set_unreadable(damage: &Damage, dir: &Path) -> Result<(), Violation> {
    unreadable::set(&dir.join(&damage.file), damage.at as u64, damage.len as u64).map_err(failed)
}

/// Does something in a copy of this process, whose exit code is the result.
fn in_a_fork(what: impl FnOnce() -> i32) -> Result<ExitStatus, Violation> {
    // A store's threads have ended when it was closed; the kernel may take a moment to say so.
    let threads = || std::fs::read_dir("/proc/self/task").map_or(usize::MAX, Iterator::count);
    while threads() != 1 {
        std::thread::yield_now();
    }
    // SAFETY: there is no other thread, as was just seen, so no lock is held by one that the copy
    // lacks; only this thread could start one.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(failed(std::io::Error::last_os_error())),
        0 => {
            let code = what();
            // SAFETY: the call ends the copy without running what was to run at this process's end.
            unsafe { libc::_exit(code) }
        }
        _ => {
            let mut status = 0;
            // SAFETY: the child is ours, and `status` is a valid place for its status.
            match unsafe { libc::waitpid(child, &mut status, 0) } {
                -1 => Err(failed(std::io::Error::last_os_error())),
                _ => Ok(ExitStatus::from_raw(status)),
            }
        }
    }
}

/// The results of reading a mailbox.
#[derive(Default)]
struct Read {
    errors: usize,
    unread: Vec<BodyId>,
}

/// Every message outside the damage exists. `same`: UIDVALIDITY is unchanged, so UIDs must name the
/// same messages.
async fn kept(
    engine: &LmdbEngine,
    id: MailboxId,
    held: &ModelMailbox,
    same: bool,
    hit: &BTreeSet<BodyId>,
) -> Result<(), Violation> {
    let mut seen = Vec::new();
    let mut visit = |s: Stored<'_>| {
        seen.push((s.uid.value(), s.body));
        ControlFlow::Continue(())
    };
    let listed = engine.summaries(id, &NumSet::range(1, u32::MAX), &mut visit).await;
    let listed = listed.and_then(posthaste_store::Unreadable::refuse);
    listed.map_err(|e| format!("mailbox {id} cannot be listed: {e}"))?;
    let mut wanted: HashMap<&[u8], usize> = HashMap::new();
    for message in held.messages.values().filter(|m| !hit.contains(&m.body)) {
        *wanted.entry(&message.bytes).or_default() += 1;
    }
    for (uid, body) in seen {
        let bytes = match engine.read_body(body, 0..u64::MAX).await {
            Ok(bytes) => bytes,
            Err(_) if hit.contains(&body) => continue,
            Err(error) => return Err(format!("mailbox {id}: UID {uid}: {error}")),
        };
        if same && held.messages.get(&uid).is_some_and(|m| m.bytes != bytes) {
            return Err(format!("mailbox {id}: UID {uid} names another message under the same UIDVALIDITY"));
        }
        if same && held.expunged.contains(uid) {
            return Err(format!("mailbox {id}: UID {uid} was expunged and is back"));
        }
        if let Some(left) = wanted.get_mut(&bytes[..]) {
            *left = left.saturating_sub(1);
        }
    }
    match wanted.values().sum::<usize>() {
        0 => Ok(()),
        lost => Err(format!("mailbox {id}: {lost} of {} messages are lost", held.messages.len())),
    }
}
