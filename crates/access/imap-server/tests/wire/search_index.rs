//! SEARCH of a mailbox that the search index covers: the answers are those of a naive model, and
//! few texts are read. RFC 9051 §6.4.4.

use std::sync::Arc;

use posthaste_indexing::{Query, Scope, SearchIndex};
use posthaste_mail_model::NumSet;
use posthaste_store::{Store, StoreOptions};
use posthaste_testkit::Wire;

use crate::harness::{Server, USER, search};

/// More than twice the messages of the smallest segment.
const MESSAGES: u32 = 560;
/// Messages after the last segment.
const LATER: u32 = 20;
const SYLLABLES: [&str; 10] = ["ba", "ko", "lin", "ter", "Ma", "Öl", "ße", "su", "x-", "9 "];

/// xorshift64*: the same mail every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end as u64) as usize
    }

    fn text(&mut self, syllables: usize) -> String {
        (0..syllables).map(|_| SYLLABLES[self.below(SYLLABLES.len())]).collect()
    }
}

struct Message {
    subject: String,
    own: String,
    body: String,
}

fn append(wire: &mut Wire, random: &mut Random, number: u32) -> Message {
    let (subject, own) = (format!("s{}", random.text(5)), format!("o{}", random.text(4)));
    let rare = if number % 200 == 7 { " needle-in-hay" } else { "" };
    let body = format!("b{}{rare}.", random.text(12));
    let text = format!(
        "Subject: {subject}\r\nX-Own: {own}\r\nFrom: {}@own.test\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{body}\r\n",
        number % 7
    );
    wire.run(&format!("C: a APPEND INBOX {{{}}}\nS: + …", text.len()));
    wire.send(format!("{text}\r\n").as_bytes());
    wire.expect("a OK [APPENDUID …] …");
    Message { subject, own, body }
}

/// Header keys distinguish `ß` and `ss`: RFC 5051.
fn is_in_field(word: &str, text: &str) -> bool {
    text.to_lowercase().contains(&word.to_lowercase())
}

/// The key's text without regard to case and white space at the ends of lines.
fn is_in(word: &str, text: &str) -> bool {
    let fold = |text: &str| text.replace('ß', "ss").to_lowercase();
    fold(text).contains(&fold(word))
}

