//! Compares SEARCH with a naive model of it: random messages, random keys, one answer.

use std::fmt::Write;

use posthaste_testkit::Wire;

use crate::harness::{Server, search};
use crate::random::Random;

const WORDS: [&str; 6] = ["alpha", "beta", "gamma", "grün", "Δέλτα", "omega"];
const FLAGS: [&str; 7] = ["\\Answered", "\\Flagged", "\\Deleted", "\\Seen", "\\Draft", "$Work", "later"];
const FLAG_KEYS: [&str; 5] = ["ANSWERED", "FLAGGED", "DELETED", "SEEN", "DRAFT"];
const MESSAGES: u32 = 70;
const SEARCHES: u32 = 600;

struct Message {
    uid: u32,
    flags: Vec<&'static str>,
    /// Day of January 2024 on which it came, and on which it was sent.
    day: u32,
    sent: u32,
    subject: String,
    from: &'static str,
    trace: &'static str,
    body: String,
    size: u32,
}

impl Message {
    fn random(random: &mut Random, uid: u32) -> (Self, String) {
        let flags: Vec<_> = FLAGS.into_iter().filter(|_| random.below(3) == 0).collect();
        let (day, sent) = (1 + random.below(28), 1 + random.below(28));
        let subject = format!("{} {}", random.pick(&WORDS), random.pick(&WORDS));
        let (from, trace) = (random.pick(&WORDS), random.pick(&WORDS));
        let body = format!("{} {}", random.pick(&WORDS), "x".repeat(random.below(60) as usize));
        let text = format!(
            "Date: {sent} Jan 2024 {:02}:00:00 {}\r\nFrom: \"{from}\" <f@x.test>\r\nReceived: {trace}\r\nSubject: {subject}\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\r\n{body}",
            random.below(24),
            random.pick(&["+0000", "-1100", "+1300"]),
        );
        let size = text.len() as u32;
        (Self { uid, flags, day, sent, subject, from, trace, body, size }, text)
    }
}

/// The condition of a key on a message and its sequence number.
type Matches = Box<dyn Fn(u32, &Message) -> bool>;

/// A key as text, and its condition.
struct Key {
    text: String,
    matches: Matches,
}

impl Key {
    fn new(text: String, matches: impl Fn(u32, &Message) -> bool + 'static) -> Self {
        Self { text, matches: Box::new(matches) }
    }

    fn random(random: &mut Random, depth: u32, count: u32) -> Self {
        match random.below(if depth == 0 { 13 } else { 18 }) {
            13 | 14 => {
                let key = Self::random(random, depth - 1, count);
                Self::new(format!("NOT {}", key.text), move |seq, m| !(key.matches)(seq, m))
            }
            15 => {
                let (a, b) = (Self::random(random, depth - 1, count), Self::random(random, depth - 1, count));
                Self::new(format!("OR {} {}", a.text, b.text), move |seq, m| {
                    (a.matches)(seq, m) || (b.matches)(seq, m)
                })
            }
            16 | 17 => {
                let keys: Vec<_> =
                    (0..2 + random.below(2)).map(|_| Self::random(random, depth - 1, count)).collect();
                let text = keys.iter().map(|k| k.text.as_str()).collect::<Vec<_>>().join(" ");
                Self::new(format!("({text})"), move |seq, m| keys.iter().all(|k| (k.matches)(seq, m)))
            }
            simple => Self::simple(random, simple, count),
        }
    }

