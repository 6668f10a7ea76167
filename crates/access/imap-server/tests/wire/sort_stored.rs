//! SORT and THREAD with the keys that the segments of the search index have. The answers are those
//! of a server that reads the summaries.

use posthaste_testkit::Wire;

use crate::harness::Server;
use crate::random::Random;

/// More than a segment has at least; some messages come after it.
const MESSAGES: u32 = 290;
const LATER: u32 = 12;
const WORDS: [&str; 6] = ["", "alpha", "Beta", "=?utf-8?q?=C3=84rger?=", "gamma delta", "_x"];

/// The header of a message. One message in 40 has keys that are too long for a segment.
fn header(random: &mut Random, number: u32) -> String {
    let prefix = ["", "Re: ", "Fwd: "][number as usize % 3];
    let long = if number % 40 == 7 { "long ".repeat(120) } else { String::new() };
    let subject = format!("{prefix}{} {long}", random.pick(&WORDS));
    let (from, to, cc) = (random.pick(&WORDS), random.pick(&WORDS), random.pick(&WORDS));
    let day = 1 + random.below(28);
    let referred = random.below(number + 1);
    let date =
        if number.is_multiple_of(11) { "never".to_owned() } else { format!("{day} Jan 2024 00:00:00 +0000") };
    format!(
        "From: {from} <f{}@z>\r\nTo: <{to}@y>\r\nCc: {cc} <c{}@x>\r\nSubject: {subject}\r\nDate: {date}\r\n\
         Message-ID: <{number}@id>\r\nReferences: <{referred}@id> <{}@id>\r\n\r\n",
        day % 4,
        day % 5,
        number / 2
    )
}

const COMMANDS: [&str; 12] = [
    "SORT (SUBJECT) UTF-8 ALL",
    "SORT (REVERSE FROM SUBJECT) UTF-8 ALL",
    "SORT (TO REVERSE DATE) UTF-8 ALL",
    "SORT (CC) UTF-8 ALL",
    "SORT (DATE) UTF-8 ALL",
    "SORT (DISPLAYFROM) UTF-8 ALL",
    "SORT (DISPLAYTO REVERSE SUBJECT) UTF-8 ALL",
    "UID SORT (SUBJECT DATE) UTF-8 20:*",
    "THREAD REFERENCES UTF-8 ALL",
    "THREAD ORDEREDSUBJECT UTF-8 ALL",
    "THREAD REFS UTF-8 ALL",
    "UID THREAD REFERENCES UTF-8 3:280",
];

fn answers(wire: &mut Wire) -> Vec<Vec<String>> {
    let run = |command: &&str| {
        wire.send(format!("q {command}\r\n").as_bytes());
        wire.skip_to("q …")
    };
    COMMANDS.iter().map(run).collect()
}

#[test]
fn stored_keys_give_the_order_of_the_summaries() {
    let (server, index) = Server::start_indexing();
    let model = Server::start();
    let mut random = Random(77);
    let mut put = |numbers: std::ops::RangeInclusive<u32>| {
        for number in numbers {
            let message = header(&mut random, number);
            for server in [&server, &model] {
                server.put("INBOX \"01-Feb-2024 00:00:00 +0000\"", message.as_bytes());
            }
        }
    };
    put(1..=MESSAGES);
    server.await_indexed(&index, u64::from(MESSAGES));
    // Where summaries can be damaged, these answers show that they are not read.
    let is_damaged = server.damage_summaries(&[2, 100, 200]);
    let (mut wire, mut expected) = (server.select("INBOX"), model.select("INBOX"));
    assert_eq!(answers(&mut wire), answers(&mut expected));
    if is_damaged {
        wire.run("C: a UID FETCH 100 (ENVELOPE)\nS~ a NO [CORRUPTION] …");
    }
    put(MESSAGES + 1..=MESSAGES + LATER);
    for wire in [&mut wire, &mut expected] {
        wire.run("C: s STORE 5,60,250 +FLAGS.SILENT (\\Deleted)\nS~ s OK …\nC: e EXPUNGE\nS~ e OK …");
    }
    assert_eq!(answers(&mut wire), answers(&mut expected));
}
