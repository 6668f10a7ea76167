//! The attacks. Each closes all its sockets when it returns: then the attacker has left.

mod commands;
mod connections;
mod corpus;
mod extensions;
mod indexed;
mod lines;
mod logins;
mod mailboxes;
mod memory;
mod messages;
mod outcome;
mod pop3;
mod rich;
mod sharing;
mod sieve;
mod smtp;
mod together;
mod unfinished;
mod urls;
mod verification;

use crate::{Scale, Stage};

pub use outcome::Outcome;

/// One attack.
pub struct Attack {
    /// The attack's name on the command line and in the table.
    pub name: &'static str,
    /// The attack's description, in a line.
    pub what: &'static str,
    /// MiB that the server may take over its rest while it goes on.
    pub memory_mib: fn(&Stage) -> u64,
    /// Does it.
    pub run: fn(&Stage) -> Outcome,
}

/// Attacks whose limit is not reached at quick scale, not even by a server without it: a version
/// of 400 messages takes 11 kB, and its row allows 128 MiB.
const ONLY_AT_FULL_SCALE: [&str; 1] = ["versions"];

impl Attack {
    /// Whether a server without the limit that it tries would fail at this scale.
    pub fn is_judged(&self, scale: Scale) -> bool {
        scale == Scale::Full || !ONLY_AT_FULL_SCALE.contains(&self.name)
    }
}

/// Memory for attacks that send little and get no answer: buffers, and the memory of the
/// neighbour and the store.
fn little(_: &Stage) -> u64 {
    64
}

/// Incoming messages have a budget of 1 GiB, and summaries under way one of 512 MiB. One address
/// without a login has a quarter of the first (docs/limits.md).
fn incoming(stage: &Stage) -> u64 {
    stage.of(256, 768) as u64
}

/// The memory of FETCH and SEARCH: one account has a quarter of 256 MiB, or the largest message;
/// its decoded parts come on top.
fn reading(stage: &Stage) -> u64 {
    stage.of(128, 384) as u64
}

