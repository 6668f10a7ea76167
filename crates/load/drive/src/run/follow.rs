//! Every response is checked here against the model, as a client that keeps a copy would notice it.

use posthaste_imap_client::fetch::{Enough, Summary, Value};
use posthaste_imap_client::{Handler, Response, Status, listing, scan};
use posthaste_load_workload::corpus::{Serial, Verdict, Verifier, serial_in_header, serial_token};

use super::ledger::Ledger;
use super::model::{DELETED, MailboxModel, Message, SEEN};
use crate::mailbox_list::MailboxList;

/// Numbers that a search may find. One short answer can name all that there are.
const FOUND_MAX: usize = 10_000_000;

/// The items of a FETCH that the model knows: flags, and what says which message it is. With
/// neither in the command, an answer is read up to its UID.
pub fn enough_of(items: &str) -> Enough {
    let names = |word| items.contains(word);
    match (names("UID"), names("FLAGS"), names("[") || names("RFC822 ") || items.ends_with("RFC822")) {
        (true, _, true) | (false, ..) => Enough::Everything,
        (true, true, false) => Enough::UidAndFlags,
        (true, false, false) => Enough::Uid,
    }
}

/// The items of a FETCH that a sum is made of, as far as the command names them. An envelope after
/// its UID is not read.
pub fn enough_to_sum(items: &str) -> Enough {
    match items.contains("UID") && !items.contains("FLAGS") {
        true => Enough::Uid,
        false => Enough::UidAndFlags,
    }
}

/// The system flags a client follows, as bits; keywords and `\Recent` are left out.
pub fn flag_bits(flags: &[u8]) -> u8 {
    match flags {
        b"" => return 0,
        b"\\Seen" => return SEEN,
        _ => {}
    }
    flags.split(|&b| b == b' ').fold(0, |bits, flag| {
        bits | match flag {
            b"\\Seen" => SEEN,
            b"\\Deleted" => DELETED,
            b"\\Answered" => 4,
            b"\\Flagged" => 8,
            b"\\Draft" => 16,
            _ => 0,
        }
    })
}

/// The FETCH responses that a command must bring.
#[derive(Clone, Debug, Default)]
pub enum Wanted {
    /// No particular data.
    #[default]
    Nothing,
    /// One for each sequence number from this up to EXISTS as it was when the command was sent.
    From(u32),
    /// One for each of these UIDs, ascending.
    Uids(Vec<u32>),
    /// One for each message of a mailbox that is not followed message by message: counted and
    /// summed up.
    Count(Sum),
}

/// A listing summed up: equal listings have equal sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Responses.
    pub count: u64,
    /// A sum over the sequence number, UID and flags of each, in any order.
    pub mixed: u64,
    last_sequence: u32,
    last_uid: u32,
}

/// A handler for the answers of one command.
#[derive(Default)]
pub struct Follow<'a> {
    /// The selected mailbox, if one is followed.
    pub mailbox: Option<&'a mut MailboxModel>,
    /// FETCH responses that must come.
    pub wanted: Wanted,
    /// Whether messages may vanish by this command; those that did.
    pub expunging: bool,
    /// Messages that vanished.
    pub expunged: Vec<Message>,
    /// The expected literal of a whole message; set by a FETCH of bodies.
    pub bodies: bool,
    /// The items of FETCH responses that are compared with the model. Others are not read.
    pub enough: Option<Enough>,
    /// EXISTS as last announced.
    pub exists: Option<u32>,
    /// UIDVALIDITY as announced by SELECT.
    pub validity: Option<u32>,
    /// Numbers of SEARCH.
    pub found: Vec<u32>,
    /// Mailboxes of LIST.
    pub listed: MailboxList,
    /// Items of STATUS.
    pub status: Option<(String, Vec<(String, u64)>)>,
    /// Text of an untagged OK with COPYUID.
    pub copied: Option<String>,
    /// The message of each UID of this account, for the audit.
    pub book: Option<(&'a Ledger, u32)>,
    /// FETCH responses counted.
    pub fetched: u64,
    /// The first wrong answer.
    pub wrong: Option<String>,
    answered: Vec<u64>,
    answers: u64,
    verifier: Option<Verifier>,
}