fn numbers(messages: &[Message], is_found: impl Fn(&Message) -> bool) -> String {
    let found = (1..).zip(messages).filter(|(_, message)| is_found(message));
    found.map(|(number, _): (u32, _)| number.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_index_and_the_model_agree() {
    let mut random = Random(0x51ce_9a11_77f3_0d2b);
    let server = Server::start();
    let mut writer = server.login();
    let mut messages: Vec<_> = (0..MESSAGES).map(|n| append(&mut writer, &mut random, n)).collect();
    let mut wire = server.select("INBOX");
    let read = |wire: &mut Wire, keys: &str| {
        let before = server.service().messages_searched();
        let found = search(wire, keys);
        (found, server.service().messages_searched() - before)
    };

    // The first search reads all, and leaves a segment.
    let needles = numbers(&messages, |m| m.body.contains("needle"));
    assert_eq!(needles, "8 208 408");
    assert_eq!(read(&mut wire, "BODY needle"), (needles.clone(), u64::from(MESSAGES)));
    // The second one reads what holds the word.
    assert_eq!(read(&mut wire, "BODY needle"), (needles.clone(), 3));
    assert_eq!(read(&mut wire, "TEXT NEEDLE-in"), (needles.clone(), 3));
    assert_eq!(read(&mut wire, "BODY absent-word"), (String::new(), 0));
    assert_eq!(read(&mut wire, "OR BODY needle HEADER X-Other needle"), (needles.clone(), 3));
    // Two letters are in no index, and what lacks a word is not, either.
    assert_eq!(read(&mut wire, "BODY ne").1, u64::from(MESSAGES));
    assert_eq!(read(&mut wire, "NOT BODY needle").1, u64::from(MESSAGES));

    // Messages that came later are in no segment.
    wire.run("C: d STORE 8 +FLAGS.SILENT (\\Deleted)\nS: d OK …\nC: e EXPUNGE\nS: * 8 EXPUNGE\nS~ e OK …");
    messages.remove(7);
    messages.extend((0..LATER).map(|n| append(&mut writer, &mut random, n)));
    wire.run("C: n NOOP\nS~ n OK …");
    assert_eq!(read(&mut wire, "BODY needle"), ("207 407 567".to_owned(), u64::from(2 + LATER)));

    let mut hits = 0;
    for round in 0..400 {
        let length = 1 + random.below(3);
        let word = random.text(length);
        let word = word.trim();
        let (key, expected) = match round % 4 {
            0 => (format!("BODY \"{word}\""), numbers(&messages, |m| is_in(word, &m.body))),
            1 => (format!("SUBJECT \"{word}\""), numbers(&messages, |m| is_in_field(word, &m.subject))),
            2 => (format!("HEADER X-Own \"{word}\""), numbers(&messages, |m| is_in_field(word, &m.own))),
            _ => (
                format!("BODY \"{word}\" NOT SUBJECT \"{word}\""),
                numbers(&messages, |m| is_in(word, &m.body) && !is_in_field(word, &m.subject)),
            ),
        };
        hits += usize::from(!expected.is_empty());
        assert_eq!(search(&mut wire, &key), expected, "SEARCH {key}");
    }
    assert!((100..400).contains(&hits), "{hits} of 400 searches found something");
}

/// The first search uses the segments that the server's task has stored, in one mailbox and in
/// several (RFC 7377). Deleting a mailbox deletes its segments.
#[test]
fn the_first_search_uses_what_was_made_in_the_background() {
    let mut random = Random(0x7c1d_33aa_905e_f00d);
    let (server, index) = Server::start_indexing();
    let mut writer = server.login();
    writer.run("C: c CREATE old\nS~ c OK …");
    for n in 0..300 {
        append(&mut writer, &mut random, n);
    }
    writer.run("C: s SELECT INBOX\nS~ s OK …\nC: m COPY 1:300 old\nS~ m OK …");
    server.await_indexed(&index, 600);

    let read = |wire: &mut Wire, keys: &str| {
        let before = server.service().messages_searched();
        (search(wire, keys), server.service().messages_searched() - before)
    };
    assert_eq!(read(&mut writer, "BODY needle"), ("8 208".to_owned(), 2));
    assert_eq!(read(&mut writer, "TEXT absent-word"), (String::new(), 0));
    let before = server.service().messages_searched();
    writer.run(
        "C: e ESEARCH IN (personal) RETURN (ALL) BODY needle\n\
         S: * ESEARCH (TAG \"e\" MAILBOX INBOX UIDVALIDITY …) UID ALL 8,208\n\
         S: * ESEARCH (TAG \"e\" MAILBOX old UIDVALIDITY …) UID ALL 8,208\n\
         S: e OK …",
    );
    assert_eq!(server.service().messages_searched() - before, 4);
    writer.run("C: d DELETE old\nS: d OK …");
    server.await_indexed(&index, 300);
}

/// Another server, and this one after its next start, find what was stored. A rebuild makes the
/// segments again, and expunged messages leave them. This holds on every engine.
#[test]
fn segments_serve_other_servers_and_lose_expunged_messages() {
    let mut random = Random(0x39b4_e1d0_52c7_8a6f);
    let server = Server::start();
    let mut writer = server.login();
    for n in 0..300 {
        append(&mut writer, &mut random, n);
    }
    let (_, inbox) = server.mailbox(USER, "INBOX");
    let (store, _) = server.behind();
    let index = SearchIndex::new(store.clone(), 32 << 20);
    let elsewhere = || {
        // Nothing is in its memory.
        let other = Store::new(Arc::clone(store.engine()), StoreOptions::default());
        let other = SearchIndex::new(other, 32 << 20);
        let query = [Query::new(Scope::Texts, b"needle").expect("a word that is long enough")];
        server.wait(async {
            let sizes = other.sizes(None).await.expect("sizes");
            let answer = other.query(inbox, &query).await.expect("segments");
            let stored: Vec<_> = sizes.iter().map(|(of, size)| (*of, size.segments, size.messages)).collect();
            (stored, answer.proposed)
        })
    };
    let uids = |uids: &[u32]| vec![uids.iter().copied().collect::<NumSet>()];
    server.wait(index.update(inbox)).expect("a segment");
    assert_eq!(elsewhere(), (vec![(inbox, 1, 300)], uids(&[8, 208])));
    writer.run("C: s SELECT INBOX\nS~ s OK …");
    let before = server.service().messages_searched();
    assert_eq!(search(&mut writer, "BODY needle"), "8 208");
    assert_eq!(server.service().messages_searched() - before, 2);

    server.wait(index.rebuild(inbox)).expect("a new segment");
    assert_eq!(elsewhere(), (vec![(inbox, 1, 300)], uids(&[8, 208])));
    // 20 messages are left, among them the second needle.
    writer.run("C: f STORE 1:200,221:300 +FLAGS.SILENT (\\Deleted)\nS~ f OK …\nC: e EXPUNGE\nS~ e OK …");
    server.wait(index.update(inbox)).expect("a smaller segment");
    assert_eq!(elsewhere(), (vec![(inbox, 1, 20)], uids(&[208])));
    assert_eq!(search(&mut writer, "BODY needle"), "8");
}

/// Dates, sizes, flags and mod-sequences are compared row by row, as a naive model does.
#[test]
fn rows_decide_alone() {
    let server = Server::start();
    let mut wire = server.select("INBOX");
    for n in 1..=40_usize {
        let text = format!("Subject: x\r\n\r\n{}\r\n", "y".repeat(n));
        let flags = if n % 3 == 0 { "(\\Seen)" } else { "()" };
        let date = format!("\"{:02}-Jan-2020 12:00:00 +0000\"", n % 28 + 1);
        server.put(&format!("INBOX {flags} {date}"), text.as_bytes());
    }
    wire.run("C: n NOOP\nS~ n OK …");
    let numbers = |is_found: &dyn Fn(usize) -> bool| {
        (1..=40).filter(|n| is_found(*n)).map(|n: usize| n.to_string()).collect::<Vec<_>>().join(" ")
    };
    let (day, size) = (|n: usize| n % 28 + 1, |n: usize| n + 16);
    assert_eq!(search(&mut wire, "SINCE 10-Jan-2020"), numbers(&|n| day(n) >= 10));
    assert_eq!(search(&mut wire, "BEFORE 10-Jan-2020 SEEN"), numbers(&|n| day(n) < 10 && n % 3 == 0));
    assert_eq!(search(&mut wire, "ON 5-Jan-2020"), numbers(&|n| day(n) == 5));
    assert_eq!(search(&mut wire, "LARGER 30 SMALLER 40"), numbers(&|n| size(n) > 30 && size(n) < 40));
    assert_eq!(search(&mut wire, "UNSEEN LARGER 50"), numbers(&|n| n % 3 != 0 && size(n) > 50));
    assert_eq!(search(&mut wire, "2:9 LARGER 20"), numbers(&|n| (2..=9).contains(&n) && size(n) > 20));
    assert_eq!(search(&mut wire, "NOT LARGER 20"), numbers(&|n| size(n) <= 20));
    assert_eq!(search(&mut wire, "LARGER 4294967295"), "");
}