/// All of them, in the order in which they are run.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "silent",
        what: "10,000 connections that say nothing",
        // 32 KiB each.
        memory_mib: |stage| 64 + stage.of(300, 10_000) as u64 / 32,
        run: connections::silent,
    },
    Attack {
        name: "full",
        what: "13,000 silent connections from 128 networks: more than may be open without a login",
        // 32 KiB each, and the hash of a first login.
        memory_mib: |stage| 64 + 20 + stage.of(450, 13_000) as u64 / 32,
        run: connections::full,
    },
    Attack {
        name: "churn",
        what: "10,000 connections that close at once",
        memory_mib: little,
        run: connections::churn,
    },
    Attack {
        name: "slowloris",
        what: "1,000 connections that send a command octet by octet",
        memory_mib: |stage| 64 + stage.of(50, 1000) as u64 / 16,
        run: connections::slowloris,
    },
    Attack {
        name: "handshakes",
        what: "2,000 TLS handshakes that stop in the middle",
        memory_mib: |stage| 64 + stage.of(50, 2000) as u64 / 16,
        run: connections::handshakes,
    },
    Attack {
        name: "hellos",
        what: "1,000 whole ClientHellos at once, each by a client that then leaves",
        // Each handshake holds keys and the messages of both sides.
        memory_mib: |stage| 64 + stage.of(50, 1000) as u64 / 16,
        run: connections::hellos,
    },
    Attack {
        name: "never-read",
        what: "200 sessions that fetch 50 MB each and read nothing",
        memory_mib: reading,
        run: connections::never_read,
    },
    Attack {
        name: "slow-readers",
        what: "200 sessions that fetch 104 MB each and read a few octets at a time",
        memory_mib: reading,
        run: connections::slow_readers,
    },
    Attack {
        name: "noops",
        what: "300,000 pipelined NOOPs, no answer read",
        memory_mib: little,
        run: connections::noops,
    },
    Attack {
        name: "idle",
        what: "500 IDLE sessions in one mailbox that gets mail",
        memory_mib: |stage| 64 + stage.of(20, 500) as u64 / 8,
        run: connections::idle,
    },
    Attack {
        name: "endless-line",
        what: "lines of 256 MiB on every port",
        memory_mib: little,
        run: lines::endless,
    },
    Attack {
        name: "exchange",
        what: "AUTHENTICATE with a response of 64 MiB",
        memory_mib: little,
        run: lines::exchange,
    },
    Attack {
        name: "literal-sizes",
        what: "literals of every size there is, before and after the login",
        memory_mib: little,
        run: lines::literal_sizes,
    },
    Attack { name: "http", what: "HTTP requests on every port", memory_mib: little, run: lines::http },
    Attack {
        name: "starttls",
        what: "commands behind STARTTLS in one packet",
        memory_mib: little,
        run: lines::starttls,
    },
    Attack {
        name: "smuggling",
        what: "ends of a message that are none, and a second message behind them",
        memory_mib: little,
        run: lines::smuggling,
    },
    Attack {
        name: "announced",
        what: "60 MB literals and messages that are announced, and no octet of them",
        memory_mib: little,
        run: memory::announced,
    },
    Attack {
        name: "unfinished",
        what: "DATA of 8 MiB each by 100 connections that pause",
        memory_mib: incoming,
        run: memory::unfinished,
    },
    Attack {
        name: "append-behind",
        what: "an octet behind each of 50 APPENDs of 60 MB that were cancelled",
        memory_mib: incoming,
        run: unfinished::behind,
    },
    Attack {
        name: "append-unread",
        what: "APPENDs of 60 MB that go on with literals of one octet, no answer read",
        memory_mib: incoming,
        run: unfinished::beside,
    },
    Attack {
        name: "before-login",
        what: "200 connections of all protocols whose commands never pause before a login",
        memory_mib: |stage| 64 + stage.of(12, 200) as u64 / 2,
        run: unfinished::ready,
    },
    Attack {
        name: "trickle",
        what: "BDAT of 128 MiB for nobody by 500 connections, octet by octet",
        memory_mib: |stage| 64 + stage.of(30, 500) as u64 / 8,
        run: unfinished::trickled,
    },
    Attack {
        name: "deflate-bomb",
        what: "1 GiB of zeros in 1 MiB of COMPRESS",
        // One session, whose input is bounded. Without that bound it took 60 MB.
        memory_mib: |_| 16,
        run: memory::deflate_bomb,
    },
    Attack {
        name: "binary",
        what: "1,024 BINARY.PEEK items of one large part",
        memory_mib: reading,
        run: memory::binary,
    },
    Attack {
        name: "addresses",
        what: "nested messages of 10,000 addresses each, 10 MiB",
        memory_mib: incoming,
        run: messages::addresses,
    },
    Attack {
        name: "nesting",
        what: "a multipart in a multipart, 3,000 deep, and messages likewise",
        memory_mib: incoming,
        run: messages::nesting,
    },
    Attack { name: "parts", what: "300,000 empty parts", memory_mib: incoming, run: messages::parts },
    Attack {
        name: "headers",
        what: "1,000,000 header fields, and one of 10 MiB",
        memory_mib: incoming,
        run: messages::headers,
    },
    Attack {
        name: "hostile-messages",
        what: "small messages of hostile form, brought and read in every way, octet by octet",
        memory_mib: |_| 128,
        run: corpus::hostile,
    },
    Attack {
        name: "list",
        what: "LIST of 256 patterns over 1,612 subscriptions of 32 levels: as many levels as it shows",
        memory_mib: |_| 128,
        run: commands::list,
    },
    Attack {
        name: "wildcards",
        what: "patterns of wildcards over 10,000 mailboxes",
        memory_mib: |_| 128,
        run: commands::wildcards,
    },
    Attack {
        name: "search",
        what: "SEARCH of 700 BODY keys in 50 MB by clients that leave",
        memory_mib: reading,
        run: commands::search,
    },
    Attack {
        name: "searches",
        what: "200,000 pipelined searches in 100,000 messages, no answer read",
        memory_mib: reading,
        run: commands::searches,
    },
    Attack {
        name: "appends",
        what: "APPEND of 500 messages that are nothing but parts",
        memory_mib: incoming,
        run: commands::appends,
    },
    Attack {
        name: "search-tree",
        what: "SEARCH keys nested 20,000 deep",
        memory_mib: little,
        run: commands::search_tree,
    },
    Attack {
        name: "sets",
        what: "sequence sets of as many ranges as a line holds",
        memory_mib: little,
        run: commands::sets,
    },
    Attack {
        name: "recipients",
        what: "recipients of one message until twenty are refused",
        memory_mib: little,
        run: commands::recipients,
    },
    Attack {
        name: "exchanges",
        what: "SASL exchanges that are begun and cancelled without an end",
        memory_mib: little,
        run: extensions::exchanges,
    },
    Attack {
        name: "pop3-unread",
        what: "200 POP3 sessions that RETR 20 MB twenty times and read nothing",
        memory_mib: reading,
        run: pop3::unread,
    },
    Attack {
        name: "pop3-flood",
        what: "300,000 pipelined POP3 commands of each kind, no answer read",
        memory_mib: reading,
        run: pop3::pipelined,
    },
    Attack {
        name: "sieve-unread",
        what: "15,000 pipelined GETSCRIPT of 256 KiB, LISTSCRIPTS and HAVESPACE by 10 sessions each",
        memory_mib: |stage| 64 + stage.of(3, 30) as u64,
        run: sieve::unread,
    },
    Attack {
        name: "sieve-scripts",
        what: "scripts that are made to be compiled slowly",
        memory_mib: |_| 128,
        run: sieve::scripts,
    },
    Attack {
        name: "sieve-runs",
        what: "a script of as many steps as it may have, for each message",
        memory_mib: |_| 128,
        run: sieve::runs,
    },
    Attack {
        name: "sieve-literals",
        what: "ManageSieve literals of every size, unfinished and without an end",
        memory_mib: little,
        run: sieve::literals,
    },
    Attack {
        name: "smtp-flood",
        what: "200,000 pipelined SMTP commands of each kind",
        memory_mib: little,
        run: smtp::pipelined,
    },
    Attack {
        name: "smtp-recipients",
        what: "10,000 recipients by SMTP, a third of them nobody",
        memory_mib: little,
        run: smtp::recipients,
    },
    Attack {
        name: "smtp-chunks",
        what: "BDAT of every size, unfinished, empty, for nobody and too large",
        memory_mib: incoming,
        run: smtp::chunks,
    },
    Attack {
        name: "verification",
        what: "signatures of 20,000 names over 9,000 fields, and headers of 20,000,000, by a host that is verified",
        memory_mib: incoming,
        run: verification::headers,
    },
    Attack {
        name: "dns-answers",
        what: "mail of hosts that are verified, whose name server gives 12 answers of 64 KiB for each message",
        // For each verification an answer that is parsed, and the resolver's copy: 4 MiB each.
        memory_mib: |stage| 64 + 8 * stage.of(2, 16) as u64,
        run: verification::long_answers,
    },
    Attack {
        name: "rich",
        what: "300 damaged winmail.dat, and those of a million attributes, that are converted",
        memory_mib: incoming,
        run: rich::tnef,
    },
    Attack {
        name: "contexts",
        what: "results of UPDATE in 40 sessions that read nothing, in a mailbox that changes",
        memory_mib: |stage| 64 + stage.of(3, 40) as u64,
        run: extensions::contexts,
    },
    Attack {
        name: "threads",
        what: "SORT, THREAD, PARTIAL and UIDBATCHES over hostile subjects and circles of references",
        memory_mib: |_| 128,
        run: extensions::threads,
    },
    Attack {
        name: "metadata",
        what: "5,000 annotations of 1 KB, and floods of listings of them",
        memory_mib: |_| 128,
        run: extensions::metadata,
    },
    Attack {
        name: "index",
        what: "SEARCH of 200 keys in messages whose words are all different",
        memory_mib: |stage| reading(stage) + 32,
        run: extensions::index,
    },
    Attack {
        name: "sharing",
        what: "9,400 shared mailboxes, 20,000 entries in all, listed by 40 sessions while rights change",
        // Eight sessions have a list of 9,400 names each: 4 MiB, and as much until it is made.
        memory_mib: |stage| 64 + stage.of(0, 64) as u64,
        run: sharing::lists,
    },
    Attack {
        name: "replace",
        what: "REPLACE again and again, of wrong messages, and unfinished",
        memory_mib: little,
        run: extensions::replace,
    },
    Attack {
        name: "urls",
        what: "a thousand URLs of the longest summary in one command, and messages made of 60 MB",
        memory_mib: incoming,
        run: urls::storm,
    },
    Attack {
        name: "annotations",
        what: "two annotations of 60 KB of each of 300 messages, thirty times, requested and not read",
        memory_mib: reading,
        run: extensions::annotations,
    },
    Attack {
        name: "renames",
        what: "a tree of 2,000 mailboxes renamed 30 times, and by six sessions at once",
        memory_mib: |_| 128,
        run: mailboxes::renames,
    },
    Attack {
        name: "doublings",
        what: "COPY of a mailbox into itself up to 100,000 messages, MOVE into itself, 5,000 keywords",
        memory_mib: |_| 128,
        run: mailboxes::doublings,
    },
    Attack {
        name: "copies",
        what: "10 sessions that each move 50,000 messages within a mailbox at once",
        // One account has a quarter of 512 MiB.
        memory_mib: |stage| 64 + stage.of(32, 128) as u64,
        run: mailboxes::copies,
    },
    Attack {
        name: "emptied",
        what: "50,000 messages expunged while 30 sessions that know them read nothing",
        memory_mib: |_| 128,
        run: mailboxes::emptied,
    },
    Attack {
        name: "versions",
        what: "50 sessions that stop at a version each of a mailbox of 100,000 messages",
        // Each version takes 2.9 MB. One account has at most 32 MiB of old ones, and one besides.
        memory_mib: |_| 128,
        run: mailboxes::versions,
    },
    Attack {
        name: "resyncs",
        what: "QRESYNC with false memories of 50,000 expunged messages",
        memory_mib: |_| 128,
        run: mailboxes::resyncs,
    },
    Attack {
        name: "multi-search",
        what: "ESEARCH of 1,500 mailboxes, and 1,000 such searches of which no answer is read",
        memory_mib: reading,
        run: mailboxes::searches,
    },
    Attack {
        name: "notify",
        what: "60 sessions that are notified of 500 mailboxes and read nothing",
        memory_mib: |stage| 64 + stage.of(4, 60) as u64,
        run: mailboxes::notified,
    },
    Attack {
        name: "sieve-parts",
        what: "loops over 15,000 parts within loops over them, for each message",
        memory_mib: incoming,
        run: sieve::parts,
    },
    Attack {
        name: "redirects",
        what: "two accounts whose scripts redirect each message to four addresses of the other",
        memory_mib: little,
        run: sieve::redirects,
    },
    Attack {
        name: "logins",
        what: "up to 2,000 wrong passwords in 30 s, each from another address, 96 at once from one, and hundreds that wait",
        memory_mib: logins::memory_mib,
        run: logins::logins,
    },
    Attack {
        name: "together",
        what: "logins, verification and search at once: more threads compute than there are processors",
        memory_mib: |stage| logins::memory_mib(stage) + incoming(stage) + reading(stage),
        run: together::heavy,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_scale_does_not_judge_what_cannot_fail_there() {
        for name in ONLY_AT_FULL_SCALE {
            let attack = ATTACKS.iter().find(|attack| attack.name == name).unwrap();
            assert!(!attack.is_judged(Scale::Quick) && attack.is_judged(Scale::Full), "{name}");
        }
        let judged = ATTACKS.iter().filter(|attack| attack.is_judged(Scale::Quick)).count();
        assert_eq!(judged, ATTACKS.len() - ONLY_AT_FULL_SCALE.len());
    }
}