impl<'a> Follow<'a> {
    /// Follows a selected mailbox.
    pub fn mailbox(mailbox: Option<&'a mut MailboxModel>) -> Self {
        Self { mailbox, ..Self::default() }
    }

    /// Expects these FETCH responses.
    pub fn wanting(mut self, wanted: Wanted) -> Self {
        self.exists = self.mailbox.as_ref().and_then(|m| m.exists);
        let room = match &wanted {
            Wanted::From(_) => self.exists.unwrap_or(0) as usize,
            Wanted::Uids(uids) => uids.len(),
            Wanted::Nothing | Wanted::Count(_) => 0,
        };
        self.answered = vec![0; room.div_ceil(64)];
        self.wanted = wanted;
        self
    }

    /// Notes a fault; only the first counts.
    pub fn wrong(&mut self, what: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            self.wrong = Some(what());
        }
    }

    fn mark(&mut self, index: usize) {
        if let Some(word) = self.answered.get_mut(index / 64) {
            let bit = 1u64 << (index % 64);
            self.answers += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Checks that all that was wanted came. It is called when the command has ended. `before` is
    /// EXISTS as it was when the command was sent.
    pub fn check_complete(&mut self, before: Option<u32>) {
        let missing = match &self.wanted {
            Wanted::Nothing | Wanted::Count(_) => return,
            // Any `u32` is an EXISTS.
            Wanted::From(first) => (u64::from(before.unwrap_or(0)) + 1).saturating_sub(u64::from(*first)),
            Wanted::Uids(uids) => uids.len() as u64,
        };
        let answers = self.answers;
        if answers < missing {
            self.wrong(|| format!("FETCH gave {answers} of {missing} messages"));
        }
    }

    fn fetch(&mut self, sequence: u32, summary: Summary<'_>) {
        self.fetched += 1;
        if matches!(self.wanted, Wanted::Count(_)) {
            self.count(sequence, summary.uid, summary.flags.map_or(0, flag_bits));
            return;
        }
        let uid = summary.uid.or_else(|| self.known_uid(sequence));
        match &self.wanted {
            Wanted::From(first) if sequence >= *first => self.mark((sequence - first) as usize),
            Wanted::Uids(uids) => {
                if let Some(at) = uid.and_then(|u| uids.binary_search(&u).ok()) {
                    self.mark(at);
                }
            }
            _ => {}
        }
        self.learn(sequence, uid, &summary);
    }

    /// Sums up a response, if only that is wanted.
    fn count(&mut self, sequence: u32, uid: Option<u32>, flags: u8) {
        let Wanted::Count(sum) = &mut self.wanted else { return };
        if let Err(before) = sum.add(sequence, uid, flags) {
            let uid = uid.unwrap_or(0);
            self.wrong(|| format!("message {sequence} has UID {uid}, the one before it has {before}"));
        }
    }

    /// Whether a line of a listing is as expected. Then it changes only the requested values.
    fn is_as_known(&mut self, sequence: u32, uid: u32, flags: u8) -> bool {
        let (Wanted::From(first), Some(mailbox)) = (&self.wanted, self.mailbox.as_deref()) else {
            return false;
        };
        let (Some(index), Some(answer)) = (sequence.checked_sub(1), sequence.checked_sub(*first)) else {
            return false;
        };
        let known = mailbox.messages.get(index as usize);
        let same = known.is_some_and(|m| m.uid == uid && m.flags == Some(flags));
        if same {
            self.fetched += 1;
            self.mark(answer as usize);
        }
        same
    }

    fn known_uid(&self, sequence: u32) -> Option<u32> {
        let index = sequence.checked_sub(1)? as usize;
        self.mailbox.as_ref()?.messages.get(index).map(|m| m.uid)
    }

    fn learn(&mut self, sequence: u32, uid: Option<u32>, summary: &Summary<'_>) {
        let verdict = summary.body.and_then(|(name, value)| self.judge(name, value));
        let whole = matches!(verdict, Some(Verdict::Good(_)));
        let serial = match verdict {
            Some(Verdict::Good(serial)) => Some(serial),
            Some(Verdict::Altered(serial, how)) => {
                let which = serial.map(serial_token).unwrap_or_default();
                self.wrong(|| format!("message {sequence} {which} was altered: {how}"));
                return;
            }
            Some(Verdict::Foreign) => None,
            None => match summary.body {
                Some((name, Value::String(header))) if name.starts_with(b"BODY[HEADER") => {
                    serial_in_header(header)
                }
                _ => None,
            },
        };
        let foreign = self.bodies && !whole && summary.body.is_some();
        let Some(mailbox) = self.mailbox.as_deref_mut() else { return };
        if let (Some((ledger, account)), Some(uid), Some(serial)) = (self.book, uid, serial)
            && let Some(other) = ledger.identified(account, (&mailbox.name, mailbox.validity), uid, serial)
        {
            let (now, before) = (serial_token(serial), serial_token(other));
            self.wrong(|| format!("UID {uid} names {now}, it named {before} before"));
            return;
        }
        let index = sequence.saturating_sub(1) as usize;
        let flags = summary.flags.map(flag_bits);
        if index == mailbox.messages.len() {
            let Some(uid) = uid else { return };
            let last = mailbox.messages.last().map_or(0, |m| m.uid);
            if uid <= last {
                self.wrong(|| format!("message {sequence} has UID {uid}, the one before it has {last}"));
                return;
            }
            mailbox.messages.push(Message { uid, serial: serial.unwrap_or(0), flags });
            if mailbox.exists.is_none_or(|n| n < sequence) {
                mailbox.exists = Some(sequence);
            }
            return;
        }
        let Some(message) = mailbox.messages.get_mut(index) else { return };
        let problem = compare(message, uid, serial, flags, foreign);
        message.flags = flags.or(message.flags);
        if let Some(serial) = serial {
            message.serial = serial;
        }
        if let Some(problem) = problem {
            self.wrong(|| format!("message {sequence} {problem}"));
        }
    }

    /// The verdict on a whole message, if this is one.
    fn judge(&mut self, name: &[u8], value: Value<'_>) -> Option<Verdict> {
        if !matches!(name, b"BODY[]" | b"RFC822") {
            return None;
        }
        match value {
            Value::Streamed(_) => self.verifier.take().map(Verifier::verdict),
            Value::String(bytes) => {
                let mut verifier = Verifier::default();
                verifier.feed(bytes);
                Some(verifier.verdict())
            }
            _ => Some(Verdict::Altered(None, "its body is NIL".into())),
        }
    }

    fn expunge(&mut self, sequence: u32) {
        let Some(mailbox) = self.mailbox.as_deref_mut() else { return };
        if sequence == 0 || mailbox.exists.is_some_and(|n| sequence > n) {
            self.wrong(|| format!("EXPUNGE of message {sequence}, which does not exist"));
            return;
        }
        match mailbox.removed(sequence) {
            Some(message) => {
                let deleted = message.flags.is_none_or(|f| f & DELETED != 0);
                self.expunged.push(message);
                if !self.expunging || !deleted {
                    self.wrong(|| {
                        format!("message {sequence} (UID {}) was expunged without a request", message.uid)
                    });
                }
            }
            None if !self.expunging => {
                self.wrong(|| format!("message {sequence} was expunged without a request"))
            }
            None => {}
        }
    }

    fn vanished(&mut self, set: &[u8]) {
        let Some(uids) = listing::set(set) else { return };
        let Some(mailbox) = self.mailbox.as_deref_mut() else { return };
        let vanished: Vec<u32> = (1u32..)
            .zip(&mailbox.messages)
            .filter(|(_, m)| uids.contains(m.uid))
            .map(|(sequence, _)| sequence)
            .collect();
        vanished.into_iter().rev().for_each(|sequence| self.expunge(sequence));
    }

    /// How many more numbers are taken.
    fn room(&self) -> usize {
        FOUND_MAX.saturating_sub(self.found.len())
    }

    fn find(&mut self, numbers: Vec<u32>) {
        let room = self.room();
        self.found.extend(numbers.into_iter().take(room));
    }

    fn exists(&mut self, n: u32) {
        self.exists = Some(n);
        let Some(mailbox) = self.mailbox.as_deref_mut() else { return };
        let known = mailbox.exists.unwrap_or(0);
        mailbox.exists = Some(n);
        if n < known {
            self.wrong(|| format!("EXISTS went from {known} to {n} without EXPUNGE"));
        }
    }
}

fn compare(
    message: &Message,
    uid: Option<u32>,
    serial: Option<Serial>,
    flags: Option<u8>,
    foreign: bool,
) -> Option<String> {
    if let Some(uid) = uid.filter(|u| *u != message.uid) {
        return Some(format!("had UID {} and now has {uid}", message.uid));
    }
    if message.serial != 0 && foreign {
        let token = serial_token(message.serial);
        return Some(format!("(UID {}) was {token} and is now another message", message.uid));
    }
    if let Some(serial) = serial.filter(|s| message.serial != 0 && *s != message.serial) {
        let (was, is) = (serial_token(message.serial), serial_token(serial));
        return Some(format!("(UID {}) was {was} and is now {is}", message.uid));
    }
    match (message.flags, flags) {
        (Some(known), Some(now)) if known & !SEEN != now & !SEEN || known & SEEN > now & SEEN => {
            Some(format!("(UID {}) had flags {known:#07b} and now has {now:#07b}", message.uid))
        }
        _ => None,
    }
}

impl Sum {
    /// Adds a response. The error is the UID before it, if its own is not above that.
    fn add(&mut self, sequence: u32, uid: Option<u32>, flags: u8) -> Result<(), u32> {
        let is_known = uid.is_some();
        let uid = uid.unwrap_or(0);
        let word = u64::from(sequence) << 32 | u64::from(uid);
        let mixed = (word ^ u64::from(flags) << 24).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.mixed = self.mixed.wrapping_add(mixed ^ mixed >> 29);
        self.count += 1;
        let in_order = sequence.checked_sub(1) == Some(self.last_sequence);
        let before = self.last_uid;
        (self.last_sequence, self.last_uid) = (sequence, uid);
        if in_order && uid <= before && is_known { Err(before) } else { Ok(()) }
    }

    /// Without what only the reading needed.
    pub fn essence(self) -> (u64, u64) {
        (self.count, self.mixed)
    }
}

impl Handler for Follow<'_> {
    fn response(&mut self, response: Response<'_>) {
        match response {
            Response::Fetch(sequence, items) => {
                let enough = self.enough.unwrap_or(Enough::Everything);
                self.fetch(sequence, Summary::until(items, enough));
            }
            Response::Exists(n) => self.exists(n),
            Response::Expunge(n) => self.expunge(n),
            Response::Vanished(set) if !set.starts_with(b"(EARLIER)") => self.vanished(set),
            Response::Search(numbers) => self.find(listing::search(numbers)),
            Response::Esearch(text) => self.find(listing::esearch(text, self.room())),
            Response::List(text) => self.listed.add(text),
            Response::Status(text) => self.status = listing::status(text),
            Response::Condition(Status::Ok, text) => {
                let text = String::from_utf8_lossy(text);
                if let Some(n) = listing::code(&text).and_then(|c| c.strip_prefix("UIDVALIDITY ")) {
                    self.validity = scan::number(n.as_bytes());
                } else if text.starts_with("[COPYUID") {
                    self.copied = Some(text.into_owned());
                }
            }
            _ => {}
        }
    }

    /// No line of another listing has the plain form, so none is compared with it.
    fn takes_listings(&self) -> bool {
        matches!(self.enough, None | Some(Enough::UidAndFlags))
    }

    fn listed(&mut self, sequence: u32, uid: u32, flags: &[u8]) {
        let bits = flag_bits(flags);
        if matches!(self.wanted, Wanted::Count(_)) {
            self.fetched += 1;
            self.count(sequence, Some(uid), bits);
            return;
        }
        if self.is_as_known(sequence, uid, bits) {
            return;
        }
        self.fetch(sequence, Summary { uid: Some(uid), flags: Some(flags), ..Summary::default() });
    }

    fn literal_starts(&mut self, _: &[u8], _: u64) {
        self.verifier = Some(Verifier::default());
    }

    fn literal(&mut self, chunk: &[u8]) {
        if let Some(verifier) = &mut self.verifier {
            verifier.feed(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox() -> MailboxModel {
        let mut mailbox = MailboxModel::created("x");
        mailbox.added(Some(5), 50, Some(0));
        mailbox.added(Some(7), 70, Some(SEEN));
        mailbox
    }

    fn fault(mailbox: &mut MailboxModel, responses: &[Response<'_>]) -> Option<String> {
        let before = mailbox.exists;
        let mut follow = Follow::mailbox(Some(mailbox)).wanting(Wanted::From(1));
        responses.iter().for_each(|r| follow.response(*r));
        follow.check_complete(before);
        follow.wrong
    }

    #[test]
    fn a_true_listing_is_believed() {
        let good =
            [Response::Fetch(1, b"UID 5 FLAGS ()"), Response::Fetch(2, b"UID 7 FLAGS (\\Seen \\Recent)")];
        assert_eq!(fault(&mut mailbox(), &good), None);
    }

    #[test]
    fn short_answers_do_not_fill_the_memory() {
        let mut follow = Follow { found: vec![0; FOUND_MAX - 3], ..Follow::default() };
        follow.response(Response::Esearch(b"(TAG \"a1\") UID ALL 1:2"));
        follow.response(Response::Esearch(b"(TAG \"a1\") UID ALL 1:4294967295"));
        follow.response(Response::Search(b"7 8 9"));
        assert_eq!((follow.found.len(), follow.found.last()), (FOUND_MAX, Some(&1)));
    }

    #[test]
    fn the_largest_numbers_are_read() {
        let mut follow = Follow::mailbox(None).wanting(Wanted::From(2));
        follow.check_complete(Some(u32::MAX));
        assert!(follow.wrong.unwrap_or_default().contains("0 of 4294967294"));
        let mut follow = Follow::mailbox(None).wanting(Wanted::Count(Sum::default()));
        follow.response(Response::Fetch(u32::MAX, b"UID 5 FLAGS ()"));
        follow.response(Response::Fetch(0, b"UID 5 FLAGS ()"));
        assert_eq!((follow.fetched, follow.wrong), (2, None));
    }

    #[test]
    fn each_kind_of_wrong_answer_is_noticed() {
        let first = Response::Fetch(1, b"UID 5 FLAGS ()");
        let cases: &[(&[Response<'_>], &str)] = &[
            (&[first], "1 of 2"),
            (&[first, first], "1 of 2"),
            (&[first, Response::Fetch(2, b"UID 8 FLAGS (\\Seen)")], "had UID 7"),
            (&[first, Response::Fetch(2, b"UID 7 FLAGS (\\Seen \\Deleted)")], "flags"),
            (&[first, Response::Fetch(2, b"UID 7 FLAGS ()")], "flags"),
            (&[Response::Expunge(1)], "without a request"),
            (&[Response::Exists(1)], "without EXPUNGE"),
            (&[first, Response::Fetch(2, b"UID 7 BODY[HEADER] \"ph-0000000000000047\"")], "is now"),
        ];
        for (responses, what) in cases {
            let fault = fault(&mut mailbox(), responses).unwrap_or_default();
            assert!(fault.contains(what), "{responses:?}: {fault}");
        }
    }

    #[test]
    fn lines_of_plain_listings_are_checked_as_other_responses_are() {
        let known = || MailboxModel { exists: Some(3), ..mailbox() };
        let lines: [(u32, u32, &[u8]); 9] = [
            (1, 5, b""),
            (2, 7, b"\\Seen"),
            (3, 9, b"\\Flagged"),
            (3, 6, b""),
            (1, 6, b""),
            (1, 5, b"\\Seen"),
            (2, 7, b""),
            (2, 7, b"\\Seen \\Deleted"),
            (0, 5, b""),
        ];
        for first in 1..=2 {
            for choice in 0..lines.len().pow(3) {
                let chosen = [choice % 9, choice / 9 % 9, choice / 81].map(|at| lines[at]);
                let [mut plain, mut whole] = [known(), known()];
                let mut listed = Follow::mailbox(Some(&mut plain)).wanting(Wanted::From(first));
                chosen.iter().for_each(|(n, uid, flags)| listed.listed(*n, *uid, flags));
                let mut read = Follow::mailbox(Some(&mut whole)).wanting(Wanted::From(first));
                for (sequence, uid, flags) in chosen {
                    let items = format!("UID {uid} FLAGS ({})", String::from_utf8_lossy(flags));
                    read.response(Response::Fetch(sequence, items.as_bytes()));
                }
                listed.check_complete(Some(3));
                read.check_complete(Some(3));
                assert_eq!((listed.wrong, listed.fetched), (read.wrong, read.fetched), "{chosen:?}");
                assert_eq!(plain.messages, whole.messages, "{chosen:?}");
            }
        }
    }

    #[test]
    fn only_what_is_compared_is_read() {
        assert_eq!(enough_of("UID ENVELOPE"), Enough::Uid);
        assert_eq!(enough_of("UID FLAGS RFC822.SIZE"), Enough::UidAndFlags);
        for items in ["FLAGS", "UID BODY.PEEK[]", "UID RFC822", "RFC822 UID", "UID FLAGS BODY.PEEK[HEADER]"] {
            assert_eq!(enough_of(items), Enough::Everything, "{items}");
        }
        let mut mailbox = mailbox();
        let mut follow = Follow::mailbox(Some(&mut mailbox)).wanting(Wanted::From(1));
        follow.enough = Some(Enough::Uid);
        follow.response(Response::Fetch(1, b"UID 5 ENVELOPE (broken"));
        follow.response(Response::Fetch(2, b"UID 8 ENVELOPE (broken"));
        assert!(follow.wrong.unwrap_or_default().contains("had UID 7"));
    }

    #[test]
    fn a_sum_reads_what_the_command_names() {
        assert_eq!(enough_to_sum("UID FLAGS"), Enough::UidAndFlags);
        assert_eq!(enough_to_sum("UID ENVELOPE"), Enough::Uid);
        assert_eq!(enough_to_sum("UID FLAGS ENVELOPE"), Enough::UidAndFlags);
        assert_eq!(enough_to_sum("FLAGS"), Enough::UidAndFlags);
        let sum = |enough| {
            let mut follow = Follow::mailbox(None).wanting(Wanted::Count(Sum::default()));
            follow.enough = Some(enough);
            for sequence in 1..=3 {
                let items = format!("UID {} ENVELOPE (NIL \"(\" NIL)", sequence + 4);
                follow.response(Response::Fetch(sequence, items.as_bytes()));
            }
            let Wanted::Count(sum) = follow.wanted else { panic!() };
            (sum.essence(), follow.wrong)
        };
        assert_eq!(sum(enough_to_sum("UID ENVELOPE")), sum(Enough::Everything));
    }

    #[test]
    fn only_plain_listings_are_taken_line_by_line() {
        let takes = |enough| Follow { enough, ..Follow::default() }.takes_listings();
        assert!(takes(None) && takes(Some(enough_of("UID FLAGS"))));
        for items in ["UID ENVELOPE", "UID FLAGS BODY.PEEK[HEADER]", "UID BODY.PEEK[]"] {
            assert!(!takes(Some(enough_of(items))), "{items}");
        }
    }

    #[test]
    fn listings_are_summed_up_without_their_messages() {
        let sum = |lines: &[(u32, &[u8])]| {
            let mut follow = Follow::mailbox(None).wanting(Wanted::Count(Sum::default()));
            lines.iter().for_each(|(n, l)| follow.response(Response::Fetch(*n, l)));
            let Wanted::Count(sum) = follow.wanted else { panic!() };
            (sum.essence(), follow.wrong)
        };
        let (a, fine) = sum(&[(1, b"UID 5 FLAGS ()"), (2, b"UID 6 FLAGS ()")]);
        assert_eq!((a.0, fine), (2, None));
        assert_ne!(sum(&[(1, b"UID 5 FLAGS ()"), (2, b"UID 6 FLAGS (\\Seen)")]).0, a);
        assert!(sum(&[(1, b"UID 5 FLAGS ()"), (2, b"UID 5 FLAGS ()")]).1.is_some());
    }
}
