//! The null server's mail, in memory. An account is created when a client first names it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use posthaste_load_workload::corpus::{Serial, serial_in_header, serial_token};

/// One message.
#[derive(Clone)]
pub struct Mail {
    pub uid: u32,
    pub flags: u8,
    pub serial: Serial,
    pub body: Arc<[u8]>,
}

/// The way in which a set names messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    Sequence,
    Uids,
}

/// One mailbox. `listing` is the ready answer to `FETCH 1:* (UID FLAGS)`, until something changes.
#[derive(Default, Clone)]
pub struct Mailbox {
    pub next_uid: u32,
    pub mails: Vec<Mail>,
    pub listing: Option<Arc<[u8]>>,
}

pub type Account = BTreeMap<String, Mailbox>;

/// All accounts.
#[derive(Default)]
pub struct Store(Mutex<HashMap<String, Account>>);

const FLAGS: [&str; 5] = ["\\Seen", "\\Deleted", "\\Answered", "\\Flagged", "\\Draft"];

/// Flags as bits; keywords and `\Recent` are left out.
pub fn flag_bits(flags: &[u8]) -> u8 {
    let bit = |flag: &[u8]| FLAGS.iter().position(|name| name.as_bytes() == flag).map_or(0, |at| 1 << at);
    flags.split(|&b| b == b' ').fold(0, |bits, flag| bits | bit(flag))
}

/// Flags as IMAP writes them.
pub fn flag_names(bits: u8) -> String {
    let names = FLAGS.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, name)| *name);
    names.collect::<Vec<_>>().join(" ")
}

impl Store {
    /// Does something with an account.
    pub fn with<T>(&self, name: &str, f: impl FnOnce(&mut Account) -> T) -> T {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let account = accounts.entry(name.to_owned()).or_insert_with(|| {
            let inbox = Mailbox { next_uid: 1, ..Mailbox::default() };
            BTreeMap::from([("INBOX".to_owned(), inbox)])
        });
        f(account)
    }
}

impl Mailbox {
    pub fn new() -> Self {
        Self { next_uid: 1, ..Self::default() }
    }

    /// Takes a message; its UID.
    pub fn add(&mut self, body: Arc<[u8]>, flags: u8) -> u32 {
        let serial = serial_in_header(body.get(..2048).unwrap_or(&body)).unwrap_or(0);
        let uid = self.next_uid;
        self.next_uid += 1;
        self.mails.push(Mail { uid, flags, serial, body });
        self.listing = None;
        uid
    }

    /// Sequence numbers (from 1) of a set of numbers or UIDs; `*` is the last.
    pub fn resolve(&self, set: &str, numbers: Numbers) -> Vec<usize> {
        let by_uid = numbers == Numbers::Uids;
        let last = if by_uid { self.mails.last().map_or(0, |m| m.uid) } else { self.mails.len() as u32 };
        let number = |text: &str| if text == "*" { last } else { text.parse().unwrap_or(0) };
        let ranges: Vec<(u32, u32)> = set
            .split(',')
            .map(|part| {
                let (a, b) = part.split_once(':').unwrap_or((part, part));
                let (a, b) = (number(a), number(b));
                (a.min(b), a.max(b))
            })
            .collect();
        let fits = |n: u32| ranges.iter().any(|r| r.0 <= n && n <= r.1);
        let numbered = (1usize..).zip(&self.mails);
        numbered.filter(|(n, m)| fits(if by_uid { m.uid } else { *n as u32 })).map(|(n, _)| n).collect()
    }

    /// The answer to a listing of UIDs and flags, made once.
    pub fn listing(&mut self) -> Arc<[u8]> {
        if let Some(listing) = &self.listing {
            return listing.clone();
        }
        let mut out = String::with_capacity(self.mails.len() * 48);
        for (n, m) in (1..).zip(&self.mails) {
            out.push_str(&format!("* {n} FETCH (UID {} FLAGS ({}))\r\n", m.uid, flag_names(m.flags)));
        }
        let listing: Arc<[u8]> = out.into_bytes().into();
        self.listing = Some(listing.clone());
        listing
    }

    /// Numbers of messages that match a search program.
    pub fn search(&self, program: &str) -> Vec<u32> {
        let subject = program.strip_prefix("SUBJECT ").map(|s| s.trim_matches('"').to_owned());
        let fits = |m: &&Mail| match (&subject, program) {
            (Some(token), _) => serial_token(m.serial) == *token,
            (None, "UNSEEN") => m.flags & 1 == 0,
            (None, "DELETED") => m.flags & 2 != 0,
            _ => true,
        };
        self.mails.iter().filter(fits).map(|m| m.uid).collect()
    }

    /// STORE: changes flags.
    pub fn store(&mut self, numbers: &[usize], how: &str, flags: &str) {
        let bits = flag_bits(flags.as_bytes());
        for n in numbers {
            if let Some(mail) = self.mails.get_mut(n - 1) {
                mail.flags = match how.as_bytes().first() {
                    Some(b'+') => mail.flags | bits,
                    Some(b'-') => mail.flags & !bits,
                    _ => bits,
                };
            }
        }
        self.listing = None;
    }

    /// Removes messages; returns their sequence numbers in the order and form of EXPUNGE responses.
    pub fn remove(&mut self, is_removed: impl Fn(&Mail) -> bool) -> Vec<usize> {
        let mut expunged = Vec::new();
        let mut at = 0;
        self.mails.retain(|m| {
            let goes = is_removed(m);
            if goes {
                expunged.push(at + 1);
            } else {
                at += 1;
            }
            !goes
        });
        self.listing = None;
        expunged
    }
}