    fn simple(random: &mut Random, which: u32, count: u32) -> Self {
        let (word, n) = (random.pick(&WORDS), random.below(30));
        match which {
            0 => {
                let flag = random.below(5) as usize;
                Self::new(FLAG_KEYS[flag].to_owned(), move |_, m| m.flags.contains(&FLAGS[flag]))
            }
            1 => {
                let flag = random.below(5) as usize;
                Self::new(format!("UN{}", FLAG_KEYS[flag]), move |_, m| !m.flags.contains(&FLAGS[flag]))
            }
            2 => {
                let flag = 5 + random.below(2) as usize;
                Self::new(format!("KEYWORD {}", FLAGS[flag]), move |_, m| m.flags.contains(&FLAGS[flag]))
            }
            3 => {
                let (a, b) = (1 + random.below(count), 1 + random.below(count));
                Self::new(format!("{a}:{b}"), move |seq, _| (a.min(b)..=a.max(b)).contains(&seq))
            }
            4 => {
                let (a, b) = (1 + random.below(MESSAGES + 9), 1 + random.below(MESSAGES));
                Self::new(format!("UID {a}:{b},{}", n * 10 + 7), move |_, m| {
                    (a.min(b)..=a.max(b)).contains(&m.uid) || m.uid == n * 10 + 7
                })
            }
            5 => Self::new(format!("LARGER {}", 150 + n * 3), move |_, m| m.size > 150 + n * 3),
            6 => Self::new(format!("SMALLER {}", 150 + n * 3), move |_, m| m.size < 150 + n * 3),
            7 => {
                let day = 1 + n % 28;
                match random.below(3) {
                    0 => Self::new(format!("BEFORE {day}-Jan-2024"), move |_, m| m.day < day),
                    1 => Self::new(format!("ON {day}-Jan-2024"), move |_, m| m.day == day),
                    _ => Self::new(format!("SINCE {day}-Jan-2024"), move |_, m| m.day >= day),
                }
            }
            8 => {
                let day = 1 + n % 28;
                match random.below(3) {
                    0 => Self::new(format!("SENTBEFORE {day}-Jan-2024"), move |_, m| m.sent < day),
                    1 => Self::new(format!("SENTON {day}-Jan-2024"), move |_, m| m.sent == day),
                    _ => Self::new(format!("SENTSINCE {day}-Jan-2024"), move |_, m| m.sent >= day),
                }
            }
            9 => Self::new(format!("SUBJECT \"{word}\""), move |_, m| is_in(word, &m.subject)),
            10 => Self::new(format!("FROM \"{word}\""), move |_, m| is_in(word, m.from)),
            11 => Self::new(format!("HEADER Received \"{word}\""), move |_, m| is_in(word, m.trace)),
            _ => match random.below(2) {
                0 => Self::new(format!("BODY \"{word}\""), move |_, m| is_in(word, &m.body)),
                _ => Self::new(format!("TEXT \"{word}\""), move |_, m| {
                    [&m.body, &m.subject, m.from, m.trace].iter().any(|text| is_in(word, text))
                }),
            },
        }
    }
}

fn is_in(word: &str, text: &str) -> bool {
    text.to_lowercase().contains(&word.to_lowercase())
}

fn fill(wire: &mut Wire, random: &mut Random) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut command = String::from("a APPEND INBOX");
    for uid in 1..=MESSAGES {
        let (message, text) = Message::random(random, uid);
        let flags = message.flags.join(" ");
        write!(
            command,
            " ({flags}) \"{:02}-Jan-2024 12:00:00 +0000\" {{{}+}}\r\n{text}",
            message.day,
            text.len()
        )
        .expect("a string takes all");
        messages.push(message);
    }
    wire.send(format!("{command}\r\n").as_bytes());
    wire.expect("a OK [APPENDUID …] …");
    messages
}

#[test]
fn the_server_and_the_model_agree() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let server = Server::start();
    let mut wire = server.login();
    let mut messages = fill(&mut wire, &mut random);
    wire.run("C: s SELECT INBOX\nS~ s OK …");
    // Numbers and UIDs part.
    wire.run("C: d UID STORE 3,9:12,40,70 +FLAGS.SILENT (\\Deleted)\nS: d OK …\nC: e UID EXPUNGE 3,9:12,40,70\nS~ e OK …");
    messages.retain(|m| !matches!(m.uid, 3 | 9..=12 | 40 | 70));
    let count = messages.len() as u32;
    let mut hits = 0;
    for _ in 0..SEARCHES {
        let key = Key::random(&mut random, 3, count);
        let numbers = (1..).zip(&messages).filter(|(seq, m)| (key.matches)(*seq, m));
        let expected: Vec<String> = numbers.map(|(seq, _)| seq.to_string()).collect();
        hits += expected.len();
        assert_eq!(search(&mut wire, &key.text), expected.join(" "), "SEARCH {}", key.text);
    }
    // A world in which nothing or everything matches would prove little.
    let all = (SEARCHES * count) as usize;
    assert!((all / 5..all * 4 / 5).contains(&hits), "{hits} of {all}");
}
